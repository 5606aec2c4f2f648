package gemm_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/gemm"
	"tokitai/op/optest"
	"tokitai/tensor"
)

// call is a typed call: the result first, then the operands.
type call func(q *engine.Queue, result, left, right *tensor.Tensor, opts ...engine.CallOption) error

// products are all of them, each with its definition.
var products = []struct {
	definition *def.Definition
	call       call
}{
	{gemm.ForwardDefinition, gemm.Forward}, {gemm.ForwardAccumulateDefinition, gemm.ForwardAccumulate},
	{gemm.GradADefinition, gemm.GradA}, {gemm.GradAAccumulateDefinition, gemm.GradAAccumulate},
	{gemm.GradBDefinition, gemm.GradB}, {gemm.GradBAccumulateDefinition, gemm.GradBAccumulate},
	{gemm.BatchedForwardDefinition, gemm.BatchedForward}, {gemm.BatchedForwardAccumulateDefinition, gemm.BatchedForwardAccumulate},
	{gemm.BatchedGradADefinition, gemm.BatchedGradA}, {gemm.BatchedGradAAccumulateDefinition, gemm.BatchedGradAAccumulate},
	{gemm.BatchedGradBDefinition, gemm.BatchedGradB}, {gemm.BatchedGradBAccumulateDefinition, gemm.BatchedGradBAccumulate},
	{gemm.GroupedForwardDefinition, oneGroup(gemm.GroupedForward)}, {gemm.GroupedGradADefinition, oneGroup(gemm.GroupedGradA)}, {gemm.GroupedGradBDefinition, oneGroup(gemm.GroupedGradB)},
}

func subject(d *def.Definition, f call) optest.Subject {
	return optest.Subject{Definition: d, Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
		if grouped := groupedCalls[d]; grouped != nil {
			return grouped(q, x[2], x[0], x[1], x[3], opts...)
		}
		return f(q, x[2], x[0], x[1], opts...)
	}}
}

func size(m, n, k int) map[string]int { return map[string]int{"H": 2, "G": 2, "M": m, "N": n, "K": k} }

var (
	inf  = float32(math.Inf(1))
	nan  = float32(math.NaN())
	zero = float32(math.Copysign(0, -1))
	huge = float32(math.MaxFloat32)
)

func TestDoc(t *testing.T) {
	var all []*def.Definition
	for _, p := range products {
		all = append(all, p.definition)
	}
	all = append(all, gemm.FP8ForwardDefinition, gemm.Int8Definition, gemm.ZPKDefinition)
	optest.Doc(t, "doc.go", all...)
}

func TestMatchReference(t *testing.T) {
	for _, p := range products {
		optest.MatchReference(t, subject(p.definition, p.call), size(5, 9, 7), size(66, 3, 5), size(3, 131, 2), size(2, 3, 261), size(1, 1, 1))
	}
}

// Exponents at the ends of bf16: products that are not exact in binary32.
func TestMatchReferenceWide(t *testing.T) {
	for _, p := range products {
		s := subject(p.definition, p.call)
		wide := op.Element(func(g *gen.Generator, _, _ int) float32 { return g.Exponents(-126, 64) })
		values := map[string]op.Element{}
		for _, o := range p.definition.Operands {
			values[o.Name] = wide
		}
		s.Data = []op.Data{{Name: "wide", Definition: p.definition, Values: values}}
		optest.MatchReference(t, s, size(9, 11, 33))
	}
}

func TestErrors(t *testing.T) {
	for _, p := range products {
		optest.Errors(t, subject(p.definition, p.call), size(3, 4, 5))
	}
}

// matrix is random with entries between 2^-9 and 2^3.
func matrix(t testing.TB, g *gen.Generator, d num.DType, rows, cols int) *tensor.Tensor {
	t.Helper()
	values := make([]float32, rows*cols)
	for i := range values {
		values[i] = g.Ordinary()
	}
	return optest.Matrix(t, d, rows, values...)
}

func transpose(t testing.TB, x *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	v := optest.Floats(t, x)
	w := make([]float32, len(v))
	for r := range x.Rows() {
		for c := range x.Cols() {
			w[c*x.Rows()+r] = v[r*x.Cols()+c]
		}
	}
	return optest.Matrix(t, x.DType(), x.Cols(), w...)
}

func scaled(t testing.TB, x *tensor.Tensor, s float32) *tensor.Tensor {
	t.Helper()
	v := optest.Floats(t, x)
	for i := range v {
		v[i] *= s
	}
	return optest.Matrix(t, x.DType(), x.Rows(), v...)
}

// multiply is a·b in the given format.
func multiply(t testing.TB, out num.DType, a, b *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	c := optest.Garbage(t, out, a.Rows(), b.Cols())
	optest.OK(t, gemm.Forward(cpu.Queue(), c, a, b))
	return c
}

func TestByHand(t *testing.T) {
	for _, d := range num.FloatDTypes {
		a := optest.Matrix(t, d, 2, 1, 2, 3, 4, 5, 6)    // (2,3)
		b := optest.Matrix(t, d, 3, 7, 8, 9, 10, 11, 12) // (3,2)
		c := multiply(t, d, a, b)                        // (2,2)
		optest.Want(t, "C", c, 58, 64, 139, 154)
		optest.OK(t, gemm.ForwardAccumulate(cpu.Queue(), c, a, b))
		optest.Want(t, "C + C", c, 116, 128, 278, 308)

		dc := optest.Matrix(t, d, 2, 1, -1, 0, 2)
		da, db := optest.Garbage(t, d, 2, 3), optest.Garbage(t, d, 3, 2)
		optest.OK(t, gemm.GradA(cpu.Queue(), da, dc, b))
		optest.Want(t, "dA", da, -1, -1, -1, 16, 20, 24)
		optest.OK(t, gemm.GradAAccumulate(cpu.Queue(), da, dc, b))
		optest.Want(t, "dA + dA", da, -2, -2, -2, 32, 40, 48)
		optest.OK(t, gemm.GradB(cpu.Queue(), db, a, dc))
		optest.Want(t, "dB", db, 1, 7, 2, 8, 3, 9)
		optest.OK(t, gemm.GradBAccumulate(cpu.Queue(), db, a, dc))
		optest.Want(t, "dB + dB", db, 2, 14, 4, 16, 6, 18)
	}
}

// chain is the definition in plain Go.
func chain(a, b []float32, m, n, k int) []float32 {
	c := make([]float32, m*n)
	for i := range c {
		for x := range k {
			c[i] = num.FMA(a[i/n*k+x], b[x*n+i%n], c[i])
		}
	}
	return c
}

func TestPlainGo(t *testing.T) {
	g := gen.New("plain")
	for _, d := range num.FloatDTypes {
		a, b := matrix(t, g, d, 7, 300), matrix(t, g, d, 300, 6)
		want := chain(optest.Floats(t, a), optest.Floats(t, b), 7, 6, 300)
		optest.Want(t, "C", multiply(t, d, a, b), want...)
		optest.Want(t, "C in f32", multiply(t, num.F32, a, b), want...)
	}
}

// Small integers have exact sums in any order: a lost or doubled product cannot
// hide.
func TestIntegers(t *testing.T) {
	g := gen.New("integers")
	for _, d := range num.FloatDTypes {
		const m, n, k = 67, 35, 517
		a, b := make([]float32, m*k), make([]float32, k*n)
		for i := range a {
			a[i] = float32(1 - 2*g.Below(2))
		}
		for i := range b {
			b[i] = float32(1 - 2*g.Below(2))
		}
		want := make([]float32, m*n)
		for i := range want {
			for x := range k {
				want[i] += a[i/n*k+x] * b[x*n+i%n]
			}
		}
		optest.Want(t, "C", multiply(t, num.F32, optest.Matrix(t, d, m, a...), optest.Matrix(t, d, k, b...)), want...)
	}
}

func TestIdentities(t *testing.T) {
	g := gen.New("identities")
	for _, d := range num.FloatDTypes {
		const m, n, k = 37, 21, 70
		a, b := matrix(t, g, d, m, k), matrix(t, g, d, k, n)
		c := multiply(t, num.F32, a, b)

		optest.SameBits(t, "(-8·A)·B", multiply(t, num.F32, scaled(t, a, -8), b), scaled(t, c, -8))
		optest.SameBits(t, "(Bᵀ·Aᵀ)ᵀ", transpose(t, multiply(t, num.F32, transpose(t, b), transpose(t, a))), c)

		unit := make([]float32, k*k)
		for i := range k {
			unit[i*k+i] = 1
		}
		optest.SameBits(t, "A·I", multiply(t, d, a, optest.Matrix(t, d, k, unit...)), a)
		optest.SameBits(t, "I·B", multiply(t, d, optest.Matrix(t, d, k, unit...), b), b)

		da, db := optest.Garbage(t, num.F32, m, k), optest.Garbage(t, num.F32, k, n)
		dc := matrix(t, g, d, m, n)
		optest.OK(t, gemm.GradA(cpu.Queue(), da, dc, b))
		optest.SameBits(t, "dC·Bᵀ", da, multiply(t, num.F32, dc, transpose(t, b)))
		optest.OK(t, gemm.GradB(cpu.Queue(), db, a, dc))
		optest.SameBits(t, "Aᵀ·dC", db, multiply(t, num.F32, transpose(t, a), dc))

		// Part of the rows and columns gives that part of the result.
		rows, err := a.Slice(5, 18, 0, k)
		optest.OK(t, err)
		cols, err := b.Slice(0, k, 3, 10)
		optest.OK(t, err)
		part, err := c.Slice(5, 18, 3, 10)
		optest.OK(t, err)
		optest.SameBits(t, "part of A·B", multiply(t, num.F32, rows, cols), part)

		// The summed index in two parts, the second accumulated in f32.
		left, err := a.Slice(0, m, 0, 33)
		optest.OK(t, err)
		top, err := b.Slice(0, 33, 0, n)
		optest.OK(t, err)
		sum := multiply(t, num.F32, left, top)
		left, err = a.Slice(0, m, 33, k)
		optest.OK(t, err)
		top, err = b.Slice(33, k, 0, n)
		optest.OK(t, err)
		optest.OK(t, gemm.ForwardAccumulate(cpu.Queue(), sum, left, top))
		optest.SameBits(t, "A·B in two parts", sum, c)
	}
}

func TestClauses(t *testing.T) {
	for _, p := range products {
		d := p.definition
		// dot is one element: the sum of products of two rows, wherever the
		// definition has its summed index.
		stacked := func(operand int, x *tensor.Tensor) *tensor.Tensor { // a matrix as the definition takes it
			if len(d.Operands[operand].Dims) == 2 {
				return x
			}
			x, err := x.Reshape(1, x.Rows(), x.Cols())
			optest.OK(t, err)
			return x
		}
		dot := func(t *testing.T, in, out num.DType, old float32, x, y []float32) *tensor.Tensor {
			t.Helper()
			left, right := optest.Matrix(t, in, 1, x...), optest.Matrix(t, in, 1, y...)
			if d.Product().TransposeLeft {
				left = transpose(t, left)
			}
			if !d.Product().TransposeRight {
				right = transpose(t, right)
			}
			c := optest.Matrix(t, out, 1, old)
			optest.OK(t, p.call(cpu.Queue(), stacked(2, c), stacked(0, left), stacked(1, right)))
			return c
		}
		pair := func(a, b float32) []float32 { return []float32{a, b} }
		t.Run(strings.TrimPrefix(d.Name, "gemm."), func(t *testing.T) {
			tests := map[string]func(t *testing.T){
				"C1_shapes": func(t *testing.T) { optest.Shapes(t, subject(d, p.call), size(6, 4, 8)) },
				"C2_model": func(t *testing.T) {
					// (1+u)² − 1 − 2u: the first product is rounded to 1+2u, a fused one is
					// exact when added to −1−2u.
					const u = 0x1p-23
					start := float32(0)
					if d.Accumulates() {
						start = 4
					}
					want := num.FMA(-1-2*u, 1, num.FMA(1+u, 1+u, start))
					optest.Want(t, "1 + 2u first", dot(t, num.F32, num.F32, start, pair(1+u, -1-2*u), pair(1+u, 1)), want)
					want = num.FMA(1+u, 1+u, num.FMA(-1-2*u, 1, start))
					if !d.Accumulates() && want != 0x1p-46 {
						t.Fatalf("the fused chain gives %v", want)
					}
					optest.Want(t, "-1 - 2u first", dot(t, num.F32, num.F32, start, pair(-1-2*u, 1+u), pair(1, 1+u)), want)
					// 2048 + 1 + 1: rounded to f16 after each step it would stay 2048.
					optest.Want(t, "one rounding", dot(t, num.F16, num.F16, 0, []float32{2048, 1, 1}, []float32{1, 1, 1}), 2050)
				},
				"C3_nan_and_infinities": func(t *testing.T) {
					for _, in := range num.FloatDTypes {
						optest.Want(t, "NaN", dot(t, in, in, 0, pair(nan, 1), pair(0, 1)), nan)
						optest.Want(t, "0·Inf", dot(t, in, in, 0, pair(0, 1), pair(inf, 1)), nan)
						optest.Want(t, "Inf − Inf", dot(t, in, in, 0, pair(inf, -1), pair(1, inf)), nan)
						optest.Want(t, "+Inf", dot(t, in, in, 0, pair(inf, -5), pair(1, 60000)), inf)
						optest.Want(t, "-Inf", dot(t, in, in, 0, pair(inf, 5), pair(-2, 1)), -inf)
						if d.Accumulates() {
							optest.Want(t, "old NaN", dot(t, in, in, nan, pair(1, 1), pair(1, 1)), nan)
							optest.Want(t, "old Inf", dot(t, in, in, inf, pair(1, 1), pair(1, 1)), inf)
							optest.Want(t, "old Inf − Inf", dot(t, in, in, inf, pair(-inf, 1), pair(1, 1)), nan)
						}
					}
				},
				"C4_zeros_are_multiplied": func(t *testing.T) {
					// A zero row of the left operand meets an infinity and a NaN.
					optest.Want(t, "0·Inf", dot(t, num.F16, num.F16, 0, pair(0, 0), pair(inf, 0)), nan)
					optest.Want(t, "0·NaN", dot(t, num.F16, num.F16, 0, pair(0, 0), pair(0, nan)), nan)
				},
				"C5_overlap": func(t *testing.T) {
					optest.Errors(t, subject(d, p.call), size(3, 4, 5))
					square := optest.Matrix(t, num.F32, 2, 1, 2, 3, 4)
					c := optest.Matrix(t, num.F32, 2, 0, 0, 0, 0)
					optest.OK(t, p.call(cpu.Queue(), stacked(2, c), stacked(0, square), stacked(1, square)))
					want := []float32{7, 10, 15, 22}
					switch {
					case d.Product().TransposeLeft:
						want = []float32{10, 14, 14, 20}
					case d.Product().TransposeRight:
						want = []float32{5, 11, 11, 25}
					}
					optest.Want(t, "a matrix and itself", c, want...)
				},
				"C6_zeros": func(t *testing.T) {
					for _, in := range num.FloatDTypes {
						optest.Want(t, "1 − 1", dot(t, in, in, 0, pair(1, -1), pair(1, 1)), 0)
						optest.Want(t, "−0 alone", dot(t, in, in, 0, pair(zero, 0), pair(1, -1)), 0)
						if d.Accumulates() {
							optest.Want(t, "old −0 and −0", dot(t, in, in, zero, pair(zero, 0), pair(1, -1)), zero)
							optest.Want(t, "old −0 and +0", dot(t, in, in, zero, pair(0, 0), pair(1, -1)), 0)
						}
					}
					optest.Want(t, "a store that underflows", dot(t, num.F16, num.F16, 0, pair(-0x1p-13, 0), pair(0x1p-13, 0)), zero)
					optest.Want(t, "a product that underflows", dot(t, num.F32, num.F32, 0, []float32{-0x1p-100}, []float32{0x1p-100}), zero)
					// Both products underflow: their exact sum is 0, but the last step's is not.
					optest.Want(t, "2^-160 − 2^-160", dot(t, num.F32, num.F32, 0, pair(0x1p-80, -0x1p-80), pair(0x1p-80, 0x1p-80)), zero)
					optest.Want(t, "−2^-160 + 2^-160", dot(t, num.F32, num.F32, 0, pair(-0x1p-80, 0x1p-80), pair(0x1p-80, 0x1p-80)), 0)
					// −0 + +0 is an exact zero, −0 + −0 too.
					optest.Want(t, "−2^-160 + 0", dot(t, num.F32, num.F32, 0, pair(-0x1p-80, 1), pair(0x1p-80, 0)), 0)
					optest.Want(t, "−2^-160 − 0", dot(t, num.F32, num.F32, 0, pair(-0x1p-80, -1), pair(0x1p-80, 0)), zero)
				},
				"C7_range": func(t *testing.T) {
					for _, in := range num.FloatDTypes {
						least := num.Widen(in, 1)
						optest.Want(t, "subnormals", dot(t, in, in, 0, pair(least, 2*least), pair(1, 1)), 3*least)
					}
					optest.Want(t, "a subnormal sum", dot(t, num.BF16, num.F32, 0, pair(0x1p-70, 0x1p-70), pair(0x1p-70, 0x1p-70)), 0x1p-139)
					optest.Want(t, "a sum beyond binary32", dot(t, num.F32, num.F32, 0, []float32{huge, huge, -huge}, []float32{1, 1, 1}), inf)
					optest.Want(t, "a sum beyond binary32, and the other infinity", dot(t, num.F32, num.F32, 0, []float32{huge, huge, -inf}, []float32{1, 1, 1}), nan)
					optest.Want(t, "a product beyond binary32", dot(t, num.BF16, num.F32, 0, pair(-0x1p127, 0x1p64), pair(1, 0x1p64)), 0x1p127)
					optest.Want(t, "too large for f16", dot(t, num.F16, num.F16, 0, pair(60000, 6000), pair(1, 1)), inf)
					optest.Want(t, "not in f32", dot(t, num.F16, num.F32, 0, pair(60000, 6000), pair(1, 1)), 66000)
				},
			}
			switch {
			case d.Groups().Offsets != "":
				tests["C8_offsets"] = func(t *testing.T) { testOffsets(t, d) }
				tests["C9_groups_alone"] = func(t *testing.T) { testGroupsAlone(t, d) }
			case d.HasAxes():
				tests["C8_strides"] = func(t *testing.T) { testStrides(t, d, p.call) }
				tests["C9_matrices_alone"] = func(t *testing.T) { testMatricesAlone(t, d, p.call, plain(d)) }
			}
			optest.Clauses(t, d, tests)
		})
	}
}

// A flat tolerance of 1e-2 refuses a correct product with large entries: storage
// alone rounds by more.
func TestAncestor06_LargeEntriesAreNotWrong(t *testing.T) {
	a, b := optest.Matrix(t, num.F16, 1, 2048, 1), optest.Matrix(t, num.F16, 2, 1, 1)
	c := multiply(t, num.F16, a, b)
	optest.WantBits(t, "2049 in f16", c, uint32(num.F64ToF16(2049)))
	if gap := math.Abs(float64(optest.Floats(t, c)[0]) - 2049); gap <= 1e-2 {
		t.Errorf("the correctly rounded result is %v away from 2049: it should be out of reach of 1e-2", gap)
	}
}

// The ancestor took multiples of 16 only.
func TestAncestor13_AnySize(t *testing.T) {
	g := gen.New("ancestor 13")
	sizes := []int{1, 2, 3, 4, 5, 7, 15, 16, 17, 33}
	for _, m := range sizes {
		for _, n := range sizes {
			for _, k := range sizes {
				a, b := matrix(t, g, num.F16, m, k), matrix(t, g, num.F16, k, n)
				want := chain(optest.Floats(t, a), optest.Floats(t, b), m, n, k)
				optest.Want(t, "C of "+optest.Shape(m, n, k), multiply(t, num.F16, a, b), want...)
			}
		}
	}
}

// Offsets of 32 bits overflow beyond 2³¹ elements.
func TestAncestor12_RowsBeyond2To31Elements(t *testing.T) {
	a := optest.Distant(t, num.F16, 8)
	g := gen.New("ancestor 12")
	near := matrix(t, g, num.F16, a.Rows(), a.Cols())
	optest.OK(t, a.CopyFrom(near))
	b := matrix(t, g, num.F16, 8, 5)
	optest.SameBits(t, "A·B", multiply(t, num.F16, a, b), multiply(t, num.F16, near, b))
	db, want := optest.Garbage(t, num.F16, 8, 5), optest.Garbage(t, num.F16, 8, 5)
	dc := matrix(t, g, num.F16, a.Rows(), 5)
	optest.OK(t, gemm.GradB(cpu.Queue(), db, a, dc))
	optest.OK(t, gemm.GradB(cpu.Queue(), want, near, dc))
	optest.SameBits(t, "Aᵀ·dC", db, want)
	optest.OK(t, gemm.GradA(cpu.Queue(), a, dc, b))
	optest.OK(t, gemm.GradA(cpu.Queue(), near, dc, b))
	optest.SameBits(t, "dC·Bᵀ", a, near)
}

// The operations by name choose the definition, and the format of the result.
func TestOperation(t *testing.T) {
	o := optest.Operation(gemm.Operations, "gemm.grad_b")
	a, dc := optest.Matrix(t, num.F16, 1, 1, 2), optest.Matrix(t, num.F16, 1, 60000, 1)
	run := func(in engine.Args, given map[string]string) (engine.Args, error) {
		v, err := o.NewValues(given)
		optest.OK(t, err)
		return o.Run(cpu.Queue(), in, v)
	}
	in := engine.Args{"A": a, "dC": dc}
	out, err := run(in, nil)
	optest.OK(t, err)
	optest.Want(t, "dB", out["dB"], 60000, 1, inf, 2)
	out, err = run(in, map[string]string{"out": "f32"})
	optest.OK(t, err)
	optest.Want(t, "dB in f32", out["dB"], 60000, 1, 120000, 2)
	old := optest.Matrix(t, num.F32, 2, 1, 1, 1, 1)
	in["dB"] = old
	out, err = run(in, map[string]string{"accumulate": "true"})
	optest.OK(t, err)
	optest.Want(t, "dB accumulated", out["dB"], 60001, 2, 120001, 3)
	optest.Want(t, "the dB that was given", old, 1, 1, 1, 1)
	out, err = run(in, map[string]string{"accumulate": "true", "out": "f32"})
	optest.OK(t, err)
	optest.Want(t, "dB accumulated, in f32 as said", out["dB"], 60001, 2, 120001, 3)
	_, err = run(in, map[string]string{"accumulate": "true", "out": "same"})
	optest.Message(t, err, `gemm.grad_b: out is "same", that is f16, want f32 like the dB that is given, or nothing`)
	_, err = run(engine.Args{"A": a, "dC": dc}, map[string]string{"accumulate": "true"})
	optest.Message(t, err, "gemm.grad_b: dB is missing, want inputs A, dC, dB")
	for name, c := range map[string]struct {
		in    engine.Args
		given map[string]string
	}{
		"out bf16":                   {engine.Args{"A": a, "dC": dc}, map[string]string{"out": "bf16"}},
		"out of another dtype":       {in, map[string]string{"accumulate": "true", "out": "same"}},
		"out bf16 and accumulate":    {in, map[string]string{"accumulate": "true", "out": "bf16"}},
		"dB without accumulate":      {in, nil},
		"dB without accumulate, f32": {in, map[string]string{"out": "f32"}},
		"accumulate without dB":      {engine.Args{"A": a, "dC": dc}, map[string]string{"accumulate": "true"}},
		"A alone":                    {engine.Args{"A": a}, map[string]string{"out": "f32"}},
		"accumulate maybe":           {in, map[string]string{"accumulate": "maybe"}},
	} {
		if _, err := run(c.in, c.given); !errors.Is(err, tensor.ErrBadArgument) {
			t.Errorf("%s: got error %v, want an ArgumentError", name, err)
		}
	}
}

// The result has the leading dimensions of its rows.
func TestOperationKeepsLeadingDimensions(t *testing.T) {
	ones := func(shape ...int) *tensor.Tensor {
		n := 1
		for _, s := range shape {
			n *= s
		}
		x, err := tensor.FromFloat32(cpu.Queue().Device(), num.BF16, slices.Repeat([]float32{1}, n), shape...)
		optest.OK(t, err)
		return x
	}
	for _, c := range []struct {
		name, result string
		in           engine.Args
		want         []int
		value        float32
	}{
		{"gemm.forward", "C", engine.Args{"A": ones(2, 3, 5), "B": ones(5, 4)}, []int{2, 3, 4}, 5},
		{"gemm.forward", "C", engine.Args{"A": ones(3, 5), "B": ones(5, 4)}, []int{3, 4}, 5},
		{"gemm.grad_a", "dA", engine.Args{"dC": ones(2, 3, 4), "B": ones(5, 4)}, []int{2, 3, 5}, 4},
		{"gemm.grad_b", "dB", engine.Args{"A": ones(2, 3, 5), "dC": ones(2, 3, 4)}, []int{5, 4}, 6},
		{"gemm.batched.forward", "C", engine.Args{"A": ones(2, 3, 5), "B": ones(2, 5, 4)}, []int{2, 3, 4}, 5},
		{"gemm.batched.forward", "C", engine.Args{"A": ones(2, 2, 3, 5), "B": ones(4, 5, 4)}, []int{2, 2, 3, 4}, 5},
		{"gemm.batched.grad_a", "dA", engine.Args{"dC": ones(2, 3, 4), "B": ones(2, 5, 4)}, []int{2, 3, 5}, 4},
		{"gemm.batched.grad_b", "dB", engine.Args{"A": ones(2, 3, 5), "dC": ones(2, 3, 4)}, []int{2, 5, 4}, 3},
	} {
		o := optest.Operation(gemm.Operations, c.name)
		for _, given := range []map[string]string{nil, {"out": "f32"}} {
			v, err := o.NewValues(given)
			optest.OK(t, err)
			out, err := o.Run(cpu.Queue(), c.in, v)
			optest.OK(t, err)
			if got := out[c.result].Shape(); !slices.Equal(got, c.want) {
				t.Errorf("%s: %s has shape %v, want %v", c.name, c.result, got, c.want)
			}
			optest.Want(t, c.name, out[c.result], slices.Repeat([]float32{c.value}, out[c.result].Len())...)
		}
	}
	o := optest.Operation(gemm.Operations, "gemm.forward")
	v, err := o.NewValues(nil)
	optest.OK(t, err)
	_, err = o.Run(cpu.Queue(), engine.Args{"A": ones(5), "B": ones(5, 4)}, v)
	optest.Refused(t, err, "gemm.forward", "A", "")
}

func BenchmarkGEMM(b *testing.B) {
	const m, n, k = 256, 256, 512
	for _, p := range products {
		if p.definition.Accumulates() {
			continue
		}
		for _, d := range num.FloatDTypes {
			optest.Bench(b, optest.Timing{
				Name:    "dir=" + strings.TrimPrefix(p.definition.Name, "gemm.") + "/dtype=" + d.String() + "/shape=" + optest.Shape(m, n, k),
				Subject: subject(p.definition, p.call), DTypes: p.definition.DTypes(d),
				Sizes: size(m, n, k), Check: size(9, 11, 300), FLOPs: 2 * m * n * k,
			})
		}
	}
}
