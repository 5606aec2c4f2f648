// Package courier has a library, such as one of MPI or NCCL, move the bytes between ranks. Each rank starts a process that calls the
// library. So a fault of the library, a hang, or a signal handler of its own is not one of the process that trains.
//
// The ranks have met before, and keep their group. Over it they say what each call is about to move, and notice when a rank has ended,
// hangs, or makes another call. The library moves the bytes alone, and its process shares memory with that of the rank: what is longer
// than that memory goes in pieces.
//
// [Start] starts the process and returns the group. In the process, [Serve] calls the [Library]. The package knows no library. Start
// with Group.
package courier

import "tokitai/ranks"

// Library moves bytes between the ranks. Its methods are called on one thread, and wait until the bytes are there. All ranks make the
// same calls. The memory of send and receive does not move and is not that of Go.
type Library interface {
	// Version returns the name and version of the library, which all ranks must have in common.
	Version() string

	// Invite returns what the other ranks need to join rank 0, which alone calls it.
	Invite() (Invitation, error)

	// Join joins the ranks of a place. Its address and secret are not set.
	Join(place ranks.Place, with Invitation) error

	// AllToAllV sends the first sent[r] bytes of the r-th part of send to each other rank r, and receives received[r] bytes
	// of it into the r-th part of receive. There are as many parts as ranks, each of room bytes.
	AllToAllV(send, receive []byte, room int, sent, received []int) error

	// AllGather sends all of send to every other rank, and receives received[r] bytes of each rank r into the r-th part of receive. What
	// is there of this rank afterwards is not used.
	AllGather(send, receive []byte, room int, received []int) error

	// Broadcast sends data of the rank root to all others.
	Broadcast(root int, data []byte) error

	// Close takes this rank out of the group. All ranks have to call it.
	Close() error
}

// Invitation is what a rank needs to join rank 0, in the form of the library; zeros if nothing is needed.
type Invitation [128]byte
