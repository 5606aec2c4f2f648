// Package shm is memory that two processes share, and the socket on which its
// descriptors travel.
//
// A [Region] is anonymous memory behind a descriptor. Its pages are allocated
// before anyone uses them: where memory runs out, that is an error, not a fault
// in the middle of a kernel. Its size is sealed: no peer can make it shorter and
// the other fault. What a peer can do at any time is to change the bytes, and to
// give pages back, which are zeros then. A [Conn] is one end of a pair of Unix
// stream sockets; descriptors travel beside its bytes.
//
// The package knows bytes and descriptors, no messages. Regions exist on Linux,
// connections on Unix systems; everything else gives [ErrUnsupported].
package shm

import (
	"errors"
	"fmt"
	"sync"
)

// What an [Error] is about.
var (
	ErrUnsupported = errors.New("not supported on this system")
	ErrSize        = errors.New("size of shared memory is wrong")
	ErrUnallocated = errors.New("shared memory is not allocated")
	ErrUnsealed    = errors.New("size of shared memory is not sealed")
	ErrNotMemory   = errors.New("descriptor is not one of shared memory")
	ErrNotSocket   = errors.New("descriptor is not a connected Unix stream socket")
	ErrDescriptors = errors.New("too many descriptors were sent")
	ErrNoFirstByte = errors.New("descriptors need a byte to travel with")
)

// Error is shared memory or a connection that was refused.
type Error struct {
	Op        string // what was being done: "create", "open", "read", …
	Reason    error  // one of the errors above, or nil when only Cause is known
	Got, Want int64  // bytes for ErrSize, seals for ErrUnsealed, descriptors for ErrDescriptors
	Cause     error  // what the system said, or nil
}

func (e *Error) Error() string {
	text := "shared memory: " + e.Op
	if e.Reason != nil {
		text += ": " + e.Reason.Error()
	}
	switch e.Reason {
	case ErrSize, ErrUnallocated:
		text += fmt.Sprintf(": got %d bytes, want %d", e.Got, e.Want)
	case ErrUnsealed:
		text += fmt.Sprintf(": got seals %#x, want %#x", e.Got, e.Want)
	case ErrDescriptors:
		text += fmt.Sprintf(": got %d or more, want at most %d", e.Got, e.Want)
	}
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

func (e *Error) Unwrap() []error {
	var causes []error
	for _, err := range []error{e.Reason, e.Cause} {
		if err != nil {
			causes = append(causes, err)
		}
	}
	return causes
}

// Region is a piece of shared memory, mapped for reading and writing.
type Region struct {
	mu     sync.Mutex
	memory []byte
	fd     int // -1 where there is none to send

	identity [2]uint64 // of memory that Open mapped
}

// IsSame reports whether two regions that [Open] returned are the same memory.
func (r *Region) IsSame(other *Region) bool { return r.identity == other.identity }

// Bytes returns the memory. Its length is what a peer must be told to pass to
// [Open]. Neither it nor a slice of it may be used after [Region.Close]: the
// addresses are gone then, and whoever uses them faults.
func (r *Region) Bytes() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.memory
}

// FD returns the descriptor to send to a peer, valid until [Region.Close]. It is -1
// for a region that [Open] returned and for a closed one.
func (r *Region) FD() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fd
}
