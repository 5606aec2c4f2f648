package peers

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"tokitai/bench"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
	"tokitai/trial"
)

// party computes cases and times itself.
type party interface {
	// run measures that many calls, repeatedly, and returns the time of each measurement.
	run(ctx context.Context, repeat, calls int) ([]time.Duration, error)
}

// inputs are the operands of a case as they are before a call, and the reference's answer.
type inputs struct {
	c      *Case
	arrays []num.Array
	answer *bench.Sample
}

func newInputs(ctx context.Context, c *Case) (*inputs, error) {
	d := c.Data.Definition
	in := &inputs{c: c, arrays: make([]num.Array, len(d.Operands))}
	for i := range d.Operands {
		o := &d.Operands[i]
		in.arrays[i] = o.NewArray(c.DTypes[i], c.Data.Sizes)
		if o.IsIn {
			bench.Fill(in.arrays[i], o, c.Data)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	answer := func(d *def.Definition, operands []num.Array, params []float64) error {
		return bench.Answer(ctx, d, operands, params, def.FMAChain)
	}
	err := c.Operation.SavedBy(d).FillBy(answer, in.arrays, c.Data.Params, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	in.answer, err = bench.NewSample(ctx, d, in.arrays, c.Data.Params, def.FMAChain)
	return in, err
}

// ours is this project as a party, in this process.
type ours struct {
	in       *inputs
	queue    *engine.Queue
	sets     [][]*tensor.Tensor
	at       int
	lowering *engine.Lowering
}

func newOurs(ctx context.Context, q *engine.Queue, in *inputs) (*ours, error) {
	o := &ours{in: in, queue: q.WithContext(ctx)}
	d := in.c.Data.Definition
	for range in.c.sets() {
		set := make([]*tensor.Tensor, len(d.Operands))
		o.sets = append(o.sets, set)
		for i := range d.Operands {
			t, err := tensor.New(q.Device(), in.c.DTypes[i], d.Operands[i].Shape(&in.arrays[i])...)
			if err != nil {
				o.close()
				return nil, err
			}
			set[i] = t
			if err := o.reset(set, i); err != nil {
				o.close()
				return nil, err
			}
		}
	}
	return o, nil
}

// reset gives an operand the value that it has before a call; to an output, values that no
// operation leaves there.
func (o *ours) reset(set []*tensor.Tensor, i int) error {
	if o.in.c.Data.Definition.Operands[i].IsIn {
		return set[i].SetBytes(o.in.arrays[i].Data)
	}
	memory := memoryOf(set[i])
	for k := range memory {
		memory[k] = trial.GuardByte
	}
	return nil
}

func memoryOf(t *tensor.Tensor) []byte { return t.Buffer().(device.HostBuffer).Memory() }

// check computes the first set once from the original values, and compares with the
// reference bit for bit.
func (o *ours) check(when string) error {
	d, set := o.in.c.Data.Definition, o.sets[0]
	for i := range d.Operands {
		if d.Operands[i].IsOut {
			if err := o.reset(set, i); err != nil {
				return err
			}
		}
	}
	if err := engine.Call(o.queue, d, set, o.in.c.Data.Params, engine.ReportLowering(&o.lowering)); err != nil {
		return err
	}
	for i := range d.Operands {
		if !d.Operands[i].IsOut {
			continue
		}
		got := o.in.arrays[i]
		got.Data = memoryOf(set[i])
		if reason := o.in.answer.Differs(i, got); reason != "" {
			return fmt.Errorf("%v by %s: wrong %s timing: %s", o.in.c, o.lowering.ID(d), when, reason)
		}
	}
	return nil
}

func (o *ours) run(ctx context.Context, repeat, calls int) ([]time.Duration, error) {
	d, params := o.in.c.Data.Definition, o.in.c.Data.Params
	times := make([]time.Duration, repeat)
	for r := range times {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start := time.Now()
		for range calls {
			if err := engine.Call(o.queue, d, o.sets[o.at], params); err != nil {
				return nil, err
			}
			if o.at++; o.at == len(o.sets) {
				o.at = 0
			}
		}
		times[r] = time.Since(start)
	}
	return times, nil
}

// allocations returns how many allocations a call makes, on average over some calls, or
// over one that takes long.
func (o *ours) allocations(ctx context.Context, seconds float64) (float64, error) {
	calls := 8
	if seconds > 0.1 {
		calls = 1
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := o.run(ctx, 1, calls)
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs-1) / float64(calls), err // one is the slice of times
}

func (o *ours) close() {
	for _, set := range o.sets {
		for _, t := range set {
			if t != nil {
				t.Close()
			}
		}
	}
	o.sets = nil
}
