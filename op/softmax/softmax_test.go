package softmax_test

import (
	"math"
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/optest"
	"tokitai/op/softmax"
	"tokitai/reference"
	"tokitai/tensor"
)

var (
	forward = optest.Subject{
		Definition: softmax.ForwardDefinition, Data: optest.Operation(softmax.Operations, "softmax.forward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return softmax.Forward(q, x[1], x[0], opts...)
		},
	}
	backward = optest.Subject{
		Definition: softmax.BackwardDefinition, Data: optest.Operation(softmax.Operations, "softmax.backward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return softmax.Backward(q, x[2], x[0], x[1], opts...)
		},
	}
	inf = float32(math.Inf(1))
	nan = float32(math.NaN())
)

func TestDoc(t *testing.T) {
	optest.Doc(t, "doc.go", softmax.ForwardDefinition, softmax.BackwardDefinition)
}

func rows(r, c int) map[string]int { return map[string]int{"R": r, "C": c} }

func TestMatchReference(t *testing.T) {
	optest.MatchReference(t, forward, rows(5, 77), rows(2, 1), rows(3, 1025), rows(1, 9001))
	optest.MatchReference(t, backward, rows(5, 77), rows(2, 1), rows(3, 1025), rows(1, 9001))
}

func TestErrors(t *testing.T) {
	optest.Errors(t, forward, rows(3, 5))
	optest.Errors(t, backward, rows(3, 5))
}

// row is the forward operation on one row.
func row(t testing.TB, d num.DType, x ...float32) *tensor.Tensor {
	t.Helper()
	y := optest.Garbage(t, d, 1, len(x))
	optest.OK(t, softmax.Forward(cpu.Queue(), y, optest.Matrix(t, d, 1, x...)))
	return y
}

// gradient is the backward operation on one row.
func gradient(t testing.TB, d num.DType, dy, y []float32) *tensor.Tensor {
	t.Helper()
	dx := optest.Garbage(t, d, 1, len(dy))
	optest.OK(t, softmax.Backward(cpu.Queue(), dx, optest.Matrix(t, d, 1, dy...), optest.Matrix(t, d, 1, y...)))
	return dx
}

func TestForwardByHand(t *testing.T) {
	for _, d := range num.FloatDTypes {
		optest.Want(t, "one element", row(t, d, -7), 1)
		optest.Want(t, "two equal", row(t, d, 3, 3), 0.5, 0.5)
		optest.Want(t, "three equal", row(t, d, 3, 3, 3), 1./3, 1./3, 1./3)
		optest.Want(t, "four equal and -Inf", row(t, d, 1, 1, -inf, 1, 1), 0.25, 0.25, 0, 0.25, 0.25)
		optest.Want(t, "far apart", row(t, d, 1000, 0), 1, 0)
		// e/(1+e) and 1/(1+e) for e = exp(-1), correctly rounded from their decimals.
		optest.Want(t, "0 and 1", row(t, d, 0, 1), 0.26894142136999512, 0.73105857863000488)
	}
	optest.Want(t, "two rows", func() *tensor.Tensor {
		y := optest.Garbage(t, num.F32, 2, 2)
		optest.OK(t, softmax.Forward(cpu.Queue(), y, optest.Matrix(t, num.F32, 2, 5, 5, -inf, -8)))
		return y
	}(), 0.5, 0.5, 0, 1)
}

func TestBackwardByHand(t *testing.T) {
	for _, d := range num.FloatDTypes {
		// dot = 4·½ + 8·¼ + 0·¼ = 4
		optest.Want(t, "dx", gradient(t, d, []float32{4, 8, 0}, []float32{0.5, 0.25, 0.25}), 0, 1, -1)
		// A constant dy has no gradient, as probabilities cannot all grow.
		optest.Want(t, "constant dy", gradient(t, d, []float32{3, 3, 3, 3}, []float32{0.25, 0.25, 0.25, 0.25}), 0, 0, 0, 0)
		// One class holds everything: y(1 − y) = 0.
		optest.Want(t, "one-hot", gradient(t, d, []float32{7, -2}, []float32{1, 0}), 0, float32(math.Copysign(0, -1)))
	}
}

// exp is the exponential that the definition uses, alone.
var exp = def.Must(def.Rowwise("test.exp", func(b *def.Builder) {
	b.Out("y", fn.ExpNonPositive(b.In("x")), def.Only(num.F32))
}))

// The same operations written in Go, in the same order: the bits say where the
// definition rounds.
func TestPlainGo(t *testing.T) {
	g := gen.New("plain")
	for _, c := range []int{2, 300, 3000} {
		x, dy := make([]float32, c), make([]float32, c)
		differences := make([]float32, c)
		for i := range x {
			x[i], dy[i] = 2*g.Normal(), g.Normal()
		}
		for i := range x {
			differences[i] = x[i] - slices.Max(x)
		}
		a := []num.Array{num.ArrayOf(num.F32, 1, c, differences...), num.NewArray(num.F32, 1, c)}
		optest.OK(t, reference.Run(exp, a, reference.Options{}))
		e := make([]float32, c)
		for i := range e {
			e[i] = a[1].At(0, i)
		}
		inverse := 1 / num.LaneSum(e, num.RowLanes(c))
		y, product, dx := make([]float32, c), make([]float32, c), make([]float32, c)
		for i := range y {
			y[i] = e[i] * inverse
			product[i] = dy[i] * y[i]
		}
		dot := num.LaneSum(product, num.RowLanes(c))
		for i := range dx {
			dx[i] = y[i] * (dy[i] - dot)
		}
		optest.Want(t, "y", row(t, num.F32, x...), y...)
		optest.Want(t, "dx", gradient(t, num.F32, dy, y), dx...)
	}
}

func TestShiftInvariance(t *testing.T) {
	// x and x + c lie on a common grid of every format, so x − max is the same.
	g := gen.New("shift")
	for _, d := range num.FloatDTypes {
		x, shifted := make([]float32, 300), make([]float32, 300)
		for i := range x {
			x[i] = float32(g.Below(9)) * 0.25
			shifted[i] = x[i] + 4
		}
		optest.SameBits(t, "softmax(x + 4)", row(t, d, shifted...), row(t, d, x...))
	}
}

func TestUniformRows(t *testing.T) {
	for _, c := range []int{1, 2, 3, 7, 10, 255, 256, 257, 1000, 2049, 5000, 8193, 40000} {
		for _, d := range num.FloatDTypes {
			x, want := make([]float32, c), make([]float32, c)
			for i := range x {
				x[i], want[i] = -3.5, 1/float32(c)
			}
			optest.Want(t, "uniform row", row(t, d, x...), want...)
		}
	}
}

func TestBackwardIsLinear(t *testing.T) {
	// dx(2^k·dy) = 2^k·dx(dy) where nothing over- or underflows.
	g := gen.New("linear")
	dy, scaled, y := make([]float32, 500), make([]float32, 500), make([]float32, 500)
	for i := range dy {
		dy[i], y[i] = g.Ordinary(), float32(math.Abs(float64(g.Ordinary())))
		scaled[i] = dy[i] * 0x1p20
	}
	want := optest.Floats(t, gradient(t, num.F32, dy, y))
	for i := range want {
		want[i] *= 0x1p20
	}
	optest.Want(t, "dx of 2^20 dy", gradient(t, num.F32, scaled, y), want...)
}

func TestForwardClauses(t *testing.T) {
	optest.Clauses(t, softmax.ForwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, forward, rows(6, 5)) },
		"C1_row_stride": func(t *testing.T) {
			whole := optest.Matrix(t, num.F32, 3, 1, 1, 9, 2, 2, 9, -4, -4, 9)
			x, err := whole.Slice(0, 3, 0, 2)
			optest.OK(t, err)
			optest.OK(t, softmax.Forward(cpu.Queue(), x, x))
			optest.Want(t, "a view and the column beside it", whole, 0.5, 0.5, 9, 0.5, 0.5, 9, 0.5, 0.5, 9)
		},
		"C2_nan": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				y := optest.Garbage(t, d, 3, 2)
				optest.OK(t, softmax.Forward(cpu.Queue(), y, optest.Matrix(t, d, 3, 0, 0, nan, -inf, 0, 0)))
				optest.Want(t, "NaN in the second row", y, 0.5, 0.5, nan, nan, 0.5, 0.5)
			}
		},
		"C3_plus_infinity": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				optest.Want(t, "+Inf among others", row(t, d, 0, inf, -inf), nan, nan, nan)
				optest.Want(t, "+Inf alone", row(t, d, inf), nan)
			}
		},
		"C4_minus_infinity": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				optest.Want(t, "-Inf among others", row(t, d, -inf, 5, -inf, 5), 0, 0.5, 0, 0.5)
				optest.Want(t, "-Inf everywhere", row(t, d, -inf, -inf), nan, nan)
			}
		},
		"C5_equal_elements": TestUniformRows,
		"C6_range": func(t *testing.T) {
			largest := float32(math.MaxFloat32)
			optest.Want(t, "the largest and its negative", row(t, num.F32, largest, -largest), 1, 0)
			optest.Want(t, "two of the largest", row(t, num.F32, largest, largest), 0.5, 0.5)
			g := gen.New("range")
			for _, d := range num.FloatDTypes {
				x := make([]float32, 4000)
				for i := range x {
					x[i] = g.Exponents(-9, 8)
				}
				subnormal := false
				y := row(t, d, x...)
				for i, v := range optest.Floats(t, y) {
					if !(v >= 0 && v <= 1) || math.Signbit(float64(v)) {
						t.Errorf("%s: y[%d] is %v for x = %v, want it in [0, 1]", d, i, v, x[i])
					}
					subnormal = subnormal || v > 0 && num.ULP(d, float64(v)) == num.ULP(d, 0)
				}
				if !subnormal {
					t.Errorf("%s: no result is subnormal", d)
				}
			}
			// exp(-17) = 4.14e-8 is below f16's smallest normal and rounds to 2^-24,
			// exp(-18) = 1.52e-8 to +0; in f32 exp(-103) is 2·2^-149.
			optest.WantBits(t, "f16", row(t, num.F16, 0, -17, -18), 0x3c00, 1, 0)
			optest.WantBits(t, "f32", row(t, num.F32, 0, -103, -105), 0x3f800000, 1, 0)
		},
		"C7_zeros_and_subnormals": func(t *testing.T) {
			zero := float32(math.Copysign(0, -1))
			for _, d := range num.FloatDTypes {
				optest.SameBits(t, "-0 for +0", row(t, d, zero, 1, 0, -2), row(t, d, 0, 1, zero, -2))
				optest.Want(t, "both zeros", row(t, d, zero, 0), 0.5, 0.5)
				least := num.Widen(d, 1)
				optest.Want(t, "subnormals", row(t, d, least, -least), 0.5, 0.5)
			}
			// In f16 the least subnormal is 2^-24, and exp(-2^-24) = 1 − 2^-24 in
			// binary32: the difference was not flushed.
			y := optest.Garbage(t, num.F16, 1, 2)
			arrays := []num.Array{num.ArrayOf(num.F16, 1, 2, 0x1p-24, 0), num.NewArray(num.F32, 1, 2)}
			optest.OK(t, softmax.Forward(cpu.Queue(), y, optest.Matrix(t, num.F16, 1, 0x1p-24, 0)))
			optest.OK(t, reference.Run(softmax.ForwardDefinition, arrays, reference.Options{}))
			if a, b := arrays[1].At(0, 0), arrays[1].At(0, 1); a <= b {
				t.Errorf("the least subnormal gives %v and 0 gives %v, want more", a, b)
			}
		},
		"C8_overlap": TestErrors,
	})
}

func TestBackwardClauses(t *testing.T) {
	optest.Clauses(t, softmax.BackwardDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, backward, rows(6, 5)) },
		"C2_nan": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				optest.Want(t, "NaN in dy", gradient(t, d, []float32{1, nan, 0}, []float32{0, 0.5, 0.5}), nan, nan, nan)
				optest.Want(t, "NaN in y", gradient(t, d, []float32{1, 0, 0}, []float32{0, nan, 0.5}), nan, nan, nan)
			}
		},
		"C3_infinities": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				half := []float32{0.5, 0.5, 0}
				optest.Want(t, "+Inf in dy", gradient(t, d, []float32{1, inf, 2}, half), -inf, nan, nan)
				optest.Want(t, "both infinities in dy", gradient(t, d, []float32{-inf, inf, 2}, half), nan, nan, nan)
				optest.Want(t, "Inf where y is 0", gradient(t, d, []float32{1, 2, inf}, half), nan, nan, nan)
				optest.Want(t, "+Inf in y", gradient(t, d, []float32{1, 2, 3}, []float32{inf, 0.5, 0}), -inf, -inf, nan)
			}
			huge := float32(0x1p100)
			optest.Want(t, "a sum that overflows", gradient(t, num.F32, []float32{huge, 1}, []float32{huge, 0.5}), -inf, -inf)
		},
		"C4_zeros_subnormals_overflow": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				zero := float32(math.Copysign(0, -1))
				optest.Want(t, "y = 0", gradient(t, d, []float32{1, -9, 5}, []float32{1, 0, 0}), 0, zero, 0)
				// dot = least, y·(dy − dot): 1·(0 − least), and least·(1 − least) = least
				// to rounding.
				least := num.Widen(d, 1)
				optest.Want(t, "subnormal y", gradient(t, d, []float32{0, 1}, []float32{1, least}), -least, least)
			}
			optest.Want(t, "f16 overflow", gradient(t, num.F16, []float32{60000, -60000}, []float32{2, 2}), inf, -inf)
		},
		"C5_overlap": TestErrors,
	})
}

// The ancestor rounded exp to fp16 before it normalised.
func TestAncestor05_SoftmaxRoundsOnce(t *testing.T) {
	g := gen.New("ancestor 5")
	x := make([]float32, 512)
	for i := range x {
		x[i] = num.Round(num.F16, g.Normal())
	}
	got := optest.Bits(t, row(t, num.F16, x...))

	// The definition with exp rounded to f16, in binary64 otherwise.
	var e []float64
	sum := 0.0
	for _, v := range x {
		p := float64(num.Widen(num.F16, num.NarrowF64(num.F16, math.Exp(float64(v)-float64(slices.Max(x))))))
		e = append(e, p)
		sum += p
	}
	differ := 0
	for i := range e {
		if num.NarrowF64(num.F16, e[i]/sum) != got[i] {
			differ++
		}
	}
	// A second rounding moves about a quarter of all results.
	if differ < len(x)/8 {
		t.Errorf("%d of %d results differ from those with exp rounded to f16: the operation rounds twice", differ, len(x))
	}

	// The exact quotient, which binary64 has to far less than the bound, leaves no
	// choice for nearly all results.
	choices := 0
	sum = 0
	for _, v := range x {
		sum += math.Exp(float64(v) - float64(slices.Max(x)))
	}
	for i, v := range x {
		p := math.Exp(float64(v)-float64(slices.Max(x))) / sum
		lo, hi := num.NarrowF64(num.F16, p*(1-relativeError)), num.NarrowF64(num.F16, p*(1+relativeError))
		if got[i] < lo || got[i] > hi {
			t.Errorf("y[%d] = 0x%04x for x = %v, want 0x%04x to 0x%04x", i, got[i], v, lo, hi)
		}
		if lo != hi {
			choices++
		}
	}
	if choices > len(x)/50 {
		t.Errorf("the bound leaves a choice in %d of %d results", choices, len(x))
	}
}

// relativeError bounds the error of y before storage in a row of 512 whose elements
// differ by less than 16, in units of 2^-24: 16 for the rounding of x − max and 2
// for exp, once in the numerator and once in the sum; 1 in a lane of the sum, 8 in
// its tree, 1 in the reciprocal, 1 in the product; and 1 for products of errors.
const relativeError = 48 * 0x1p-24

// A flat tolerance of 1e-2 accepts a gradient of zeros over 32,768 columns. Bits
// do not.
func TestAncestor06_ZeroGradientIsNotClose(t *testing.T) {
	const columns = 32768
	g := gen.New("ancestor 6")
	x, dy := make([]float32, columns), make([]float32, columns)
	for i := range x {
		x[i], dy[i] = g.Normal(), g.Normal()
	}
	y := optest.Floats(t, row(t, num.F16, x...))
	dx := gradient(t, num.F16, dy, y)
	nonzero := 0
	for i, v := range optest.Floats(t, dx) {
		if math.Abs(float64(v)) > 1e-2 {
			t.Fatalf("dx[%d] is %v: a tolerance of 1e-2 would see that", i, v)
		}
		if v != 0 {
			nonzero++
		}
	}
	if nonzero < columns*9/10 {
		t.Errorf("only %d of %d elements are not zero", nonzero, columns)
	}
	want := []num.Array{num.ArrayOf(num.F16, 1, columns, dy...), num.ArrayOf(num.F16, 1, columns, y...), num.NewArray(num.F16, 1, columns)}
	optest.OK(t, reference.Run(softmax.BackwardDefinition, want, reference.Options{}))
	bits := optest.Bits(t, dx)
	for i := range bits {
		if bits[i] != want[2].Bits(0, i) {
			t.Fatalf("dx[%d] is 0x%04x, the reference has 0x%04x", i, bits[i], want[2].Bits(0, i))
		}
	}
}

// Offsets of 32 bits overflow beyond 2³¹ elements.
func TestAncestor12_RowsBeyond2To31Elements(t *testing.T) {
	x := optest.Distant(t, num.F16, 8)
	g := gen.New("ancestor 12")
	values := make([]float32, x.Len())
	for i := range values {
		values[i] = g.Normal()
	}
	optest.OK(t, x.SetFloat32s(values))
	near := optest.Matrix(t, num.F16, x.Rows(), values...)
	optest.OK(t, softmax.Forward(cpu.Queue(), near, near))
	optest.OK(t, softmax.Forward(cpu.Queue(), x, x))
	optest.SameBits(t, "y", x, near)
}

func BenchmarkSoftmax(b *testing.B) {
	for _, d := range num.FloatDTypes {
		for _, shape := range [][2]int{{256, 1024}, {16, 32768}} {
			for _, dir := range []struct {
				name    string
				subject optest.Subject
			}{{"forward", forward}, {"backward", backward}} {
				dtypes := slices.Repeat([]num.DType{d}, len(dir.subject.Definition.Operands))
				optest.Bench(b, optest.Timing{
					Name:    "dir=" + dir.name + "/dtype=" + d.String() + "/shape=" + optest.Shape(shape[0], shape[1]),
					Subject: dir.subject, DTypes: dtypes, Sizes: rows(shape[0], shape[1]), Check: rows(2, shape[1]),
				})
			}
		}
	}
}
