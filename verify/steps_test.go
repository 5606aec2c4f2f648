package verify_test

import (
	"math"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/promise"
	"tokitai/verify"
)

// vendor is a library that computes products on a tensor core. It divides sums of more than
// 40 products into two parts, and changes each result before it is stored.
type vendor struct {
	d      *def.Definition
	change func(v float32) float32
}

const wholeSum = 40

func (v vendor) parts(k int) int {
	if k > wholeSum {
		return 2
	}
	return 1
}

func (v vendor) Choice(c *lower.Call) (engine.Choice, error) {
	parts := v.parts(c.Size(v.d, v.d.SummedOver()))
	return engine.Choice{Algorithm: map[int]string{1: "algorithm 66", 2: "algorithm 21, split-K 2"}[parts], Parts: parts}, nil
}

func (v vendor) Launch(l *engine.Launch) error {
	x := l.Arrays()
	a, b, c := x[0], x[1], x[2]
	model := num.MMA{L: 16, F: 25}
	K := a.Cols
	left, right := make([]uint32, K), make([]uint32, K)
	for row := range c.Rows {
		for col := range c.Cols {
			for k := range K {
				left[k], right[k] = a.Bits(row, k), b.Bits(k, col)
			}
			var sum float32
			depth := (K + v.parts(K) - 1) / v.parts(K)
			for k := 0; k < K; k += depth {
				end := min(k+depth, K)
				part := model.Dot(a.DType, left[k:end], right[k:end], 0)
				if k == 0 {
					sum = part
				} else {
					sum += part
				}
			}
			c.Set(row, col, v.change(sum))
		}
	}
	return nil
}

func library(change func(float32) float32) *engine.Lowering {
	return &engine.Lowering{
		Name: "cpu.vendor", Device: "cpu", Library: "Vendor", Promise: engine.Promise{Name: promise.Ordered, Accum: def.MMA(16, 25)},
		Compile: func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
			return vendor{d, change}, nil
		},
	}
}

func asItIs(v float32) float32 { return v }

// TestLibrary checks that the results of a vendor's library on tensor cores are accepted however it
// divides sums, and that the report says which of its algorithms have the model's bits.
func TestLibrary(t *testing.T) {
	t.Parallel()
	for _, dtype := range []num.DType{num.F16, num.BF16} {
		x := brief(target(gemm.ForwardDefinition, dtype, library(asItIs)))
		r := expectAllAccepted(t, x, "a library's")
		if r.Model != "any order of mma(16,25)" || len(r.Algorithms) != 2 {
			t.Fatalf("%s: model %q, %+v", dtype, r.Model, r.Algorithms)
		}
		cases := 0
		for _, a := range r.Algorithms {
			isWhole := a.Name == "algorithm 66"
			if isWhole != (a.Parts == 1) || isWhole != (a.SameCases == a.Cases) || a.Model != "mma(16,25)" || a.Elements < a.SameBits {
				t.Errorf("%s: %+v", dtype, a)
			}
			for _, name := range a.Others {
				if err := x.CheckCase(name); err != nil {
					t.Errorf("%s: %s: %v", dtype, name, err)
				}
			}
			cases += a.Cases
		}
		if cases != r.Cases {
			t.Errorf("%s: algorithms of %d cases, want %d", dtype, cases, r.Cases)
		}
	}
}

// TestTruncationIsJudged checks that statistics reject a library whose errors are biased away from
// zero, or more toward zero than the tensor core's own, although each result is admissible.
func TestTruncationIsJudged(t *testing.T) {
	t.Parallel()
	step := func(toward float32) func(float32) float32 {
		return func(v float32) float32 {
			if v == 0 || v-v != 0 || float32(math.Trunc(float64(v))) == v { // sums on the grid stay exact
				return v
			}
			for range 3 {
				v = math.Nextafter32(v, float32(math.Copysign(float64(toward), float64(v))))
			}
			return v
		}
	}
	for _, test := range []struct {
		change func(float32) float32
		text   string
	}{
		{step(0), "biased toward zero, more than those of model mma(16,25)"},
		{step(float32(math.Inf(1))), "biased away from zero"},
	} {
		x := brief(target(gemm.ForwardDefinition, num.F16, library(test.change)))
		r := run(t, x, verify.Options{Seed: 1, Case: "normal-64-summed/M=24,K=64,N=48/C=f32"}).Report
		if r.Verdict != evidence.Rejected || r.Failure.Tier != evidence.Statistics || !strings.Contains(r.Failure.Message, test.text) {
			t.Errorf("%s: got %s %s %+v", test.text, r.Verdict, r.Reason, r.Failure)
		}
	}
	x := brief(target(gemm.ForwardDefinition, num.F16, library(asItIs)))
	if r := run(t, x, verify.Options{Seed: 1, Case: "normal-64-summed/M=24,K=64,N=48/C=f32"}).Report; r.Verdict != evidence.Accepted {
		t.Errorf("as it is: %s %s", r.Verdict, r.Reason)
	}
}
