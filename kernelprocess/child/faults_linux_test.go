package child

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/alone"
	"tokitai/internal/await"
	"tokitai/kernelprocess/protocol"
	"tokitai/num"
	"tokitai/op/all"
)

// slow is a request that runs for longer than anybody has patience, by calls that do not,
// on memory in an arena.
func slow(c *client) (body []byte, hasBegun func()) {
	const rows, cols = 1 << 12, 1 << 10
	memory := c.newArena(9, 2*2*rows*cols)
	body = protocol.AppendCalls(nil, []protocol.Call{inArena(num.F16, 16, 16, 9, 1<<20)})
	c.must(protocol.KindCall, body) // admitted now
	first := memory[2*rows*cols:][:2]
	hasBegun = func() {
		await.Until(func() bool { return first[0] != 0 || first[1] != 0 })
	}
	list := slices.Repeat([]protocol.Call{inArena(num.F16, rows, cols, 9, 2*rows*cols)}, 4000)
	return protocol.AppendCalls(nil, list), hasBegun
}

// Several requests are in flight, good and bad; each gets its own answer, in order.
func TestInFlight(t *testing.T) {
	c := connect(t, Options{})
	random := rand.New(rand.NewPCG(1, 2))
	const n = 5000
	type want struct {
		request uint64
		data    []byte
		code    protocol.Code
	}
	wanted := make(chan want, n)
	go func() {
		defer close(wanted)
		for i := range n {
			request := uint64(1000 + i*7%n*13 + i)
			w := want{request: request}
			var b []byte
			switch random.IntN(4) {
			case 0:
				w.code = protocol.CodeNoHandle
				b = frame(request, protocol.KindFree, protocol.Numbers(nil, 1<<40))
			case 1:
				w.code = protocol.CodeMalformed
				b = frame(request, protocol.KindCall, make([]byte, random.IntN(100)))
			default:
				x := make([]byte, 8)
				hot := random.IntN(4)
				binary.LittleEndian.PutUint16(x[2*hot:], 0x7bff) // so large that it alone counts
				w.data = make([]byte, 8)
				binary.LittleEndian.PutUint16(w.data[2*hot:], 0x3c00)
				b = frame(request, protocol.KindCall, softmax(num.F16, 1, 4, x))
			}
			wanted <- w
			if _, err := c.conn.Write(b); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for w := range wanted {
		body, failure := c.expect(w.request)
		if w.code != 0 {
			if failure == nil || failure.Code != w.code {
				t.Fatalf("request %d: got %v, want code %d", w.request, describe(failure), w.code)
			}
			continue
		}
		results, err := protocol.ParseResults(body)
		if failure != nil || err != nil || !bytes.Equal(results.Data, w.data) {
			t.Fatalf("request %d: got %x, %v, want %x", w.request, results.Data, describe(failure), w.data)
		}
	}
}

func TestSameRequestTwice(t *testing.T) {
	c := connect(t, Options{})
	body, _ := slow(c)
	running := c.send(protocol.KindCall, body)
	c.raw(frame(500, protocol.KindStats, nil))
	c.raw(frame(500, protocol.KindStats, nil))
	c.raw(frame(c.last+1, protocol.KindCancel, protocol.Numbers(nil, running)))
	c.expect(running)
	if _, failure := c.expect(500); failure != nil {
		t.Error(failure)
	}
	if _, failure := c.expect(500); failure == nil || failure.Code != protocol.CodeMalformed {
		t.Errorf("got %v, want code 1", describe(failure))
	}
}

// The server goes on, whatever it is sent.
func TestMalformed(t *testing.T) {
	c := connect(t, Options{})
	random := rand.New(rand.NewPCG(3, 4))
	good := softmax(num.F16, 2, 8, bytesOf(32))
	transfer := (&protocol.Transfer{Handle: 1, Offset: 2, Bytes: 3}).Append(nil)
	bodies := [][]byte{good, transfer, (&protocol.ArenaBody{Arena: 1, Bytes: 4096}).Append(nil), protocol.Numbers(nil, 1), nil}
	const n = 10_000
	errorsSeen := 0
	for range n / 100 {
		var batch []byte
		for range 100 {
			body := bytes.Clone(bodies[random.IntN(len(bodies))])
			switch {
			case random.IntN(2) == 0 && len(body) > 0:
				body = body[:random.IntN(len(body))]
			case len(body) > 0:
				for range 1 + random.IntN(3) {
					body[random.IntN(len(body))] = byte(random.Uint32())
				}
			}
			c.last++
			kinds := []protocol.Kind{protocol.KindCall, protocol.KindWrite, protocol.KindRead, protocol.KindFree, protocol.KindArena, protocol.KindDrop, protocol.KindList, protocol.KindStats, protocol.KindDefine, 77}
			batch = append(batch, frame(c.last, kinds[random.IntN(len(kinds))], body)...)
		}
		c.raw(batch)
		for i := range uint64(100) {
			if _, failure := c.expect(c.last - 99 + i); failure != nil {
				errorsSeen++
				if failure.Code == protocol.CodeInternal {
					t.Fatal(failure)
				}
			}
		}
	}
	if errorsSeen < n/2 {
		t.Errorf("%d of %d were refused", errorsSeen, n)
	}
	c.must(protocol.KindCall, good)
	if m := c.stats(); m.HeldBytes != 0 || m.Errors != uint64(errorsSeen) {
		t.Errorf("stats are %+v, want %d errors", m, errorsSeen)
	}
}

// A stream that is cut anywhere ends the server: within a frame with 21.
func TestCutEverywhere(t *testing.T) {
	greeting := frame(1, protocol.KindHello, (&protocol.Hello{Lowest: 1, Highest: 1, Client: "c"}).Append(nil))
	stream := slices.Concat(greeting, frame(2, protocol.KindCall, softmax(num.F16, 1, 4, bytesOf(8))), frame(3, protocol.KindNew, protocol.Numbers(nil, 8)),
		frame(4, protocol.KindCancel, protocol.Numbers(nil, 2)), frame(5, protocol.KindStats, nil))
	bounds := map[int]bool{0: true}
	for at := 0; at < len(stream); {
		at += protocol.HeaderBytes + int(protocol.ParseHeader(stream[at:]).Length)
		bounds[at] = true
	}
	if len(bounds) != 6 {
		t.Fatalf("%d boundaries", len(bounds))
	}
	for cut := range len(stream) + 1 {
		c := dial(t, Options{MemoryLimit: 1 << 20})
		c.raw(stream[:cut])
		c.conn.CloseWrite()
		code := ExitTruncated
		if bounds[cut] {
			code = ExitEnd
		}
		c.exits(code)
		c.conn.Close()
		<-c.cleaned
	}
}

// On pipes everything whole is answered before the end.
func TestPipes(t *testing.T) {
	greeting := frame(1, protocol.KindHello, (&protocol.Hello{Lowest: 1, Highest: 1, Client: "c"}).Append(nil))
	call := frame(2, protocol.KindCall, softmax(num.F16, 1, 4, bytesOf(8)))
	arena := frame(3, protocol.KindArena, (&protocol.ArenaBody{Arena: 1, Bytes: 4096}).Append(nil))
	for _, test := range []struct {
		stream  []byte
		replies int
		code    int
	}{
		{nil, 0, ExitEnd}, {slices.Concat(greeting, call, arena), 3, ExitEnd}, {slices.Concat(greeting, call, arena[:30]), 2, ExitTruncated},
		{slices.Concat(greeting, call[:10]), 1, ExitTruncated}, {call, 1, ExitRefused},
	} {
		var out bytes.Buffer
		err := Pipes(bytes.NewReader(test.stream), &out, Options{Device: "cpu", Operations: all.Operations})
		code := ExitEnd
		if ended, ok := err.(*ExitError); ok {
			code = ended.Code
		}
		replies, last := 0, protocol.Header{}
		for b := out.Bytes(); len(b) > 0; b = b[protocol.HeaderBytes+int(last.Length):] {
			last = protocol.ParseHeader(b)
			replies++
			if last.Request == 3 {
				if f, err := protocol.ParseFailure(b[protocol.HeaderBytes:]); err != nil || f.Code != protocol.CodeUnsupported {
					t.Errorf("ARENA on pipes: %v, %v", f, err)
				}
			}
		}
		if code != test.code || replies != test.replies {
			t.Errorf("%d bytes: %d replies and exit code %d (%v), want %d and %d", len(test.stream), replies, code, err, test.replies, test.code)
		}
	}
	// A peer that does not read to the end.
	in, toIn := io.Pipe()
	fromOut, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Pipes(in, out, Options{Device: "cpu", Operations: all.Operations}) }()
	fromOut.Close()
	go toIn.Write(slices.Concat(greeting, call))
	if err := <-ended; err == nil || err.(*ExitError).Code != ExitTruncated {
		t.Errorf("nobody reads: %v", err)
	}
}

// Lengths are not believed.
func TestLengths(t *testing.T) {
	if !alone.Process(t) {
		return
	}
	c := connect(t, Options{MaxFrame: 1 << 20, MemoryLimit: 4 << 20})
	for _, kind := range []protocol.Kind{protocol.KindCall, protocol.KindWrite, protocol.KindNew, protocol.KindCancel} {
		c.refused(protocol.CodeMalformed, kind, nil)
	}
	f := c.refused(protocol.CodeTooLong, protocol.KindCall, make([]byte, 1<<20+1))
	if f.Detail("limit") != "1048576" {
		t.Errorf("the failure is %+v", f)
	}
	c.refused(protocol.CodeMalformed, protocol.KindCall, make([]byte, 1<<20))
	c.must(protocol.KindStats, nil)

	// 2^32-1 bytes are announced and few sent.
	c = connect(t, Options{MaxFrame: 1 << 40, MemoryLimit: 1 << 41})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c.raw(append(protocol.Header{Length: 1<<32 - 1, Request: 9, Kind: protocol.KindCall}.Append(nil), make([]byte, 1<<20)...))
	c.conn.CloseWrite()
	c.exits(ExitTruncated)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 256<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
}

func TestMemoryLimit(t *testing.T) {
	const limit = 1 << 20
	c := connect(t, Options{MemoryLimit: limit})
	big := c.newHandle(700_000)
	f := c.refused(protocol.CodeOutOfMemory, protocol.KindNew, protocol.Numbers(nil, 700_000))
	if f.Detail("asked") != fmt.Sprint(700_000+handleBytes) || f.Detail("free") == "" || f.Detail("device") != "cpu" {
		t.Errorf("the failure is %+v", f)
	}
	// A frame that does not fit is thrown away.
	f = c.refused(protocol.CodeOutOfMemory, protocol.KindWrite, append((&protocol.Transfer{Handle: big, Bytes: 500_000}).Append(nil), make([]byte, 500_000)...))
	if f.Detail("asked") != "500025" || f.Detail("free") != fmt.Sprint(limit-700_000-handleBytes) {
		t.Errorf("the failure is %+v", f)
	}
	// Nor does a reply.
	c.refused(protocol.CodeOutOfMemory, protocol.KindRead, (&protocol.Transfer{Handle: big, Bytes: 600_000}).Append(nil))
	c.must(protocol.KindRead, (&protocol.Transfer{Handle: big, Bytes: 300_000}).Append(nil))
	// A call needs its frame, its tensors and its reply.
	c.refused(protocol.CodeOutOfMemory, protocol.KindCall, softmax(num.F16, 64, 1024, make([]byte, 1<<17)))
	c.must(protocol.KindFree, protocol.Numbers(nil, big))
	c.must(protocol.KindCall, softmax(num.F16, 64, 1024, make([]byte, 1<<17)))
	// Frames that wait do not make others fail: a client may send ahead.
	var sent []uint64
	go func() {
		for i := range 50 {
			c.conn.Write(frame(uint64(5000+i), protocol.KindCall, softmax(num.F16, 64, 1024, make([]byte, 1<<17))))
		}
	}()
	for i := range 50 {
		sent = append(sent, uint64(5000+i))
	}
	for _, request := range sent {
		if _, failure := c.expect(request); failure != nil {
			t.Fatal(failure)
		}
	}
	if m := c.stats(); m.HeldBytes != 0 || m.PeakBytes > limit {
		t.Errorf("stats are %+v", m)
	}
}

// Shapes are compared with the definition before memory is allocated for them.
func TestShapesBeforeMemory(t *testing.T) {
	if !alone.Process(t) {
		return
	}
	c := connect(t, Options{MemoryLimit: 1 << 50})
	operand := func(name string, carried uint8, cols int) protocol.Operand {
		return protocol.Operand{Name: name, Tensor: protocol.Tensor{DType: num.F32, Shape: []int{2, cols}, Place: protocol.InFrame, Carried: carried}}
	}
	for _, cols := range []int{134217733, 671088645} {
		call := protocol.Call{Definition: "softmax.forward", Operands: []protocol.Operand{operand("x", protocol.WithRequest, 3), operand("y", protocol.WithReply, cols)}}
		f := c.refused(protocol.CodeBadArgument, protocol.KindCall, append(protocol.AppendCalls(nil, []protocol.Call{call}), make([]byte, 24)...))
		if f.Detail("operand") != "y" || !strings.Contains(f.Message, "[2 3] like x") {
			t.Errorf("the failure is %+v", f)
		}
	}
	if m := c.stats(); m.HeldBytes != 0 || m.PeakBytes > 1<<20 {
		t.Errorf("stats are %+v", m)
	}
	var m runtime.MemStats
	if runtime.ReadMemStats(&m); m.TotalAlloc > 256<<20 {
		t.Errorf("%d bytes were allocated", m.TotalAlloc)
	}
}

// Handles count with all the memory that they take.
func TestManyHandles(t *testing.T) {
	if !alone.Process(t) {
		return
	}
	const limit = 8 << 20
	c := connect(t, Options{MemoryLimit: limit})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := 0
	for ; ; n++ {
		if _, failure := c.do(protocol.KindNew, protocol.Numbers(nil, 1)); failure != nil {
			if failure.Code != protocol.CodeOutOfMemory {
				t.Fatal(failure)
			}
			break
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > limit || n < 1000 {
		t.Errorf("%d handles of a byte take %d bytes, want at most %d", n, grown, limit)
	}
}

// A client that never reads its replies stops being read; its end is noticed.
func TestNeverReads(t *testing.T) {
	if !alone.Process(t) {
		return
	}
	t.Run("CALL", func(t *testing.T) { neverReads(t, protocol.KindCall, softmax(num.F16, 64, 1024, make([]byte, 1<<17))) })
	t.Run("LIST", func(t *testing.T) { neverReads(t, protocol.KindList, nil) }) // short, with a long reply
}

func neverReads(t *testing.T, kind protocol.Kind, body []byte) {
	c := connect(t, Options{MemoryLimit: 64 << 20})
	c.must(kind, body)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c.conn.SetWriteDeadline(time.Now().Add(time.Second))
	code := -1
	for i := range 100_000 {
		if n, err := c.conn.Write(frame(uint64(1000+i), kind, body)); err != nil {
			if code = ExitTruncated; n == 0 {
				code = ExitEnd
			}
			break
		}
	}
	if code < 0 {
		t.Fatal("everything was read")
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 100<<20 {
		t.Errorf("%d bytes are held for a client that does not read", grown)
	}
	c.conn.Close()
	c.exits(code)
}

func TestCancel(t *testing.T) {
	c := connect(t, Options{})
	body, hasBegun := slow(c)
	running := c.send(protocol.KindCall, body)
	waiting := c.send(protocol.KindCall, body)
	after := c.send(protocol.KindStats, nil)
	hasBegun()
	c.last++
	c.raw(frame(c.last, protocol.KindCancel, protocol.Numbers(nil, waiting)))
	c.last++
	c.raw(frame(c.last, protocol.KindCancel, protocol.Numbers(nil, 1<<40))) // nobody's
	c.last++
	c.raw(frame(c.last, protocol.KindCancel, protocol.Numbers(nil, running)))
	_, failure := c.expect(running)
	if failure == nil || failure.Code != protocol.CodeCanceled || failure.Detail("call") == "" {
		t.Errorf("a call that ran: %v %+v", describe(failure), failure)
	}
	if _, failure := c.expect(waiting); failure == nil || failure.Code != protocol.CodeCanceled || failure.Detail("call") != "" {
		t.Errorf("a call that waited: %v %+v", describe(failure), failure)
	}
	if _, failure := c.expect(after); failure != nil {
		t.Error(failure)
	}
	c.must(protocol.KindCall, softmax(num.F16, 2, 8, bytesOf(32)))
}

// The end of the connection ends the server in the middle of a kernel.
func TestEndWhileRunning(t *testing.T) {
	c := connect(t, Options{})
	body, hasBegun := slow(c)
	c.send(protocol.KindCall, body)
	hasBegun()
	c.conn.CloseWrite()
	c.exits(ExitEnd)
}

// It is noticed too when so much waits that nothing more is read.
func TestEndWhileFull(t *testing.T) {
	c := connect(t, Options{})
	body, _ := slow(c)
	c.send(protocol.KindCall, body)
	for range maxWaiting + 1 {
		c.send(protocol.KindStats, nil)
	}
	c.raw(frame(c.last+1, protocol.KindStats, nil)[:5])
	c.conn.Close()
	c.exits(ExitTruncated)
}

// A panic is the answer to its request, and a device that is lost ends the process.
func TestPanicAndLost(t *testing.T) {
	var mode atomic.Value
	mode.Store("")
	c := connect(t, Options{beforeRun: func() error {
		switch mode.Load() {
		case "panic":
			panic("told to")
		case "lost":
			return &device.LostError{Device: "cpu"}
		case "inadmissible":
			return &engine.InadmissibleError{Lowering: "l", Device: "cpu", Test: "t", Reason: "r"}
		}
		return nil
	}})
	body := softmax(num.F16, 2, 8, bytesOf(32))
	c.must(protocol.KindCall, body)
	mode.Store("panic")
	if f := c.refused(protocol.CodeInternal, protocol.KindCall, body); !strings.Contains(f.Message, "told to") {
		t.Errorf("the failure is %v", f)
	}
	mode.Store("inadmissible")
	if f := c.refused(protocol.CodeInadmissible, protocol.KindCall, body); f.Detail("test") != "t" {
		t.Errorf("the failure is %+v", f)
	}
	mode.Store("")
	c.must(protocol.KindCall, body)
	if m := c.stats(); m.HeldBytes != 0 {
		t.Errorf("stats are %+v", m)
	}
	mode.Store("lost")
	next := c.send(protocol.KindCall, body)
	if _, f := c.expect(next); f == nil || f.Code != protocol.CodeLost || f.Detail("device") != "cpu" {
		t.Errorf("lost: %v", describe(f))
	}
	c.exits(ExitDevice)
}

// Indices that change after their check do not reach a kernel unchecked.
func TestIndicesChangeMeanwhile(t *testing.T) {
	if isRaceEnabled {
		t.Skip("it is a race, which the detector finds")
	}
	var memory []byte
	change := func() error {
		binary.LittleEndian.PutUint32(memory, 77)
		return nil
	}
	c := connect(t, Options{beforeRun: change})
	memory = c.newArena(1, 4096)
	d := all.Find("embedding.forward").Definitions[0]
	call := protocol.Call{Definition: d.Name}
	for i := range d.Operands {
		x := protocol.Tensor{DType: num.F32, Place: protocol.InArena, Arena: 1, Shape: []int{3, 4}, Stride: 4, Offset: int64(1024 * (i + 1))}
		if d.Operands[i].IsIndex {
			x.DType, x.Shape, x.Stride, x.Offset = num.I32, []int{3}, 3, 0
		}
		call.Operands = append(call.Operands, protocol.Operand{Name: d.Operands[i].Name, Tensor: x})
	}
	f := c.refused(protocol.CodeBadArgument, protocol.KindCall, protocol.AppendCalls(nil, []protocol.Call{call}))
	if f.Detail("value") != "77" || f.Detail("call") != "0" {
		t.Errorf("the failure is %+v", f)
	}
}

func FuzzServe(f *testing.F) {
	f.Add(frame(2, protocol.KindCall, softmax(num.F16, 2, 8, bytesOf(32))))
	f.Add(frame(2, protocol.KindNew, protocol.Numbers(nil, 100)))
	f.Add(slices.Concat(frame(2, protocol.KindNew, protocol.Numbers(nil, 100)), frame(3, protocol.KindRead, (&protocol.Transfer{Handle: 1, Bytes: 100}).Append(nil)),
		frame(4, protocol.KindFree, protocol.Numbers(nil, 1))))
	f.Add(frame(2, protocol.KindArena, (&protocol.ArenaBody{Arena: 1, Bytes: 4096}).Append(nil)))
	f.Add(frame(2, protocol.KindList, nil))
	f.Add(slices.Concat(frame(2, protocol.KindDefine, []byte(rmsnorm.Text())), frame(3, protocol.KindCall, normCall(identityOf(rmsnorm))), frame(4, protocol.KindList, nil)))
	f.Add(frame(2, protocol.KindDefine, []byte("tokitai-def 1\nrowwise twice\nin x[R,C]\nout y[R,C] as x\ny <- (x + x\n")))
	f.Add(protocol.Header{Length: 1<<48 + 1, Request: 1, Kind: protocol.KindCall}.Append(nil))
	f.Fuzz(func(t *testing.T, stream []byte) {
		c := connect(t, Options{MaxFrame: 1 << 16, MemoryLimit: 8 << 20})
		go func() {
			c.conn.Write(stream)
			c.conn.CloseWrite()
		}()
		for {
			var head [protocol.HeaderBytes]byte
			if _, err := io.ReadFull(c.in, head[:]); err != nil {
				break
			}
			h := protocol.ParseHeader(head[:])
			body := make([]byte, h.Length)
			if _, err := io.ReadFull(c.in, body); err != nil {
				break
			}
			if h.Kind == protocol.KindError {
				if failure, err := protocol.ParseFailure(body); err != nil || failure.Code == protocol.CodeInternal {
					t.Fatal(failure, err)
				}
			}
		}
		select {
		case <-c.ended:
		case <-time.After(patience):
			t.Fatal("the server hangs")
		}
	})
}
