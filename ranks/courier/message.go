package courier

import (
	"tokitai/kernelprocess/shm"
	"tokitai/ranks"
	"tokitai/ranks/launch"
)

// Kinds of requests to the process of the library, in the order in which the first ones come.
const (
	openRequest = iota + 1 // with the memory
	inviteRequest
	joinRequest
	allToAll
	allGather
	broadcast
	closeRequest
)

var kinds = [...]string{
	openRequest: "open", inviteRequest: "invitation", joinRequest: "joining", allToAll: "AllToAllV", allGather: "AllGather",
	broadcast: "Broadcast", closeRequest: "closing",
}

// request is what the process is to do next. The other fields are those of its kind.
type request struct {
	Kind int

	Place       ranks.Place // of an open request
	MemoryBytes int64
	Invitation  Invitation

	Root           int // of a Broadcast
	Room           int
	Sent, Received []int // bytes for and of each rank; of an AllGather and a Broadcast, Sent has one number
}

// reply is what the process answers to each request. In between it shows that it lives.
type reply struct {
	IsAlive    bool
	Error      string
	Version    string
	Invitation Invitation
}

func (r *request) write(conn *shm.Conn, fds ...int) error {
	return launch.WriteMessage(conn, r, fds...)
}
