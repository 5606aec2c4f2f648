package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/trial"
)

// A kernel that was written elsewhere may try to look fast: remember results by the address or
// the contents of its inputs, compute something else once it is warm, return before its work is
// done, or turn its clock back. So every repetition has inputs that no other has, in memory that
// changes too; outputs are copied when the timer stops and judged, in every repetition, on rows
// that are drawn once they exist; and they are read again later. A result that is wrong in any
// repetition voids the times.

// Foreign is a kernel to be measured beside our own and beside a copy.
type Foreign struct {
	Definition *def.Definition
	Data       op.Data // Sizes are those to measure
	DTypes     []num.DType
	Lowering   *engine.Lowering
	Queue      *engine.Queue // where it runs; nil is the meter's
	Seed       uint64        // of the inputs, which the kernel must not know

	// Admits judges outputs, given the operands before the call, and says what is wrong with
	// them; it may be given some of the rows.
	Admits func(ctx context.Context, before, after []num.Array, params []float64) (judged int64, wrong string, err error)
}

// Spread is the median of figures, with the least and the greatest.
type Spread struct{ Median, Least, Most float64 }

func spreadOf(xs []float64) Spread {
	if len(xs) == 0 {
		return Spread{}
	}
	return Spread{Median: median(xs), Least: slices.Min(xs), Most: slices.Max(xs)}
}

// ForeignResult is the measurement of a foreign kernel.
type ForeignResult struct {
	Shape       string
	Bytes       int64   // the fewest that must move
	FLOPs       float64 // of a contraction; else 0
	Repetitions int     // that were timed
	Calls       int     // whose outputs were judged
	Judged      int64   // outputs

	Seconds Spread // from outside
	Inside  Spread // as the kernel itself says; 0 if it says nothing
	Own     Spread // of our own kernel; 0 if there is none
	OwnID   string // of its lowering
	Copy    Spread // GB/s of the copies between

	// OfCopy is the speed as a share of the copy's, of what is measured from outside; OfOwn as a
	// share of our own kernel's; both by repetition. Those that begin with Inside take the
	// kernel's own times instead.
	OfCopy, OfOwn, InsideOfCopy, InsideOfOwn Spread

	// Wrong says why the times are void; "" if they are not.
	Wrong string

	// Doubt says why the kernel's own times cannot be right; "" if they can.
	Doubt string
}

// foreignRun is a measurement under way.
type foreignRun struct {
	*Foreign
	meter  *Meter
	kernel [2]*side // alternately: their memory differs
	own    *side    // nil if we have no kernel for it
	result *ForeignResult
	draw   *gen.Generator

	seconds, inside, ours, copies []float64
}

// side is a kernel with its own operands on its device.
type side struct {
	queue    *engine.Queue
	track    track
	memory   *trial.Placed
	prepared *engine.Prepared
	id       string
}

// MeasureForeign times a kernel beside a copy and our own kernel, in turns. An error says that it
// could not be measured, or was refused; wrong results are part of the result.
func (m *Meter) MeasureForeign(ctx context.Context, f *Foreign) (*ForeignResult, error) {
	c := &Case{Data: f.Data, DTypes: f.DTypes, Lowering: f.Lowering}
	r := &foreignRun{Foreign: f, meter: m, draw: gen.Seeded(f.Seed), result: &ForeignResult{Shape: c.Shape(), FLOPs: c.flops()}}
	defer r.close()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	runtime.GC()
	start, inCalls := time.Now(), 0.0
	isEnough := func() bool {
		return len(r.seconds) >= max(m.options.Repetitions, leastForeign) && (inCalls >= m.options.Time.Seconds() || time.Since(start) >= 10*m.options.Time)
	}
	for n := 0; n == 0 || !isEnough(); n++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		before := len(r.seconds)
		if err := r.repeat(ctx, n); err != nil || r.result.Wrong != "" {
			return r.result, err
		}
		if len(r.seconds) > before {
			inCalls += r.seconds[before]
		}
	}
	if err := r.repeat(ctx, -1); err != nil || r.result.Wrong != "" { // once more, untimed
		return r.result, err
	}
	r.finish()
	return r.result, nil
}

// leastForeign is the least number of repetitions of a foreign kernel.
const leastForeign = 7

// prepare allocates memory and compiles the kernels.
func (r *foreignRun) prepare(ctx context.Context) (err error) {
	q := cmp.Or(r.Queue, r.meter.queue)
	for i := range r.kernel {
		if r.kernel[i], err = r.newSide(ctx, q, r.Lowering); err != nil {
			return err
		}
	}
	backend := r.meter.queue.Device().(engine.Device).Backend()
	for _, l := range backend.Preferred(r.Definition) {
		if l.Takes(r.Definition, r.DTypes) != nil || !l.Promise.IsBits() {
			continue
		}
		own, err := r.newSide(ctx, r.meter.queue, l)
		if _, isUnsuited := errors.AsType[*engine.UnsuitedError](err); isUnsuited {
			continue
		}
		if err != nil {
			return fmt.Errorf("our own kernel: %w", err)
		}
		r.own, r.result.OwnID = own, own.id
		break
	}
	return nil
}

func (r *foreignRun) newSide(ctx context.Context, q *engine.Queue, l *engine.Lowering) (s *side, err error) {
	s = &side{queue: q.WithContext(ctx), track: r.meter.track, id: l.ID(r.Definition)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if q != r.meter.queue { // on another device than the copies
		if s.track, err = newTrack(q, 1<<20); err != nil {
			return nil, err
		}
	}
	if s.memory, err = trial.Allocate(q.Device(), r.Definition, r.DTypes, r.Data.Sizes, nil); err != nil {
		return nil, err
	}
	tensors, err := s.memory.Tensors()
	if err != nil {
		return nil, err
	}
	t, err := engine.NewTrial(s.queue, r.Definition, l)
	if err != nil {
		return nil, err
	}
	s.prepared, err = t.Prepare(tensors, r.Data.Params)
	return s, err
}

func (s *side) close() {
	if s != nil && s.memory != nil {
		s.memory.Close()
	}
}

func (r *foreignRun) close() {
	for _, s := range []*side{r.kernel[0], r.kernel[1], r.own} {
		s.close()
	}
}

// take writes operands, and times a call on them. The copy before it has filled the caches of a
// CPU; a GPU's are flushed.
func (s *side) take(operands *trial.Operands, flush func() error) (seconds float64, err error) {
	if err := s.memory.Write(operands); err != nil {
		return 0, err
	}
	if err := flush(); err != nil {
		return 0, err
	}
	work := func() error { return s.prepared.Submit() }
	seconds, err = s.track.time(work, 1)
	if err == nil {
		err = s.queue.Wait()
	}
	return seconds, err
}

// repeat runs the n-th repetition; the first and −1, the last, are not timed.
func (r *foreignRun) repeat(ctx context.Context, n int) error {
	operands, err := r.fresh(ctx)
	if err != nil {
		return err
	}
	if r.result.Bytes == 0 {
		r.result.Bytes = Traffic(r.Definition, operands.Arrays())
	}
	s := r.kernel[(n+2)%2]
	when := "in a repetition that was timed"
	switch n {
	case 0:
		when = "before it was timed"
	case -1:
		when = "after it was timed"
	}
	var kernel, inside, own, gbps, ownGBps float64
	var after *trial.Operands
	flush := func(gbps *float64) func() error { // by a copy, which is timed too
		return func() (err error) {
			*gbps, err = r.meter.timeCopy(r.result.Bytes)
			return err
		}
	}
	turns := []func() error{
		func() (err error) {
			if kernel, err = s.take(operands, flush(&gbps)); err != nil {
				return err
			}
			if after, err = s.memory.Read(); err != nil { // before anything else happens
				return err
			}
			if t, ok := s.prepared.LastTime(); ok {
				inside = t.Seconds()
			}
			return nil
		},
		func() (err error) {
			if r.own != nil {
				own, err = r.own.take(operands, flush(&ownGBps))
			}
			return err
		},
	}
	if n%2 == 1 {
		slices.Reverse(turns)
	}
	for _, turn := range turns {
		if err := turn(); err != nil {
			return err
		}
	}
	later, err := s.memory.Read()
	if err != nil {
		return err
	}
	var ours *trial.Operands
	if r.own != nil {
		if ours, err = r.own.memory.Read(); err != nil {
			return err
		}
	}
	if wrong, err := r.judge(ctx, operands, after, later, ours); err != nil || wrong != "" {
		r.result.Wrong = wrong
		if wrong != "" {
			r.result.Wrong = fmt.Sprintf("wrong %s, call %d: %s", when, r.result.Calls+1, wrong)
		}
		return err
	}
	r.result.Calls++
	if n > 0 {
		r.seconds, r.inside, r.ours, r.copies = append(r.seconds, kernel), append(r.inside, inside), append(r.ours, own), append(r.copies, gbps)
	}
	return nil
}

// fresh returns operands that no other repetition has, with poisoned outputs.
func (r *foreignRun) fresh(ctx context.Context) (*trial.Operands, error) {
	x := trial.New(r.Definition, r.DTypes, r.Data.Sizes, nil)
	seed := r.draw.Next() | 1
	for i := range r.Definition.Operands {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if o := &r.Definition.Operands[i]; o.IsIn {
			fillFrom(x.Array(i), o, r.Data, seed)
		}
	}
	x.PoisonDrawn(seed, 0)
	return x, nil
}

// judge says what is wrong with what a call left, or "". Among the rows that are judged is the
// one that is farthest from ours, the results of our own kernel, if there are any.
func (r *foreignRun) judge(ctx context.Context, before, after, later, ours *trial.Operands) (string, error) {
	if b := after.Breach(before); b != nil {
		return b.String(), nil
	}
	d := r.Definition
	for i := range d.Operands {
		if !d.Operands[i].IsOut {
			continue
		}
		if f := trial.Patterns.Difference(d.Operands[i].Name, later.Array(i), after.Array(i)); f != nil {
			return "an output changed after the call had returned: " + f.String(), nil
		}
	}
	rows := r.rows(before.Arrays())
	for _, at := range after.Unwritten(before, r.Lowering.Promise.Declares.Omits, nil) {
		if rows != nil && !slices.Contains(rows, at.Row) {
			rows = append(rows, at.Row) // perhaps unwritten
			break
		}
	}
	if row := farthest(d, after, ours); rows != nil && row >= 0 && !slices.Contains(rows, row) {
		rows = append(rows, row)
	}
	slices.Sort(rows)
	some := func(x []num.Array) []num.Array {
		s := &Sample{d: d, Rows: rows, Want: slices.Clone(x)}
		s.restrict()
		return s.Want
	}
	judged, wrong, err := r.Admits(ctx, some(before.Arrays()), some(after.Arrays()), r.Data.Params)
	if err != nil {
		return "", fmt.Errorf("the outputs could not be judged: %w", err)
	}
	r.result.Judged += judged
	if wrong != "" && rows != nil {
		wrong += fmt.Sprintf(" (among rows %v, numbered anew)", rows)
	}
	return wrong, nil
}

// farthest returns the row of the outputs whose values are farthest from ours, in values of the
// format between them; -1 if they all have the same bits.
func farthest(d *def.Definition, after, ours *trial.Operands) int {
	worst, row := int64(0), -1
	if ours == nil {
		return row
	}
	rows := after.Array(slices.IndexFunc(d.Operands, func(o def.Operand) bool { return o.IsOut })).Rows
	for i := range d.Operands {
		got, own := after.Array(i), ours.Array(i)
		if !d.Operands[i].IsOut || got.Rows != rows {
			continue
		}
		for r := range got.Rows {
			if bytes.Equal(got.Row(r), own.Row(r)) {
				continue
			}
			for c := range got.Cols {
				if n := distance(got.DType, got.Bits(r, c), own.Bits(r, c)); n > worst {
					worst, row = n, r
				}
			}
		}
	}
	return row
}

// distance returns how many values of a format lie between two; NaN and numbers are as far apart
// as possible.
func distance(d num.DType, a, b uint32) int64 {
	place := func(bits uint32) int64 {
		if d == num.I32 {
			return int64(int32(bits))
		}
		sign := uint32(1) << (8*d.Size() - 1)
		if bits&sign != 0 {
			return -int64(bits &^ sign)
		}
		return int64(bits)
	}
	if p, q := num.IsNaN(d, a), num.IsNaN(d, b); p || q {
		if p && q {
			return 0
		}
		return math.MaxInt64
	}
	n := place(a) - place(b)
	return max(n, -n)
}

// rows draws the rows that are judged; nil are all.
func (r *foreignRun) rows(operands []num.Array) []int {
	if !canSample(r.Definition) {
		return nil
	}
	some := someRows(r.Definition, operands)
	if some == nil {
		return nil
	}
	last := some[len(some)-1] // the last row of the outputs
	rows := []int{0, last}
	for len(rows) < min(len(some), mostForeignRows) {
		if n := r.draw.Below(last + 1); !slices.Contains(rows, n) {
			rows = append(rows, n)
		}
	}
	return rows
}

// mostForeignRows is how many rows are judged in every repetition: sets take longer than
// answers.
const mostForeignRows = 8

// finish sets the figures.
func (r *foreignRun) finish() {
	x := r.result
	x.Repetitions = len(r.seconds)
	x.Seconds, x.Copy = spreadOf(r.seconds), spreadOf(r.copies)
	var ofCopy, ofOwn, insideOfCopy, insideOfOwn []float64
	isTimed := !slices.Contains(r.inside, 0)
	for i, s := range r.seconds {
		ofCopy = append(ofCopy, rate(float64(x.Bytes), s)*1e-9/r.copies[i])
		ofOwn = append(ofOwn, r.ours[i]/max(s, 1e-9))
		insideOfCopy = append(insideOfCopy, rate(float64(x.Bytes), r.inside[i])*1e-9/r.copies[i])
		insideOfOwn = append(insideOfOwn, r.ours[i]/max(r.inside[i], 1e-9))
		if r.inside[i] > s {
			x.Doubt = fmt.Sprintf("the kernel says that it took %.4g s of a call that took %.4g s", r.inside[i], s)
		}
	}
	x.OfCopy = spreadOf(ofCopy)
	if r.own != nil {
		x.Own, x.OfOwn = spreadOf(r.ours), spreadOf(ofOwn)
	}
	if isTimed {
		x.Inside, x.InsideOfCopy = spreadOf(r.inside), spreadOf(insideOfCopy)
		if r.own != nil {
			x.InsideOfOwn = spreadOf(insideOfOwn)
		}
	}
}

// ForeignSizes returns the sizes to measure a definition in on a device of a backend: those of
// [Plan] for an operation, which may be nil, replaced by the given ones. What cannot be judged in part
// is smaller.
func ForeignSizes(o *op.Operation, d *def.Definition, b engine.Backend, given map[string]int) map[string]int {
	p := &Plan{Backend: b, Sizes: given, IsQuick: !canSample(d)}
	var usual map[string]int
	if o != nil {
		usual = o.Usual
	}
	return p.sizes(d, usual)
}
