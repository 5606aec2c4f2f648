package stdio

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"time"

	"tokitai/device"
	"tokitai/engine"
	"tokitai/tensor"
)

// Options are the limits of a Process.
type Options struct {
	// MemoryLimit is the most bytes that the operands of a request may take together; 0 is
	// DefaultMemoryLimit of the device.
	MemoryLimit int64

	// MaxFrame is the most bytes that a frame may have; 0 is 2³²−1, the most that its length
	// can say. The memory that a frame takes depends on what its header says alone.
	MaxFrame int64
}

// DefaultMemoryLimit is a sixth of the memory that the device may use, 1 GiB if that is
// unknown. A request takes up to five times what its operands do: as the numbers that were
// read, as tensors, and as text.
func DefaultMemoryLimit(d device.Description) int64 {
	if d.MemoryBytes == 0 {
		return 1 << 30
	}
	return d.MemoryBytes / 6
}

// Process answers requests of one kernel. It is for one goroutine at a time.
type Process struct {
	kernel      *kernel
	queue       *engine.Queue
	memoryLimit int64
	maxFrame    int64
	deviceName  string
	gfx         string

	scanner *scanner
	payload io.LimitedReader
	reply   []byte
}

// NewProcess makes the process of a kernel on a queue.
func NewProcess(kernel string, q *engine.Queue, o Options) (*Process, error) {
	k, err := find(kernel)
	if err != nil {
		return nil, err
	}
	if q.Device() == nil {
		return nil, refuse(CodeInternal, "%s has no queue", kernel)
	}
	description := q.Device().Describe()
	p := &Process{
		kernel: k, queue: q, memoryLimit: o.MemoryLimit, maxFrame: o.MaxFrame,
		deviceName: oneLine(description.Name), gfx: oneLine(description.Architecture), scanner: newScanner(nil),
	}
	if q.Device().Kind() == "cpu" || p.gfx == "" {
		p.gfx = q.Device().Kind()
	}
	if p.deviceName == "" {
		p.deviceName = q.Device().Name()
	}
	if p.memoryLimit == 0 {
		p.memoryLimit = DefaultMemoryLimit(description)
	}
	if p.maxFrame == 0 {
		p.maxFrame = math.MaxUint32
	}
	return p, nil
}

// RunOnce answers the one request that r is. The error is nil or an *Error, whose code is
// the exit code of the process and whose text its last line on standard error. A binary
// request has its error on w too.
func (p *Process) RunOnce(r io.Reader, w io.Writer) error {
	p.scanner.reset(r)
	reply, isBinary, refused := p.answer(p.reply[:0])
	if p.reply = reply; refused != nil {
		reply = appendError(reply[:0], refused)
	}
	if refused == nil || isBinary {
		if err := send(bufio.NewWriter(w), reply); err != nil {
			return err
		}
	}
	if refused != nil {
		return refused
	}
	return nil
}

// Serve answers frames until the end of r, which it returns nil for. Errors of requests are
// answered; the *Error it returns says why it serves no more: the device is lost, the input
// ended within a frame, or the output is closed. Every answer is flushed.
func (p *Process) Serve(r io.Reader, w io.Writer) error {
	in, out := bufio.NewReaderSize(r, scanBytes), bufio.NewWriter(w)
	for {
		var length [4]byte
		switch n, err := io.ReadFull(in, length[:]); {
		case err == io.EOF:
			return nil
		case err == io.ErrUnexpectedEOF:
			return &Error{Code: CodeLength, Reason: fmt.Sprintf("the length of a frame has %d bytes, want 4", n), Cause: err}
		case err != nil:
			return &Error{Code: CodeInternal, Reason: oneLine("reading a frame: " + err.Error()), Cause: err}
		}
		refused, err := p.serveFrame(in, binary.LittleEndian.Uint32(length[:]))
		if err != nil {
			return err
		}
		if err := send(out, p.reply); err != nil {
			return err
		}
		if refused != nil && isLost(refused) {
			return refused
		}
		if cap(p.reply) > keptBytes {
			p.reply = nil
		}
	}
}

// keptBytes is the longest answer whose memory is kept for the next.
const keptBytes = 1 << 20

// serveFrame makes p.reply the framed answer to the payload that comes next. It returns the
// error that the answer is, if it is one, and the one that ends the process.
func (p *Process) serveFrame(in io.Reader, length uint32) (*Error, error) {
	p.payload = io.LimitedReader{R: in, N: int64(length)}
	reply := append(p.reply[:0], 0, 0, 0, 0)
	var refused *Error
	if int64(length) > p.maxFrame {
		refused = refuse(p.kernel.sizeCode, "the frame has %d bytes, want at most %d", length, p.maxFrame)
	} else {
		p.scanner.reset(&p.payload)
		reply, _, refused = p.answer(reply)
	}
	if _, err := io.Copy(io.Discard, &p.payload); err != nil {
		return nil, &Error{Code: CodeInternal, Reason: oneLine("reading a frame: " + err.Error()), Cause: err}
	}
	if p.payload.N > 0 {
		return nil, &Error{Code: CodePayload, Reason: fmt.Sprintf("the frame ended %d bytes before its length of %d", p.payload.N, length), Cause: io.ErrUnexpectedEOF}
	}
	if refused == nil && int64(len(reply))-4 > math.MaxUint32 {
		refused = refuse(p.kernel.sizeCode, "the answer has %d bytes, more than a frame can have", len(reply)-4)
	}
	if refused != nil {
		reply = appendError(reply[:4], refused)
	}
	binary.LittleEndian.PutUint32(reply, uint32(len(reply)-4))
	p.reply = reply
	return refused, nil
}

func appendError(b []byte, e *Error) []byte { return append(append(b, e.Error()...), '\n') }

// send writes an answer and flushes it.
func send(w *bufio.Writer, reply []byte) error {
	w.Write(reply) // an error stays, and Flush returns it
	if err := w.Flush(); err != nil {
		return &Error{Code: CodeInternal, Reason: oneLine("writing the answer: " + err.Error()), Cause: err}
	}
	return nil
}

// answer appends the response to the request that the scanner reads. A panic on the way is
// an error like others.
func (p *Process) answer(b []byte) (reply []byte, isBinary bool, refused *Error) {
	reply = b
	defer func() {
		if r := recover(); r != nil {
			reply, refused = b, refuse(CodeInternal, "panic: %v", r)
		}
	}()
	q, f, refused := p.kernel.parse(p.scanner, p.memoryLimit)
	if refused != nil {
		return b, q.IsBinary, refused
	}
	isBinary = q.IsBinary
	r, err := p.compute(q, f)
	switch {
	case err != nil:
		return b, isBinary, failed(err)
	case isBinary:
		return r.appendBinary(b, f), isBinary, nil
	}
	return r.appendText(b, p.kernel, f), isBinary, nil
}

// compute runs the operation on the lists, of which it lets go.
func (p *Process) compute(q *Request, f *form) (*Response, error) {
	var all []*tensor.Tensor
	defer func() {
		for _, t := range all {
			t.Close()
		}
	}()
	for i := range f.lists {
		t, err := tensor.FromBytes(p.queue.Device(), f.lists[i].dtype, q.Lists[i], f.lists[i].shape...)
		if err != nil {
			return nil, err
		}
		q.Lists[i] = nil
		all = append(all, t)
	}
	in, out := all[:len(all):len(all)], all
	if !f.inPlace {
		for i := range f.results {
			t, err := tensor.New(p.queue.Device(), f.results[i].dtype, f.results[i].shape...)
			if err != nil {
				return nil, err
			}
			all = append(all, t)
		}
		out = all[len(in):]
	}
	// The first call of its kind compiles and admits the kernel.
	if err := f.run(p.queue, in, out, engine.CheckOnly()); err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := f.run(p.queue, in, out); err != nil {
		return nil, err
	}
	if err := p.queue.Wait(); err != nil {
		return nil, err
	}
	r := &Response{DeviceName: p.deviceName, GFX: p.gfx, KernelTimeMS: float64(time.Since(begin)) / float64(time.Millisecond)}
	for i := range f.results {
		values, err := contents(out[i])
		if err != nil {
			return nil, err
		}
		r.Results = append(r.Results, values)
	}
	return r, nil
}

// contents are the elements of a tensor that is about to be closed, its own memory where the
// host can address that: it stays valid.
func contents(t *tensor.Tensor) ([]byte, error) {
	if a, ok := t.Array(); ok {
		return a.Data, nil
	}
	return t.Bytes()
}
