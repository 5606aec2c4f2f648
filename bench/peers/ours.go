package peers

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"tokitai/backend/cpu"
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
	var err error
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

// copying is the copy that memory-bound operations are compared with: it reads, writes and
// updates as many bytes as a call, with the same workers, in the same memory.
type copying struct {
	device *cpu.Device
	sets   [][]piece
	at     int
	doing  []piece
	mask   uint64 // 0: what is updated keeps its value
	sums   []padded
}

type padded struct {
	sum uint64
	_   [56]byte
}

// piece is one item of work.
type piece struct {
	to, from []byte // copied; a nil from is read from a buffer that stays in the cache
	update   []byte // read and written in place
	read     []byte // only read
}

// pieceBytes is large enough that Go's copy bypasses the caches.
const pieceBytes = 2 << 20

var hot = slices.Repeat([]byte{0x3c, 0x21}, pieceBytes/2)

func newCopying(dev *cpu.Device, o *ours) *copying {
	c := &copying{device: dev, sums: make([]padded, dev.Pool().Workers())}
	for _, set := range o.sets {
		c.sets = append(c.sets, pieces(o.in, set))
	}
	return c
}

// pieces divides the traffic of a call: outputs are copies of inputs as far as these
// reach, further inputs are read, operands that are updated in place are.
func pieces(in *inputs, set []*tensor.Tensor) []piece {
	d := in.c.Data.Definition
	var list []piece
	var from, to [][]byte
	for i := range d.Operands {
		o := &d.Operands[i]
		memory := memoryOf(set[i])
		if d.Kind == def.KindGather && i == 1 {
			memory = memory[:bench.Distinct(in.arrays[0])*in.arrays[1].Cols*in.arrays[1].DType.Size()]
		}
		for chunk := range slices.Chunk(memory, pieceBytes) {
			switch {
			case o.IsIn && o.IsOut:
				list = append(list, piece{update: chunk})
			case o.IsIn:
				from = append(from, chunk)
			default:
				to = append(to, chunk)
			}
		}
	}
	slices.SortStableFunc(from, func(a, b []byte) int { return len(b) - len(a) }) // whole pieces first
	slices.SortStableFunc(to, func(a, b []byte) int { return len(b) - len(a) })
	for k := range max(len(from), len(to)) {
		switch {
		case k >= len(to):
			list = append(list, piece{read: from[k]})
		case k >= len(from):
			list = append(list, piece{to: to[k]})
		default:
			n := min(len(from[k]), len(to[k]))
			list = append(list, piece{to: to[k][:n], from: from[k][:n]})
			if n < len(from[k]) {
				list = append(list, piece{read: from[k][n:]})
			}
			if n < len(to[k]) {
				list = append(list, piece{to: to[k][n:]})
			}
		}
	}
	return list
}

// Do implements cpu.Task.
func (c *copying) Do(worker, item int) {
	p := &c.doing[item]
	switch {
	case p.update != nil:
		mask := c.mask
		for words := words(p.update); len(words) >= 8; words = words[8:] {
			for k := range 8 {
				words[k] ^= mask
			}
		}
	case p.read != nil:
		var a, b, d, e uint64
		for words := words(p.read); len(words) >= 8; words = words[8:] {
			a += words[0] ^ words[4]
			b += words[1] ^ words[5]
			d += words[2] ^ words[6]
			e += words[3] ^ words[7]
		}
		c.sums[worker].sum += a + b + d + e
	case p.from != nil:
		copy(p.to, p.from)
	default:
		copy(p.to, hot)
	}
}

func (c *copying) run(ctx context.Context, repeat, calls int) ([]time.Duration, error) {
	times := make([]time.Duration, repeat)
	for r := range times {
		start := time.Now()
		for range calls {
			c.doing = c.sets[c.at]
			if err := c.device.Pool().Run(ctx, len(c.doing), c); err != nil {
				return nil, err
			}
			c.at = (c.at + 1) % len(c.sets)
		}
		times[r] = time.Since(start)
	}
	return times, nil
}
