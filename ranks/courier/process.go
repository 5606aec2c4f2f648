package courier

import (
	"errors"
	"fmt"
	"time"

	"tokitai/kernelprocess/shm"
	"tokitai/kernelprocess/spawn"
	"tokitai/ranks"
	"tokitai/ranks/launch"
)

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

// findCause returns the error of the rank that made the library fail; nil if it is this one. It waits for the others' reports,
// unless the process of this rank has ended: then the others wait for this rank's report.
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

// end ends the process of the library.
func (g *Group) end() {
	if g.child != nil {
		g.child.Close(0)
	}
	if g.region != nil {
		g.region.Close()
	}
}
