// Package ranks joins processes that compute one thing together. They are numbered from 0 on: their ranks.
//
// A [Group] moves bytes between all of them, and never adds anything up: what is computed from the bytes, and
// in which order, is the caller's. All ranks make the same calls in the same order. Every wait ends: a rank
// that has died, that has stopped, or that does not come to a call is named by a [PeerError].
//
// [Memory] is a group of processes of one machine, over memory that all of them have mapped. [Network] is one of
// processes on any machines, over TCP. Both are [Watched]. [Agree] compares what ranks must have in common before they begin.
//
// The package knows nothing of what the bytes mean, and starts no processes. Start with Group.
package ranks

import "fmt"

// Group is what a rank sees of all of them together. Its methods are not for several goroutines at once, apart
// from Close.
type Group interface {
	// Rank returns the number of this rank, and Size how many there are.
	Rank() int
	Size() int

	// AllToAllV sends send[r] to each rank r, and fills receive[r] with what rank r sends here. The
	// lengths may differ; both ends know them.
	AllToAllV(send, receive [][]byte) error

	// AllGather sends the same bytes to every rank, and fills receive[r] with those of rank r.
	AllGather(send []byte, receive [][]byte) error

	// Broadcast fills data with those of the rank root. It waits for as long as root lives, since
	// root may have other things to do first; the other calls have a limit.
	Broadcast(root int, data []byte) error

	// Barrier returns once every rank has called it.
	Barrier() error

	// Close leaves the group. The other ranks have a [PeerError] if they wait for this one.
	Close() error
}

// Watched is a group that can be asked between its calls whether all ranks can still go on.
type Watched interface {
	Group

	// Watch returns a [PeerError] if a rank has ended without leaving, is silent or has failed. It does not wait.
	Watch() error

	// Fail tells the other ranks that this one does not go on, and which rank is the reason.
	Fail(because *PeerError)
}

// PeerError reports a rank that keeps the others from going on.
type PeerError struct {
	Rank    int
	Problem string // what is known: "has ended: signal killed"
}

func (e *PeerError) Error() string { return fmt.Sprintf("rank %d %s", e.Rank, e.Problem) }
