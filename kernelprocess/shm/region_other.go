//go:build !linux

package shm

// Create fails: only Linux has sealed memory.
func Create(bytes int64) (*Region, error) { return nil, &Error{Op: "create", Reason: ErrUnsupported} }

// Open fails: only Linux has sealed memory.
func Open(fd int, bytes int64) (*Region, error) {
	return nil, &Error{Op: "open", Reason: ErrUnsupported}
}

// Close does nothing: there is no region.
func (r *Region) Close() error { return nil }
