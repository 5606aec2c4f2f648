package peers

import (
	"context"
	"slices"
	"time"

	"tokitai/backend/cpu"
	"tokitai/bench"
	"tokitai/tensor"
)

// copying is the copy that memory-bound operations are compared with: it reads, writes and
// updates as many bytes as a call, with the same workers, in the same memory.
type copying struct {
	device *cpu.Device
	sets   [][]piece
	at     int
	doing  []piece
	mover  *mover
}

// piece is one item of work.
type piece struct {
	to, from []byte // copied; with a nil from, to is filled
	update   []byte // read and written in place
	read     []byte // only read
}

// pieceBytes is what one item moves: in less than a millisecond, and large enough that Go's
// copy bypasses the caches where there is no code of our own.
const pieceBytes = 1 << 20

func newCopying(dev *cpu.Device, o *ours) *copying {
	c := &copying{device: dev, mover: theMover()}
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
		if index := d.ChosenBy(i); index >= 0 {
			memory = memory[:bench.Distinct(in.arrays[index])*in.arrays[i].Cols*in.arrays[i].DType.Size()]
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
func (c *copying) Do(_, item int) {
	p := &c.doing[item]
	switch {
	case p.update != nil:
		c.mover.update(p.update)
	case p.read != nil:
		c.mover.read(p.read)
	case p.from != nil:
		c.mover.copy(p.to, p.from)
	default:
		c.mover.fill(p.to)
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
