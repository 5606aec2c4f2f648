package verify_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/norm"
	"tokitai/op/softmax"
	"tokitai/promise"
	"tokitai/verify"
)

// TestStableScalesWithoutFunctions checks that stable kernels are run on scaled inputs only if no
// function, root or quotient may have another error at the scaled argument.
func TestStableScalesWithoutFunctions(t *testing.T) {
	t.Parallel()
	for d, want := range map[*def.Definition]bool{
		gemm.ForwardDefinition: true, norm.SquareSumDefinition: true,
		layernorm.ForwardDefinition: false, layernorm.BackwardDefinition: false, adamw.InPlaceDefinition: false, norm.ClipDefinition: false,
	} {
		for _, p := range []promise.Name{promise.Ordered, promise.Stable} {
			l := bounded(def.Order{}, honest)
			l.Promise.Name = p
			relations := verify.ChecksOf(target(d, num.F32, l))[evidence.Relations]
			got := slices.ContainsFunc(relations, func(name string) bool { return strings.HasPrefix(name, "scale-") })
			hasScalings := slices.ContainsFunc(verify.ChecksOf(target(d, num.F32, bitwise(honest)))[evidence.Relations], func(name string) bool { return strings.HasPrefix(name, "scale-") })
			if got != (hasScalings && (want || p == promise.Ordered)) {
				t.Errorf("%s %s: %v", d, p, relations)
			}
		}
	}
}

// quotients is softmax whose quotients are off by a share of their value.
func quotients(share float64) kernelFunc {
	return func(d *def.Definition, l *engine.Launch) error {
		x, y := l.Operands[0].Array, l.Operands[1].Array
		for r := range x.Rows {
			largest, sum := math.Inf(-1), 0.0
			for c := range x.Cols {
				largest = math.Max(largest, float64(x.At(r, c))) // NaN if one is
			}
			for c := range x.Cols {
				sum += math.Exp(float64(x.At(r, c)) - largest)
			}
			for c := range x.Cols {
				p := math.Exp(float64(x.At(r, c))-largest) / sum
				y.Set(r, c, float32(math.Min(1, p*(1+share))))
			}
		}
		return nil
	}
}

// TestBiasCountsInNarrowSets checks that errors of one sign are a fault where rounding is the only
// source of errors, but not where a declared error widens the sets, since functions may prefer a
// sign. Whether enough outputs are decided depends only on the operation's own kinds of data.
func TestBiasCountsInNarrowSets(t *testing.T) {
	t.Parallel()
	stable := func(share float64, declares string) *verify.Result {
		l := bounded(def.Order{}, quotients(share))
		l.Promise.Name = promise.Stable
		var err error
		if l.Promise.Declares, _, err = promise.ParseDeclaration(declares); err != nil {
			t.Fatal(err)
		}
		return run(t, target(softmax.ForwardDefinition, num.F16, l), verify.Options{Level: verify.Smoke, Seed: 1})
	}
	r := stable(0x1p-10, "div=2^-9")
	if by := r.RejectedBy(); r.Report.Verdict != evidence.Accepted {
		t.Errorf("a declared error: %s by %v: %s", r.Report.Verdict, by, r.Report.Reason)
	}
	for _, d := range r.Report.Decided {
		if d.Known == 0 || d.Known >= d.Of {
			t.Errorf("%s: %d elements of own data, %d in all", d.Output, d.Known, d.Of)
		}
	}
	if r := stable(0x1p-13, ""); !slices.Contains(r.RejectedBy(), evidence.Statistics) {
		t.Errorf("an error of one sign below the last place: %s by %v", r.Report.Verdict, r.RejectedBy())
	}
}

// TestAllowanceIsNoBias checks that statistics leave out outputs that need an allowance, such as
// those of the tanh form under profile torch.
func TestAllowanceIsNoBias(t *testing.T) {
	t.Parallel()
	l := bounded(def.Order{}, tanhGELU)
	l.Promise.Name, l.Promise.Declares.Profile = promise.Stable, "torch"
	for _, dtype := range []num.DType{num.F16, num.BF16} {
		if r := run(t, target(gelu.ForwardDefinition, dtype, l), verify.Options{Level: verify.Smoke, Seed: 1}); slices.Contains(r.RejectedBy(), evidence.Statistics) {
			t.Errorf("%s: %s", dtype, r.Report.Reason)
		}
	}
}
