package courier

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"tokitai/kernelprocess/shm"
	"tokitai/ranks/launch"
)

// aliveEvery is how often the process of a library shows that it lives.
const aliveEvery = 500 * time.Millisecond

// server is the process of a library.
type server struct {
	conn          *shm.Conn
	writing       sync.Mutex
	library       Library
	region        *shm.Region
	send, receive []byte
}

// Serve calls a library for the rank at the other end of conn, until it says that this is the end. It returns an error if the
// library could not be closed. The process exits when the rank has ended, whatever the library does.
func Serve(conn *shm.Conn, open func() (Library, error)) error {
	runtime.LockOSThread() // all calls are made on this thread
	defer runtime.UnlockOSThread()
	s := &server{conn: conn}
	requests := make(chan *request)
	go func() {
		for {
			r := new(request)
			if err := launch.ReadMessage(conn, r); err != nil {
				os.Exit(1)
			}
			requests <- r
		}
	}()
	go func() {
		for range time.Tick(aliveEvery) {
			s.reply(&reply{IsAlive: true})
		}
	}()
	for r := range requests {
		answer := s.serve(r, open)
		if s.reply(answer); r.Kind == closeRequest {
			if answer.Error != "" {
				return errors.New(answer.Error)
			}
			return nil
		}
	}
	return nil
}

// reply writes an answer. A rank that has ended does not read it.
func (s *server) reply(r *reply) {
	s.writing.Lock()
	defer s.writing.Unlock()
	launch.WriteMessage(s.conn, r)
}

// serve does what a request asks for.
func (s *server) serve(r *request, open func() (Library, error)) *reply {
	answer := &reply{}
	if err := s.obey(r, open, answer); err != nil {
		answer.Error = err.Error()
	}
	return answer
}

func (s *server) obey(r *request, open func() (Library, error), answer *reply) (err error) {
	if s.library == nil && r.Kind != openRequest {
		return errors.New("no library is open")
	}
	switch r.Kind {
	case openRequest:
		fd, ok := s.conn.TakeFD()
		if !ok {
			return errors.New("no memory comes from the rank")
		}
		if s.region, err = shm.Open(fd, r.MemoryBytes); err != nil {
			return err
		}
		memory := s.region.Bytes()
		s.send, s.receive = memory[:len(memory)/2], memory[len(memory)/2:]
		if s.library, err = open(); err != nil {
			return err
		}
		answer.Version = s.library.Version()
		return nil
	case inviteRequest:
		answer.Invitation, err = s.library.Invite()
		return err
	case joinRequest:
		return s.library.Join(r.Place, r.Invitation)
	case allToAll:
		return s.library.AllToAllV(s.send, s.receive, r.Room, r.Sent, r.Received)
	case allGather:
		return s.library.AllGather(s.send[:r.Sent[0]], s.receive, r.Room, r.Received)
	case broadcast:
		return s.library.Broadcast(r.Root, s.send[:r.Sent[0]])
	case closeRequest:
		return s.library.Close()
	}
	return fmt.Errorf("unknown request %d", r.Kind)
}
