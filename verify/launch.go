package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/tensor"
)

// errHung is a launch that did not return in time. Its goroutine cannot be stopped, so
// that its device is not used again.
var errHung = errors.New("it did not return in time")

// bench is a device with a kernel on trial.
type bench struct {
	ctx    context.Context // when it ends, nothing is launched any more
	device engine.Device
	queue  *engine.Queue
	trial  *engine.Trial
	isHung atomic.Bool
	users  atomic.Int32 // the last one to close it closes the device

	preparing sync.Mutex // a Trial prepares one call at a time
}

// newBench opens a device of the target's kind. workers is 0 for the device's own
// number; other numbers are for devices that have workers, that is, the CPU.
func (t *Target) newBench(ctx context.Context, o *Options, workers int) (*bench, error) {
	var dev engine.Device
	var err error
	if workers > 0 {
		dev, err = cpu.New(cpu.Options{Workers: workers})
	} else {
		dev, err = o.open()
	}
	if err != nil {
		return nil, err
	}
	b := &bench{ctx: ctx, device: dev}
	b.users.Store(1)
	if b.queue, err = engine.NewQueue(dev); err == nil {
		b.trial, err = engine.NewTrial(b.queue, t.Definition, t.Lowering)
	}
	if err != nil {
		dev.Close()
		return nil, err
	}
	return b, nil
}

func (b *bench) close() {
	if b != nil && b.users.Add(-1) == 0 && !b.isHung.Load() { // a kernel that hangs still uses its device
		b.queue.Close()
		b.device.Close()
	}
}

// loaded is a case in memory: what the kernel is given, and where it is put.
type loaded struct {
	target *Target
	c      *Case
	params []float64
	blocks []*block
	taken  []int // by operand: the input whose place it takes, or -1
}

// load makes the inputs of a case.
func (t *Target) load(c *Case, seed uint64) *loaded {
	l := t.newLoaded(c)
	t.fill(c, seed, l.inputs())
	return l
}

// newLoaded lays a case out without values.
func (t *Target) newLoaded(c *Case) *loaded {
	d := t.Definition
	l := &loaded{target: t, c: c, params: t.params(c)}
	sizes := c.sizes()
	for i := range d.Operands {
		gap, offset := c.layout(i)
		l.blocks = append(l.blocks, newBlock(&d.Operands[i], c.Formats[i], sizes, gap, offset))
		l.taken = append(l.taken, -1)
	}
	if out, in, ok := strings.Cut(c.InPlace, "="); ok {
		l.taken[d.Operand(out)] = d.Operand(in)
	}
	return l
}

// isGrid reports whether the values lie on a grid. A caller's data are of no pattern.
func (l *loaded) isGrid() bool {
	p := l.target.pattern(l.c.Pattern)
	return p != nil && p.isGrid
}

// inputs are the operands as they lie in their blocks.
func (l *loaded) inputs() []num.Array {
	arrays := make([]num.Array, len(l.blocks))
	for i, b := range l.blocks {
		arrays[i] = b.array
	}
	return arrays
}

// outcome is what came out of a run: every operand's block, read back.
type outcome struct {
	operands []num.Array
	seconds  float64
	breach   *finding // of structure: a guard disturbed, an input changed
}

// run launches the kernel once, in memory of its own, and reads everything back.
func (b *bench) run(l *loaded, deadline time.Duration, poison int) (*outcome, error) {
	p, err := b.place(l)
	if err != nil {
		return nil, err
	}
	defer p.close()
	return p.run(l, deadline, poison)
}

// placed is memory on a device for the operands of a case, bound to a kernel.
type placed struct {
	bench    *bench
	wholes   []*tensor.Tensor // with guards; nil for what takes another's place
	prepared *engine.Prepared
}

// place allocates, checks the call, and compiles.
func (b *bench) place(l *loaded) (*placed, error) {
	p := &placed{bench: b, wholes: make([]*tensor.Tensor, len(l.blocks))}
	tensors := make([]*tensor.Tensor, len(l.blocks))
	var err error
	for i, block := range l.blocks {
		if l.taken[i] >= 0 {
			continue
		}
		if p.wholes[i], tensors[i], err = block.upload(b.device); err != nil {
			p.close()
			return nil, err
		}
	}
	for i, in := range l.taken {
		if in >= 0 {
			tensors[i] = tensors[in]
		}
	}
	if p.prepared, err = b.prepare(tensors, l.params); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *placed) close() {
	for _, w := range p.wholes {
		if !p.bench.isHung.Load() {
			w.Close()
		}
	}
}

// run writes the inputs of a case of the same layout, poisons the outputs, launches the
// kernel, and reads everything back.
func (p *placed) run(l *loaded, deadline time.Duration, poison int) (*outcome, error) {
	if err := p.bench.ctx.Err(); err != nil {
		return nil, err
	}
	d := l.target.Definition
	for i, block := range l.blocks {
		if l.taken[i] >= 0 {
			continue
		}
		if o := &d.Operands[i]; o.IsOut && !o.IsIn {
			block.poison(poison)
		}
		if err := p.wholes[i].SetBytes(block.image); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	if err := p.bench.launch(p.prepared, deadline); err != nil {
		return nil, err
	}
	out := &outcome{seconds: time.Since(began).Seconds(), operands: make([]num.Array, len(l.blocks))}
	for i, block := range l.blocks {
		if l.taken[i] >= 0 {
			continue
		}
		raw, err := p.wholes[i].Bytes()
		if err != nil {
			return nil, err
		}
		out.operands[i] = block.array
		out.operands[i].Data = raw[block.offset*block.array.DType.Size():]
		if text := l.breachIn(i, raw); text != "" && out.breach == nil {
			out.breach = &finding{Tier: evidence.Structure, Operand: i, Row: -1, Message: text}
		}
	}
	for i, in := range l.taken {
		if in >= 0 {
			out.operands[i] = out.operands[in]
		}
	}
	return out, nil
}

// prepare checks and compiles; a lowering that panics while it classifies shapes is
// an error like any other.
func (b *bench) prepare(tensors []*tensor.Tensor, params []float64) (p *engine.Prepared, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it panicked before its launch: %v", r)
		}
	}()
	b.preparing.Lock()
	defer b.preparing.Unlock()
	return b.trial.Prepare(tensors, params)
}

// launch runs a kernel under a deadline.
func (b *bench) launch(p *engine.Prepared, deadline time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- p.Launch() }()
	timer := time.NewTimer(deadline)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		b.isHung.Store(true)
		return fmt.Errorf("%w: %v", errHung, deadline)
	}
}

// breachIn compares what was read back of an operand with what was uploaded, outside
// the elements that the kernel may write.
func (l *loaded) breachIn(i int, raw []byte) string {
	d, block := l.target.Definition, l.blocks[i]
	o, a, size := &d.Operands[i], block.array, block.array.DType.Size()
	isWritten := o.IsOut
	for _, in := range l.taken {
		isWritten = isWritten || in == i
	}
	begin, end := block.offset*size, (block.offset+a.Rows*a.Stride)*size
	if !bytes.Equal(raw[:begin], block.image[:begin]) || !bytes.Equal(raw[end:], block.image[end:]) {
		return "it writes outside " + o.Name
	}
	if !isWritten {
		if !bytes.Equal(raw, block.image) {
			return "it writes to its input " + o.Name
		}
		return ""
	}
	for r := range a.Rows {
		from, to := begin+(r*a.Stride+a.Cols)*size, begin+(r+1)*a.Stride*size
		if !bytes.Equal(raw[from:to], block.image[from:to]) {
			return "it writes between the rows of " + o.Name
		}
	}
	return ""
}
