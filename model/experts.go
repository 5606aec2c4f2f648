package model

import (
	"errors"
	"fmt"

	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// Experts makes the calls of some neighbouring experts of a division, for the rows of several runs of its program. Their
// memory grows with the rows that there are.
type Experts struct {
	queue    *engine.Queue
	division *Division
	weights  map[string]*tensor.Tensor // of these experts, by the names of the whole ones
	buffers  []*tensor.Tensor
	offsets  map[*Value][]*tensor.Tensor // of each run
	starts   map[*Value][]int            // the first row of each run, and behind the last
	owned    []*tensor.Tensor
}

// NewExperts makes the calls for experts whose weights are given, for up to so many runs.
func NewExperts(q *engine.Queue, d *Division, runs int, weights map[string]*tensor.Tensor) (*Experts, error) {
	e := &Experts{queue: q, division: d, weights: weights, offsets: map[*Value][]*tensor.Tensor{}, starts: map[*Value][]int{}}
	e.buffers = make([]*tensor.Tensor, len(d.Experts.Buffers))
	first := weights[d.Weights[0].Weight]
	if first == nil {
		return nil, fmt.Errorf("no weight %s", d.Weights[0].Weight)
	}
	for i := range d.Exchanges {
		x := d.Exchanges[i].Offsets
		for len(e.offsets[x]) < runs {
			t, err := tensor.New(q.Device(), num.I32, first.Shape()[0]+1)
			if err != nil {
				e.Close()
				return nil, err
			}
			e.owned, e.offsets[x] = append(e.owned, t), append(e.offsets[x], t)
		}
	}
	return e, nil
}

// Begin says how many rows each run has for each of these experts, from an exchange on that is the first with its offsets.
func (e *Experts) Begin(x *Exchange, counts [][]int32) error {
	starts := []int{0}
	for run, list := range counts {
		offsets := []int32{0}
		for _, n := range list {
			offsets = append(offsets, offsets[len(offsets)-1]+n)
		}
		if err := e.offsets[x.Offsets][run].SetInt32s(offsets); err != nil {
			return err
		}
		starts = append(starts, starts[run]+int(offsets[len(offsets)-1]))
	}
	e.starts[x.Offsets] = starts
	return nil
}

// Prepare makes the memory for the rows of an exchange. A buffer that gets new content holds nothing else that is needed, unless it is
// of the same rows, for which it is large enough.
func (e *Experts) Prepare(x *Exchange) error {
	starts, d := e.starts[x.Offsets], e.division
	rows := starts[len(starts)-1]
	for _, at := range x.fresh {
		need := max(1, rows*int(d.Experts.Buffers[at])/d.rows)
		if old := e.buffers[at]; old != nil && 4*old.Len() >= need {
			continue
		}
		if err := e.buffers[at].Close(); err != nil {
			return err
		}
		t, err := tensor.New(e.queue.Device(), num.F32, (need+3)/4)
		if err != nil {
			return err
		}
		e.buffers[at] = t
	}
	return nil
}

// Rows returns the rows of a value that a run has, one behind the other.
func (e *Experts) Rows(x *Exchange, v *Value, run int) (*tensor.Tensor, error) {
	starts, cols := e.starts[x.Offsets], v.Len()/e.division.rows
	lo, n := starts[run], starts[run+1]-starts[run]
	b := e.buffers[e.division.Experts.buffer[v]]
	return tensor.At(b.Buffer(), int64(lo)*int64(cols)*int64(v.DType.Size()), v.DType, cols, n, cols)
}

// Gradients has the calls of an exchange put the gradient of a weight, that of one run, where target says, and calls added once it
// is there.
type Gradients struct {
	Target func(name string, run int) *tensor.Tensor
	Added  func(name string, run int) error
}

// Run makes the calls of an exchange, one after another, each for all runs: what a call has left in a buffer may be gone behind the
// next. It tells note, unless that is nil, the operands of each call.
func (e *Experts) Run(x *Exchange, g Gradients, note func(c *Call, operands []*tensor.Tensor) error) error {
	starts := e.starts[x.Offsets]
	for _, c := range e.division.Experts.Calls[x.From:x.To] {
		for run := range len(starts) - 1 {
			operands, err := e.operands(x, c, run, g)
			if err == nil && (starts[run] < starts[run+1] || c.Definition == GroupedW) { // without rows there are zeros to write, or nothing
				err = engine.Call(e.queue, c.Definition, operands, numbersOf(c))
			}
			if err == nil && c.Definition == GroupedW {
				err = g.Added(c.Operands[c.Definition.Operand("dw")].value.Name, run)
			}
			if err == nil && note != nil {
				err = note(c, operands)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
		}
	}
	return nil
}

// numbersOf returns the parameters of a call. Divide has checked that none is a variable.
func numbersOf(c *Call) []float64 {
	var list []float64
	for _, p := range c.Params {
		list = append(list, p.Number)
	}
	return list
}

// operands returns the tensors of a call for a run.
func (e *Experts) operands(x *Exchange, c *Call, run int, g Gradients) (list []*tensor.Tensor, err error) {
	for k, r := range c.Operands {
		v := r.value
		var t *tensor.Tensor
		switch _, isRow := e.division.Experts.buffer[v]; {
		case isRow:
			t, err = e.Rows(x, v, run)
		case v == x.Offsets:
			t = e.offsets[v][run]
		case c.Definition.Operands[k].IsOut:
			t = g.Target(v.Name, run)
		default:
			t = e.weights[v.Name]
		}
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// Bytes returns the memory of the rows, as large as it has become.
func (e *Experts) Bytes() int64 {
	n := int64(0)
	for _, list := range [][]*tensor.Tensor{e.buffers, e.owned} {
		for _, t := range list {
			if t != nil {
				n += int64(t.Len()) * int64(t.DType().Size())
			}
		}
	}
	return n
}

// Close frees the memory.
func (e *Experts) Close() error {
	if e == nil {
		return nil
	}
	var errs []error
	for _, list := range [][]*tensor.Tensor{e.buffers, e.owned} {
		for _, t := range list {
			errs = append(errs, t.Close())
		}
	}
	e.buffers, e.owned = nil, nil
	return errors.Join(errs...)
}
