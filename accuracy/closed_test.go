package accuracy_test

import (
	"fmt"
	"testing"

	"tokitai/accuracy"
	"tokitai/def"
	"tokitai/fn"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/truth"
)

// Every output has a closed form; no result is farther from the truth than it says;
// and it is no smaller than the radius found node by node, which is derived without
// it. For gelu.backward the evaluator is wider, since it does not see that the
// exponential occurs twice in e - e·h.
func TestBounds(t *testing.T) {
	bounds := map[string]accuracy.Bound{}
	for _, b := range accuracy.Bounds {
		bounds[b.Operation+" "+b.Output] = b
	}
	for _, o := range all.Operations {
		for _, data := range o.Data {
			for _, dtype := range num.FloatDTypes {
				run, ok := accuracy.NewRun(o, data, dtype)
				if !ok {
					continue
				}
				exact, err := run.Enclose(truth.Exact)
				if err != nil {
					t.Fatal(err)
				}
				rounded, err := run.Enclose(truth.Rounded)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := run.Answer()
				if err != nil {
					t.Fatal(err)
				}
				for i, operand := range data.Definition.Operands {
					if !operand.IsOut {
						continue
					}
					b, ok := bounds[o.Name+" "+operand.Name]
					if !ok {
						t.Errorf("%s: no closed form for %s", o.Name, operand.Name)
						continue
					}
					j := boundJudge{run, b.At(run), i, answer[i], exact, rounded}
					if err := j.check(o.Name != "gelu.backward"); err != nil {
						t.Errorf("%s, %s, %v: %s%v", o.Name, data.Name, dtype, operand.Name, err)
					}
				}
			}
		}
	}
}

type boundJudge struct {
	run            *accuracy.Run
	bound          func(r, c int) float64
	operand        int
	y              num.Array
	exact, rounded *truth.Result
}

func (j boundJudge) check(isAboveRadius bool) error {
	for r := range j.y.Rows {
		for c := range j.y.Cols {
			v, bound := float64(j.y.At(r, c)), j.bound(r, c)
			t := j.exact.At(j.operand, r, c)
			lo, hi := t.Bounds()
			limit := bound
			if j.y.DType != num.F32 {
				limit += num.ULP(j.y.DType, v) / 2
			}
			if distance := max(lo-v, v-hi); distance > limit {
				return fmt.Errorf("[%d,%d] = %v, truth %v, %g apart, bound %g", r, c, v, t, distance, limit)
			}
			// The bound is evaluated in float64, in fewer than 2^13 steps; the radius is a
			// difference of float64 endpoints.
			slack := bound*0x1p-40 + (hi - lo) + max(-lo, hi)*0x1p-50
			if radius := truth.Radius(j.rounded.At(j.operand, r, c), t); isAboveRadius && radius > bound+slack {
				return fmt.Errorf("[%d,%d]: radius %g is above the bound %g", r, c, radius, bound)
			}
		}
	}
	return nil
}

// The closed forms take these errors for granted.
func TestFunctionsAsAssumed(t *testing.T) {
	for _, test := range []struct {
		f    *def.Function
		ulps float64
	}{{fn.ExpNonPositiveFunction, 1}, {fn.LogFunction, 1}, {fn.RecipBoundedFunction, 0.75}} {
		if test.f.ULPs > test.ulps {
			t.Errorf("%s is within %v ulp, the closed forms assume %v", test.f.Name, test.f.ULPs, test.ulps)
		}
	}
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			for _, n := range d.Math.Nodes {
				if n.Op == def.OpCall && n.Func != fn.ExpNonPositiveFunction && n.Func != fn.LogFunction && n.Func != fn.RecipBoundedFunction {
					t.Errorf("%s calls %s, of which the closed forms do not know", d.Name, n.Func.Name)
				}
			}
		}
	}
}
