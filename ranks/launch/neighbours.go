package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tokitai/kernelprocess/shm"
	"tokitai/ranks"
)

// neighbours are ranks of one machine that a launcher has started. They meet by the name of their job: rank 0 gives the others
// the memory of the group, and the connections on which it does so end with their processes.
type neighbours struct {
	*ranks.Memory
	region   *shm.Region
	conns    []*shm.Conn // by rank, nil for none: rank 0 has all, the others have that to rank 0
	isEnding atomic.Bool
	watching sync.WaitGroup
}

// hello is what a rank says to rank 0, and welcome the answer, with which the memory comes.
type (
	hello struct {
		Rank, Size int
		Secret     string // digest
	}
	welcome struct {
		Refused     string // why
		MemoryBytes int64
	}
)

// meetingName is where the ranks of a job meet.
func (own *Rank) meetingName() string { return "tokitai-ranks-" + digestOf(own.job) }

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

func (own *Rank) hello() hello { return hello{own.Rank, own.Size, digestOf(string(own.Secret))} }

// meetNeighbours joins the group of the ranks of a job. It waits for all of them.
func meetNeighbours(own *Rank, window int) (*neighbours, error) {
	n := &neighbours{conns: make([]*shm.Conn, own.Size)}
	if err := n.meet(own, window); err != nil {
		n.closeAll()
		return nil, err
	}
	return n, nil
}

func (n *neighbours) meet(own *Rank, window int) (err error) {
	until := time.Now().Add(ranks.DefaultOptions.Limit)
	if own.Rank == 0 {
		err = n.receive(own, window, until)
	} else {
		err = n.come(own, until)
	}
	if err != nil {
		return err
	}
	if n.Memory, err = ranks.Join(n.region.Bytes(), own.Rank, own.Size, ranks.Options{}); err != nil {
		return err
	}
	for r, conn := range n.conns {
		if conn != nil {
			conn.SetDeadline(time.Time{})
			n.watching.Go(func() { n.watch(r, conn) })
		}
	}
	return nil
}

// receive waits for all other ranks, and gives them the memory.
func (n *neighbours) receive(own *Rank, window int, until time.Time) error {
	listener, err := shm.Listen(own.meetingName())
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("two processes are rank 0 of the same job: %w", err)
	}
	if err != nil {
		return err
	}
	defer listener.Close()
	listener.SetDeadline(until)
	for missing := own.Size - 1; missing > 0; missing-- {
		conn, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("rank 0 waits for %d more ranks: %w", missing, err)
		}
		conn.SetDeadline(until)
		var theirs hello
		if err := ReadMessage(conn, &theirs); err != nil {
			conn.Close()
			return fmt.Errorf("a rank does not say which one it is: %w", err)
		}
		if err := n.admit(own, &theirs); err != nil {
			for _, other := range append(n.conns, conn) {
				if other != nil {
					WriteMessage(other, welcome{Refused: err.Error()}) // it may have ended
				}
			}
			conn.Close()
			return err
		}
		n.conns[theirs.Rank] = conn
	}
	if n.region, err = shm.Create(int64(ranks.MemoryBytes(own.Size, window))); err != nil {
		return err
	}
	for r := 1; r < own.Size; r++ {
		if err := WriteMessage(n.conns[r], welcome{MemoryBytes: int64(len(n.region.Bytes()))}, n.region.FD()); err != nil {
			return fmt.Errorf("rank %d: %w", r, err)
		}
	}
	return nil
}

// admit returns an error unless a rank is one that rank 0 waits for.
func (n *neighbours) admit(own *Rank, theirs *hello) error {
	switch {
	case theirs.Size != own.Size || theirs.Rank < 1 || theirs.Rank >= own.Size:
		return fmt.Errorf("the ranks do not fit together: rank %d of %d meets rank 0 of %d", theirs.Rank, theirs.Size, own.Size)
	case n.conns[theirs.Rank] != nil:
		return fmt.Errorf("two processes are rank %d of the same job", theirs.Rank)
	case theirs.Secret != own.hello().Secret:
		return fmt.Errorf("rank %d has another %s than rank 0", theirs.Rank, SecretVariable)
	}
	return nil
}

// come goes to rank 0, and gets the memory.
func (n *neighbours) come(own *Rank, until time.Time) error {
	conn, err := dialUntil(own.meetingName(), until)
	if err != nil {
		return fmt.Errorf("rank 0 does not answer on this machine: %w", err)
	}
	n.conns[0] = conn
	conn.SetDeadline(until)
	if err := WriteMessage(conn, own.hello()); err != nil {
		return fmt.Errorf("rank 0: %w", err)
	}
	var theirs welcome
	if err := ReadMessage(conn, &theirs); err != nil {
		return &ranks.PeerError{Rank: 0, Problem: fmt.Sprintf("has ended before all ranks had come: %v", err)}
	}
	if theirs.Refused != "" {
		return errors.New(theirs.Refused)
	}
	fd, ok := conn.TakeFD()
	if !ok {
		return errors.New("rank 0 sends no memory")
	}
	n.region, err = shm.Open(fd, theirs.MemoryBytes)
	return err
}

// dialUntil connects to a process that may not listen yet.
func dialUntil(name string, until time.Time) (*shm.Conn, error) {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		conn, err := shm.Dial(name)
		if !errors.Is(err, syscall.ECONNREFUSED) || time.Now().Add(pause).After(until) {
			return conn, err
		}
		time.Sleep(pause)
	}
}

// watch tells the group when a rank has ended: one that leaves says so with a byte.
func (n *neighbours) watch(rank int, conn *shm.Conn) {
	var goodbye [1]byte
	if _, err := io.ReadFull(conn, goodbye[:]); err != nil && !n.isEnding.Load() {
		n.Lose(rank, "has ended: its connection is closed")
	}
}

// Close implements [ranks.Group].
func (n *neighbours) Close() error {
	if n.isEnding.Swap(true) {
		return nil
	}
	err := n.Memory.Close()
	for _, conn := range n.conns {
		if conn != nil {
			conn.SetWriteDeadline(time.Now().Add(time.Second))
			conn.Write([]byte{0}) // nobody may be there any more
		}
	}
	n.closeAll()
	return err
}

// closeAll closes the connections, and the memory once nothing uses it.
func (n *neighbours) closeAll() {
	for _, conn := range n.conns {
		if conn != nil {
			conn.Close()
		}
	}
	n.watching.Wait()
	if n.region != nil {
		n.region.Close()
	}
}
