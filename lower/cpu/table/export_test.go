package table

// SetStreamed sets the size of outputs that are written past the caches, and returns a
// function that sets it back.
func SetStreamed(bytes int) (restore func()) {
	old := streamed
	streamed = bytes
	return func() { streamed = old }
}
