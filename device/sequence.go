package device

// Sequencer is a Queue that can join work, so that running it again and again costs less
// than submitting it each time.
type Sequencer interface {
	Queue

	// NewSequence joins the work of steps 0 to n-1. submit submits the work of a step to a
	// queue, which keeps it for the sequence and runs nothing. It may be called more than
	// once for each step.
	NewSequence(n int, submit func(step int, to Queue) error) (Sequence, error)
}

// Sequence is work that is run any number of times. All its methods are safe for concurrent
// use.
//
// A sequence refers to the buffers that its work uses. If one of them has been closed, and
// nobody keeps its memory, Run returns ErrClosed, and nothing runs.
type Sequence interface {
	// Run submits all steps, in order, to a queue of the device that the sequence was made on.
	Run(on Queue) error

	// Update replaces the work of a step, in later runs, by what submit submits to a queue. It
	// must be the same work with other parameters. After an error it may be replaced in part.
	Update(step int, submit func(to Queue) error) error

	// Close releases what the sequence holds, once runs that are under way are done. Closing
	// twice is allowed.
	Close() error
}

// Keepable is a Buffer whose memory can outlive it.
type Keepable interface {
	Buffer

	// Keep keeps the memory from being freed when the buffer is closed, until release is
	// called, once.
	Keep() (release func(), err error)
}
