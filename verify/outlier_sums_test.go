package verify_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/embedding"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/tensor"
	"tokitai/verify"
)

// backward adds the last term first.
func backward(x []float32) float32 {
	x = slices.Clone(x)
	slices.Reverse(x)
	return sequential(x)
}

// inParts adds the sums of seven parts.
func inParts(x []float32) float32 {
	size := (len(x) + 6) / 7
	sum := float32(0)
	for part := range slices.Chunk(x, max(size, 1)) {
		sum += lanes(3)(part)
	}
	return sum
}

// mixed adds the last column of every 32 in another order than the others, as kernels do whose
// vectors do not divide the columns.
func mixed(run, last kernelFunc, operand int) kernelFunc {
	return func(d *def.Definition, l *engine.Launch) error {
		if err := last(d, l); err != nil {
			return err
		}
		other := l.Arrays()[operand]
		kept := make([]uint64, other.Rows*other.Cols)
		for r := range other.Rows {
			for c := range other.Cols {
				kept[r*other.Cols+c] = other.Bits64(r, c)
			}
		}
		if err := run(d, l); err != nil {
			return err
		}
		for r := range other.Rows {
			for c := 31; c < other.Cols; c += 32 {
				other.SetBits(r, c, uint32(kept[r*other.Cols+c]))
			}
		}
		return nil
	}
}

// columnSums computes LayerNorm's gradients, with sums over rows in an order.
func columnSums(sum func([]float32) float32) kernelFunc {
	return func(d *def.Definition, l *engine.Launch) error {
		if err := honest(d, l); err != nil {
			return err
		}
		x := l.Arrays()
		dy, in, mean, rstd, dgamma, dbeta := x[0], x[1], x[3], x[4], x[6], x[7]
		for c := range dy.Cols {
			var g, b []float32
			for r := range dy.Rows {
				b = append(b, dy.At(r, c))
				g = append(g, dy.At(r, c)*((in.At(r, c)-mean.At(r, 0))*rstd.At(r, 0)))
			}
			dgamma.Set(0, c, sum(g))
			dbeta.Set(0, c, sum(b))
		}
		return nil
	}
}

// largestOf chooses the largest element of an output.
func largestOf(a num.Array, row, col int) bool {
	for r := range a.Rows {
		for c := range a.Cols {
			if x, y := math.Abs(float64(a.At(r, c))), math.Abs(float64(a.At(row, col))); x > y || x == y && r*a.Cols+c < row*a.Cols+col {
				return false
			}
		}
	}
	return true
}

// TestOneSumDoesNotWidenItsSet checks that an element which only high sums would admit is rejected
// where every element is a sum of its own, and that right kernels are accepted in every order, also
// if some columns are added in another order than the others.
func TestOneSumDoesNotWidenItsSet(t *testing.T) {
	t.Parallel()
	for i, test := range []struct {
		what  string
		d     *def.Definition
		out   int
		run   kernelFunc
		share float32
		sizes []string
	}{
		{"product, ascending", gemm.ForwardDefinition, 2, plainProduct(sequential), 1e-5, []string{"M=37,K=64,N=40", "M=2,K=300,N=33"}},
		{"product, pairwise", gemm.ForwardDefinition, 2, plainProduct(pairwise), 1e-5, []string{"M=33,K=300,N=40"}},
		{"product, in parts", gemm.ForwardDefinition, 2, plainProduct(inParts), 1e-5, []string{"M=33,K=300,N=40"}},
		{"product, some columns in another order", gemm.ForwardDefinition, 2, mixed(plainProduct(pairwise), plainProduct(backward), 2), 1e-5, []string{"M=33,K=100,N=66"}},
		{"sum by index, ascending", embedding.BackwardDefinition, 2, scatterAdd(sequential), 1e-5, []string{"Q=300,D=40,V=3"}},
		{"sum by index, in parts", embedding.BackwardDefinition, 2, scatterAdd(inParts), 1e-5, []string{"Q=300,D=40,V=3"}},
		{"column sum of products", layernorm.BackwardDefinition, 6, columnSums(backward), 5e-5, []string{"R=300,C=40"}}, // roundings of the terms alone admit 1e-5
		{"column sum", layernorm.BackwardDefinition, 7, columnSums(lanes(8)), 3e-5, []string{"R=300,C=40"}},
	} {
		if !isTried(i, 4) {
			continue
		}
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			for _, dtype := range []num.DType{num.F32, num.BF16} {
				x := target(test.d, dtype, stable(test.run))
				for k, p := range x.Cases().Patterns() {
					if name := p.Name + "/" + test.sizes[0]; isTried(k, 6) && x.CheckCase(name) == nil {
						if r := run(t, x, verify.Options{Case: name, Seed: 1}).Report; r.Verdict == evidence.Rejected {
							t.Errorf("%s, %s: a right kernel is rejected: %s", name, dtype, r.Reason)
						}
					}
				}
			}
			wrong := target(test.d, num.F32, stable(scaledBy(test.share, test.run, test.out, largestOf)))
			for _, size := range test.sizes {
				r := run(t, wrong, verify.Options{Case: "normal/" + size, Seed: 1}).Report
				if r.Verdict != evidence.Rejected || r.Mismatches != 1 || !strings.Contains(r.Reason, "from the other sums") {
					t.Errorf("%s: one element is off, and %d are rejected: %s %s", size, r.Mismatches, r.Verdict, r.Reason)
				}
			}
		})
	}
}

// TestRoundingsThatAreAlike checks that the one sum of equal terms among random ones may be as far
// off as equal terms are, whose roundings are not independent, and no farther.
func TestRoundingsThatAreAlike(t *testing.T) {
	t.Parallel()
	const m, k, n = 33, 3000, 33
	q, g := cpu.Queue(), gen.New("alike")
	left, right := make([]float32, m*k), make([]float32, k*n)
	for i := range left {
		left[i], right[i] = g.Normal(), g.Normal()
	}
	for i := range k {
		left[7*k+i], right[i*n+9] = 0.3, 0.3
	}
	one := func(_ num.Array, r, c int) bool { return r == 7 && c == 9 }
	for share, want := range map[float32]bool{0: false, 1.2e-4: true} {
		a, b := must(t)(tensor.FromFloat32(q.Device(), num.F32, left, m, k)), must(t)(tensor.FromFloat32(q.Device(), num.F32, right, k, n))
		c := must(t)(tensor.New(q.Device(), num.F32, m, n))
		var report verify.CallReport
		kernel := stable(scaledBy(share, plainProduct(sequential), 2, one))
		if err := gemm.Forward(q, c, a, b, engine.Using(kernel), engine.WithAdmission(engine.Off), verify.Checked(&report)); err != nil && !want {
			t.Error(err)
		}
		if r := report.Reports()[0]; (r.Verdict == evidence.Rejected) != want {
			t.Errorf("equal terms, %v of their sum off: %s %s", share, r.Verdict, r.Reason)
		}
	}
}
