package verify_test

import (
	"math"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/gelu"
	"tokitai/op/layernorm"
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

// distributedNorm computes x*rstd - mean*rstd, one product of which is rounded before they cancel.
func distributedNorm(_ *def.Definition, l *engine.Launch) error {
	x, gamma, beta, y, mean, rstd := l.Operands[0].Array, l.Operands[1].Array, l.Operands[2].Array, l.Operands[3].Array, l.Operands[4].Array, l.Operands[5].Array
	n := float32(x.Cols)
	for r := range x.Rows {
		var sum, square float32
		for c := range x.Cols {
			sum += x.At(r, c) - x.At(r, 0)
		}
		shift := sum / n
		for c := range x.Cols {
			d := x.At(r, c) - x.At(r, 0) - shift
			square += d * d
		}
		m, s := x.At(r, 0)+shift, 1/float32(math.Sqrt(float64(square/n+float32(l.Params[0]))))
		for c := range x.Cols {
			xhat := float32(float64(x.At(r, c))*float64(s) - float64(m*s)) // fused
			y.Set(r, c, xhat*gamma.At(0, c)+beta.At(0, c))
		}
		mean.Set(r, 0, m)
		rstd.Set(r, 0, s)
	}
	return nil
}

// TestAllowances runs weak forms that PyTorch ships: they are rejected plainly, and accepted
// under its profile, with the allowance in the report.
func TestAllowances(t *testing.T) {
	t.Parallel()
	for _, k := range []struct {
		d       *def.Definition
		dtype   num.DType
		compute kernelFunc
		text    string
	}{
		{gelu.ForwardDefinition, num.BF16, tanhGELU, "gelu: absolute error u*|x|, of 1 + tanh"},
		{layernorm.ForwardDefinition, num.F16, distributedNorm, "layernorm: absolute error 2*u*(|x| + |mean|)*rstd*|gamma|, of x*rstd - mean*rstd"},
	} {
		for profile, want := range map[string]evidence.Verdict{"": evidence.Rejected, "torch": evidence.Accepted} {
			l := bounded(def.Order{}, k.compute)
			l.Promise, l.Declares = promise.Stable, promise.Declaration{Profile: profile}
			r := run(t, target(k.d, k.dtype, l), verify.Options{Seed: 1}).Report
			if r.Verdict != want {
				t.Errorf("%s %s, profile %q: %s (%s) %+v, want %s", k.d, k.dtype, profile, r.Verdict, r.Reason, r.Failure, want)
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
