// Package bench measures the speed of operations as a share of the speed of a memory copy
// in the same run: machines differ and are shared, so ratios within a run say more than
// times.
//
// [Plan.Cases] lists the cases of an operation, [Meter.Measure] measures one. A result
// that does not have the reference's bits is an error, before and after it is timed, and so
// is a write outside of the outputs. The package measures the operations that it is given;
// it names none.
package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/tensor"
	"tokitai/trial"
)

// Options configures NewMeter. The zero value is the default.
type Options struct {
	CopyBytes   int           // that one copy reads, and writes; 0 is 64 MiB, on a GPU 1 GiB: more than caches hold
	Repetitions int           // at least; 0 is 5
	Time        time.Duration // at least, in timed calls, or five times that with the copies between; 0 is 0.2 s
}

// Meter measures on one queue. It is not safe for concurrent use.
type Meter struct {
	queue   *engine.Queue
	options Options
	track   track
	copies  []float64 // GB/s of every copy of CopyBytes so far
}

// NewMeter returns a Meter for a queue. It measures the copy for the first time.
func NewMeter(q *engine.Queue, o Options) (*Meter, error) {
	_, isHost := q.Device().(*cpu.Device)
	if o.CopyBytes == 0 {
		o.CopyBytes = 64 << 20
		if !isHost {
			o.CopyBytes = 1 << 30
		}
	}
	if o.Repetitions == 0 {
		o.Repetitions = 5
	}
	if o.Time == 0 {
		o.Time = 200 * time.Millisecond
	}
	t, err := newTrack(q, o.CopyBytes)
	if err != nil {
		return nil, err
	}
	m := &Meter{queue: q, options: o, track: t}
	for range o.Repetitions + 1 {
		if _, err := m.timeCopy(2 * int64(o.CopyBytes)); err != nil {
			m.Close()
			return nil, err
		}
	}
	m.copies = m.copies[1:] // the first one also got the memory
	return m, nil
}

// Close frees the memory of the copies. A nil Meter may be closed.
func (m *Meter) Close() {
	if m != nil {
		m.track.close()
	}
}

// Copies summarises the copies of a run.
type Copies struct {
	Bytes               int64   // read and written by one copy
	Count               int     // of copies
	Median, Least, Most float64 // GB/s
}

// Copies returns a summary of the copies so far. If they differ much, other work disturbs
// the machine.
func (m *Meter) Copies() Copies {
	return Copies{
		Bytes: 2 * int64(m.options.CopyBytes), Count: len(m.copies),
		Median: median(m.copies), Least: slices.Min(m.copies), Most: slices.Max(m.copies),
	}
}

// timeCopy returns the speed of a copy to compare with work that moves that many bytes.
func (m *Meter) timeCopy(bytes int64) (gbps float64, err error) {
	work, moves, err := m.track.copying(bytes)
	if err != nil {
		return 0, err
	}
	seconds, err := m.track.time(work, 1)
	gbps = rate(float64(moves), seconds) * 1e-9
	if moves == 2*int64(m.options.CopyBytes) {
		m.copies = append(m.copies, gbps)
	}
	return gbps, err
}

// Result is the measurement of a case.
type Result struct {
	Case        *Case
	Seconds     float64 // the median of the repetitions
	Repetitions int
	Bytes       int64    // the fewest that must move
	FLOPs       float64  // of a contraction; else 0
	CopyGBps    float64  // the median of the copies between the repetitions
	Library     *Library // beside the case; nil if there is none

	// Of a case with several tensors, the medians of one call on all and of the time in
	// which the host makes the calls on each; else 0. On a CPU, that is the time of the calls.
	OneSeconds, HostSeconds float64
}

// OfOne returns the speed of a case with several tensors as a share of that of one call.
func (r *Result) OfOne() float64 { return r.OneSeconds / r.Seconds }

// GBps returns the least traffic divided by the time.
func (r *Result) GBps() float64 { return rate(float64(r.Bytes), r.Seconds) * 1e-9 }

// TFLOPS returns the speed of a contraction; 0 for everything else.
func (r *Result) TFLOPS() float64 { return rate(r.FLOPs, r.Seconds) * 1e-12 }

// Share returns the speed as a share of the copy's.
func (r *Result) Share() float64 { return r.GBps() / r.CopyGBps }

// rate returns an amount per second. Clocks have steps: a time of zero counts as a
// nanosecond.
func rate(amount, seconds float64) float64 { return amount / max(seconds, 1e-9) }

// WrongError reports a kernel that does not give the reference's bits, or writes outside of
// its outputs.
type WrongError struct {
	Case   *Case
	When   string // before or after timing
	Reason string
}

func (e *WrongError) Error() string {
	return fmt.Sprintf("%v: wrong %s timing: %s", e.Case, e.When, e.Reason)
}

// Measure checks a case, times it, and checks it again. It returns a WrongError, an
// engine.InadmissibleError, or the context's error.
func (m *Meter) Measure(ctx context.Context, c *Case) (*Result, error) {
	s, err := m.set(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", c, err)
	}
	defer s.close()
	if err := s.checkCall("before"); err != nil {
		return nil, err
	}
	r := &Result{Case: c, Bytes: s.bytes, FLOPs: c.flops()}
	library := m.newRival(ctx, s)
	seconds, isOurs, err := m.time(s, r, library)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", c, err)
	}
	if isOurs {
		if err := s.check("after"); err != nil {
			return nil, err
		}
	}
	r.Library = library.finish(seconds)
	if err := s.checkCall("after"); err != nil { // a kernel that has come to write nothing leaves old results
		return nil, err
	}
	return r, nil
}

// time alternates copies, calls and those of a library, if there is one: the copy before a
// call measures how fast the machine is at that time, and the library goes first in every
// second repetition. It returns the times of the calls, and whether the outputs are those
// of a call, not the library's. A call does not start after an interrupt.
func (m *Meter) time(s *setting, r *Result, library *rival) (seconds []float64, isOurs bool, err error) {
	runtime.GC() // rather now than later
	var copies, ones, hosts []float64
	isBeside := func() bool { return library != nil && library.Err == nil }
	inCalls, start := 0.0, time.Now()
	isEnough := func() bool {
		least := m.options.Repetitions
		if isBeside() {
			least = max(least, libraryRepetitions)
		}
		return len(seconds) >= least && (inCalls >= m.options.Time.Seconds() || time.Since(start) >= 5*m.options.Time)
	}
	for isWarm := false; !isEnough(); isWarm = true {
		gbps, err := m.timeCopy(s.bytes)
		if err != nil {
			return nil, false, err
		}
		var ours, theirs float64
		turns := []func() error{
			func() (err error) { ours, err = s.take(); isOurs = true; return err },
			func() (err error) {
				if isBeside() {
					theirs, err = library.take()
					isOurs = false
				}
				return err
			},
		}
		if len(seconds)%2 == 1 {
			slices.Reverse(turns)
		}
		var one float64
		if s.parts != nil {
			if one, err = s.takeOne(); err != nil {
				return nil, false, err
			}
		}
		for _, take := range turns {
			if err := take(); err != nil {
				return nil, false, err
			}
		}
		if isWarm {
			seconds, copies, inCalls = append(seconds, ours), append(copies, gbps), inCalls+ours
			if library != nil {
				library.seconds = append(library.seconds, theirs)
			}
			ones, hosts = append(ones, one), append(hosts, s.hostSeconds)
		}
	}
	r.Seconds, r.Repetitions, r.CopyGBps = median(seconds), len(seconds), median(copies)
	r.OneSeconds, r.HostSeconds = median(ones), median(hosts)
	return seconds, isOurs, nil
}

// setting is a case with its operands on the device, between guards.
type setting struct {
	c        *Case
	queue    *engine.Queue
	track    track
	memory   *trial.Placed
	tensors  []*tensor.Tensor
	operands *trial.Operands // as they are before a call
	before   []device.Buffer // by operand: a copy of what a call updates in place
	sample   *Sample
	bytes    int64

	parts       [][]*tensor.Tensor // of a case with several tensors: the operands of each
	hostSeconds float64            // in which the host made the last calls on them
}

// set generates the operands and computes the answer.
func (m *Meter) set(ctx context.Context, c *Case) (s *setting, err error) {
	d := c.Data.Definition
	s = &setting{c: c, track: m.track, queue: m.queue.With(engine.Using(c.Lowering)).WithContext(ctx), before: make([]device.Buffer, len(d.Operands))}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	// The device's memory first: it checks its limit.
	if s.memory, err = trial.Allocate(m.queue.Device(), d, c.DTypes, c.Data.Sizes, nil); err != nil {
		return s, err
	}
	if s.tensors, err = s.memory.Tensors(); err != nil {
		return s, err
	}
	for i := range d.Operands {
		if o := &d.Operands[i]; o.IsIn && o.IsOut {
			if s.before[i], err = m.queue.Device().Alloc(s.tensors[i].Buffer().Bytes()); err != nil {
				return s, fmt.Errorf("operand %s: %w", o.Name, err)
			}
		}
	}
	operands := trial.New(d, c.DTypes, c.Data.Sizes, nil)
	s.operands = operands
	for i := range d.Operands {
		o := &d.Operands[i]
		if err := ctx.Err(); err != nil {
			return s, err
		}
		if !o.IsIn {
			continue
		}
		Fill(operands.Array(i), o, c.Data)
		if err := s.memory.WriteOperand(operands, i); err != nil {
			return s, err
		}
		if o.IsOut {
			memory, _ := operands.Memory(i)
			if err := s.before[i].CopyIn(0, memory); err != nil {
				return s, err
			}
		}
	}
	s.bytes = Traffic(d, operands.Arrays())
	if c.Tensors > 0 {
		if s.parts, err = parts(d, s.tensors, c.Tensors); err != nil {
			return s, err
		}
		if !canSample(d) {
			s.sample, err = newPartsSample(ctx, c, operands)
			return s, err
		}
	}
	accum := c.Lowering.Promise.AccumOf(m.queue.Device().Describe().Architecture, d, c.DTypes, func(letter string) int { return c.Data.Sizes[letter] })
	s.sample, err = NewSample(ctx, d, operands.Arrays(), c.Data.Params, accum)
	return s, err
}

// Fill generates an operand in blocks of rows, concurrently. Indices that data does not have are uniform, so that
// no cache and no predictor learns them; groups are of equal size.
func Fill(a num.Array, o *def.Operand, data op.Data) { fillFrom(a, o, data, 0) }

// fillFrom is Fill with values of another seed, unless it is 0.
func fillFrom(a num.Array, o *def.Operand, data op.Data, from uint64) {
	element := data.Values[o.Name]
	if element == nil {
		element = op.Normal
	}
	switch {
	case o.IsOffsets:
		trial.DivideEqually(a, data.Sizes[o.Bound])
		return
	case o.IsLengths: // all that there is room for
		trial.FillBits(a, func(int, int) uint32 { return uint32(o.LimitIn(data.Sizes) - 1) })
		return
	case o.Lengths != "": // each page once, in no order, as long as there are any
		pages := shuffled(o.LimitIn(data.Sizes))
		trial.FillBits(a, func(r, c int) uint32 { return uint32(pages[(r*a.Cols+c)%len(pages)]) })
		return
	}
	index := data.Index[o.Name]
	if index == nil {
		index = func(g *gen.Generator, _, bound int) int { return g.Below(bound) }
	}
	const blockElements = 1 << 16
	rows := max(1, blockElements/a.Cols)
	seed := gen.New(data.Definition.Name+"/"+o.Name).Next() ^ from
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	var blocks sync.WaitGroup
	for first := 0; first < a.Rows; first += rows {
		limit <- struct{}{}
		blocks.Go(func() {
			g := gen.Seeded(seed + uint64(first))
			for r := first; r < min(first+rows, a.Rows); r++ {
				for c := range a.Cols {
					if o.IsIndex {
						a.SetBits(r, c, uint32(index(g, r, data.Sizes[o.Bound])))
					} else {
						a.Set(r, c, element(g, r, c))
					}
				}
			}
			<-limit
		})
	}
	blocks.Wait()
}

// shuffled returns the numbers below n in an order of their own.
func shuffled(n int) []int {
	list := make([]int, n)
	g := gen.New("bench/pages")
	for i := range list {
		k := g.Below(i + 1)
		list[i], list[k] = list[k], i
	}
	return list
}

func (s *setting) close() {
	if s.memory != nil {
		s.memory.Close()
	}
	for _, b := range s.before {
		if b != nil {
			b.Close()
		}
	}
}

// submit makes the call, as a typed call does. The plan exists already.
func (s *setting) submit() error {
	if s.parts != nil {
		return s.submitParts()
	}
	return s.submitOne()
}

func (s *setting) submitOne() error {
	return engine.Call(s.queue, s.c.Data.Definition, s.tensors, s.c.Data.Params)
}

// restore resets the operands that a call updates in place. So every repetition computes
// the same, its result can be checked, and an optimizer's state does not drift to subnormal
// or infinite numbers.
func (s *setting) restore() error {
	for i, b := range s.before {
		if b == nil {
			continue
		}
		if err := s.track.move(s.tensors[i].Buffer(), b); err != nil {
			return err
		}
	}
	return nil
}

// take times one call.
func (s *setting) take() (float64, error) {
	if err := s.restore(); err != nil {
		return 0, err
	}
	return s.track.time(s.submit, s.c.Tensors)
}

// clear sets pure outputs to guard bytes and restores the others.
func (s *setting) clear() error {
	d := s.c.Data.Definition
	for i := range d.Operands {
		if d.Operands[i].IsIn {
			continue
		}
		if err := s.memory.Clear(i); err != nil {
			return err
		}
	}
	return s.restore()
}

// checkCall calls once and checks. Outputs start as guard bytes.
func (s *setting) checkCall(when string) error {
	if err := s.clear(); err != nil {
		return fmt.Errorf("%v: %w", s.c, err)
	}
	if err := s.submit(); err != nil {
		return fmt.Errorf("%v: %w", s.c, err)
	}
	if err := s.queue.Wait(); err != nil {
		return fmt.Errorf("%v: %w", s.c, err)
	}
	return s.check(when)
}

// check checks the outputs of the last call, and the memory around them.
func (s *setting) check(when string) error {
	d := s.c.Data.Definition
	for i := range d.Operands {
		if !d.Operands[i].IsOut {
			continue
		}
		got, breach, err := s.memory.ReadOperand(i)
		if err != nil {
			return fmt.Errorf("%v: %w", s.c, err)
		}
		reason := s.sample.Differs(i, got)
		if breach != nil {
			reason = breach.Reason
		}
		if reason != "" {
			return &WrongError{Case: s.c, When: when, Reason: reason}
		}
	}
	return nil
}

// median returns the middle value, or the mean of the two in the middle.
func median(xs []float64) float64 {
	sorted := slices.Sorted(slices.Values(xs))
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}
