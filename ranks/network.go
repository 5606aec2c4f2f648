package ranks

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Place says which rank a process is, and where the ranks meet.
type Place struct {
	Rank, Size int
	Address    string // HOST:PORT at which rank 0 listens
	Secret     []byte // that all ranks have
}

// MinSecret is the least number of bytes of a secret.
const MinSecret = 16

// Network is a group over TCP. Every two ranks have a connection, on which each has shown that it knows the secret. The
// bytes themselves are neither encrypted nor signed: the network between the ranks must be trusted.
type Network struct {
	place   Place
	options Options
	peers   []*peer // nil for this rank
	calls   uint64
	once    sync.Once
}

// peer is the connection to another rank.
type peer struct {
	rank    int
	conn    net.Conn
	writing sync.Mutex
	wanted  chan want // by calls of this rank
	failed  chan struct{}
	failure error // once failed is closed
	hasLeft bool  // likewise: it has said so itself
	ending  chan struct{}
}

// want is where the bytes of a call go.
type want struct {
	call uint64
	to   []byte
	done chan error
}

// Kinds of frames, besides those of calls. A frame is its kind and the number of the call, one word, the length of
// the bytes that follow, another one, and these.
const (
	aliveFrame = 0x10 + iota
	leaveFrame // its length is 1 + the number of the rank that is the reason
)

const frameBytes = 16

// aliveEvery is how often a rank shows on a connection that it lives.
const aliveEvery = time.Second

// Connect joins a group over TCP. It waits for all other ranks, up to the limit of the options.
func Connect(p Place, o Options) (*Network, error) {
	switch {
	case p.Size < 1 || p.Rank < 0 || p.Rank >= p.Size:
		return nil, fmt.Errorf("rank %d of %d, want one from 0 on and below their number", p.Rank, p.Size)
	case len(p.Secret) < MinSecret:
		return nil, fmt.Errorf("the secret has %d bytes, want at least %d", len(p.Secret), MinSecret)
	}
	o.setDefaults()
	g := &Network{place: p, options: o, peers: make([]*peer, p.Size)}
	conns, err := meet(p, time.Now().Add(o.Limit))
	if err != nil {
		return nil, err
	}
	for r, conn := range conns {
		if conn == nil {
			continue
		}
		conn.SetDeadline(time.Time{})
		g.peers[r] = &peer{rank: r, conn: conn, wanted: make(chan want), failed: make(chan struct{}), ending: make(chan struct{})}
		go g.peers[r].read(o.Silence)
		go g.peers[r].live()
	}
	return g, nil
}

// Rank returns the number of this rank.
func (g *Network) Rank() int { return g.place.Rank }

// Size returns the number of ranks.
func (g *Network) Size() int { return g.place.Size }

// AllToAllV implements [Group].
func (g *Network) AllToAllV(send, receive [][]byte) error {
	return g.exchange(allToAll, send, receive, g.options.Limit)
}

// AllGather implements [Group].
func (g *Network) AllGather(data []byte, receive [][]byte) error {
	send := make([][]byte, g.Size())
	for r := range send {
		send[r] = data
	}
	return g.exchange(allGather, send, receive, g.options.Limit)
}

// Broadcast implements [Group].
func (g *Network) Broadcast(root int, data []byte) error {
	send, receive := make([][]byte, g.Size()), make([][]byte, g.Size())
	if receive[root] = data; g.Rank() == root {
		for r := range send {
			send[r] = data
		}
	}
	return g.exchange(broadcast, send, receive, 0)
}

// Barrier implements [Group].
func (g *Network) Barrier() error { return g.AllGather(nil, make([][]byte, g.Size())) }

// exchange sends a frame to each other rank, and gets one from each.
func (g *Network) exchange(kind uint64, send, receive [][]byte, limit time.Duration) error {
	g.calls++
	call := kind<<56 | g.calls
	var timeout <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		timeout = timer.C
	}
	results := make([]chan error, g.Size())
	for r, p := range g.peers {
		if p == nil {
			copy(receive[r], send[r])
			continue
		}
		done := make(chan error, 2)
		results[r] = done
		go func() { done <- p.write(call, send[r]) }()
		go func() { done <- p.receive(want{call, receive[r], make(chan error, 1)}) }()
	}
	for r, done := range results {
		if done == nil {
			continue
		}
		for range 2 {
			select {
			case err := <-done:
				if err != nil {
					return g.leave(err)
				}
			case <-timeout:
				return g.leave(&PeerError{r, fmt.Sprintf("has kept rank %d waiting for %v", g.Rank(), limit)})
			}
		}
	}
	return nil
}

// leave tells the others why this rank does not go on.
func (g *Network) leave(err error) error {
	if e, isPeer := errors.AsType[*PeerError](err); isPeer {
		for _, p := range g.peers {
			if p != nil && p.rank != e.Rank {
				p.conn.SetWriteDeadline(time.Now().Add(time.Second))
				p.writeHead(leaveFrame<<56, uint64(e.Rank+1))
			}
		}
	}
	return err
}

// Watch implements [Watched].
func (g *Network) Watch() error {
	for _, p := range g.peers {
		if p == nil {
			continue
		}
		select {
		case <-p.failed:
			if !p.hasLeft {
				return p.failure
			}
		default:
		}
	}
	return nil
}

// Fail implements [Watched].
func (g *Network) Fail(because *PeerError) { g.leave(because) }

// Close leaves the group.
func (g *Network) Close() error {
	g.once.Do(func() {
		for _, p := range g.peers {
			if p == nil {
				continue
			}
			close(p.ending)
			p.conn.SetWriteDeadline(time.Now().Add(time.Second))
			p.writeHead(leaveFrame<<56, 0)
			p.conn.Close()
		}
	})
	return nil
}

// writeHead writes a frame without bytes.
func (p *peer) writeHead(kind, length uint64) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	_, err := p.conn.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, kind), length))
	return err
}

// write writes the frame of a call.
func (p *peer) write(call uint64, data []byte) error {
	head := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, call), uint64(len(data)))
	p.writing.Lock()
	defer p.writing.Unlock()
	buffers := net.Buffers{head, data}
	if _, err := buffers.WriteTo(p.conn); err != nil {
		select {
		case <-p.failed: // whose reason says more
			return p.failure
		case <-time.After(aliveEvery):
			return &PeerError{p.rank, "cannot be sent to: " + err.Error()}
		}
	}
	return nil
}

// receive waits for the bytes of a call.
func (p *peer) receive(w want) error {
	select {
	case p.wanted <- w:
		return <-w.done
	case <-p.failed:
		return p.failure
	}
}

// live shows that this rank lives, until the group is closed.
func (p *peer) live() {
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if p.writing.TryLock() { // whoever holds it writes, which shows as much
				p.writing.Unlock()
				p.writeHead(aliveFrame<<56, 0)
			}
		case <-p.ending:
			return
		case <-p.failed:
			return
		}
	}
}

// read reads the frames of a rank, until one says that it leaves or the connection ends.
func (p *peer) read(silence time.Duration) {
	p.failure = p.readFrames(silence)
	close(p.failed)
}

func (p *peer) readFrames(silence time.Duration) error {
	var head [frameBytes]byte
	for {
		p.conn.SetReadDeadline(time.Now().Add(silence))
		if _, err := io.ReadFull(p.conn, head[:]); err != nil {
			return p.lost(err, silence)
		}
		call, length := binary.LittleEndian.Uint64(head[:]), binary.LittleEndian.Uint64(head[8:])
		switch call >> 56 {
		case aliveFrame:
			continue
		case leaveFrame:
			if length > 0 {
				return &PeerError{int(length) - 1, fmt.Sprintf("has failed, as rank %d says", p.rank)}
			}
			p.hasLeft = true
			return &PeerError{p.rank, "has left"}
		}
		var w want
		select {
		case w = <-p.wanted:
		case <-p.ending:
			return &PeerError{p.rank, "is not waited for any more"}
		}
		if err := p.fill(w, call, length, silence); err != nil {
			w.done <- err
			return err
		}
		w.done <- nil
	}
}

// fill reads the bytes of a call.
func (p *peer) fill(w want, call, length uint64, silence time.Duration) error {
	if call != w.call {
		return &PeerError{p.rank, otherCall(call, w.call)}
	}
	if length != uint64(len(w.to)) {
		return &PeerError{p.rank, otherLength(length, len(w.to))}
	}
	for rest := w.to; len(rest) > 0; { // what takes long arrives in parts
		p.conn.SetReadDeadline(time.Now().Add(silence))
		n, err := p.conn.Read(rest)
		if rest = rest[n:]; err != nil && len(rest) > 0 {
			return p.lost(err, silence)
		}
	}
	return nil
}

// lost returns the error of a connection that has ended.
func (p *peer) lost(err error, silence time.Duration) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &PeerError{p.rank, fmt.Sprintf("has not shown a sign of life for %v", silence)}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &PeerError{p.rank, "has ended: its connection is closed"}
	}
	return &PeerError{p.rank, "has ended: " + err.Error()}
}

// meet returns connections to all other ranks. Every rank listens; those above 0 tell rank 0 where, and get the addresses of
// all from it. Then each connects to those between 0 and itself.
func meet(p Place, until time.Time) (conns []net.Conn, err error) {
	conns = make([]net.Conn, p.Size)
	defer func() {
		if err != nil {
			for _, c := range conns {
				if c != nil {
					c.Close()
				}
			}
		}
	}()
	at := ":0"
	if p.Rank == 0 {
		at = p.Address
	}
	listener, err := net.Listen("tcp", at)
	if err != nil {
		return conns, fmt.Errorf("rank %d: %w", p.Rank, err)
	}
	defer listener.Close()
	listener.(*net.TCPListener).SetDeadline(until)
	addresses := make([]string, p.Size)
	if p.Rank > 0 {
		if conns[0], err = p.dial(0, p.Address, until); err != nil {
			return conns, err
		}
		_, port, err := net.SplitHostPort(listener.Addr().String())
		if err != nil {
			return conns, err
		}
		if err := writeText(conns[0], port); err != nil {
			return conns, fmt.Errorf("rank 0: %w", err)
		}
		if err := readText(conns[0], &addresses); err != nil {
			return conns, fmt.Errorf("rank 0 does not say where the others are: %w", err)
		}
		if len(addresses) != p.Size {
			return conns, fmt.Errorf("rank 0: %w: %d addresses, want %d", errPlace, len(addresses), p.Size)
		}
		for r := 1; r < p.Rank; r++ {
			if conns[r], err = p.dial(r, addresses[r], until); err != nil {
				return conns, err
			}
		}
	}
	// Those above this one come to it.
	var refused error
	for missing := p.Size - 1 - p.Rank; missing > 0; {
		conn, err := listener.Accept()
		if err != nil {
			return conns, fmt.Errorf("rank %d waits for %d more ranks: %w", p.Rank, missing, errors.Join(err, refused))
		}
		conn.SetDeadline(time.Now().Add(greetTime))
		r, err := p.greet(conn, -1)
		if err != nil {
			refused = fmt.Errorf("refused %v: %w", conn.RemoteAddr(), err)
			conn.Close()
			if errors.Is(err, errPlace) {
				return conns, err
			}
			continue // anybody may knock
		}
		if r <= p.Rank || conns[r] != nil {
			conn.Close()
			return conns, fmt.Errorf("rank %d: %w: there are two of them", r, errPlace)
		}
		conn.SetDeadline(until)
		if conns[r] = conn; p.Rank == 0 {
			var port string
			if err := readText(conn, &port); err != nil {
				return conns, fmt.Errorf("rank %d does not say where it listens: %w", r, err)
			}
			host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
			addresses[r] = net.JoinHostPort(host, port)
		}
		missing--
	}
	if p.Rank == 0 {
		for r := 1; r < p.Size; r++ {
			if err := writeText(conns[r], addresses); err != nil {
				return conns, fmt.Errorf("rank %d: %w", r, err)
			}
		}
	}
	return conns, nil
}

// maxText bounds what ranks tell each other before they are a group.
const maxText = 1 << 20

// writeText writes a value as JSON behind its length, and readText reads one.
func writeText(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

func readText(r io.Reader, v any) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(size[:])
	if n > maxText {
		return fmt.Errorf("%d bytes, want at most %d", n, maxText)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// greetTime is how long a process that has connected may take to say who it is.
const greetTime = 10 * time.Second

// errPlace is the error of ranks that do not fit together.
var errPlace = errors.New("the ranks do not fit together")

// dial connects to a rank, which may not listen yet.
func (p *Place) dial(rank int, address string, until time.Time) (net.Conn, error) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		conn, err := (&net.Dialer{Deadline: until}).Dial("tcp", address)
		if err == nil {
			conn.SetDeadline(until)
			if _, err = p.greet(conn, rank); err == nil {
				return conn, nil
			}
			conn.Close()
			return nil, fmt.Errorf("rank %d meets rank %d at %s: %w", p.Rank, rank, address, err)
		}
		if time.Now().Add(pause).After(until) {
			return nil, fmt.Errorf("rank %d waits for rank %d, which does not answer: %w", p.Rank, rank, err)
		}
		time.Sleep(pause)
	}
}

// greeting is what both ends say first.
type greeting struct {
	Magic      [8]byte
	Rank, Size uint32
	Nonce      [32]byte
}

var magic = [8]byte{'t', 'o', 'k', 'r', 'a', 'n', 'k', '1'}

// greet exchanges greetings, and proofs that both know the secret: an HMAC over both greetings, the own one first. It returns the rank
// of the other end, which is wanted unless that is -1.
func (p *Place) greet(conn net.Conn, wanted int) (rank int, err error) {
	own := greeting{Magic: magic, Rank: uint32(p.Rank), Size: uint32(p.Size)}
	if _, err := rand.Read(own.Nonce[:]); err != nil {
		return -1, err
	}
	ours, err := binary.Append(nil, binary.LittleEndian, own)
	if err != nil {
		return -1, err
	}
	if _, err := conn.Write(ours); err != nil {
		return -1, err
	}
	theirs := make([]byte, len(ours))
	if _, err := io.ReadFull(conn, theirs); err != nil {
		return -1, err
	}
	var other greeting
	if _, err := binary.Decode(theirs, binary.LittleEndian, &other); err != nil || other.Magic != magic {
		return -1, errors.New("it is no rank")
	}
	proof := func(first, second []byte) []byte {
		h := hmac.New(sha256.New, p.Secret)
		h.Write(first)
		h.Write(second)
		return h.Sum(nil)
	}
	if _, err := conn.Write(proof(ours, theirs)); err != nil {
		return -1, err
	}
	got := make([]byte, sha256.Size)
	if _, err := io.ReadFull(conn, got); err != nil {
		return -1, fmt.Errorf("it does not accept the secret: %w", err)
	}
	if subtle.ConstantTimeCompare(got, proof(theirs, ours)) != 1 {
		return -1, errors.New("it has another secret")
	}
	if r := int(other.Rank); int(other.Size) != p.Size || r >= p.Size || r == p.Rank || wanted >= 0 && r != wanted {
		return -1, fmt.Errorf("%w: rank %d of %d meets rank %d of %d", errPlace, p.Rank, p.Size, other.Rank, other.Size)
	}
	return int(other.Rank), nil
}
