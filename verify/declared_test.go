package verify_test

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/fn"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	softmaxop "tokitai/op/softmax"
	"tokitai/promise"
	"tokitai/reference"
	"tokitai/verify"
)

// TestDeclaredIsReadable checks that the declaration in a report parses, prints the same, and gives
// the same errors of functions.
func TestDeclaredIsReadable(t *testing.T) {
	t.Parallel()
	orders := []def.Order{{}, def.Sequential, {Kind: def.Lanes, Width: 16}, {Kind: def.Chunks, Width: 32}, {Kind: def.Pairwise}, {Kind: def.Height, Width: 40}}
	for n, o := range all.Operations {
		for _, d := range o.Definitions {
			for k, declares := range []promise.Declaration{
				{},
				{Profile: "torch"},
				{Functions: map[string]promise.Error{"exp": {ULPs: 2, ULPsPerX: 1.16}}, FlushesSubnormals: true, RawParams: true},
				{Profile: "cuda-fast-math", Omits: []string{d.Operands[len(d.Operands)-1].Name}},
			} {
				for _, p := range []promise.Name{promise.Ordered, promise.Stable} {
					l := &engine.Lowering{Promise: engine.Promise{Name: p, Declares: declares, Order: orders[(n+k)%len(orders)], FunctionULP: float64(k + 1)}}
					text := verify.DeclaredBy(&verify.Target{Operation: o, Definition: d, Lowering: l, DType: num.F32})
					read, order, err := promise.ParseDeclaration(text)
					if err != nil {
						t.Errorf("%s %s: %q: %v", d, p, text, err)
						continue
					}
					if again := promise.Format(read, order); again != text {
						t.Errorf("%s %s: %q is written back as %q", d, p, text, again)
					}
					for f, e := range read.Functions {
						if _, isDeclared := declares.Functions[f]; !isDeclared && e.ULPs < l.Promise.FunctionULP {
							t.Errorf("%s %s: %q, but functions have %g ulps", d, p, text, l.Promise.FunctionULP)
						}
					}
				}
			}
		}
	}
	one := &verify.Target{Definition: softmaxop.ForwardDefinition, Lowering: &engine.Lowering{Promise: engine.Promise{Name: promise.Ordered, FunctionULP: 2}}, DType: num.F32}
	if got, want := verify.DeclaredBy(one), "exp=2ulp"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDeclaredRoundingIsNoBias checks that a declared rounding of a value to bf16, which moves
// outputs by a step to both sides more often than the last rounding does, does not count as a bias,
// and that rounding toward zero does.
func TestDeclaredRoundingIsNoBias(t *testing.T) {
	t.Parallel()
	d := swiglu(t)
	for _, k := range []struct {
		round   func(v float64) float32
		verdict evidence.Verdict
	}{
		{func(v float64) float32 { return num.Widen(num.BF16, num.NarrowF64(num.BF16, v)) }, evidence.Accepted},
		{func(v float64) float32 { return math.Float32frombits(math.Float32bits(float32(v)) &^ 0xffff) }, evidence.Rejected},
	} {
		l := bounded(def.Order{}, func(_ *def.Definition, l *engine.Launch) error {
			a, b, c := l.Operands[0].Array, l.Operands[1].Array, l.Operands[2].Array
			for r := range a.Rows {
				for i := range a.Cols {
					v := float64(a.At(r, i))
					c.Set(r, i, k.round(v/(1+math.Exp(-v)))*b.At(r, i))
				}
			}
			return nil
		})
		l.Promise.Name, l.Promise.Declares = promise.Stable, promise.Declaration{Roundings: map[string]num.DType{"activation": num.BF16}}
		r := run(t, &verify.Target{Operation: op.Of(d, ""), Definition: d, Lowering: l, DType: num.BF16}, verify.Options{Seed: 1, Case: "normal/R=2,C=1024"}).Report
		if r.Verdict != k.verdict {
			t.Errorf("%s (%s), want %s: %+v", r.Verdict, r.Reason, k.verdict, r.Failure)
		}
	}
}

// TestDeclaredFunctionIsNoBias checks that a tanh that is always too small is no bias if its error
// is declared, that it is one otherwise, and that a declared tanh does not hide that results are cut
// off.
func TestDeclaredFunctionIsNoBias(t *testing.T) {
	t.Parallel()
	nearest := func(d num.DType, v float64) uint32 { return num.NarrowF64(d, v) }
	cutOff := func(d num.DType, v float64) uint32 {
		bits := num.NarrowF64(d, v)
		if math.Abs(float64(num.Value(d, uint64(bits)))) > math.Abs(v) {
			bits--
		}
		return bits
	}
	for _, k := range []struct {
		declared string
		store    func(d num.DType, v float64) uint32
		isBiased bool
	}{
		{"tanh=2^-11", nearest, false},
		{"", nearest, true},
		{"tanh=2^-11", cutOff, true},
	} {
		l := bounded(def.Order{}, func(_ *def.Definition, l *engine.Launch) error {
			x, y := l.Operands[0].Array, l.Operands[1].Array
			for r := range x.Rows {
				for c := range x.Cols {
					v := float64(x.At(r, c))
					tanh := math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)) * (1 - 0x1p-11)
					y.SetBits(r, c, k.store(y.DType, 0.5*v*(1+tanh)))
				}
			}
			return nil
		})
		declares, _, err := promise.ParseDeclaration(k.declared)
		if err != nil {
			t.Fatal(err)
		}
		l.Promise.Name, l.Promise.Declares = promise.Stable, declares
		r := run(t, target(gelu.ForwardDefinition, num.BF16, l), verify.Options{Seed: 1, Case: "positive-tail/R=24,C=1024"})
		if isBiased := slices.Contains(r.RejectedBy(), evidence.Statistics); isBiased != k.isBiased {
			t.Errorf("declared %q: rejected by %v (%s), want statistics: %t", k.declared, r.RejectedBy(), r.Report.Reason, k.isBiased)
		}
		if !k.isBiased && r.Report.Verdict == evidence.Rejected {
			t.Errorf("declared %q: %s", k.declared, r.Report.Reason)
		}
	}
}

// TestDeclaredUnderflow checks that a value inside a kernel may underflow to zero, so that its
// product with an infinity is NaN, if the kernel declares that it rounds the value to f16 or
// flushes subnormals, and not otherwise.
func TestDeclaredUnderflow(t *testing.T) {
	t.Parallel()
	d := swiglu(t)
	toF16 := func(v float32) float32 { return num.Round(num.F16, v) }
	flush := func(v float32) float32 {
		if math.Abs(float64(v)) < 0x1p-126 {
			return 0 * v
		}
		return v
	}
	plain := func(v float32) float32 { return v }
	rounded := promise.Declaration{Roundings: map[string]num.DType{"activation": num.F16}}
	for _, k := range []struct {
		what        string
		dtype       num.DType
		read, round func(v float32) float32
		declares    promise.Declaration
		verdict     evidence.Verdict
	}{
		{"rounded, as declared", num.F16, plain, toF16, rounded, evidence.Accepted},
		{"rounded, not declared", num.F16, plain, toF16, promise.Declaration{}, evidence.Rejected},
		{"flushed, as declared", num.F32, flush, flush, promise.Declaration{FlushesSubnormals: true}, evidence.Accepted},
		{"flushed, not declared", num.F32, flush, flush, promise.Declaration{}, evidence.Rejected},
	} {
		l := bounded(def.Order{}, func(_ *def.Definition, l *engine.Launch) error {
			a, b, c := l.Operands[0].Array, l.Operands[1].Array, l.Operands[2].Array
			for r := range a.Rows {
				for i := range a.Cols {
					v := float64(k.read(a.At(r, i)))
					c.Set(r, i, k.read(k.round(float32(v/(1+math.Exp(-v))))*k.read(b.At(r, i))))
				}
			}
			return nil
		})
		l.Promise.Name, l.Promise.Declares = promise.Stable, k.declares
		r := run(t, &verify.Target{Operation: op.Of(d, ""), Definition: d, Lowering: l, DType: k.dtype}, verify.Options{Level: verify.Smoke, Seed: 1}).Report
		if r.Verdict != k.verdict {
			t.Errorf("%s: %s (%s), want %s: %+v", k.what, r.Verdict, r.Reason, k.verdict, r.Failure)
		}
	}
}

// TestTensorCores checks that matrix products on tensor cores, which truncate sums, are accepted
// under profiles of kernels that use tensor cores and rejected without a profile. Products whose
// sums are truncated to far fewer bits are rejected under such a profile, too.
func TestTensorCores(t *testing.T) {
	t.Parallel()
	d := gemm.ForwardDefinition
	on := func(m def.Accum) engine.KernelFunc {
		return func(l *engine.Launch) error {
			return reference.Run(d, l.Arrays(), reference.Options{Params: l.Params, Accum: m})
		}
	}
	const many, tie = "normal/M=130,K=12,N=130", "descending/M=14337,K=2,N=2"
	for i, k := range []struct {
		accum   def.Accum
		profile string
		c       string
		verdict evidence.Verdict
		promise promise.Name // the zero value is promise stable
	}{
		{def.Accum{L: 16, F: 25}, "triton", many + "/C=f32", evidence.Accepted, 0},
		{def.Accum{L: 8, F: 24}, "cuda", many + "/C=f32", evidence.Accepted, 0},
		{def.Accum{L: 16, F: 25}, "triton", "", evidence.Accepted, 0}, // all of level smoke
		{def.Accum{L: 16, F: 25}, "triton", tie, evidence.Accepted, 0},
		{def.Accum{L: 16, F: 25}, "", tie, evidence.Rejected, 0},
		{def.Accum{L: 16, F: 25}, "triton", tie, evidence.Rejected, promise.Ordered},
		{def.FMAChain, "torch", many + "/C=f32", evidence.Accepted, 0},
		{def.Accum{L: 32, F: 13, R: 13}, "triton", many + "/C=f32", evidence.Rejected, 0},
		{def.Accum{L: 16, F: 18}, "triton", many + "/C=f32", evidence.Rejected, 0},
	} {
		if !isTried(i, 4) {
			continue
		}
		l := bounded(def.Order{}, func(_ *def.Definition, l *engine.Launch) error { return on(k.accum)(l) })
		l.Promise.Name, l.Promise.Declares = cmp.Or(k.promise, promise.Stable), promise.Declaration{Profile: k.profile}
		r := run(t, &verify.Target{Operation: gemm.Operations[0], Definition: d, Lowering: l, DType: num.F16}, verify.Options{Seed: 5277710748036713526, Case: k.c}).Report
		if r.Verdict != k.verdict {
			t.Errorf("%s under profile %q, promise %s, %s: %s (%s), want %s: %+v", k.accum, k.profile, r.Promise, k.c, r.Verdict, r.Reason, k.verdict, r.Failure)
		}
	}
	truncated := plainProduct(func(terms []float32) (sum float32) {
		for _, v := range terms {
			sum = towardZero(float64(sum) + float64(v))
		}
		return sum
	})
	for dtype, want := range map[num.DType]evidence.Verdict{num.F16: evidence.Accepted, num.F32: evidence.Rejected} { // tensor cores do not multiply f32
		l := bounded(def.Order{}, truncated)
		l.Promise.Name, l.Promise.Declares = promise.Stable, promise.Declaration{Profile: "triton"}
		c := map[num.DType]string{num.F16: many + "/C=f32", num.F32: "normal-64-summed/M=64,K=1024,N=64"}[dtype]
		r := run(t, &verify.Target{Operation: gemm.Operations[0], Definition: d, Lowering: l, DType: dtype}, verify.Options{Seed: 1, Case: c}).Report
		if r.Verdict != want {
			t.Errorf("truncated sums of %s: %s (%s), want %s: %+v", dtype, r.Verdict, r.Reason, want, r.Failure)
		}
	}
}

// swiglu returns a definition with a named value, activation.
func swiglu(t *testing.T) *def.Definition {
	t.Helper()
	d, err := def.Parse(`tokitai-def 1
rowwise swiglu
  in  a[R,C]
  in  b[R,C] as a
  out c[R,C] as a
  activation = a * sigmoid(a)
  c <- activation * b
`, fn.All...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
