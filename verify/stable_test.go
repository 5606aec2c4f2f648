package verify_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/attention"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/softmax"
	"tokitai/promise"
	"tokitai/truth"
	"tokitai/verify"
)

// stable returns a lowering that declares nothing, like a kernel that was written elsewhere.
func stable(run kernelFunc) *engine.Lowering {
	l := bitwise(run)
	l.Promise.Name = promise.Stable
	return l
}

// normOf returns LayerNorm with mean and variance computed by the given function.
func normOf(moments func(x []float32) (mean, variance float32)) kernelFunc {
	return func(_ *def.Definition, l *engine.Launch) error {
		x := l.Arrays()
		in, gamma, beta, y, mean, rstd := x[0], x[1], x[2], x[3], x[4], x[5]
		row := make([]float32, in.Cols)
		for r := range in.Rows {
			for c := range row {
				row[c] = in.At(r, c)
			}
			m, v := moments(row)
			s := 1 / float32(math.Sqrt(float64(v+float32(l.Params[0]))))
			mean.Set(r, 0, m)
			rstd.Set(r, 0, s)
			for c := range row {
				y.Set(r, c, (row[c]-m)*s*gamma.At(0, c)+beta.At(0, c))
			}
		}
		return nil
	}
}

func twoPasses(x []float32) (mean, variance float32) {
	n := float32(len(x))
	mean = lanes(8)(x) / n
	squares := make([]float32, len(x))
	for i, v := range x {
		squares[i] = (v - mean) * (v - mean)
	}
	return mean, lanes(8)(squares) / n
}

func welford(x []float32) (mean, variance float32) {
	squares := float32(0)
	for i, v := range x {
		d := v - mean
		mean += d / float32(i+1)
		squares += d * (v - mean)
	}
	return mean, squares / float32(len(x))
}

func meanOfSquares(x []float32) (mean, variance float32) {
	n := float32(len(x))
	squares := make([]float32, len(x))
	for i, v := range x {
		squares[i] = v * v
	}
	mean = lanes(8)(x) / n
	return mean, lanes(8)(squares)/n - mean*mean
}

// softmaxBase2 computes 2^(x·log2 e - most·log2 e).
func softmaxBase2(_ *def.Definition, l *engine.Launch) error {
	arrays := l.Arrays()
	x, y := arrays[0], arrays[1]
	e := make([]float32, x.Cols)
	for r := range x.Rows {
		top := float32(math.Inf(-1))
		for c := range x.Cols {
			top = max(top, x.At(r, c))
		}
		for c := range x.Cols {
			e[c] = float32(math.Exp2(float64((x.At(r, c) - top) * float32(math.Log2E))))
		}
		s := lanes(4)(e)
		for c := range x.Cols {
			y.Set(r, c, e[c]*(1/s))
		}
	}
	return nil
}

// TestStableForms checks that honest kernels are accepted in any form, and that dishonest ones are
// rejected without any declaration.
func TestStableForms(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what  string
		d     *def.Definition
		dtype num.DType
		run   kernelFunc
		name  string
		tiers []evidence.TierName // that reject it
	}{
		{"two passes", layernorm.ForwardDefinition, num.F32, normOf(twoPasses), "mean-10/R=8,C=200", nil},
		{"Welford's", layernorm.ForwardDefinition, num.F32, normOf(welford), "mean-10/R=8,C=200", nil},
		{"mean of squares", layernorm.ForwardDefinition, num.F32, normOf(meanOfSquares), "mean-10/R=8,C=200", []evidence.TierName{evidence.Set}},
		{"mean of squares", layernorm.ForwardDefinition, num.F16, normOf(meanOfSquares), "mean-10/R=8,C=200", []evidence.TierName{evidence.Set}},
		{"powers of 2", softmax.ForwardDefinition, num.F32, softmaxBase2, "spread/R=8,C=200", nil},
		{"powers of 2", softmax.ForwardDefinition, num.F16, softmaxBase2, "spread/R=8,C=200", nil},
		{"sums in bf16", softmax.ForwardDefinition, num.BF16, softmaxOf(inBF16(sequential)), "normal/R=8,C=200", []evidence.TierName{evidence.Set, evidence.Statistics}},
		{"products", gemm.ForwardDefinition, num.BF16, plainProduct(pairwise), "normal-64-summed/M=16,K=64,N=16/C=f32", nil},
		{"products with f16 accumulators", gemm.ForwardDefinition, num.F16, plainProduct(short(11, pairwiseOrder)), "normal-64-summed/M=16,K=64,N=16", []evidence.TierName{evidence.Set, evidence.Statistics}},
	} {
		r := run(t, target(test.d, test.dtype, stable(test.run)), verify.Options{Case: test.name, Seed: 1})
		if got := r.RejectedBy(); !slices.Equal(got, test.tiers) {
			t.Errorf("%s, %s %s: rejected by %v, want %v: %s", test.what, test.d.Name, test.dtype, got, test.tiers, r.Report.Reason)
		}
		if want := r.Report; test.tiers == nil && (want.Verdict != evidence.Accepted || want.Honest != evidence.Yes || want.Promise != "stable" || len(want.Heights) == 0) {
			t.Errorf("%s, %s %s: %s, honest %q, promise %q, heights %v: %s", test.what, test.d.Name, test.dtype, want.Verdict, want.Honest, want.Promise, want.Heights, want.Reason)
		}
	}
}

func inBF16(sum func([]float32) float32) func([]float32) float32 {
	return func(x []float32) float32 {
		return def.Fold(def.Sequential, x, func(a, b float32) float32 { return num.Widen(num.BF16, num.Narrow(num.BF16, a+b)) })
	}
}

// short sums in an order and keeps only some of the 24 bits of every sum.
func short(bits int, order def.Order) func([]float32) float32 {
	return func(x []float32) float32 {
		return def.Fold(order, x, func(a, b float32) float32 {
			sum := float64(a) + float64(b)
			unit := math.Ldexp(1, math.Ilogb(sum)-bits+1)
			return float32(math.RoundToEven(sum/unit) * unit)
		})
	}
}

// TestHeightsAreInferred checks that the height in a report is the least with which the outputs are
// admissible.
func TestHeightsAreInferred(t *testing.T) {
	t.Parallel()
	const name = "normal/R=3,C=100"
	for _, height := range []int{7, 20} {
		want := 0
		l := stable(func(d *def.Definition, l *engine.Launch) error {
			sets, err := truth.EncloseStable(d, l.Arrays(), truth.StableOptions{CountSteps: true})
			if err != nil {
				return err
			}
			out := answer(d, l)
			want = 0
			for c := range out[1].Cols { // the elements of a row share the error of its sum
				_, hi := sets.Between(1, 1, c, height)
				out[1].SetBits(1, c, hi)
				h, _ := sets.Height(1, 1, c, hi)
				want = max(want, h)
			}
			store(d, l, out, nil)
			return nil
		})
		r := expectAccepted(t, target(softmax.ForwardDefinition, num.F32, l), name)
		if want < height-2 || want > height || len(r.Heights) != 1 || r.Heights[0].Height != want || r.Heights[0].MostLength != 100 || r.Heights[0].Outputs != 300 {
			t.Errorf("heights %+v, want %d of sums of 100", r.Heights, want)
		}
	}
	l := stable(honest)
	l.Promise.Order = def.Sequential
	if r := expectAccepted(t, target(softmax.ForwardDefinition, num.F16, l), name); r.Heights != nil {
		t.Errorf("heights %+v although an order is declared", r.Heights)
	}
}

// TestSpreadBites checks sums that are a few bits short, or truncated. They are in their sets at the
// height that they need, and are rejected because too many need it.
func TestSpreadBites(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what string
		d    *def.Definition
		run  kernelFunc
		name string
	}{
		{"exponentials, 4 bits short", softmax.ForwardDefinition, softmaxOf(short(20, def.Sequential)), "normal/R=64,C=300"},
		{"exponentials, cut off", softmax.ForwardDefinition, softmaxOf(func(x []float32) float32 {
			return def.Fold(def.Sequential, x, func(a, b float32) float32 { return towardZero(float64(a) + float64(b)) })
		}), "normal/R=64,C=300"},
		{"products, 4 bits short", gemm.ForwardDefinition, plainProduct(short(20, pairwiseOrder)), "normal-64-summed/M=24,K=64,N=24"},
	} {
		r := expectRejected(t, target(test.d, num.F32, stable(test.run)), test.name, "larger than", evidence.Statistics)
		if r.Mismatches > 0 {
			t.Errorf("%s: %d outputs are outside of their sets", test.what, r.Mismatches)
		}
	}
	expectAccepted(t, target(softmax.ForwardDefinition, num.F32, stable(softmaxOf(sequential))), "normal/R=64,C=300")
	expectAccepted(t, target(gemm.ForwardDefinition, num.F32, stable(plainProduct(sequential))), "normal-64-summed/M=24,K=64,N=24")
}

// TestTooWideIsUndecided checks that a kernel is not accepted under a declaration that decides
// nothing.
func TestTooWideIsUndecided(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		promise promise.Name
		change  func(l *engine.Lowering)
	}{
		{promise.Stable, func(l *engine.Lowering) {
			l.Promise.Declares.Functions = map[string]promise.Error{"exp": {Relative: 0.25}}
		}},
		{promise.Stable, func(l *engine.Lowering) { l.Promise.FunctionULP = 1e6 }},
		{promise.Ordered, func(l *engine.Lowering) { l.Promise.FunctionULP = 1e7 }},
	} {
		l := stable(honest)
		l.Promise.Name = test.promise
		test.change(l)
		r := run(t, target(softmax.ForwardDefinition, num.F16, l), verify.Options{Seed: 1}).Report
		if r.Verdict != evidence.Undecided || r.Honest != evidence.Open || !strings.Contains(r.Reason, "small enough to say something") || r.Mismatches != 0 {
			t.Errorf("%s: %s (%s), honest %s, want undecided", test.promise, r.Verdict, r.Reason, r.Honest)
		}
		if d := r.Decided; len(d) != 1 || 2*d[0].Decided >= max(d[0].Known, 1) || d[0].Known >= d[0].Of {
			t.Errorf("%s: decided %+v, want fewer than half, of the operation's own kinds of data", test.promise, d)
		}
	}
}

// TestCoarseFunctionsDecide checks that the coarse functions of a definition do not leave its right
// kernels undecided, but that coarser ones do which the kernel declares.
func TestCoarseFunctionsDecide(t *testing.T) {
	t.Parallel()
	for declared, want := range map[float64]evidence.Verdict{0: evidence.Accepted, 0x1p-5: evidence.Undecided} {
		l := stable(honest)
		if declared > 0 {
			l.Promise.Declares.Functions = map[string]promise.Error{"exp2": {Relative: declared}}
		}
		x := target(attention.ForwardDefinition, num.F16, l)
		r := run(t, x, verify.Options{Seed: 1, Case: "normal/T=9,G=1,J=2,D=8,S=20,B=2"}).Report
		if r.Verdict != want {
			t.Errorf("exp2 with a relative error of %v: %s (%s), want %s", declared, r.Verdict, r.Reason, want)
		}
	}
}

// TestHonestIsNotAccurate checks that a kernel that declares the large errors of its functions is
// honest, and that the report says that it is not accurate, beside the definition's own figures.
func TestHonestIsNotAccurate(t *testing.T) {
	t.Parallel()
	coarse := func(_ *def.Definition, l *engine.Launch) error {
		x, y := l.Arrays()[0], l.Arrays()[1]
		for r := range x.Rows {
			sum := float32(0)
			e := make([]float32, x.Cols)
			for c := range e {
				e[c] = float32(math.Exp(float64(x.At(r, c)))) * (1 + float32(c%5)*0x1p-19)
				sum += e[c]
			}
			for c := range e {
				y.Set(r, c, e[c]/sum)
			}
		}
		return nil
	}
	l := stable(coarse)
	x := target(softmax.ForwardDefinition, num.F32, l)
	const name = "normal/R=4,C=100"
	expectRejected(t, x, name, "from the rest of its row", evidence.Set, evidence.Statistics)
	l.Promise.Declares.Functions = map[string]promise.Error{"exp": {ULPs: 40}}
	r := expectAccepted(t, x, name)
	if r.Honest != evidence.Yes || r.Accurate != evidence.No || *r.WorstErrorShare <= 1 || r.Own == nil || *r.Own.WorstErrorShare > 1 || *r.Own.WorstErrorULP >= *r.WorstErrorULP || r.Declared != "exp=40ulp" {
		t.Errorf("honest %s, accurate %s, declared %q, share %v, own %+v", r.Honest, r.Accurate, r.Declared, *r.WorstErrorShare, r.Own)
	}
	if r := expectAccepted(t, target(softmax.ForwardDefinition, num.F32, bitwise(honest)), name); r.Accurate != evidence.Yes || r.Own != nil || r.Promise != "bits" {
		t.Errorf("the reference: accurate %s, own %+v, promise %s", r.Accurate, r.Own, r.Promise)
	}
}

// withOperation returns a target with a changed copy of its operation.
func withOperation(x *verify.Target, change func(o *op.Operation)) *verify.Target {
	o := *x.Operation
	change(&o)
	x.Operation = &o
	return x
}

// rowOff adds steps to the elements of one row.
func rowOff(row int, steps int64) kernelFunc {
	return damaged(func(_ *engine.Launch, out []num.Array) {
		y := out[1]
		for c := range y.Cols {
			y.SetBits(row, c, num.FromIndex(y.DType, num.Index(y.DType, y.Bits(row, c))+steps))
		}
	})
}

// TestWaivers checks that a wrong element that a clause covers is a departure from the clause, which
// can be waived, and that any other wrong element is an error of arithmetic, which cannot.
func TestWaivers(t *testing.T) {
	t.Parallel()
	const name, clause = "normal/R=3,C=40", "softmax.forward.C2"
	for _, l := range []*engine.Lowering{bitwise(rowOff(1, 900)), stable(rowOff(1, 900))} {
		x := func(l *engine.Lowering) *verify.Target {
			return withOperation(target(softmax.ForwardDefinition, num.F32, l), func(o *op.Operation) {
				o.Clauses = []op.Clause{
					{Definition: softmax.ForwardDefinition, Number: "C1"},
					{Definition: softmax.ForwardDefinition, Number: "C2", Covers: func(*bound.Call) func(operand, row, col int) bool {
						return func(operand, row, _ int) bool { return operand == 1 && row == 1 }
					}},
				}
			})
		}
		r := run(t, x(l), verify.Options{Case: name, Seed: 1}).Report
		if r.Verdict != evidence.Rejected || r.Failure.Clause != clause || !strings.Contains(r.Reason, "y[1,0] differs from clause "+clause+": ") {
			t.Errorf("%s: %s, clause %q, reason %q; want a difference from %s", r.Promise, r.Verdict, r.Failure.Clause, r.Reason, clause)
		}
		if want := []evidence.Departure{{Clause: clause, Text: x(l).Operation.Clauses[1].Text(), Outputs: 40}}; !slices.Equal(r.Clauses, want) {
			t.Errorf("%s: departures %+v, want %+v", r.Promise, r.Clauses, want)
		}
		r = run(t, x(l), verify.Options{Case: name, Seed: 1, Waive: []string{clause}}).Report
		if r.Verdict != evidence.Accepted || r.Mismatches != 0 || len(r.Clauses) != 1 || r.Clauses[0].Outputs != 40 || !r.Clauses[0].IsWaived || !strings.Contains(strings.Join(r.NonClaims, "\n"), clause) {
			t.Errorf("%s: %s (%s), %d mismatches, departures %+v; want it waived", r.Promise, r.Verdict, r.Reason, r.Mismatches, r.Clauses)
		}
		other := bitwise(rowOff(0, 900))
		other.Promise.Name = l.Promise.Name
		r = run(t, x(other), verify.Options{Case: name, Seed: 1, Waive: []string{clause}}).Report
		if r.Verdict != evidence.Rejected || r.Mismatches != 40 || r.Failure.Clause != "" || strings.Contains(r.Reason, "clause") {
			t.Errorf("%s: %s (%s), %d mismatches; want arithmetic rejected", r.Promise, r.Verdict, r.Reason, r.Mismatches)
		}
		for waived, want := range map[string]string{"softmax.forward.C1": "cannot be waived", "softmax.forward.C99": "none to waive of that name"} {
			if _, err := verify.Run(t.Context(), x(l), verify.Options{Waive: []string{waived}}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("waiving %s: got %v, want an error with %q", waived, err, want)
			}
		}
	}
}

// TestAllowanceOfAProfile checks that a profile's known errors widen the sets, and that the report
// says how many outputs needed them.
func TestAllowanceOfAProfile(t *testing.T) {
	t.Parallel()
	const name = "normal/R=3,C=40"
	l := stable(rowOff(1, 900))
	x := withOperation(target(softmax.ForwardDefinition, num.F32, l), func(o *op.Operation) {
		o.Allowances = []op.Allowance{{Profile: "torch", Definition: softmax.ForwardDefinition, Output: "y", Text: "softmax: 1e-3 in row 1", At: func(*bound.Call) func(r, c int) float64 {
			return func(r, _ int) float64 {
				if r == 1 {
					return 1e-3
				}
				return 0
			}
		}}}
	})
	expectRejected(t, x, name, "differs", evidence.Set)
	l.Promise.Declares.Profile = "torch"
	r := run(t, x, verify.Options{Case: name, Seed: 1}).Report
	if want := []evidence.Allowance{{Text: "softmax: 1e-3 in row 1", Outputs: 40}}; r.Verdict != evidence.Accepted || !slices.Equal(r.Allowances, want) || r.Profile != "torch" {
		t.Errorf("%s (%s), allowances %+v, want accepted with %+v", r.Verdict, r.Reason, r.Allowances, want)
	}
}

// TestRangesCut checks that an output outside of the range of its clause is wrong, even if it is
// within the rounding errors.
func TestRangesCut(t *testing.T) {
	t.Parallel()
	x := target(softmax.ForwardDefinition, num.F32, stable(func(d *def.Definition, l *engine.Launch) error {
		out := answer(d, l)
		for r := range out[1].Rows {
			if p := out[1].At(r, 0); p > 0.9999 {
				out[1].Set(r, 0, math.Nextafter32(1, 2))
			}
		}
		store(d, l, out, nil)
		return nil
	}))
	const name = "ones/R=2,C=1"
	without := withOperation(target(x.Definition, x.DType, x.Lowering), func(o *op.Operation) { o.Ranges = nil })
	if r := expectAccepted(t, without, name); *r.WorstAdmissible < 2 {
		t.Errorf("%d values are admissible without a range", *r.WorstAdmissible)
	}
	within := withOperation(target(x.Definition, x.DType, x.Lowering), func(o *op.Operation) {
		o.Ranges = []op.Range{{Definition: x.Definition, Output: "y", Between: func(*bound.Call) func(r, c int) (float64, float64) {
			return func(int, int) (float64, float64) { return 0, 1 }
		}}}
	})
	if r := run(t, within, verify.Options{Case: name, Seed: 1}).Report; r.Verdict != evidence.Rejected || !strings.HasSuffix(r.Failure.Want, "to 0x3f800000 (1)") {
		t.Errorf("%s (%s), want it rejected above 1", r.Verdict, r.Reason)
	}
}

// TestOmittedOutputs checks that an output that is declared as omitted is neither required nor
// judged, whatever it holds.
func TestOmittedOutputs(t *testing.T) {
	t.Parallel()
	isMean := func(operand, _, _ int) bool { return operand == 4 }
	l := stable(func(d *def.Definition, l *engine.Launch) error {
		store(d, l, answer(d, l), isMean)
		return nil
	})
	x := target(layernorm.ForwardDefinition, num.F16, l)
	if r := run(t, x, verify.Options{Case: "normal/R=3,C=40", Seed: 1}); !slices.Contains(r.RejectedBy(), evidence.Structure) {
		t.Errorf("an output that is not written: %s (%s)", r.Report.Verdict, r.Report.Reason)
	}
	l.Promise.Declares.Omits = []string{"mean"}
	r := run(t, x, verify.Options{Seed: 1}).Report
	if r.Verdict != evidence.Accepted || !slices.Equal(r.Omitted, []string{"mean"}) || !strings.Contains(strings.Join(r.NonClaims, "\n"), "output mean was not judged") || r.Declared != "omit=mean" {
		t.Errorf("%s (%s), omitted %v, declared %q", r.Verdict, r.Reason, r.Omitted, r.Declared)
	}
	for _, d := range r.Decided {
		if d.Output == "mean" {
			t.Errorf("the omitted output was judged: %+v", d)
		}
	}
}

// TestDeclarationsThatMakeNoSense checks that such declarations are refused before anything runs.
func TestDeclarationsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(l *engine.Lowering){
		"formula \"sideways\"": func(l *engine.Lowering) { l.Promise.Declares.Formula = "sideways" },
		"profile \"mine\"":     func(l *engine.Lowering) { l.Promise.Declares.Profile = "mine" },
		"output \"mean\"":      func(l *engine.Lowering) { l.Promise.Declares.Omits = []string{"mean"} },
	} {
		l := stable(honest)
		change(l)
		if _, err := verify.Run(t.Context(), target(softmax.ForwardDefinition, num.F16, l), verify.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

// TestReplayNamesTheTerms checks that a replay command has the promise, the declaration and the
// waived clauses.
func TestReplayNamesTheTerms(t *testing.T) {
	t.Parallel()
	l := stable(rowOff(1, 90000))
	l.Promise.Name, l.Promise.Declares.Functions, l.Promise.Order = promise.Stable, map[string]promise.Error{"exp": {ULPs: 3}}, def.Sequential
	r := run(t, target(softmax.ForwardDefinition, num.F32, l), verify.Options{Case: "normal/R=3,C=40", Seed: 1, IsNamed: true})
	for _, want := range []string{" --promise stable", " --declare 'order=sequential,exp=3ulp'"} {
		if !strings.Contains(r.Replay, want) && !strings.Contains(r.Replay, strings.ReplaceAll(want, ",", " ")) {
			t.Errorf("replay %q, want one with %q", r.Replay, want)
		}
	}
}

// TestSharpness checks the numbers of values that the promise and allclose admit.
func TestSharpness(t *testing.T) {
	t.Parallel()
	// 1 + 2^-10·k and 1 - 2^-11·k are the neighbours of 1 in f16: within 0.02 are 20 and 40 of them.
	r := expectAccepted(t, target(gemm.ForwardDefinition, num.F16, bitwise(honest)), "ones/M=2,K=1,N=2")
	if *r.MeanAdmissible != 1 || r.MeanAllClose == nil || *r.MeanAllClose != 1+20+40 || *r.MedianAllClose != 61 {
		t.Errorf("%v values are admissible, allclose admits %v, want 1 and 61", *r.MeanAdmissible, r.MeanAllClose)
	}
}
