package train

import (
	"fmt"
	"slices"

	"tokitai/tensor"
)

// NotFiniteError reports a step whose loss or norm is no finite number. The step has changed nothing.
type NotFiniteError struct {
	Step       int
	Loss, Norm float32
	Call       string // the first call of the step, in program order, with such a result
	Tensor     string // that result, or a weight that it reads
}

func (e *NotFiniteError) Error() string {
	where := "the sum over the leaves overflowed"
	if e.Tensor != "" {
		where = fmt.Sprintf("the first tensor that is not finite is %s, of %s", e.Tensor, e.Call)
	}
	return fmt.Sprintf("step %d: loss %v, norm %v: %s; the step was not taken", e.Step, e.Loss, e.Norm, where)
}

// notFinite computes the gradients of a step again, call by call, to name the first result that is
// not finite.
func (t *Trainer) notFinite(r Result) error {
	e := &NotFiniteError{Step: r.Step, Loss: r.Loss, Norm: r.Norm}
	if t.divided != nil {
		return t.divided.notFinite(e)
	}
	if t.team != nil && t.team.Rank() > 0 { // rank 0 tells it
		return e
	}
	in := t.levels[0].leaf
	for leaf := range t.config.Leaves {
		if err := t.load(r.Step, leaf); err != nil {
			return err
		}
		for i, c := range t.program.Calls {
			if err := in.RunCall(t.queue, i, t.variables(r.Step, leaf)); err != nil {
				return err
			}
			if err := t.queue.Wait(); err != nil {
				return err
			}
			at, err := firstNotFinite(in.Operands(i))
			if err != nil {
				return err
			}
			if at >= 0 {
				e.Call, e.Tensor = c.Name, c.Operands[at].Value().Name
				return e
			}
		}
	}
	return e
}

// firstNotFinite returns the position of the first tensor with an element that is not finite; -1 for none.
func firstNotFinite(list []*tensor.Tensor) (int, error) {
	for k, x := range list {
		if !x.DType().IsFloat() {
			continue
		}
		values, err := x.Float32s()
		if err != nil {
			return 0, err
		}
		if slices.ContainsFunc(values, func(v float32) bool { return !isFinite(v) }) {
			return k, nil
		}
	}
	return -1, nil
}
