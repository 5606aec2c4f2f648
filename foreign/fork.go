package foreign

import (
	"errors"
	"os"
	"slices"

	"tokitai/kernelprocess/protocol"
	"tokitai/kernelprocess/shm"
	"tokitai/kernelprocess/spawn"
)

// A program may take long to start, as an interpreter that imports libraries does. One that
// takes FORK is started once: this first process, the nursery, computes nothing, and every
// process that computes is a copy of it, made in milliseconds and as fresh as another start.

// settle makes a process that has computed nothing the nursery, and returns its first fork.
func (p *pool) settle(n *session) (*session, error) {
	p.mu.Lock()
	p.nursery, p.welcome = n, nil
	p.sessions = slices.DeleteFunc(p.sessions, func(m *session) bool { return m == n })
	p.mu.Unlock()
	return p.start()
}

// fork starts a process by forking the nursery. It returns nil if there is none, or if it has
// not forked: it is ended then, and programs are started again. The caller holds the mutex.
func (p *pool) fork(seed uint64) (*session, error) {
	if p.nursery == nil {
		return nil, nil
	}
	n, err := p.nursery.fork(seed, p)
	if err != nil {
		for _, m := range slices.Clone(p.sessions) {
			if m.isForked && !m.isBusy { // it ends with the nursery
				p.drop(m, 0)
			}
		}
		p.drop(p.nursery, 0)
		p.nursery = nil
	}
	return n, err
}

// fork asks a process for a copy of itself.
func (n *session) fork(seed uint64, p *pool) (*session, error) {
	var ours, theirs []interface{ Close() error }
	defer func() {
		for _, c := range slices.Concat(ours, theirs) {
			c.Close()
		}
	}()
	conn, socket, err := shm.Pair()
	if err != nil {
		return nil, err
	}
	ours, theirs = append(ours, conn), append(theirs, socket)
	status, statusEnd, err := shm.Pair()
	if err != nil {
		return nil, err
	}
	ours, theirs = append(ours, status), append(theirs, statusEnd)
	words, output, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ours, theirs = append(ours, words), append(theirs, output)
	body, err := n.ask(protocol.KindFork, protocol.Numbers(nil, seed), 0, p.options.deadline(), int(socket.Fd()), int(output.Fd()), int(statusEnd.Fd()))
	if err != nil {
		return nil, err
	}
	pid, err := protocol.ParseNumber(body)
	if err != nil || pid < 2 || pid > 1<<30 {
		return nil, n.malformed(protocol.KindFork, errors.Join(err, errors.New("want the id of a process")))
	}
	ours = nil
	child := spawn.Adopt(spawn.Adoption{Program: p.program, PID: int(pid), Status: status, Words: words, Host: conn, Stderr: p.options.Stderr})
	return &session{child: child, conn: conn, isForked: true}, nil
}
