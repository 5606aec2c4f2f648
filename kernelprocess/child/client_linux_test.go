package child

import (
	"bufio"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tokitai/kernelprocess/protocol"
	"tokitai/kernelprocess/shm"
	"tokitai/num"
	"tokitai/op/all"
)

// client is the other end of a server in this process.
type client struct {
	t       testing.TB
	conn    *shm.Conn
	in      *bufio.Reader
	last    uint64        // request
	handle  uint64        // that was given last
	ended   chan error    // what FD returned
	cleaned chan struct{} // closed when the server has given everything back
	welcome protocol.Welcome
}

// patience is how long a test waits for what should come: after that something hangs.
const patience = 5 * time.Minute

// dial starts a server and says nothing to it.
func dial(t testing.TB, o Options) *client {
	t.Helper()
	conn, file, err := shm.Pair()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	conn.SetDeadline(time.Now().Add(patience))
	c := &client{t: t, conn: conn, in: bufio.NewReaderSize(conn, 64<<10), ended: make(chan error, 1), cleaned: make(chan struct{})}
	if o.Device == "" {
		o.Device = "cpu"
	}
	o.Operations = all.Operations
	o.wait = func() { close(c.cleaned) }
	go func() { c.ended <- FD(fd, o) }()
	t.Cleanup(func() {
		conn.Close()
		select {
		case <-c.cleaned:
		case <-time.After(patience):
			t.Error("the server did not end when its other end was closed")
		}
	})
	return c
}

// connect starts a server and greets it.
func connect(t testing.TB, o Options) *client {
	t.Helper()
	c := dial(t, o)
	body, failure := c.do(protocol.KindHello, (&protocol.Hello{Lowest: 1, Highest: 1, Client: "test"}).Append(nil))
	if failure != nil {
		t.Fatal(failure)
	}
	var err error
	if c.welcome, err = protocol.ParseWelcome(body); err != nil {
		t.Fatal(err)
	}
	return c
}

// raw sends bytes.
func (c *client) raw(b []byte, fds ...int) {
	c.t.Helper()
	if _, err := c.conn.Write(b, fds...); err != nil {
		c.t.Fatal(err)
	}
}

func frame(request uint64, kind protocol.Kind, body []byte) []byte {
	return protocol.AppendFrame(nil, request, kind, 0, func(b []byte) []byte { return append(b, body...) })
}

// send sends a request and returns its number.
func (c *client) send(kind protocol.Kind, body []byte) uint64 {
	c.t.Helper()
	c.last++
	c.raw(frame(c.last, kind, body))
	return c.last
}

// receive reads a reply.
func (c *client) receive() (request uint64, body []byte, failure *protocol.Failure) {
	c.t.Helper()
	var head [protocol.HeaderBytes]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		c.t.Fatalf("no reply: %v", err)
	}
	h := protocol.ParseHeader(head[:])
	body = make([]byte, h.Length)
	if _, err := io.ReadFull(c.in, body); err != nil {
		c.t.Fatalf("half a reply: %v", err)
	}
	switch h.Kind {
	case protocol.KindOK:
		return h.Request, body, nil
	case protocol.KindError:
		failure, err := protocol.ParseFailure(body)
		if err != nil {
			c.t.Fatal(err)
		}
		return h.Request, nil, failure
	}
	c.t.Fatalf("a reply of %v", h.Kind)
	return 0, nil, nil
}

// expect reads the reply to a request.
func (c *client) expect(request uint64) ([]byte, *protocol.Failure) {
	c.t.Helper()
	got, body, failure := c.receive()
	if got != request {
		c.t.Fatalf("the reply is to request %d, want %d", got, request)
	}
	return body, failure
}

func (c *client) do(kind protocol.Kind, body []byte) ([]byte, *protocol.Failure) {
	c.t.Helper()
	return c.expect(c.send(kind, body))
}

// must is do for requests that must succeed.
func (c *client) must(kind protocol.Kind, body []byte) []byte {
	c.t.Helper()
	body, failure := c.do(kind, body)
	if failure != nil {
		c.t.Fatalf("%v: %v", kind, failure)
	}
	return body
}

// refused is do for requests that must be refused.
func (c *client) refused(code protocol.Code, kind protocol.Kind, body []byte) *protocol.Failure {
	c.t.Helper()
	_, failure := c.do(kind, body)
	if failure == nil || failure.Code != code {
		c.t.Fatalf("%v: got %v, want code %d", kind, describe(failure), code)
	}
	return failure
}

func describe(f *protocol.Failure) string {
	if f == nil {
		return "a good reply"
	}
	return "code " + strconv.Itoa(int(f.Code)) + ": " + f.Message
}

func (c *client) newHandle(bytes int) uint64 {
	c.t.Helper()
	n, err := protocol.ParseNumber(c.must(protocol.KindNew, protocol.Numbers(nil, uint64(bytes))))
	if err != nil {
		c.t.Fatal(err)
	}
	c.handle = n
	return n
}

func (c *client) stats() protocol.Stats {
	c.t.Helper()
	m, err := protocol.ParseStats(c.must(protocol.KindStats, nil))
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// sendArena sends shared memory under a number.
func (c *client) sendArena(n uint32, bytes int64, fds ...int) uint64 {
	c.t.Helper()
	c.last++
	b := frame(c.last, protocol.KindArena, (&protocol.ArenaBody{Arena: n, Bytes: bytes}).Append(nil))
	b[20] = byte(len(fds))
	c.raw(b, fds...)
	return c.last
}

// newArena shares memory under a number.
func (c *client) newArena(n uint32, bytes int64) []byte {
	c.t.Helper()
	region, err := shm.Create(bytes)
	if err != nil {
		c.t.Skipf("no shared memory: %v", err)
	}
	c.t.Cleanup(func() { region.Close() })
	if _, failure := c.expect(c.sendArena(n, int64(len(region.Bytes())), region.FD())); failure != nil {
		c.t.Fatal(failure)
	}
	return region.Bytes()
}

// exits closes nothing, and waits for the server to end with a code.
func (c *client) exits(code int) {
	c.t.Helper()
	select {
	case err := <-c.ended:
		got := ExitEnd
		if ended, ok := errors.AsType[*ExitError](err); ok {
			got = ended.Code
		}
		if got != code {
			c.t.Errorf("the server ended with %d (%v), want %d", got, err, code)
		}
	case <-time.After(patience):
		c.t.Errorf("the server did not end, want exit code %d", code)
	}
}

// softmax is a call on operands in the frames, with its data.
func softmax(dtype num.DType, rows, cols int, x []byte) []byte {
	shape := []int{rows, cols}
	return append(protocol.AppendCalls(nil, []protocol.Call{{
		Definition: "softmax.forward",
		Operands: []protocol.Operand{
			{Name: "x", Tensor: protocol.Tensor{DType: dtype, Carried: protocol.WithRequest, Shape: shape}},
			{Name: "y", Tensor: protocol.Tensor{DType: dtype, Carried: protocol.WithReply, Shape: shape}},
		},
	}}), x...)
}

// inArena is softmax on operands in an arena: y behind x, or x itself.
func inArena(dtype num.DType, rows, cols int, arena uint32, y int64) protocol.Call {
	t := protocol.Tensor{DType: dtype, Place: protocol.InArena, Arena: arena, Shape: []int{rows, cols}, Stride: cols}
	out := t
	out.Offset = y
	return protocol.Call{Definition: "softmax.forward", Operands: []protocol.Operand{{Name: "x", Tensor: t}, {Name: "y", Tensor: out}}}
}

func bytesOf(n int) []byte { return slices.Repeat([]byte{0x3c}, n) }

func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(entries)
}

func mappings(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	return strings.Count(string(text), "\n")
}
