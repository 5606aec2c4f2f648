package norm

import (
	"errors"
	"math"
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/optest"
	"tokitai/tensor"
)

var (
	squareSum = optest.Subject{
		Definition: SquareSumDefinition, Data: optest.Operation(Operations, "norm.square_sum").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return SquareSum(q, x[1], x[:1], opts...)
		},
	}
	// total and clip are called by definition: SquareSum and Clip make their inputs.
	total = optest.Subject{
		Definition: TotalDefinition,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return engine.Call(q, TotalDefinition, x, nil, opts...)
		},
	}
	clip = optest.Subject{
		Definition: ClipDefinition, Params: []float64{2.5}, Data: optest.Operation(Operations, "norm.clip").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return engine.Call(q, ClipDefinition, x, []float64{2.5}, opts...)
		},
	}
	inf  = float32(math.Inf(1))
	nan  = float32(math.NaN())
	zero = float32(math.Copysign(0, -1))
	huge = float32(math.MaxFloat32)
)

func size(r, c int) map[string]int { return map[string]int{"R": r, "C": c} }

func TestDoc(t *testing.T) {
	optest.Doc(t, "doc.go", SquareSumDefinition, TotalDefinition, ClipDefinition)
}

func TestMatchReference(t *testing.T) {
	optest.MatchReference(t, squareSum, size(5, 77), size(1, 1), size(3, 1025), size(1, 1<<16+3), size(3, 30000))
	optest.MatchReference(t, total, size(3, 5), size(1, 1), size(2, 2049))
	optest.MatchReference(t, clip, size(5, 77), size(1, 1))
}

func TestErrors(t *testing.T) {
	optest.Errors(t, squareSum, size(3, 5))
	optest.Errors(t, total, size(3, 5))
	optest.Errors(t, clip, size(3, 5))
}

// sum is the square sum of tensors.
func sum(t testing.TB, xs ...*tensor.Tensor) *tensor.Tensor {
	t.Helper()
	total := optest.Garbage(t, num.F32, 1)
	optest.OK(t, SquareSum(cpu.Queue(), total, xs))
	return total
}

// clipped is norm and factor.
func clipped(t testing.TB, limit float64, xs ...*tensor.Tensor) (norm, factor *tensor.Tensor) {
	t.Helper()
	norm, factor = optest.Garbage(t, num.F32, 1), optest.Garbage(t, num.F32, 1)
	optest.OK(t, Clip(cpu.Queue(), norm, factor, limit, xs))
	return norm, factor
}

func TestByHand(t *testing.T) {
	for _, d := range num.FloatDTypes {
		a, b := optest.Vector(t, d, 1, -2, 4), optest.Matrix(t, d, 1, 6, 8)
		optest.Want(t, "one tensor", sum(t, a), 21)
		optest.Want(t, "two tensors", sum(t, a, b), 121)
		optest.Want(t, "one tensor twice", sum(t, b, b), 200)
		norm, factor := clipped(t, 5.5, a, b)
		optest.Want(t, "norm", norm, 11)
		optest.Want(t, "factor", factor, 0.5)
		norm, factor = clipped(t, 11, a, b)
		optest.Want(t, "norm at the limit", norm, 11)
		optest.Want(t, "factor at the limit", factor, 1)
	}
}

// flatSum is the sum over a whole tensor in plain Go: rows of 65,536, then the row
// of their sums.
func flatSum(x []float32) float32 {
	for len(x) > 1 {
		var sums []float32
		for part := range slices.Chunk(x, 65536) {
			sums = append(sums, num.LaneSum(part, num.RowLanes(len(part))))
		}
		x = sums
	}
	return x[0]
}

func TestPlainGo(t *testing.T) {
	g := gen.New("plain")
	var tensors []*tensor.Tensor
	var sums []float32
	for _, n := range []int{1, 300, 3000, 65536, 65537, 150000} {
		x, squares := make([]float32, n), make([]float32, n)
		for i := range x {
			x[i] = g.Normal()
			squares[i] = x[i] * x[i]
		}
		tensors = append(tensors, optest.Vector(t, num.F32, x...))
		sums = append(sums, flatSum(squares))
		optest.Want(t, "one tensor", sum(t, tensors[len(tensors)-1]), sums[len(sums)-1])
		if want := num.LaneSum(sums, num.RowLanes(len(sums))); len(sums) > 1 {
			optest.Want(t, "several tensors", sum(t, tensors...), want)
			norm, factor := clipped(t, 0.75, tensors...)
			optest.Want(t, "norm", norm, num.Sqrt(want))
			optest.Want(t, "factor", factor, 0.75/num.Sqrt(want))
		}
	}
}

// 256 tensors fill the lanes of a row sum; from the 257th on a lane has two.
func TestManyTensors(t *testing.T) {
	g := gen.New("many")
	var tensors []*tensor.Tensor
	var sums []float32
	for range 600 {
		v := g.Ordinary()
		tensors = append(tensors, optest.Vector(t, num.F32, v))
		sums = append(sums, v*v)
	}
	for _, n := range []int{2, 256, 257, 600} {
		optest.Want(t, "total", sum(t, tensors[:n]...), num.LaneSum(sums[:n], 256))
	}
}

// norm(2^k·x) = 2^k·norm(x), and the factor shrinks alike.
func TestScaling(t *testing.T) {
	g := gen.New("scaling")
	x, scaled := make([]float32, 1000), make([]float32, 1000)
	for i := range x {
		x[i] = g.Normal()
		scaled[i] = x[i] * -0x1p20
	}
	norm, factor := clipped(t, 1, optest.Vector(t, num.F32, x...))
	scaledNorm, scaledFactor := clipped(t, 1, optest.Vector(t, num.F32, scaled...))
	optest.Want(t, "norm", scaledNorm, 0x1p20*optest.Floats(t, norm)[0])
	optest.Want(t, "factor", scaledFactor, 0x1p-20*optest.Floats(t, factor)[0])
}

func TestSquareSumClauses(t *testing.T) {
	optest.Clauses(t, SquareSumDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) {
			optest.Shapes(t, squareSum, size(6, 5))
			scalar, err := tensor.FromFloat32(cpu.Queue().Device(), num.F16, []float32{3})
			optest.OK(t, err)
			optest.Want(t, "a scalar", sum(t, scalar), 9)
			for _, xs := range [][]*tensor.Tensor{nil, {}} {
				optest.Refused(t, SquareSum(cpu.Queue(), optest.Garbage(t, num.F32, 1), xs), "norm.square_sum", "x", "norm.square_sum.C1")
			}
		},
		"C2_nan_and_infinity": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				optest.Want(t, "NaN", sum(t, optest.Vector(t, d, 1, nan, inf)), nan)
				optest.Want(t, "infinities", sum(t, optest.Vector(t, d, 1, -inf, inf)), inf)
				optest.Want(t, "NaN elsewhere", sum(t, optest.Vector(t, d, 1, -inf), optest.Vector(t, d, nan)), nan)
			}
		},
		"C3_sizes_and_order": func(t *testing.T) {
			g := gen.New("order")
			x := make([]float32, 70000)
			for i := range x {
				x[i] = g.Normal()
			}
			want := sum(t, optest.Vector(t, num.F32, x...))
			optest.SameBits(t, "another shape", sum(t, optest.Matrix(t, num.F32, 700, x...)), want)
			whole, err := tensor.New(cpu.Queue().Device(), num.F32, 700, 103)
			optest.OK(t, err)
			apart, err := whole.Slice(0, 700, 2, 102)
			optest.OK(t, err)
			optest.OK(t, apart.SetFloat32s(x))
			optest.SameBits(t, "rows apart", sum(t, apart), want)
			// 1 + 2^-24 rounds to 1 unless the small terms meet first.
			a, b := optest.Vector(t, num.F32, 1), optest.Vector(t, num.F32, 0x1p-12)
			optest.Want(t, "the first two, then the others", sum(t, a, b, b, b), 1+0x1p-23)
			optest.Want(t, "in one tensor", sum(t, optest.Vector(t, num.F32, 1, 0x1p-12, 0x1p-12, 0x1p-12)), 1+0x1p-23)
			optest.Want(t, "in another order", sum(t, b, a, b), 1)
			optest.Want(t, "in a third order", sum(t, b, b, a), 1+0x1p-23)
		},
		"C4_squares": func(t *testing.T) {
			for _, d := range []num.DType{num.BF16, num.F32} {
				optest.Want(t, "2^64", sum(t, optest.Vector(t, d, 0x1p64)), inf)
				optest.Want(t, "2^63", sum(t, optest.Vector(t, d, 0x1p63)), 0x1p126)
				optest.Want(t, "2^-75", sum(t, optest.Vector(t, d, 0x1p-75)), 0)
				optest.Want(t, "2^-74", sum(t, optest.Vector(t, d, 0x1p-74)), 0x1p-148)
			}
			optest.Want(t, "the largest below 2^64", sum(t, optest.Patterns(t, num.F32, 0x5f7fffff)), huge*(1-0x1p-24))
			optest.Want(t, "the least above 2^-75", sum(t, optest.Patterns(t, num.F32, 0x1a000001)), 0x1p-149)
			optest.Want(t, "the ends of f16", sum(t, optest.Vector(t, num.F16, 0x1p-24)), 0x1p-48)
			optest.Want(t, "the ends of f16", sum(t, optest.Vector(t, num.F16, -65504)), 65504*65504)
		},
		"C5_range": func(t *testing.T) {
			optest.Want(t, "zeros", sum(t, optest.Vector(t, num.F32, zero, zero)), 0)
			optest.Want(t, "zeros of two tensors", sum(t, optest.Vector(t, num.F32, zero), optest.Vector(t, num.F32, zero)), 0)
			optest.Want(t, "a sum that overflows", sum(t, optest.Vector(t, num.F32, 0x1.8p63, 0x1.8p63, 0x1.8p63)), inf)
			a := optest.Vector(t, num.F32, 0x1.8p63)
			optest.Want(t, "a sum of tensors that overflows", sum(t, a, a, a), inf)
		},
		"C6_overlap": func(t *testing.T) {
			optest.Errors(t, squareSum, size(3, 5))
			x := optest.Matrix(t, num.F32, 1, 3, 4)
			total, err := x.Slice(0, 1, 1, 2)
			optest.OK(t, err)
			other := optest.Vector(t, num.F32, 1)
			err = SquareSum(cpu.Queue(), total, []*tensor.Tensor{other, x})
			optest.Refused(t, err, "norm.square_sum", "total", "")
			optest.Want(t, "x after a refusal", x, 3, 4)
		},
	})
}

func TestTotalClauses(t *testing.T) {
	row := func(t *testing.T, sums ...float32) *tensor.Tensor {
		out := optest.Garbage(t, num.F32, 1)
		optest.OK(t, engine.Call(cpu.Queue(), TotalDefinition, []*tensor.Tensor{optest.Matrix(t, num.F32, 1, sums...), out}, nil))
		return out
	}
	optest.Clauses(t, TotalDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, total, size(6, 5)) },
		"C2_order": func(t *testing.T) {
			optest.Want(t, "neighbours meet first", row(t, 0x1p24, 1, 1, 1), 0x1p24+2)
			optest.Want(t, "in another order", row(t, 0x1p24, 1, 1), 0x1p24)
		},
		"C3_special_values": func(t *testing.T) {
			optest.Want(t, "NaN", row(t, 1, nan), nan)
			optest.Want(t, "both infinities", row(t, inf, 1, -inf), nan)
			optest.Want(t, "+Inf", row(t, inf, -1), inf)
			optest.Want(t, "overflow", row(t, huge, huge), inf)
			optest.Want(t, "zeros", row(t, zero, zero), 0)
		},
		"C4_overlap": func(t *testing.T) { optest.Errors(t, total, size(3, 5)) },
	})
}

func TestClipClauses(t *testing.T) {
	of := func(t *testing.T, limit float64, total float32) (norm, factor *tensor.Tensor) {
		t.Helper()
		norm, factor = optest.Garbage(t, num.F32, 1), optest.Garbage(t, num.F32, 1)
		optest.OK(t, engine.Call(cpu.Queue(), ClipDefinition, []*tensor.Tensor{optest.Vector(t, num.F32, total), norm, factor}, []float64{limit}))
		return norm, factor
	}
	want := func(t *testing.T, limit float64, total, wantNorm, wantFactor float32) {
		t.Helper()
		norm, factor := of(t, limit, total)
		optest.Want(t, "norm", norm, wantNorm)
		optest.Want(t, "factor", factor, wantFactor)
	}
	optest.Clauses(t, ClipDefinition, map[string]func(t *testing.T){
		"C1_max_norm": func(t *testing.T) {
			x := []*tensor.Tensor{optest.Vector(t, num.F32, 3, 4)}
			for _, limit := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e39, 1e-60} {
				norm, factor := optest.Vector(t, num.F32, 7), optest.Vector(t, num.F32, 8)
				optest.Refused(t, Clip(cpu.Queue(), norm, factor, limit, x), "norm.clip", "max_norm", "norm.clip.C1")
				optest.Want(t, "norm after a refusal", norm, 7)
				optest.Want(t, "factor after a refusal", factor, 8)
			}
		},
		"C2_nan_and_infinity": func(t *testing.T) {
			want(t, 1, nan, nan, nan)
			want(t, 1, inf, inf, 0)
			norm, factor := clipped(t, 1, optest.Vector(t, num.F16, 1, nan))
			optest.Want(t, "norm", norm, nan)
			optest.Want(t, "factor", factor, nan)
		},
		"C3_factor": func(t *testing.T) {
			want(t, 3, 9, 3, 1)
			want(t, 3, 0, 0, 1)
			want(t, 1, 4, 2, 0.5)
			for u := uint32(0x3f000000); u < 0x41000000; u += 99991 {
				v := math.Float32frombits(u)
				_, factor := of(t, 1, v)
				if f := optest.Floats(t, factor)[0]; !(f <= 1) || (v <= 1) != (f == 1) {
					t.Errorf("total %v gives the factor %v", v, f)
				}
			}
		},
		"C4_zeros": func(t *testing.T) {
			want(t, 1, zero, zero, 1)
			want(t, 1, -1, nan, nan)
			want(t, 1, 0x1p-148, 0x1p-74, 1)
			want(t, 0x1p-140, 0x1p-120, 0x1p-60, 0x1p-80)
		},
		"C5_overlap": func(t *testing.T) {
			optest.Errors(t, clip, size(3, 5))
			x := optest.Matrix(t, num.F32, 1, 3, 4)
			inside, err := x.Slice(0, 1, 0, 1)
			optest.OK(t, err)
			own := optest.Vector(t, num.F32, 7)
			for operand, pair := range map[string][2]*tensor.Tensor{"norm": {inside, own}, "factor": {own, inside}} {
				err := Clip(cpu.Queue(), pair[0], pair[1], 1, []*tensor.Tensor{another(t), x})
				optest.Refused(t, err, "norm.clip", operand, "norm.clip.C5")
			}
			optest.Refused(t, Clip(cpu.Queue(), own, own, 1, []*tensor.Tensor{x}), "norm.clip", "norm", "")
			optest.Want(t, "x after refusals", x, 3, 4)
			optest.Want(t, "the other result after refusals", own, 7)
		},
	})
}

func another(t testing.TB) *tensor.Tensor { return optest.Vector(t, num.F32, 1) }

// Every argument of the calls on several tensors.
func TestCallErrors(t *testing.T) {
	dev, err := cpu.New(cpu.Options{Workers: 1})
	optest.OK(t, err)
	defer dev.Close()
	foreign, err := tensor.New(dev, num.F32, 1)
	optest.OK(t, err)
	closed := optest.Vector(t, num.F32, 1)
	closed.Close()
	good := optest.Vector(t, num.F32, 3, 4)
	bad := map[string]*tensor.Tensor{"nil": nil, "closed": closed, "two elements": optest.Vector(t, num.F32, 1, 2), "f16": optest.Vector(t, num.F16, 1), "elsewhere": foreign}
	for name, x := range bad {
		norm, factor := optest.Vector(t, num.F32, 7), optest.Vector(t, num.F32, 8)
		for _, xs := range [][]*tensor.Tensor{{good}, {good, good}} {
			optest.Refused(t, SquareSum(cpu.Queue(), x, xs), "norm.square_sum", "total", "")
			optest.Refused(t, Clip(cpu.Queue(), x, factor, 1, xs), "norm.clip", "norm", "")
			optest.Refused(t, Clip(cpu.Queue(), norm, x, 1, xs), "norm.clip", "factor", "")
		}
		if name != "two elements" && name != "f16" {
			for _, xs := range [][]*tensor.Tensor{{x}, {good, x}} {
				optest.Refused(t, SquareSum(cpu.Queue(), norm, xs), "norm.square_sum", "x", "")
				optest.Refused(t, Clip(cpu.Queue(), norm, factor, 1, xs), "norm.square_sum", "x", "")
			}
		}
		optest.Want(t, "norm after refusals", norm, 7)
		optest.Want(t, "factor after refusals", factor, 8)
	}
	optest.Refused(t, SquareSum(nil, optest.Vector(t, num.F32, 7), []*tensor.Tensor{good}), "norm.square_sum", "queue", "")
	optest.Refused(t, Clip(nil, optest.Vector(t, num.F32, 7), optest.Vector(t, num.F32, 7), 1, []*tensor.Tensor{good}), "norm.clip", "queue", "")
	optest.Refused(t, Clip(cpu.Queue(), optest.Vector(t, num.F32, 7), optest.Vector(t, num.F32, 7), 1, nil), "norm.square_sum", "x", "norm.square_sum.C1")
	// A position stands where the mistake is in a tensor.
	err = SquareSum(cpu.Queue(), optest.Vector(t, num.F32, 7), []*tensor.Tensor{good, optest.Ints(t, 1)})
	optest.Message(t, err, "tensor 1: norm.square_sum: x is i32, want f16, bf16 or f32")
	err = SquareSum(cpu.Queue(), optest.Vector(t, num.F16, 7), []*tensor.Tensor{good, good})
	optest.Message(t, err, "norm.square_sum: total is f16, want f32")
	for _, shape := range [][]int{{}, {1}, {1, 1}, {1, 1, 1}} {
		norm, factor := optest.Garbage(t, num.F32, shape...), optest.Garbage(t, num.F32, shape...)
		optest.OK(t, Clip(cpu.Queue(), norm, factor, 1, []*tensor.Tensor{good, good}))
		optest.OK(t, SquareSum(cpu.Queue(), norm, []*tensor.Tensor{good, good}))
		optest.Want(t, "total", norm, 50)
	}
}

func TestOperation(t *testing.T) {
	run := func(name string, in engine.Args, given map[string]string) (engine.Args, error) {
		o := optest.Operation(Operations, name)
		v, err := o.NewValues(given)
		optest.OK(t, err)
		return o.Run(cpu.Queue(), in, v)
	}
	// In the order of their names: 2^-24 joins 1 only where its neighbour is as small.
	small, one := optest.Vector(t, num.F32, 0x1p-12), optest.Vector(t, num.F32, 1)
	out, err := run("norm.square_sum", engine.Args{"c": one, "b": small, "a": small}, nil)
	optest.OK(t, err)
	optest.Want(t, "total", out["total"], 1+0x1p-23)
	out, err = run("norm.square_sum", engine.Args{"a": one, "b": small, "c": small}, nil)
	optest.OK(t, err)
	optest.Want(t, "total", out["total"], 1)
	out, err = run("norm.clip", engine.Args{"x": optest.Vector(t, num.F16, 3, 4)}, map[string]string{"max_norm": "2.5"})
	optest.OK(t, err)
	optest.Want(t, "norm", out["norm"], 5)
	optest.Want(t, "factor", out["factor"], 0.5)
	for name, given := range map[string]map[string]string{"none": nil, "zero": {"max_norm": "0"}, "text": {"max_norm": "much"}} {
		if _, err := run("norm.clip", engine.Args{"x": one}, given); !errors.Is(err, tensor.ErrBadArgument) {
			t.Errorf("max_norm %s: got error %v, want an ArgumentError", name, err)
		}
	}
	_, err = run("norm.square_sum", engine.Args{}, nil)
	optest.Refused(t, err, "norm.square_sum", "x", "norm.square_sum.C1")
	ints := optest.Ints(t, 1)
	limit := map[string]string{"max_norm": "1"}
	for _, in := range []engine.Args{{"h": ints}, {"g": one, "h": ints}} {
		_, err = run("norm.square_sum", in, nil)
		optest.Message(t, err, "norm.square_sum: tensor h is i32, want f16, bf16 or f32")
		_, err = run("norm.clip", in, limit)
		optest.Message(t, err, "norm.clip: tensor h is i32, want f16, bf16 or f32")
		_, err = run("norm.clip", in, map[string]string{"max_norm": "0"})
		optest.Message(t, err, "norm.clip: max_norm is 0, want a finite binary32 above 0 (norm.clip.C1)")
	}
	_, err = run("norm.clip", engine.Args{}, limit)
	optest.Refused(t, err, "norm.clip", "x", "norm.square_sum.C1")
	// norm.clip does not take the result of norm.square_sum.
	for _, in := range []engine.Args{{"total": one}, {"a": one, "total": one}} {
		_, err = run("norm.clip", in, limit)
		optest.Message(t, err, "norm.clip: tensor total is no input, want the tensors themselves: norm.clip squares and sums them")
	}
}

func BenchmarkNorm(b *testing.B) {
	for _, d := range num.FloatDTypes {
		optest.Bench(b, optest.Timing{
			Name: "op=square_sum/dtype=" + d.String() + "/shape=256x1024", Subject: squareSum,
			DTypes: []num.DType{d, num.F32}, Sizes: size(256, 1024), Check: size(66, 1024),
		})
	}
}
