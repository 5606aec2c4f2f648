package courier

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"tokitai/kernelprocess/shm"
	"tokitai/kernelprocess/spawn"
	"tokitai/ranks"
	"tokitai/ranks/launch"
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
	failure       error // of the first call that failed, and of all behind it
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
	err = errors.Join(err, ranks.Agree(control, []ranks.Fact{{Name: "the library of " + s.What, Value: text}}))
	if err == nil {
		err = g.join()
	}
	if err != nil {
		g.end()
		return nil, fmt.Errorf("%s: %w", s.What, err)
	}
	return g, nil
}

// open starts the process, which opens the library.
func (g *Group) open() (*reply, error) {
	var err error
	if g.region, err = shm.Create(int64(2 * g.spec.Window)); err != nil {
		return nil, err
	}
	memory := g.region.Bytes()
	g.send, g.receive = memory[:len(memory)/2], memory[len(memory)/2:]
	ours, theirs, err := shm.Pair()
	if err != nil {
		return nil, err
	}
	process := g.spec.Process
	process.Socket, process.Host = theirs, ours
	if g.child, err = spawn.Start(process); err != nil {
		ours.Close()
		return nil, err
	}
	g.conn = ours
	go g.read()
	r := &request{Kind: openRequest, MemoryBytes: int64(len(memory))}
	if err := r.write(g.conn, g.region.FD()); err != nil {
		return nil, g.died(err)
	}
	return g.await(r.Kind, g.spec.Options.Limit)
}

// read takes what the process says, until its end.
func (g *Group) read() {
	defer close(g.replies)
	for {
		r := new(reply)
		if err := launch.ReadMessage(g.conn, r); err != nil {
			return
		}
		g.mu.Lock()
		g.heard = time.Now()
		g.mu.Unlock()
		if !r.IsAlive {
			g.replies <- r
		}
	}
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

// PID returns the id of the process that calls the library.
func (g *Group) PID() int { return g.child.PID() }

// do has the process do something for which it needs the other ranks. If it fails, the others learn because of whom.
func (g *Group) do(r *request) (*reply, error) {
	err := r.write(g.conn)
	if err != nil {
		err = g.died(err)
	}
	var answer *reply
	if err == nil {
		answer, err = g.await(r.Kind, g.spec.Options.Limit)
	}
	if err == nil {
		return answer, nil
	}
	e, isPeer := errors.AsType[*ranks.PeerError](err)
	if !isPeer {
		// It may be because of another rank, which control then knows, or will soon.
		if e = g.findCause(err); e == nil {
			e = &ranks.PeerError{Rank: g.Rank(), Problem: fmt.Sprintf("cannot go on: %s: %v", g.spec.What, err)}
		}
	}
	return nil, g.broken(e)
}

// diedError says that the process of the library has ended by itself.
type diedError struct {
	status *spawn.ExitError
}

func (e *diedError) Error() string {
	text := fmt.Sprintf("its process %d has ended with exit status %d", e.status.PID, e.status.Code)
	if e.status.Signal != nil {
		text = fmt.Sprintf("its process %d has ended: signal %v", e.status.PID, e.status.Signal)
	}
	for i, line := range e.status.LastWords {
		text += [2]string{": ", " | "}[min(i, 1)] + line
	}
	return text
}

// died returns the error of a process whose connection has ended.
func (g *Group) died(err error) error {
	select {
	case <-g.child.Done():
		return &diedError{g.child.Status()}
	case <-time.After(patience):
		return fmt.Errorf("its process %d does not answer: %w", g.child.PID(), err)
	}
}

// patience is how long a rank whose library has failed waits to hear that it was because of another one. A library may notice the death
// of a rank before the group does.
const patience = 3 * time.Second

// findCause returns the error of the rank because of which the library has failed; nil if it is this one. A rank whose process has ended
// does not wait, so that the others hear of it while they do.
func (g *Group) findCause(err error) *ranks.PeerError {
	until := time.Now().Add(patience)
	if _, hasDied := errors.AsType[*diedError](err); hasDied {
		until = time.Time{}
	}
	for {
		if e, isPeer := errors.AsType[*ranks.PeerError](g.control.Watch()); isPeer {
			return e
		}
		if time.Now().After(until) {
			return nil
		}
		time.Sleep(watchEvery)
	}
}

// watchEvery is how often a rank that waits for its library looks for ranks that have ended.
const watchEvery = 20 * time.Millisecond

// await waits for the answer of the process. It is an error if the process ends or is silent, if another rank ends, fails or is silent,
// or if it takes longer than the limit.
func (g *Group) await(kind int, limit time.Duration) (*reply, error) {
	began, tick := time.Now(), time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case r, ok := <-g.replies:
			if !ok {
				return nil, g.died(errors.New("its connection is closed"))
			}
			if r.Error != "" {
				return nil, errors.New(r.Error)
			}
			return r, nil
		case <-tick.C:
		}
		if err := g.control.Watch(); err != nil {
			return nil, err
		}
		g.mu.Lock()
		silent := time.Since(g.heard)
		g.mu.Unlock()
		switch {
		case silent > g.spec.Options.Silence:
			return nil, &ranks.PeerError{Rank: g.Rank(), Problem: fmt.Sprintf("cannot go on: the process %d of %s has not shown a sign of life for %v",
				g.child.PID(), g.spec.What, silent.Round(time.Second))}
		case time.Since(began) > limit:
			return nil, &ranks.PeerError{Rank: g.Rank(), Problem: fmt.Sprintf("has waited %v for %s to finish %s, while all ranks live", limit, g.spec.What, kinds[kind])}
		}
	}
}

// AllToAllV implements [ranks.Group].
func (g *Group) AllToAllV(send, receive [][]byte) error { return g.exchange(allToAll, send, receive) }

// AllGather implements [ranks.Group].
func (g *Group) AllGather(send []byte, receive [][]byte) error {
	return g.exchange(allGather, [][]byte{send}, receive)
}

// Barrier implements [ranks.Group]. There is nothing to move.
func (g *Group) Barrier() error { return g.AllGather(nil, make([][]byte, g.Size())) }

// Words of a head: what a rank says to all others before the bytes of a call are moved. The lengths of what it sends, for each rank or
// one for all, follow.
const (
	callWord  = iota // kind and number
	turnsWord        // in which its bytes are sent
	lengthWords
)

// head returns the head of the next call.
func (g *Group) head(kind, turns int, send [][]byte) []byte {
	g.calls++
	words := []uint64{uint64(kind)<<56 | g.calls, uint64(turns)}
	for r := range g.Size() {
		words = append(words, uint64(len(send[min(r, len(send)-1)])))
	}
	var head []byte
	for _, w := range words {
		head = binary.LittleEndian.AppendUint64(head, w)
	}
	return head
}

// word returns a word of a head.
func word(head []byte, at int) uint64 { return binary.LittleEndian.Uint64(head[8*at:]) }

// turnsOf returns in how many pieces of a size n bytes are moved.
func turnsOf(n, size int) int { return (n + size - 1) / size }

// piece returns the k-th piece of data that is cut into pieces of a size.
func piece(data []byte, k, size int) []byte {
	return data[min(k*size, len(data)):min((k+1)*size, len(data))]
}

// align is what parts of a window begin at multiples of.
const align = 64

// check returns an error unless a rank makes the same call, and sends as many bytes as are expected.
func (g *Group) check(from int, theirs, ours []byte, want int) error {
	problem := ""
	if got, own := word(theirs, callWord), word(ours, callWord); got != own {
		problem = fmt.Sprintf("makes call %d, %s, and rank %d call %d, %s", got<<8>>8, kinds[min(got>>56, closeRequest)], g.Rank(), own<<8>>8, kinds[own>>56])
	} else if got := word(theirs, lengthWords+g.Rank()); got != uint64(want) {
		problem = fmt.Sprintf("sends %d bytes where rank %d expects %d", got, g.Rank(), want)
	}
	if problem == "" {
		return nil
	}
	return g.broken(&ranks.PeerError{Rank: from, Problem: problem})
}

// broken makes the group one that cannot go on, and tells the others.
func (g *Group) broken(because *ranks.PeerError) error {
	g.failure = because
	g.control.Fail(because)
	return because
}

// fail makes the group one that cannot go on because of an error of control, which has told the others.
func (g *Group) fail(err error) error {
	g.failure = err
	return err
}

// exchange sends send, one piece of memory for each rank or one for all.
func (g *Group) exchange(kind int, send, receive [][]byte) error {
	if g.failure != nil {
		return g.failure
	}
	size := g.Size()
	room := len(g.send) / size &^ (align - 1)
	turns := 0
	for r, data := range send {
		if len(send) == 1 || r != g.Rank() { // what a rank sends itself is copied here
			turns = max(turns, turnsOf(len(data), room))
		}
	}
	head := g.head(kind, turns, send)
	heads := make([][]byte, size)
	for r := range heads {
		heads[r] = make([]byte, len(head))
	}
	if err := g.control.AllGather(head, heads); err != nil {
		return g.fail(err)
	}
	for r, theirs := range heads {
		if err := g.check(r, theirs, head, len(receive[r])); err != nil {
			return err
		}
		turns = max(turns, int(word(theirs, turnsWord)))
	}
	copy(receive[g.Rank()], send[min(g.Rank(), len(send)-1)])
	if size == 1 {
		return nil
	}
	for k := range turns {
		q := &request{Kind: kind, Room: room, Sent: make([]int, len(send)), Received: make([]int, size)}
		for r, data := range send {
			if len(send) == 1 || r != g.Rank() {
				q.Sent[r] = copy(g.send[r*room:], piece(data, k, room))
			}
		}
		for r, data := range receive {
			if len(send) == 1 || r != g.Rank() {
				q.Received[r] = len(piece(data, k, room))
			}
		}
		if _, err := g.do(q); err != nil {
			return err
		}
		for r, n := range q.Received {
			if r != g.Rank() {
				copy(piece(receive[r], k, room), g.receive[r*room:][:n])
			}
		}
	}
	return nil
}

// Broadcast implements [ranks.Group]. It waits for the head of root as long as root lives.
func (g *Group) Broadcast(root int, data []byte) error {
	if g.failure != nil {
		return g.failure
	}
	head := g.head(broadcast, turnsOf(len(data), len(g.send)), [][]byte{data})
	theirs := append([]byte(nil), head...)
	if err := g.control.Broadcast(root, theirs); err != nil {
		return g.fail(err)
	}
	if err := g.check(root, theirs, head, len(data)); err != nil {
		return err
	}
	if g.Size() == 1 {
		return nil
	}
	for k := range turnsOf(len(data), len(g.send)) {
		part := piece(data, k, len(g.send))
		if g.Rank() == root {
			copy(g.send, part)
		}
		if _, err := g.do(&request{Kind: broadcast, Root: root, Sent: []int{len(part)}}); err != nil {
			return err
		}
		copy(part, g.send)
	}
	return nil
}

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

// end ends the process of the library.
func (g *Group) end() {
	if g.child != nil {
		g.child.Close(0)
	}
	if g.region != nil {
		g.region.Close()
	}
}
