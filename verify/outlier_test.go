package verify_test

import (
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/layernorm"
	"tokitai/op/softmax"
	"tokitai/verify"
)

// scaledBy multiplies elements of an output of a kernel by 1 + share.
func scaledBy(share float32, run kernelFunc, operand int, isScaled func(a num.Array, r, c int) bool) kernelFunc {
	return func(d *def.Definition, l *engine.Launch) error {
		err := run(d, l)
		a := l.Arrays()[operand]
		for r := range a.Rows {
			for c := range a.Cols {
				if isScaled(a, r, c) {
					a.Set(r, c, a.At(r, c)*(1+share))
				}
			}
		}
		return err
	}
}

// sequentialMoments adds one element after another.
func sequentialMoments(x []float32) (mean, variance float32) {
	for _, v := range x {
		mean += v
	}
	mean /= float32(len(x))
	for _, v := range x {
		variance += (v - mean) * (v - mean)
	}
	return mean, variance / float32(len(x))
}

// TestOneElementDoesNotWidenItsSet checks that an element which only high sums would admit is
// rejected if the rest of its row shows that the sums are better, and that the same error in the whole
// row is taken for that of its sums. Right kernels in every form are accepted, on rows of any length.
func TestOneElementDoesNotWidenItsSet(t *testing.T) {
	t.Parallel()
	const share = 1e-5                        // more than a hundred ulp
	one := func(a num.Array, r, c int) bool { // the largest of its row
		if r != a.Rows/2 || c > 0 && a.At(r, c-1) >= a.At(r, c) {
			return false
		}
		for k := range a.Cols {
			if a.At(r, k) > a.At(r, c) || a.At(r, k) == a.At(r, c) && k < c {
				return false
			}
		}
		return true
	}
	for i, test := range []struct {
		what string
		d    *def.Definition
		out  int
		run  kernelFunc
	}{
		{"softmax, ascending", softmax.ForwardDefinition, 1, softmaxOf(sequential)},
		{"softmax, pairwise", softmax.ForwardDefinition, 1, softmaxOf(pairwise)},
		{"softmax, base 2", softmax.ForwardDefinition, 1, softmaxBase2},
		{"LayerNorm, ascending", layernorm.ForwardDefinition, 3, normOf(sequentialMoments)},
		{"LayerNorm, two passes", layernorm.ForwardDefinition, 3, normOf(twoPasses)},
		{"LayerNorm, Welford", layernorm.ForwardDefinition, 3, normOf(welford)},
		{"LayerNorm, mean of squares", layernorm.ForwardDefinition, 3, normOf(meanOfSquares)},
	} {
		if !isTried(i, 3) {
			continue
		}
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			for _, dtype := range []num.DType{num.F32, num.BF16} {
				x := target(test.d, dtype, stable(test.run))
				for _, size := range []string{"R=3,C=1", "R=3,C=2", "R=5,C=3", "R=4,C=5", "R=3,C=33", "R=3,C=700"} {
					for _, pattern := range []string{"normal", "integers", "spread"} {
						name := pattern + "/" + size
						if x.CheckCase(name) != nil {
							continue
						}
						if r := run(t, x, verify.Options{Case: name, Seed: 1}).Report; r.Verdict == evidence.Rejected {
							t.Errorf("%s, %s: a right kernel is rejected: %s", name, dtype, r.Reason)
						}
					}
				}
			}
			wrong := target(test.d, num.F32, stable(scaledBy(share, test.run, test.out, one)))
			for _, name := range []string{"normal/R=3,C=33", "normal/R=3,C=700", "normal/R=2,C=3000"} {
				r := run(t, wrong, verify.Options{Case: name, Seed: 1}).Report
				if r.Verdict != evidence.Rejected || r.Mismatches != 1 {
					t.Errorf("%s: one element is off, and %d are rejected: %s %s", name, r.Mismatches, r.Verdict, r.Reason)
				} else if name == "normal/R=3,C=700" && !strings.Contains(r.Reason, "from the rest of its row") {
					t.Errorf("%s: %s, want an explanation", name, r.Reason)
				}
			}
		})
	}
	row := func(a num.Array, r, c int) bool { return r == 1 }
	x := target(softmax.ForwardDefinition, num.F32, stable(scaledBy(share, softmaxOf(pairwise), 1, row)))
	if r := run(t, x, verify.Options{Case: "spread/R=3,C=700", Seed: 1}).Report; r.Verdict == evidence.Rejected {
		t.Errorf("a row whose sum is off is rejected: %s", r.Reason)
	}
}
