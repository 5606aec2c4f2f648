package verify_test

import (
	"math"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/gelu"
	"tokitai/promise"
	"tokitai/verify"
)

// tanhGELU computes x/2 * (1 + tanh), whose sum cancels for negative x.
func tanhGELU(_ *def.Definition, l *engine.Launch) error {
	x, y := l.Operands[0].Array, l.Operands[1].Array
	for r := range x.Rows {
		for c := range x.Cols {
			v := x.At(r, c)
			t := float32(math.Sqrt(2/math.Pi)) * (v + 0.044715*v*v*v)
			y.Set(r, c, 0.5*v*(1+float32(math.Tanh(float64(t)))))
		}
	}
	return nil
}

// divideLast computes AdamW's (step_size*m)/d, whose product may be subnormal.
func divideLast(_ *def.Definition, l *engine.Launch) error {
	w, m, v, g := l.Operands[0].Array, l.Operands[1].Array, l.Operands[2].Array, l.Operands[3].Array
	p := func(i int) float32 { return float32(l.Params[i]) }
	for r := range w.Rows {
		for c := range w.Cols {
			grad := g.At(r, c)
			newM := p(0)*m.At(r, c) + p(1)*grad
			newV := p(2)*v.At(r, c) + p(3)*grad*grad
			d := float32(math.Sqrt(float64(newV)))*p(5) + p(6)
			w.Set(r, c, w.At(r, c)-(p(4)*newM/d+p(7)*w.At(r, c)))
			m.Set(r, c, newM)
			v.Set(r, c, newV)
		}
	}
	return nil
}

// TestAllowances runs forms that PyTorch ships. Weak ones are rejected without its profile, and
// accepted with it, with the allowance in the report. A usual form needs no allowance.
func TestAllowances(t *testing.T) {
	t.Parallel()
	for _, k := range []struct {
		d       *def.Definition
		dtype   num.DType
		name    string
		compute kernelFunc
		text    string
	}{
		{gelu.ForwardDefinition, num.BF16, "negative-tail/R=2,C=1024", tanhGELU, "gelu: absolute error u*|x|, of 1 + tanh"},
		{adamw.InPlaceDefinition, num.F32, "subnormal-weights/R=5,C=33", divideLast, ""},
	} {
		for _, profile := range []string{"", "torch"} {
			l := bounded(def.Order{}, k.compute)
			l.Promise.Name, l.Promise.Declares = promise.Stable, promise.Declaration{Profile: profile}
			r := run(t, target(k.d, k.dtype, l), verify.Options{Seed: 1, Case: k.name}).Report
			if isRejected := r.Verdict == evidence.Rejected; isRejected != (profile == "" && k.text != "") {
				t.Errorf("%s %s, profile %q: %s (%s) %+v", k.d, k.dtype, profile, r.Verdict, r.Reason, r.Failure)
			}
			if k.text == "" {
				if len(r.Allowances) > 0 {
					t.Errorf("%s %s, profile %q: outputs needed %v", k.d, k.dtype, profile, r.Allowances)
				}
				continue
			}
			used := int64(0)
			for _, a := range r.Allowances {
				if a.Text == k.text {
					used = a.Outputs
				}
			}
			if isUsed := used > 0; isUsed != (profile != "") {
				t.Errorf("%s %s, profile %q: %d outputs needed %q", k.d, k.dtype, profile, used, k.text)
			}
		}
	}
}
