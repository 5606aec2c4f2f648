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
	// MemoryLimit is the maximum size of all operands of a request, in bytes; 0 is
	// DefaultMemoryLimit of the device.
	MemoryLimit int64

	// MaxFrame is the maximum size of a frame in bytes; 0 is 2³²−1. The memory that a request
	// takes depends only on its header.
	MaxFrame int64
}

// DefaultMemoryLimit returns a sixth of the device's memory limit, or 1 GiB if that is unknown.
// A request takes up to five times the memory of its operands: as numbers, as tensors and as
// text.
func DefaultMemoryLimit(d device.Description) int64 {
	if d.MemoryBytes == 0 {
		return 1 << 30
	}
	return d.MemoryBytes / 6
}

// Process answers requests for one kernel. It must not be used concurrently.
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

// NewProcess returns the process of a kernel, which computes on a queue.
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

// RunOnce answers one request, which is all of r. The error is nil or an *Error: its code is
// the exit code of the process, its text the last line on standard error. The error of a
// binary request is also written to w.
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

// Serve answers frames until the end of r, and then returns nil. An error of a request is its
// response. Serve returns an *Error if it cannot go on: the device is lost, the input ends
// within a frame, or the output is closed. Every response is flushed.
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

// keptBytes is the longest response whose memory is kept for the next.
const keptBytes = 1 << 20

// serveFrame reads a payload and stores the framed response in p.reply. It returns the error
// of the request, and the error that ends the process.
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

// send writes a response and flushes it.
func send(w *bufio.Writer, reply []byte) error {
	w.Write(reply) // an error stays, and Flush returns it
	if err := w.Flush(); err != nil {
		return &Error{Code: CodeInternal, Reason: oneLine("writing the answer: " + err.Error()), Cause: err}
	}
	return nil
}

// answer appends the response to the request that the scanner reads. A panic becomes an error
// of the request.
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

// compute runs the operation on the lists and releases them.
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

// contents returns the elements of a tensor that is about to be closed: its own memory, which
// stays valid, if the host can address it.
func contents(t *tensor.Tensor) ([]byte, error) {
	if a, ok := t.Array(); ok {
		return a.Data, nil
	}
	return t.Bytes()
}
