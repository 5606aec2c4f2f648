package kernelprocess

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"tokitai/kernelprocess/failure"
	"tokitai/kernelprocess/protocol"
)

// stream is the socket of a kernel process, or its standard input and output.
type stream interface {
	io.Reader
	Write(p []byte, fds ...int) (int, error)
	WriteBuffers(buffers net.Buffers, fds ...int) (int64, error)
}

const (
	// maxFailureBytes bounds an error reply: some strings of the longest kind.
	maxFailureBytes = 256 << 10

	// maxLoweringBytes bounds the reply of a call without its data.
	maxLoweringBytes = 8 + 4 + 4 + 4096

	// directBytes is the longest frame that a caller writes itself: sockets and pipes have
	// room for it.
	directBytes = 16 << 10

	// keptFrameBytes is the largest memory of a request that is reused.
	keptFrameBytes = 64 << 10
)

// conn holds the frames in flight on the stream of one process. One goroutine writes and
// another reads, so that no caller waits for a process that does not read.
type conn struct {
	stream  stream
	settled func(r *request, isAbandoned bool) // for every request that has been answered, or never will be

	mu        sync.Mutex
	hasWork   sync.Cond // outgoing and not isWriting, or failure
	outgoing  []outgoing
	isWriting bool // the stream is being written to
	pending   map[uint64]*request
	lastID    uint64                // never used again
	failure   error                 // why nothing can be sent any more
	death     error                 // what pending requests got, once they did
	announced map[any]*announcement // arenas by number, definitions by identity

	failed     chan struct{} // closed with failure
	readerDone chan struct{}
	writerDone chan struct{}
}

// outgoing is a frame to be written.
type outgoing struct {
	frame   []byte
	fd      int // to go with it, or -1
	request *request
}

// request is a frame that gets a reply. Its memory is reused if that is safe.
type request struct {
	id   uint64
	kind protocol.Kind

	replyBytes int64  // data that a good reply must have
	identity   string // that the reply to DEFINE must have
	frame      []byte
	body       []byte // of the reply

	// The reply, after a receive from done.
	done    chan struct{}
	err     error
	results protocol.Results // of a call
	number  uint64           // of NEW
	data    []byte           // of READ

	// Under the connection's mutex.
	isWritten   bool
	isAbandoned bool // nobody waits: what it holds is given back when it is settled
	hang        *time.Timer
	gone        chan struct{} // closed when an abandoned request is settled

	held   holdings
	sentAt time.Time
	tookNS int64

	call call // scratch memory of calls
}

var requests = sync.Pool{New: func() any { return &request{done: make(chan struct{}, 1)} }}

func newRequest(kind protocol.Kind) *request {
	r := requests.Get().(*request)
	r.kind = kind
	r.frame = protocol.Header{Kind: kind}.Append(r.frame[:0])
	return r
}

// recycle keeps the memory of a settled request for another. If a process answers before it
// has read all of a frame, the writer may still use that memory.
func (c *conn) recycle(r *request) {
	c.mu.Lock()
	isFree := r.isWritten
	c.mu.Unlock()
	if !isFree || cap(r.frame) > keptFrameBytes || cap(r.body) > keptFrameBytes {
		return
	}
	r.call.clear()
	*r = request{frame: r.frame[:0], body: r.body[:0], done: r.done, call: r.call, held: r.held.emptied()}
	requests.Put(r)
}

func newConn(s stream, settled func(*request, bool)) *conn {
	c := &conn{stream: s, settled: settled, pending: map[uint64]*request{}, announced: map[any]*announcement{},
		failed: make(chan struct{}), readerDone: make(chan struct{}), writerDone: make(chan struct{})}
	c.hasWork.L = &c.mu
	go c.write()
	go c.read()
	return c
}

// errNotSent reports that a request was not sent because the process had died.
var errNotSent = errors.New("the kernel process had died before")

// send numbers a request, sets the length of its frame, and passes it to the writer. After an
// error the request has not been sent.
func (c *conn) send(r *request, fd int) error {
	binary.LittleEndian.PutUint64(r.frame, uint64(len(r.frame)-protocol.HeaderBytes))
	if fd >= 0 {
		binary.LittleEndian.PutUint32(r.frame[20:], 1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return errNotSent
	}
	c.lastID++
	r.id = c.lastID
	binary.LittleEndian.PutUint64(r.frame[8:], r.id)
	r.sentAt = time.Now()
	c.pending[r.id] = r
	if len(c.pending) == 1 && len(c.outgoing) == 0 && !c.isWriting && fd < 0 && len(r.frame) <= directBytes {
		c.writeDirectly(r)
		return nil
	}
	c.outgoing = append(c.outgoing, outgoing{r.frame, fd, r})
	c.hasWork.Signal()
	return nil
}

// writeDirectly writes the only request in flight without the writer's goroutine: its process
// has read everything before it, so there is room for a short frame. The caller holds the
// mutex, which is unlocked while it writes.
func (c *conn) writeDirectly(r *request) {
	c.isWriting = true
	c.mu.Unlock()
	_, err := c.stream.Write(r.frame)
	c.mu.Lock()
	c.isWriting = false
	r.isWritten = true
	if err != nil && c.failure == nil {
		c.failure = err
		close(c.failed)
	}
	c.hasWork.Signal()
}

// abandon stops waiting for a request. It returns false if the request has been settled
// meanwhile. The caller must not use an abandoned request.
func (c *conn) abandon(r *request, hangAfter time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[r.id] != r {
		return false
	}
	r.isAbandoned = true
	r.gone = make(chan struct{})
	c.watch(r, hangAfter)
	frame := protocol.AppendFrame(nil, c.cancelID(), protocol.KindCancel, 0, func(b []byte) []byte { return protocol.Numbers(b, r.id) })
	c.outgoing = append(c.outgoing, outgoing{frame, -1, nil})
	c.hasWork.Signal()
	return true
}

// watch ends the connection unless an abandoned request is answered in time. Time that it
// spends behind requests that callers wait for does not count. The caller holds mu.
func (c *conn) watch(r *request, hangAfter time.Duration) {
	id := r.id
	var check func()
	check = func() {
		c.mu.Lock()
		isHung := c.pending[id] == r
		for earlier, other := range c.pending {
			if isHung && earlier < id && other.hang == nil { // its turn has not come
				isHung = false
				r.hang = time.AfterFunc(hangAfter, check)
			}
		}
		c.mu.Unlock()
		if isHung {
			c.fail(errHung)
		}
	}
	r.hang = time.AfterFunc(hangAfter, check)
}

// cancelID returns a number for a frame that has no reply.
func (c *conn) cancelID() uint64 {
	c.lastID++
	return c.lastID
}

// post sends a request without waiting for its answer.
func (c *conn) post(r *request) {
	r.isAbandoned = true
	r.gone = make(chan struct{})
	if c.send(r, -1) != nil {
		c.settled(r, true)
	}
}

// abandoned returns the channels that are closed when the abandoned requests are settled.
func (c *conn) abandoned() (gone []<-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.pending {
		if r.isAbandoned {
			gone = append(gone, r.gone)
		}
	}
	return gone
}

// inFlight returns the number of pending requests.
func (c *conn) inFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending)
}

// fail ends the use of the connection. Its cause is that of the first call.
func (c *conn) fail(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return
	}
	c.failure = cause
	c.hasWork.Signal()
	close(c.failed)
}

// bury settles all pending requests after the death of the process.
func (c *conn) bury(death error) {
	c.mu.Lock()
	c.death = death
	lost := c.pending
	c.pending = nil
	c.mu.Unlock()
	for _, r := range lost {
		r.err = death
		c.settle(r)
	}
}

// cause returns why the process cannot be used, or nil if it can.
func (c *conn) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.death != nil {
		return c.death
	}
	return c.failure
}

func (c *conn) settle(r *request) {
	c.mu.Lock()
	isAbandoned, hang := r.isAbandoned, r.hang
	c.mu.Unlock()
	r.tookNS = int64(time.Since(r.sentAt))
	if hang != nil {
		hang.Stop()
	}
	c.settled(r, isAbandoned)
	if !isAbandoned {
		r.done <- struct{}{}
		return
	}
	close(r.gone)
}

// write writes frames, as many at once as are waiting.
func (c *conn) write() {
	defer close(c.writerDone)
	var batch []outgoing
	var buffers net.Buffers
	for {
		c.mu.Lock()
		c.isWriting = false
		for i := range batch {
			if r := batch[i].request; r != nil {
				r.isWritten = true
			}
			batch[i] = outgoing{}
		}
		for (len(c.outgoing) == 0 || c.isWriting) && c.failure == nil {
			c.hasWork.Wait()
		}
		if c.failure != nil {
			c.mu.Unlock()
			return
		}
		batch, c.outgoing = c.outgoing, batch[:0]
		c.isWriting = true
		c.mu.Unlock()

		buffers = buffers[:0]
		var err error
		for i := range batch {
			if batch[i].fd < 0 {
				buffers = append(buffers, batch[i].frame)
				continue
			}
			if err = c.flush(buffers); err != nil {
				break
			}
			buffers = buffers[:0]
			if _, err = c.stream.Write(batch[i].frame, batch[i].fd); err != nil {
				break
			}
		}
		if err == nil {
			err = c.flush(buffers)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

func (c *conn) flush(buffers net.Buffers) (err error) {
	switch len(buffers) {
	case 0:
	case 1:
		_, err = c.stream.Write(buffers[0])
	default:
		_, err = c.stream.WriteBuffers(buffers)
	}
	return err
}

// read passes replies to their requests.
func (c *conn) read() {
	defer close(c.readerDone)
	in := bufio.NewReaderSize(c.stream, 64<<10)
	for {
		if err := c.readReply(in); err != nil {
			c.fail(err)
			return
		}
	}
}

func (c *conn) readReply(in *bufio.Reader) error {
	var head [protocol.HeaderBytes]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return shortFrame(err)
	}
	h := protocol.ParseHeader(head[:])
	c.mu.Lock()
	r := c.pending[h.Request]
	c.mu.Unlock()
	switch {
	case h.Kind != protocol.KindOK && h.Kind != protocol.KindError:
		return misbehaved("OK or ERROR", "a frame of %v", h.Kind)
	case r == nil:
		return misbehaved("one to a request in flight", "a reply to request %d", h.Request)
	case h.Descriptors != 0:
		return misbehaved("none", "a reply with %d descriptors", h.Descriptors)
	}
	most := uint64(maxFailureBytes)
	if h.Kind == protocol.KindOK {
		most = r.mostBytes()
	}
	if h.Length > most {
		return misbehaved(fmt.Sprintf("at most %d", most), "%d bytes in reply to %v", h.Length, r.kind)
	}
	if uint64(cap(r.body)) < h.Length {
		r.body = make([]byte, h.Length)
	}
	r.body = r.body[:h.Length]
	if _, err := io.ReadFull(in, r.body); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return shortFrame(err)
	}
	if err := r.parse(h.Kind); err != nil {
		return err
	}
	c.mu.Lock()
	delete(c.pending, r.id)
	c.mu.Unlock()
	c.settle(r)
	return nil
}

// mostBytes bounds the body of a good reply.
func (r *request) mostBytes() uint64 {
	switch r.kind {
	case protocol.KindHello, protocol.KindDefine:
		return maxFailureBytes
	case protocol.KindCall:
		return maxLoweringBytes*uint64(len(r.call.list)) + uint64(r.replyBytes)
	case protocol.KindNew:
		return 8
	}
	return uint64(r.replyBytes)
}

// parse reads the body of a reply. It returns an error for one that does not fit the request.
func (r *request) parse(kind protocol.Kind) error {
	if kind == protocol.KindError {
		reply, err := protocol.ParseFailure(r.body)
		if err != nil {
			return misbehaved("one as the protocol has it", "a malformed error (%v)", err)
		}
		r.err = goError(reply)
		return nil
	}
	var err error
	switch r.kind {
	case protocol.KindHello:
	case protocol.KindCall:
		if r.results, err = protocol.ParseResults(r.body); err != nil {
			break
		}
		if got := int64(len(r.results.Data)); got != r.replyBytes || len(r.results.Lowerings) != len(r.call.list) {
			return misbehaved(fmt.Sprintf("%d and %d", len(r.call.list), r.replyBytes), "%d lowerings and %d bytes of data in reply to CALL", len(r.results.Lowerings), got)
		}
	case protocol.KindNew:
		r.number, err = protocol.ParseNumber(r.body)
	case protocol.KindDefine:
		var defined protocol.Defined
		if defined, err = protocol.ParseDefined(r.body); err == nil && defined.Identity != r.identity {
			return misbehaved(r.identity, "identity %q in reply to DEFINE", defined.Identity)
		}
	default:
		if r.data = r.body; int64(len(r.data)) != r.replyBytes {
			return misbehaved(fmt.Sprint(r.replyBytes), "%d bytes in reply to %v", len(r.data), r.kind)
		}
	}
	if err != nil {
		return misbehaved("one as the protocol has it", "a malformed reply to %v (%v)", r.kind, err)
	}
	return nil
}

// goError returns the error that the process sent, as a call in this process would return
// it. That of a kernel that had begun stays a *protocol.Failure, for finish.
func goError(f *protocol.Failure) error {
	failure.Resolve(f)
	if f.Cause != nil && f.Cause.Error() == f.Message && (f.Detail("call") == "" || f.Detail("call") == "0" && f.Code == protocol.CodeBadArgument) {
		return f.Cause
	}
	return f
}

func misbehaved(want, got string, args ...any) error {
	return &MisbehavedError{Got: fmt.Sprintf(got, args...), Want: want}
}

func shortFrame(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &MisbehavedError{Got: "a part of a reply and then the end", Want: "all of it"}
	}
	return err
}
