// Package shm provides memory shared by processes, and the sockets that carry its
// descriptors.
//
// A [Region] is anonymous memory behind a descriptor. Its pages are allocated when it
// is created, so that a lack of memory is an error and not a fault in a kernel. Its
// size is sealed, so that no peer can shrink it and make the other one fault. A peer
// can still change the bytes at any time, or free pages, which then read as zeros. A
// [Conn] is one end of two connected Unix stream sockets, which carry bytes and
// descriptors: those of a process and its child, or of processes of one user that
// meet at a name.
//
// The package knows bytes and descriptors, but no messages. Regions and names need Linux,
// connections a Unix system; elsewhere the errors are [ErrUnsupported].
//
// Start with Create, Open and Pair, or Listen and Dial.
package shm

import (
	"errors"
	"fmt"
	"sync"
)

// Reasons of an [Error].
var (
	ErrUnsupported = errors.New("not supported on this system")
	ErrSize        = errors.New("size of shared memory is wrong")
	ErrUnallocated = errors.New("shared memory is not allocated")
	ErrUnsealed    = errors.New("size of shared memory is not sealed")
	ErrNotMemory   = errors.New("descriptor is not shared memory")
	ErrNotSocket   = errors.New("descriptor is not a connected Unix stream socket")
	ErrDescriptors = errors.New("too many descriptors were sent")
	ErrNoFirstByte = errors.New("descriptors cannot be sent without a byte")
)

// Error is a failed operation on shared memory or a connection.
type Error struct {
	Op        string // "create", "open", "read", …
	Reason    error  // one of the errors above, or nil if only Cause is known
	Got, Want int64  // bytes for ErrSize, seals for ErrUnsealed, descriptors for ErrDescriptors
	Cause     error  // the system's error, or nil
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
	fd     int // -1 if there is none to send

	identity [2]uint64 // of memory that Open mapped
}

// IsSame reports whether two regions that [Open] returned are the same memory.
func (r *Region) IsSame(other *Region) bool { return r.identity == other.identity }

// Bytes returns the memory. The peer needs its length for [Open]. Neither it nor a
// slice of it may be used after [Region.Close], which unmaps the memory: any access
// would fault.
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
