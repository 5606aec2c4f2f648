package courier

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"tokitai/kernelprocess/shm"
	"tokitai/kernelprocess/spawn"
	"tokitai/ranks"
)

// Spec says what moves the bytes of a group.
type Spec struct {
	What    string        // "MPI", for messages
	Window  int           // bytes that are sent and received at once
	Process spawn.Spec    // how to start the process that calls Serve; its socket is set here
	Options ranks.Options // of the process; [ranks.DefaultOptions] where they are 0
}

// Group is a group whose bytes a library moves. It implements [ranks.Group].
type Group struct {
	control       ranks.Watched
	spec          Spec
	child         *spawn.Child
	conn          *shm.Conn
	region        *shm.Region
	send, receive []byte
	calls         uint64
	replies       chan *reply // closed at their end
	mu            sync.Mutex
	heard         time.Time // when the process has last shown that it lives
	failure       error     // of the first call that failed, and of all behind it
	closing       sync.Once
}

// Start starts the process of a library for one rank of control, and returns the group once all ranks have joined. Closing it closes
// control too; if Start fails, control stays open. All ranks have an error if one of them cannot open the library, or has another one.
func Start(control ranks.Watched, s Spec) (*Group, error) {
	s.Options.Silence = cmp.Or(s.Options.Silence, ranks.DefaultOptions.Silence)
	s.Options.Limit = cmp.Or(s.Options.Limit, ranks.DefaultOptions.Limit)
	g := &Group{control: control, spec: s, replies: make(chan *reply, 1), heard: time.Now()}
	opened, err := g.open()
	text := "none: "
	if err == nil {
		text = opened.Version
	} else {
		text += err.Error()
	}
	// A rank without the library comes here too, or the others would wait for it.
	if differs := ranks.Agree(control, []ranks.Fact{{Name: "the library of " + s.What, Value: text}}); err == nil {
		err = differs
	} else if differs != nil {
		err = fmt.Errorf("%w; %w", err, differs)
	}
	if err == nil {
		err = g.join()
	}
	if err != nil {
		g.end()
		return nil, fmt.Errorf("%s: %w", s.What, err)
	}
	return g, nil
}

// join has the library join those of the other ranks.
func (g *Group) join() error {
	var with Invitation
	if g.Rank() == 0 {
		r, err := g.do(&request{Kind: inviteRequest})
		if err != nil {
			return err
		}
		with = r.Invitation
	}
	if err := g.control.Broadcast(0, with[:]); err != nil {
		return err
	}
	place := ranks.Place{Rank: g.Rank(), Size: g.Size()}
	if _, err := g.do(&request{Kind: joinRequest, Place: place, Invitation: with}); err != nil {
		return err
	}
	return g.control.Barrier()
}

// Rank returns the number of this rank.
func (g *Group) Rank() int { return g.control.Rank() }

// Size returns the number of ranks.
func (g *Group) Size() int { return g.control.Size() }

// closeLimit is how long the library may take to leave the other ranks, which may have ended otherwise.
const closeLimit = 10 * time.Second

// Close leaves the group. A library that does not let go is ended with its process.
func (g *Group) Close() (err error) {
	g.closing.Do(func() {
		err = g.control.Close() // first, so that a rank that waits for this one knows it at once
		if g.failure == nil {
			if e := (&request{Kind: closeRequest}).write(g.conn); e == nil {
				select {
				case <-g.child.Done():
				case <-time.After(closeLimit):
				}
			}
		}
		g.end()
	})
	return err
}
