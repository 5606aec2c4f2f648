package accuracy

import (
	"fmt"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/num"
	"tokitai/num/ball"
)

// boundFor returns the closed form for an output of the run, or nil: the forms of an
// operation are those of its plain definition, and of accumulation.
func (run *Run) boundFor(output string) *bound.Form {
	d := run.Data.Definition
	isPlain := len(run.Operation.Definitions) > 0 && d == run.Operation.Definitions[0]
	if !(isPlain || d.Accumulates()) || run.Accum != def.FMAChain {
		return nil
	}
	for i := range run.Operation.Bounds {
		if b := &run.Operation.Bounds[i]; b.Output == output {
			return b
		}
	}
	return nil
}

// call returns the run as closed forms take it.
func (run *Run) call() *bound.Call {
	return &bound.Call{Definition: run.Data.Definition, Params: run.Data.Params, Operands: run.Operands}
}

// check compares an answer with the closed form, and the closed form with the radius,
// which is derived without it.
func check(form *bound.Form, limit float64, y float64, d num.DType, t ball.Ball, radius float64) error {
	lo, hi := t.Bounds()
	allowed := limit
	if d != num.F32 {
		allowed += num.ULP(d, y) / 2
	}
	if distance := max(lo-y, y-hi); distance > allowed {
		return fmt.Errorf("the reference gives %v, truth %v: %g apart, closed form %g", y, t, distance, allowed)
	}
	// The bound is evaluated in float64, in fewer than 2^13 steps; the radius is a
	// difference of float64 endpoints.
	slack := limit*0x1p-40 + (hi - lo) + max(-lo, hi)*0x1p-50
	if !form.IsTighter && radius > limit+slack {
		return fmt.Errorf("the radius %g is above the closed form %g", radius, limit)
	}
	return nil
}
