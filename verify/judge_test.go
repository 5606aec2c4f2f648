package verify_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/softmax"
	"tokitai/truth"
	"tokitai/verify"
)

// smallCase returns the name of a small case of a definition.
func smallCase(d *def.Definition) string {
	var sizes []string
	for i, letter := range d.Sizes() {
		sizes = append(sizes, fmt.Sprintf("%s=%d", letter, d.FitSize(letter, 3+2*i)))
	}
	return "normal/" + strings.Join(sizes, ",")
}

// TestEveryOutputIsCompared flips the last bit of one element of every output of every
// definition.
func TestEveryOutputIsCompared(t *testing.T) {
	t.Parallel()
	for _, x := range ofFewFormats(cpuTargets()) {
		d := x.Definition
		for i := range d.Operands {
			if !d.Operands[i].IsOut {
				continue
			}
			want := ""
			k := bitwise(damaged(func(_ *engine.Launch, out []num.Array) {
				a := out[i]
				r, c := a.Rows-1, a.Cols/2
				a.SetBits64(r, c, a.Bits64(r, c)^1)
				want = d.Operands[i].Name
				switch {
				case len(d.Operands[i].Dims) == 2:
					want += fmt.Sprintf("[%d,%d]", r, c)
				case len(d.Operands[i].Dims) == 3:
					want += fmt.Sprintf("[%d,%d,%d]", a.Matrices()-1, a.RowIn(r), c)
				case len(d.Operands[i].Dims) == 4:
					want += fmt.Sprintf("[%d,%d,%d,%d]", a.Batch.Axes[0].Size-1, a.Batch.Axes[1].Size-1, a.RowIn(r), c)
				case len(d.Operands[i].Dims) == 1:
					want += fmt.Sprintf("[%d]", max(r, c))
				}
			}))
			r := expectRejected(t, &verify.Target{Operation: x.Operation, Definition: d, DType: x.DType, Lowering: k}, smallCase(d), "differs", evidence.Bits)
			if r.Mismatches != 1 || r.Failure == nil || r.Failure.Place != want {
				t.Errorf("%s %s: %d mismatches, %+v, want one at %s", x.ID(), x.DType, r.Mismatches, r.Failure, want)
			}
		}
	}
}

// changing changes the outputs for which a function gives other bits, and counts them.
func changing(count *int, other func(bits uint32) uint32) kernelFunc {
	return func(d *def.Definition, l *engine.Launch) error {
		out := answer(d, l)
		for i, a := range out {
			for r := range a.Rows {
				for c := range a.Cols {
					if bits := a.Bits(r, c); d.Operands[i].IsOut && other(bits) != bits {
						a.SetBits(r, c, other(bits))
						*count++
					}
				}
			}
		}
		store(d, l, out, nil)
		return nil
	}
}

// otherNaN returns a function that gives NaNs another sign and payload.
func otherNaN(d num.DType) func(uint32) uint32 {
	return func(bits uint32) uint32 {
		if num.IsNaN(d, bits) {
			return bits ^ (1<<(8*d.Size()-1) | 3)
		}
		return bits
	}
}

func TestNaNIsOneValue(t *testing.T) {
	t.Parallel()
	n := 0
	x := target(softmax.ForwardDefinition, num.BF16, bitwise(changing(&n, otherNaN(num.BF16))))
	expectAccepted(t, x, "special/R=5,C=33")
	expectAccepted(t, x, "repeat:special/R=5,C=33")
	if n == 0 {
		t.Error("no NaN was written")
	}
	n = 0
	expectRejected(t, target(embedding.ForwardDefinition, num.BF16, bitwise(changing(&n, otherNaN(num.BF16)))), "special/Q=70,V=9,D=13", "differs", evidence.Bits)
	if n == 0 {
		t.Error("a gather: no NaN was written")
	}
}

func TestZerosDiffer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		d     *def.Definition
		name  string
		zeros int64
	}{
		{softmax.ForwardDefinition, "causal-mask/R=5,C=33", 150},
		{embedding.BackwardDefinition, "normal/Q=5,V=30,D=3", 75},
		{gemm.ForwardDefinition, "zeros/M=3,K=5,N=4", 12},
		{embedding.ForwardDefinition, "zeros/Q=5,V=3,D=4", 5},
	} {
		n := 0
		negated := bitwise(changing(&n, func(bits uint32) uint32 {
			if bits == 0 {
				return 1 << 15
			}
			return bits
		}))
		r := expectRejected(t, target(test.d, num.F16, negated), test.name, "differs", evidence.Bits)
		if r.Mismatches != test.zeros {
			t.Errorf("%s: %d mismatches, want %d", test.d.Name, r.Mismatches, test.zeros)
		}
	}
}

// moved returns an honest bounded kernel, except that one output is the end of its set, moved by
// some steps.
func moved(o def.Order, isUpper bool, steps int64) *engine.Lowering {
	return bounded(o, func(d *def.Definition, l *engine.Launch) error {
		inputs := l.Arrays()
		rounded, err := truth.Enclose(d, inputs, truth.Options{Params: l.Params, Mode: truth.Rounded, Order: &o})
		if err != nil {
			return err
		}
		out := answer(d, l)
		last := len(out) - 1
		lo, hi := rounded.Between(last, 1, 2)
		if isUpper {
			lo = hi
		}
		out[last].SetBits(1, 2, num.FromIndex(out[last].DType, num.Index(out[last].DType, lo)+steps))
		store(d, l, out, nil)
		return nil
	})
}

// TestSetHasEnds takes the least and the greatest admissible value, and what lies
// just beyond them.
func TestSetHasEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		d     *def.Definition
		dtype num.DType
		order def.Order
		name  string
	}{
		{softmax.ForwardDefinition, num.F32, def.Order{}, "normal/R=3,C=40"},
		{softmax.ForwardDefinition, num.F16, def.Sequential, "normal/R=3,C=400"},
		{gemm.ForwardDefinition, num.BF16, def.Order{}, "normal/M=3,K=70,N=4"},
		{gemm.GradBDefinition, num.F32, def.Order{Kind: def.Pairwise}, "normal/M=70,K=3,N=4"},
		{embedding.BackwardDefinition, num.F32, def.Order{}, "normal/Q=100,V=3,D=4"},
	} {
		for _, isUpper := range []bool{false, true} {
			step := int64(-1)
			if isUpper {
				step = 1
			}
			expectAccepted(t, target(test.d, test.dtype, moved(test.order, isUpper, 0)), test.name)
			r := expectRejected(t, target(test.d, test.dtype, moved(test.order, isUpper, step)), test.name, "[1,2] differs", evidence.Set)
			if r.Mismatches != 1 {
				t.Errorf("%s %s: %d mismatches, want 1", test.d.Name, test.dtype, r.Mismatches)
			}
		}
	}
}

// TestClasses checks that outputs of bounded kernels that depend on NaN or infinite inputs are
// compared by their class.
func TestClasses(t *testing.T) {
	t.Parallel()
	const d = num.F32
	nan, inf, minusInf, some := uint32(0x7fc00000), uint32(0x7f800000), uint32(0xff800000), math.Float32bits(12345)
	isFinite := func(bits uint32) bool { return bits&inf != inf }
	// On this pattern every sum that sees an infinity or a NaN is NaN or infinite, and
	// the masked columns of a row are 0.
	const products, masked = "zeros-against-infinities/M=8,K=20,N=8", "causal-mask/R=5,C=33"
	for _, test := range []struct {
		what       string
		definition *def.Definition
		name       string
		from       func(uint32) bool
		to         uint32
		isRight    bool
	}{
		{"another NaN", gemm.ForwardDefinition, products, func(b uint32) bool { return num.IsNaN(d, b) }, 0xffc12345, true},
		{"a number instead of NaN", gemm.ForwardDefinition, products, func(b uint32) bool { return num.IsNaN(d, b) }, some, false},
		{"infinity instead of NaN", gemm.ForwardDefinition, products, func(b uint32) bool { return num.IsNaN(d, b) }, inf, false},
		{"NaN instead of infinity", gemm.ForwardDefinition, products, func(b uint32) bool { return b == inf }, nan, false},
		{"-infinity instead of infinity", gemm.ForwardDefinition, products, func(b uint32) bool { return b == inf }, minusInf, false},
		{"infinity instead of -infinity", gemm.ForwardDefinition, products, func(b uint32) bool { return b == minusInf }, inf, false},
		{"the largest number instead of infinity", gemm.ForwardDefinition, products, func(b uint32) bool { return b == inf }, inf - 1, false},
		{"infinity instead of 0", softmax.ForwardDefinition, masked, func(b uint32) bool { return b == 0 }, inf, false},
		{"-infinity instead of 0", softmax.ForwardDefinition, masked, func(b uint32) bool { return b == 0 }, minusInf, false},
		{"NaN instead of 0", softmax.ForwardDefinition, masked, func(b uint32) bool { return b == 0 }, nan, false},
		{"the largest number instead of 0", softmax.ForwardDefinition, masked, func(b uint32) bool { return b == 0 }, inf - 1, false},
		{"the least number instead of 0", softmax.ForwardDefinition, masked, func(b uint32) bool { return b == 0 }, minusInf - 1, false},
		{"NaN instead of a number", gemm.ForwardDefinition, "normal/M=3,K=5,N=4", isFinite, nan, false},
	} {
		t.Run(test.what, func(t *testing.T) {
			n := 0
			l := bounded(def.Order{}, changing(&n, func(bits uint32) uint32 {
				if test.from(bits) {
					return test.to
				}
				return bits
			}))
			x := target(test.definition, d, l)
			if test.isRight {
				expectAccepted(t, x, test.name)
			} else {
				expectRejected(t, x, test.name, "differs", evidence.Set)
			}
			if n == 0 {
				t.Error("nothing was changed")
			}
		})
	}
}

// TestUnspecified checks that outputs of bounded kernels whose sums may overflow are not judged, and
// that the tier's count says so.
func TestUnspecified(t *testing.T) {
	t.Parallel()
	isOpen := func(a []num.Array) bool { return max(a[0].At(0, 0), -a[0].At(0, 0)) > 0x1p90 }
	fault := damaged(func(_ *engine.Launch, out []num.Array) {
		if isOpen(out) {
			out[2].Set(1, 2, 42)
		}
	})
	const name = "extreme/M=3,K=5,N=4"
	r := expectAccepted(t, target(gemm.ForwardDefinition, num.F32, bounded(def.Order{}, fault)), name)
	checks := int64(-1)
	for _, tier := range r.Tiers {
		if tier.Name == evidence.Set {
			checks = tier.Checks
		}
	}
	if checks != 0 || r.Elements != 12 {
		t.Errorf("%d of %d outputs were compared, want 0 of 12", checks, r.Elements)
	}
	expectRejected(t, target(gemm.ForwardDefinition, num.F32, bitwise(fault)), name, "C[1,2] differs", evidence.Bits)
}

// TestGridHasOneAnswer checks that an error that admissible sets hide is found where every order
// gives the same result.
func TestGridHasOneAnswer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		d          *def.Definition
		dtype      num.DType
		plain, hit string
	}{
		{gemm.ForwardDefinition, num.F32, "normal/M=3,K=300,N=4", "small-integers/M=3,K=300,N=4"},
		{softmax.ForwardDefinition, num.F32, "normal/R=3,C=40", "one-or-nothing/R=3,C=40"},
		{embedding.BackwardDefinition, num.F32, "normal/Q=900,V=3,D=4", gridOf(t, embedding.BackwardDefinition) + "/Q=900,V=3,D=4"},
	} {
		off := bounded(def.Order{}, damaged(func(_ *engine.Launch, out []num.Array) {
			last := out[len(out)-1]
			last.SetBits(1, 2, last.Bits(1, 2)+1)
		}))
		x := target(test.d, test.dtype, off)
		expectAccepted(t, x, test.plain)
		r := expectRejected(t, x, test.hit, "[1,2] differs", evidence.Set, evidence.Grid)
		if r.Failure.Tier != evidence.Grid {
			t.Errorf("%s: tier %s, want grid", test.d.Name, r.Failure.Tier)
		}
		expectAccepted(t, target(test.d, test.dtype, bounded(def.Order{}, honest)), test.hit)
	}
}

// gridOf returns the name of a pattern of a definition on which every sum is exact.
func gridOf(t *testing.T, d *def.Definition) string {
	_, grids := verify.PatternNames(target(d, num.F32, bitwise(honest)))
	if len(grids) == 0 {
		t.Fatalf("%s has no grid", d.Name)
	}
	return grids[0]
}

// TestFigures compares a report's figures with sets that are counted here.
func TestFigures(t *testing.T) {
	t.Parallel()
	const name = "normal/M=3,K=200,N=4"
	order := def.Order{}
	var sizes []int64
	l := bounded(order, func(d *def.Definition, l *engine.Launch) error {
		rounded, err := truth.Enclose(d, l.Arrays(), truth.Options{Mode: truth.Rounded, Order: &order})
		if err != nil {
			return err
		}
		sizes = nil
		for r := range 3 {
			for c := range 4 {
				lo, hi := rounded.Between(2, r, c)
				sizes = append(sizes, num.Index(num.F16, hi)-num.Index(num.F16, lo)+1)
			}
		}
		return honest(d, l)
	})
	r := expectAccepted(t, target(gemm.ForwardDefinition, num.F16, l), name)
	sum, worst, over := int64(0), int64(0), 0
	for _, n := range sizes {
		sum += n
		worst = max(worst, n)
		if n > 1 {
			over++
		}
	}
	n := float64(len(sizes))
	if *r.MeanAdmissible != float64(sum)/n || *r.WorstAdmissible != worst || *r.ShareOverOne != float64(over)/n {
		t.Errorf("mean %v, worst %v, share %v; want %v, %v, %v", *r.MeanAdmissible, *r.WorstAdmissible, *r.ShareOverOne, float64(sum)/n, worst, float64(over)/n)
	}
	if want := medianOf(sizes); *r.MedianAdmissible != want {
		t.Errorf("median %v, want %v of %v", *r.MedianAdmissible, want, sizes)
	}
	if over == 0 || over == len(sizes) {
		t.Errorf("sets %v: want some with one value and some with more", sizes)
	}

	exact := expectAccepted(t, target(gelu.ForwardDefinition, num.F16, bitwise(honest)), "normal/R=3,C=9")
	if *exact.MeanAdmissible != 1 || *exact.MedianAdmissible != 1 || *exact.WorstAdmissible != 1 || *exact.ShareOverOne != 0 {
		t.Errorf("under contract bits one value is admissible, got %v %v %v %v", *exact.MeanAdmissible, *exact.MedianAdmissible, *exact.WorstAdmissible, *exact.ShareOverOne)
	}
	if exact.TruthElements != 27 || *exact.WorstErrorULP < 0.4 || *exact.WorstErrorULP > 0.6 {
		t.Errorf("%d outputs compared with the truth, worst %v ulp; want 27, about half an ulp", exact.TruthElements, *exact.WorstErrorULP)
	}
}

// TestErrorFigures moves one output of a product of ones by hand: 2 + 3 ulp.
func TestErrorFigures(t *testing.T) {
	t.Parallel()
	l := bounded(def.Order{}, damaged(func(_ *engine.Launch, out []num.Array) { out[2].SetBits(0, 1, out[2].Bits(0, 1)+3) }))
	r := run(t, target(gemm.ForwardDefinition, num.F16, l), verify.Options{Case: "ones/M=1,K=2,N=4"}).Report
	if r.WorstErrorULP == nil {
		t.Fatal("no error was measured")
	}
	// The farthest end of an enclosure is beyond the truth, by less than nine digits show.
	if worst := fmt.Sprintf("%.9g", *r.WorstErrorULP); worst != "3" || *r.WorstErrorULP < 3 || *r.Misrounded != 0.25 || r.Undecided != 0 || r.ErrorUndefined != 0 {
		t.Errorf("worst error %s, misrounded %v, undecided %d, undefined %d; want 3, 0.25, 0, 0", worst, *r.Misrounded, r.Undecided, r.ErrorUndefined)
	}
	if w := r.WorstCases; len(w) != 2 || w[0].Place != "C[0,1]" || w[0].Truth != "2" || w[0].Value != *r.WorstErrorULP || w[1].Figure != "error_share" || w[1].Place != "C[0,1]" {
		t.Errorf("worst cases %+v, want C[0,1], 3 ulp from 2, in ulps and as a share of what is promised", w)
	}
}

// TestNothingButOverflow checks that a report is written even if all outputs are infinite where the
// truth is finite, so that none has an error in ulps.
func TestNothingButOverflow(t *testing.T) {
	t.Parallel()
	r := expectAccepted(t, target(gemm.ForwardDefinition, num.F16, bitwise(honest)), "large/M=2,K=1,N=3")
	if r.TruthElements == 0 || r.ErrorUndefined != r.TruthElements || r.WorstErrorULP != nil {
		t.Errorf("%d of %d errors undefined, worst %v; want all of some, and no worst", r.ErrorUndefined, r.TruthElements, r.WorstErrorULP)
	}
}
