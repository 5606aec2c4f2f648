package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/tensor"
	"tokitai/trial"
	"tokitai/verify/cases"
)

// bench is a device with the kernel under test.
type bench struct {
	ctx    context.Context // when it ends, nothing is launched any more
	device engine.Device
	queue  *engine.Queue
	trial  *engine.Trial
	isHung atomic.Bool
	users  atomic.Int32 // the last one to close it closes the device

	launches *atomic.Int64 // so far, of this and of the benches that check its kernel

	preparing sync.Mutex // a Trial prepares one call at a time
	isFresh   bool       // kernels in processes share none with others
}

// newBench opens a device of the target's kind. The number of workers is for the CPU; 0 keeps the
// device's own.
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
	t.architecture.get(func() string { return dev.Describe().Architecture })
	b := &bench{ctx: ctx, device: dev, launches: new(atomic.Int64)}
	b.users.Store(1)
	if b.queue, err = engine.NewQueue(dev); err == nil {
		b.trial, err = engine.NewTrial(b.queue, t.Definition, restricted(t.Lowering, o.Restrict))
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

// loaded is a case in memory, as it is given to the kernel.
type loaded struct {
	target   *Target
	c        *cases.Case
	seed     uint64
	around   around
	params   []float64
	operands *trial.Operands
	question *question
}

// load returns a case with its inputs.
func (t *Target) load(c *cases.Case, seed uint64) *loaded {
	l := t.newLoaded(c, seed)
	t.Cases().Fill(c, seed, l.inputs())
	return l
}

// newLoaded lays a case out without values.
func (t *Target) newLoaded(c *cases.Case, seed uint64) *loaded {
	d, around := t.Definition, t.surroundings(c, seed)
	l := &loaded{target: t, c: c, seed: seed, around: around, params: t.Cases().Params(c), operands: trial.New(d, c.Formats, c.Lengths(), func(i int) trial.Layout {
		return around.of(t.layout(c, i), i)
	})}
	if out, in, ok := strings.Cut(c.InPlace, "="); ok {
		l.operands.Replace(d.Operand(out), d.Operand(in))
	}
	return l
}

// as returns the same values laid out as another case of the same sizes and formats says.
func (l *loaded) as(c *cases.Case) *loaded {
	m := l.target.newLoaded(c, l.seed)
	for i, o := range l.target.Definition.Operands {
		if o.IsIn {
			trial.Copy(m.array(i), l.array(i))
		}
	}
	return m
}

// other returns values of another seed, laid out alike.
func (l *loaded) other(seed int) *loaded {
	m := l.target.newLoaded(l.c, l.seed)
	l.target.Cases().Fill(l.c, l.seed+uint64(seed), m.inputs())
	return m
}

// isGrid reports whether the values are meant as a grid. A caller's own data have no pattern.
func (l *loaded) isGrid() bool {
	p := l.target.Cases().Pattern(l.c.Pattern)
	return p != nil && p.IsGrid
}

// inputs returns the operands as they are before a run.
func (l *loaded) inputs() []num.Array { return l.operands.Arrays() }

// array returns operand i as it is before a run.
func (l *loaded) array(i int) num.Array { return l.operands.Array(i) }

// outcome holds the results of a run, in memory that the kernel cannot reach.
type outcome struct {
	after    *trial.Operands
	operands []num.Array
	seconds  float64
	breach   *finding       // of structure: a guard disturbed, an input changed
	choice   *engine.Choice // of a library; nil if the kernel does not choose
	err      error          // of the launch

	hashed once[string]
}

// hash returns the hash of the outputs, as in evidence.
func (o *outcome) hash(d *def.Definition) string {
	return o.hashed.get(func() string { return trial.EvidenceOutputs(d, o.operands) })
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
	memory   *trial.Placed
	prepared *engine.Prepared
}

// place allocates memory, checks the call and compiles the kernel.
func (b *bench) place(l *loaded) (*placed, error) {
	if err := b.hasRoom(l); err != nil {
		return nil, l.tooFar(err)
	}
	memory, err := l.operands.Place(b.device)
	switch {
	case err != nil && l.c.Far > 0: // needs much memory, which is not the kernel's fault
		return nil, l.tooFar(err)
	case err != nil:
		return nil, err
	}
	return b.bind(l, memory)
}

// bind checks the call on a case's memory and compiles the kernel. It frees the memory if that
// fails.
func (b *bench) bind(l *loaded, memory *trial.Placed) (*placed, error) {
	p, err := (&placed{bench: b, memory: memory}).with(l.params)
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// with returns the same memory, bound to the kernel with other parameters. The result must not be
// closed.
func (p *placed) with(params []float64) (*placed, error) {
	q := *p
	tensors, err := p.memory.Tensors()
	if err == nil {
		q.prepared, err = p.bench.prepare(tensors, params)
	}
	return &q, err
}

// close frees the memory, unless a kernel that hangs still uses it.
func (p *placed) close() {
	if !p.bench.isHung.Load() {
		p.memory.Close()
	}
}

// run poisons the outputs of a case of the same layout, writes it to the device, launches
// the kernel, and reads everything back.
func (p *placed) run(l *loaded, deadline time.Duration, poison int) (*outcome, error) {
	out, err := p.runBy((*engine.Prepared).Launch, l, deadline, poison)
	if err == nil && out.err != nil {
		return nil, out.err
	}
	return out, err
}

// runBy is run with a launch of the caller's, whose error is part of the outcome unless the
// kernel hangs.
func (p *placed) runBy(launch func(*engine.Prepared) error, l *loaded, deadline time.Duration, poison int) (*outcome, error) {
	if err := p.bench.ctx.Err(); err != nil {
		return nil, err
	}
	l.operands.PoisonDrawn(l.around.key, poison)
	if err := p.memory.Write(l.operands); err != nil {
		return nil, err
	}
	return p.finish(launch, l, deadline)
}

// finish launches the kernel on the memory as it is, and reads everything back.
func (p *placed) finish(launch func(*engine.Prepared) error, l *loaded, deadline time.Duration) (*outcome, error) {
	p.bench.launches.Add(1)
	began := time.Now()
	launched := p.bench.launch(func() error { return launch(p.prepared) }, deadline)
	if errors.Is(launched, engine.ErrHung) {
		return nil, launched
	}
	launched = l.meaning(launched)
	seconds := time.Since(began).Seconds()
	after, err := p.memory.Read()
	if err != nil {
		return nil, errors.Join(launched, err)
	}
	out := &outcome{after: after, operands: after.Arrays(), seconds: seconds, err: launched}
	if out.choice, err = p.prepared.Choice(); err != nil {
		return nil, err
	}
	if b := after.Breach(l.operands); b != nil {
		out.breach = &finding{Tier: evidence.Structure, Operand: b.Operand, Row: -1, Message: b.String()}
	}
	return out, nil
}

// prepare checks the call and compiles the kernel. A panic of the lowering is returned as an
// error.
func (b *bench) prepare(tensors []*tensor.Tensor, params []float64) (p *engine.Prepared, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it panicked before its launch: %v", r)
		}
	}()
	b.preparing.Lock()
	defer b.preparing.Unlock()
	if p, err = b.trial.Prepare(tensors, params); err == nil && b.isFresh {
		b.trial.Isolate()
	}
	return p, err
}

// launch runs a kernel under a deadline. The goroutine of one that does not return in time
// cannot be stopped, so the device is not used again.
func (b *bench) launch(launch func() error, deadline time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- launch() }()
	timer := time.NewTimer(deadline)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		b.isHung.Store(true)
		return fmt.Errorf("%w: %v", engine.ErrHung, deadline)
	}
}

// restricted returns a lowering that takes allowed shapes alone.
func restricted(l *engine.Lowering, list Restrictions) *engine.Lowering {
	if len(list) == 0 {
		return l
	}
	narrowed, suits := *l, l.Suits
	narrowed.Suits = func(dev device.Device, d *def.Definition, c *lower.Call) error {
		for _, letter := range d.Sizes() {
			if n := c.Size(d, letter); n > 0 && !list.Allows(letter, n) {
				return fmt.Errorf("%s is %d, and the kernel is declared for %s", letter, n, list)
			}
		}
		if suits != nil {
			return suits(dev, d, c)
		}
		return nil
	}
	return &narrowed
}
