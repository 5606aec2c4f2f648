package rope

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/num/ball"
	"tokitai/op/optest"
	"tokitai/tensor"
	"tokitai/truth"
)

var (
	forward = optest.Subject{
		Definition: ForwardDefinition, Data: optest.Operation(Operations, "rope.forward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return Forward(q, x[5], x[6], x[0], x[1], x[2], x[3], x[4], opts...)
		},
	}
	backward = optest.Subject{
		Definition: BackwardDefinition, Data: optest.Operation(Operations, "rope.backward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return Backward(q, x[5], x[6], x[0], x[1], x[2], x[3], x[4], opts...)
		},
	}
	normForward = optest.Subject{
		Definition: NormForwardDefinition, Params: []float64{DefaultEps}, Data: optest.Operation(Operations, "rope.norm.forward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return NormForward(q, x[7], x[8], x[9], x[0], x[1], x[2], x[3], x[4], x[5], x[6], DefaultParams, opts...)
		},
	}
	normBackward = optest.Subject{
		Definition: NormBackwardDefinition, Data: optest.Operation(Operations, "rope.norm.backward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return NormBackward(q, x[10], x[11], x[12], x[13], x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9], opts...)
		},
	}
	interleaved = optest.Subject{
		Definition: InterleavedForwardDefinition, Data: optest.Operation(Operations, "rope.interleaved.forward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return InterleavedForward(q, x[3], x[0], x[2], x[1], opts...)
		},
	}
	interleavedBack = optest.Subject{
		Definition: InterleavedBackwardDefinition, Data: optest.Operation(Operations, "rope.interleaved.backward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return InterleavedBackward(q, x[3], x[0], x[2], x[1], opts...)
		},
	}
	interleavedNorm = optest.Subject{
		Definition: InterleavedNormForwardDefinition, Params: []float64{DefaultEps}, Data: optest.Operation(Operations, "rope.interleaved.norm.forward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return InterleavedNormForward(q, x[4], x[5], x[0], x[1], x[3], x[2], DefaultParams, opts...)
		},
	}
	interleavedNormBack = optest.Subject{
		Definition: InterleavedNormBackwardDefinition, Data: optest.Operation(Operations, "rope.interleaved.norm.backward").Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return InterleavedNormBackward(q, x[6], x[7], x[0], x[1], x[2], x[3], x[5], x[4], opts...)
		},
	}
	subjects = []optest.Subject{forward, backward, normForward, normBackward, interleaved, interleavedBack, interleavedNorm, interleavedNormBack}

	inf  = float32(math.Inf(1))
	nan  = float32(math.NaN())
	zero = float32(math.Copysign(0, -1))
)

func size(r, c, p int) map[string]int { return map[string]int{"R": r, "C": c, "P": p} }

func TestDoc(t *testing.T) {
	optest.Doc(t, "doc.go", ForwardDefinition, BackwardDefinition, NormForwardDefinition, NormBackwardDefinition, InterleavedForwardDefinition, InterleavedBackwardDefinition,
		InterleavedNormForwardDefinition, InterleavedNormBackwardDefinition)
}

func TestMatchReference(t *testing.T) {
	for _, s := range subjects {
		optest.MatchReference(t, s, size(5, 77, 3), size(1, 1, 1), size(9, 32, 40), size(2, 300, 2))
	}
}

func TestErrors(t *testing.T) {
	for _, s := range subjects {
		optest.Errors(t, s, size(3, 5, 4))
	}
}

// matrix returns a tensor of rows of one length.
func matrix(t testing.TB, d num.DType, cols int, values ...float32) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromFloat32(cpu.Queue().Device(), d, values, len(values)/cols, cols)
	optest.OK(t, err)
	return x
}

func positions(t testing.TB, values ...int32) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromInt32(cpu.Queue().Device(), values, len(values))
	optest.OK(t, err)
	return x
}

// pair turns one pair by an angle whose cosine and sine are c and s.
func pair(t testing.TB, d num.DType, a, b, c, s float32, turn func(q *engine.Queue, y1, y2, x1, x2, position, cos, sin *tensor.Tensor, opts ...engine.CallOption) error) (y1, y2 float32) {
	t.Helper()
	x1, x2 := matrix(t, d, 1, a), matrix(t, d, 1, b)
	optest.OK(t, turn(cpu.Queue(), x1, x2, x1, x2, positions(t, 1), matrix(t, num.F32, 1, 7, c), matrix(t, num.F32, 1, 7, s))) // in place
	v1, err := x1.Float32s()
	optest.OK(t, err)
	v2, err := x2.Float32s()
	optest.OK(t, err)
	return v1[0], v2[0]
}

// same reports whether two numbers have the same bits, or both are NaN.
func same(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b }

func wantPair(t *testing.T, d num.DType, a, b, c, s, want1, want2 float32) {
	t.Helper()
	if y1, y2 := pair(t, d, a, b, c, s, Forward); !same(y1, want1) || !same(y2, want2) {
		t.Errorf("(%v, %v) in %s turned by cos %v and sin %v is (%v, %v), want (%v, %v)", a, b, d, c, s, y1, y2, want1, want2)
	}
}

func TestForward(t *testing.T) {
	optest.Clauses(t, ForwardDefinition, map[string]func(t *testing.T){
		"C1_rows": func(t *testing.T) {
			optest.Shapes(t, forward, size(6, 5, 4))
			testHalves(t)
		},
		"C2_positions": func(t *testing.T) { testPositions(t) },
		"C3_tables": func(t *testing.T) {
			wantPair(t, num.F32, 2, 3, 10, 100, 20-300, 200+30)
			wantPair(t, num.F32, 2, 3, nan, 1, nan, nan)
			wantPair(t, num.F32, 2, 0, 1, inf, nan, inf) // 0*Inf
			wantPair(t, num.F32, 2, 3, inf, 1, inf, inf)
		},
		"C4_nan": func(t *testing.T) {
			wantPair(t, num.F16, nan, 1, 0.5, 0.5, nan, nan)
			wantPair(t, num.BF16, 1, nan, 1, 0, nan, nan)
		},
		"C5_infinite": func(t *testing.T) {
			wantPair(t, num.F16, inf, 1, 0.5, 0.25, inf, inf)
			wantPair(t, num.F32, 1, -inf, 0.5, 0.25, inf, -inf)
			wantPair(t, num.F32, inf, 1, 1, 0, inf, nan)
			wantPair(t, num.F32, inf, inf, 0.5, 0.5, nan, inf)
		},
		"C6_no_angle": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				wantPair(t, d, 1.5, -2.25, 1, 0, 1.5, -2.25)
				wantPair(t, d, 1.5, -2.25, 1, zero, 1.5, -2.25)
				wantPair(t, d, zero, -1, 1, 0, 0, -1) // -0 - (-1)*0
				wantPair(t, d, 65504, 0x1p-14, 1, 0, num.Round(d, 65504), 0x1p-14)
			}
		},
		"C7_range": func(t *testing.T) {
			wantPair(t, num.F16, 65504, -65504, 0.75, 0.625, inf, -8188)
			wantPair(t, num.F16, 0x1p-24, 0, 1, 0.25, 0x1p-24, 0)
			wantPair(t, num.F32, 0x1p-149, 0, 1, 1, 0x1p-149, 0x1p-149)
			wantPair(t, num.F32, math.MaxFloat32, math.MaxFloat32, 1, 1, 0, inf)
		},
		"C8_overlap": func(t *testing.T) {
			x1, x2, both := matrix(t, num.F32, 2, 1, 2), matrix(t, num.F32, 2, 3, 4), positions(t, 0)
			cos, sin := matrix(t, num.F32, 2, 0, 0), matrix(t, num.F32, 2, 1, 1)
			optest.OK(t, Forward(cpu.Queue(), x2, x1, x1, x2, both, cos, sin)) // a quarter turn, each in the place of the other
			optest.Want(t, "y1", x2, -3, -4)
			optest.Want(t, "y2", x1, 1, 2)
			for _, y := range [][2]*tensor.Tensor{{x1, x1}, {cos, x2}, {x1, sin}} {
				if err := Forward(cpu.Queue(), y[0], y[1], x1, x2, both, cos, sin); !errors.Is(err, tensor.ErrBadArgument) {
					t.Errorf("outputs that overlap: got %v, want a BadArgument", err)
				}
			}
		},
	})
}

// testHalves turns the heads of a tensor in place, against a plain loop over the real numbers' signs:
// angles of quarter turns are exact.
func testHalves(t *testing.T) {
	x := matrix(t, num.F32, 4, 1, 2, 3, 4, 5, 6, 7, 8)
	x, err := x.Reshape(1, 2, 4)
	optest.OK(t, err)
	x1, x2, err := Halves(x)
	optest.OK(t, err)
	cos, sin := matrix(t, num.F32, 2, 1, 1, 0, -1), matrix(t, num.F32, 2, 0, 0, 1, 0)
	optest.OK(t, Forward(cpu.Queue(), x1, x2, x1, x2, positions(t, 0, 1), cos, sin))
	optest.Want(t, "heads", x, 1, 2, 3, 4, -7, -6, 5, -8)

	if _, _, err := Halves(matrix(t, num.F32, 3, 1, 2, 3)); err == nil {
		t.Error("an odd head has no halves")
	}
}

// TestInterleaved turns heads whose pairs are neighbours: the results are those of the halves, bit for bit.
func TestInterleaved(t *testing.T) {
	const rows, half = 6, 5
	g := gen.New("interleaved")
	apart, mixed := make([]float32, rows*2*half), make([]float32, rows*2*half)
	for r := range rows {
		for i := range 2 * half {
			v := g.Special()
			apart[r*2*half+i], mixed[r*2*half+i%half*2+i/half] = v, v
		}
	}
	at := positions(t, 0, 3, 1, 3, 2, 0)
	cos, sin, err := Tables(cpu.Queue().Device(), 4, half, DefaultFrequencies)
	optest.OK(t, err)
	wave, err := Waves(cpu.Queue().Device(), 4, half, DefaultFrequencies)
	optest.OK(t, err)
	for name, turn := range map[string]struct {
		halves      func(q *engine.Queue, y1, y2, x1, x2, position, cos, sin *tensor.Tensor, opts ...engine.CallOption) error
		interleaved func(q *engine.Queue, y, x, position, wave *tensor.Tensor, opts ...engine.CallOption) error
	}{"forward": {Forward, InterleavedForward}, "backward": {Backward, InterleavedBackward}} {
		x, z, y := matrix(t, num.F32, 2*half, apart...), matrix(t, num.F32, 2*half, mixed...), optest.Garbage(t, num.F32, rows, 2*half)
		x1, x2, err := Halves(x)
		optest.OK(t, err)
		optest.OK(t, turn.halves(cpu.Queue(), x1, x2, x1, x2, at, cos, sin))
		optest.OK(t, turn.interleaved(cpu.Queue(), y, z, at, wave))
		want, _ := x.Float32s()
		got, _ := y.Float32s()
		for r := range rows {
			for i := range 2 * half {
				if a, b := want[r*2*half+i], got[r*2*half+i%half*2+i/half]; !same(a, b) {
					t.Errorf("%s: row %d, element %d: halves give %v, neighbours %v", name, r, i, a, b)
				}
			}
		}
	}
}

func TestInterleavedForward(t *testing.T) {
	want := func(t *testing.T, d num.DType, c, s float32, x, y []float32) {
		t.Helper()
		out := optest.Garbage(t, d, 1, len(x))
		waves := []float32{c, s, c, s}[:len(x)]
		optest.OK(t, InterleavedForward(cpu.Queue(), out, matrix(t, d, len(x), x...), positions(t, 0), matrix(t, num.F32, len(x), waves...)))
		optest.Want(t, "y", out, y...)
	}
	optest.Clauses(t, InterleavedForwardDefinition, map[string]func(t *testing.T){
		"C1_rows": func(t *testing.T) {
			optest.Shapes(t, interleaved, size(6, 5, 4))
			want(t, num.F32, 2, 3, []float32{1, 10, 100}, []float32{2 - 30, 3 + 20, 200})
		},
		"C2_positions": func(t *testing.T) {
			x, y := matrix(t, num.F32, 2, 1, 2), matrix(t, num.F32, 2, 7, 7)
			for _, at := range []int32{-1, 1} {
				err := InterleavedForward(cpu.Queue(), y, x, positions(t, at), matrix(t, num.F32, 2, 1, 0))
				var bad *engine.IndexError
				if !errors.As(err, &bad) || bad.Operand != "position" {
					t.Errorf("position %d of 1: got %v, want a bad index", at, err)
				}
			}
			optest.Want(t, "y", y, 7, 7)
			optest.OK(t, InterleavedForward(cpu.Queue(), y, x, positions(t, 1), matrix(t, num.F32, 2, 1, 0), engine.WithBadIndex(engine.Skip)))
			optest.Want(t, "y", y, 0, 0)
		},
		"C3_waves":    func(t *testing.T) { want(t, num.F32, 1, inf, []float32{2, 0}, []float32{nan, inf}) },
		"C4_nan":      func(t *testing.T) { want(t, num.F16, 0.5, 0.5, []float32{1, nan, 1, 1}, []float32{nan, nan, 0, 1}) },
		"C5_infinite": func(t *testing.T) { want(t, num.BF16, 0.5, 0.25, []float32{1, -inf}, []float32{inf, -inf}) },
		"C6_halves":   TestInterleaved,
		"C7_range": func(t *testing.T) {
			want(t, num.F16, 0.75, 0.625, []float32{65504, -65504}, []float32{inf, -8188})
			want(t, num.F32, 1, 1, []float32{0x1p-149, 0}, []float32{0x1p-149, 0x1p-149})
		},
		"C8_overlap": func(t *testing.T) {
			x := matrix(t, num.F32, 2, 1, 2)
			if err := InterleavedForward(cpu.Queue(), x, x, positions(t, 0), matrix(t, num.F32, 2, 1, 0)); !errors.Is(err, tensor.ErrBadArgument) {
				t.Errorf("in place: got %v, want a BadArgument", err)
			}
		},
	})
}

func TestInterleavedBackward(t *testing.T) {
	optest.Clauses(t, InterleavedBackwardDefinition, map[string]func(t *testing.T){
		"C1_opposite": func(t *testing.T) {
			g := gen.New("opposite")
			for range 100 {
				x, c, s := matrix(t, num.F32, 2, g.Special(), g.Ordinary()), g.Ordinary(), g.Special()
				y, dx := optest.Garbage(t, num.F32, 1, 2), optest.Garbage(t, num.F32, 1, 2)
				optest.OK(t, InterleavedForward(cpu.Queue(), y, x, positions(t, 0), matrix(t, num.F32, 2, c, -s)))
				optest.OK(t, InterleavedBackward(cpu.Queue(), dx, x, positions(t, 0), matrix(t, num.F32, 2, c, s)))
				want, _ := y.Float32s()
				optest.Want(t, "dx", dx, want...)
			}
		},
		"C2_rows": func(t *testing.T) { optest.Shapes(t, interleavedBack, size(6, 5, 4)) },
		"C3_positions": func(t *testing.T) {
			x := matrix(t, num.F32, 1, 1)
			err := InterleavedBackward(cpu.Queue(), matrix(t, num.F32, 1, 1), x, positions(t, 1), matrix(t, num.F32, 1, 1))
			if err == nil || err.Error() != "rope.interleaved.backward: position[0] is 1, want 0 to 0" {
				t.Errorf("got %v", err)
			}
		},
		"C4_overlap": func(t *testing.T) {
			x := matrix(t, num.F32, 2, 1, 2)
			if err := InterleavedBackward(cpu.Queue(), x, x, positions(t, 0), matrix(t, num.F32, 2, 1, 0)); !errors.Is(err, tensor.ErrBadArgument) {
				t.Errorf("in place: got %v, want a BadArgument", err)
			}
		},
	})
}

func testPositions(t *testing.T) {
	x1, x2 := matrix(t, num.F32, 1, 1, 2, 3), matrix(t, num.F32, 1, 4, 5, 6)
	cos, sin := matrix(t, num.F32, 1, 1, 0), matrix(t, num.F32, 1, 0, 1)
	for _, at := range [][]int32{{0, 1, 2}, {-1, 0, 0}} {
		err := Forward(cpu.Queue(), x1, x2, x1, x2, positions(t, at...), cos, sin)
		var bad *engine.IndexError
		if !errors.As(err, &bad) || bad.Operand != "position" {
			t.Errorf("positions %v of 2: got %v, want a bad index", at, err)
		}
		optest.Want(t, "x1", x1, 1, 2, 3)
	}
	optest.OK(t, Forward(cpu.Queue(), x1, x2, x1, x2, positions(t, 1, 2, -7), cos, sin, engine.WithBadIndex(engine.Skip)))
	optest.Want(t, "y1", x1, -4, 0, 0)
	optest.Want(t, "y2", x2, 1, 0, 0)
}

func TestBackward(t *testing.T) {
	optest.Clauses(t, BackwardDefinition, map[string]func(t *testing.T){
		"C1_opposite": func(t *testing.T) {
			g := gen.New("opposite")
			for range 500 {
				a, b, c, s := g.Special(), g.Ordinary(), g.Ordinary(), g.Special()
				if g.Below(2) == 0 {
					a, s = g.Ordinary(), g.Ordinary()
				}
				w1, w2 := pair(t, num.F32, a, b, c, -s, Forward)
				if g1, g2 := pair(t, num.F32, a, b, c, s, Backward); !same(g1, w1) || !same(g2, w2) {
					t.Errorf("(%v, %v) turned back by cos %v and sin %v is (%v, %v), want (%v, %v)", a, b, c, s, g1, g2, w1, w2)
				}
			}
		},
		"C2_rows": func(t *testing.T) { optest.Shapes(t, backward, size(6, 5, 4)) },
		"C3_positions": func(t *testing.T) {
			x := matrix(t, num.F32, 1, 1)
			err := Backward(cpu.Queue(), x, matrix(t, num.F32, 1, 1), x, matrix(t, num.F32, 1, 1), positions(t, 1), matrix(t, num.F32, 1, 1), matrix(t, num.F32, 1, 0))
			if err == nil || err.Error() != "rope.backward: position[0] is 1, want 0 to 0" {
				t.Errorf("got %v", err)
			}
		},
		"C4_overlap": func(t *testing.T) {
			x1, x2 := matrix(t, num.F32, 1, 1), matrix(t, num.F32, 1, 2)
			if err := Backward(cpu.Queue(), x1, x1, x1, x2, positions(t, 0), matrix(t, num.F32, 1, 1), matrix(t, num.F32, 1, 0)); !errors.Is(err, tensor.ErrBadArgument) {
				t.Errorf("both results in one place: got %v", err)
			}
		},
	})
}

// TestDerivatives compares the gradients with the derivatives of the forward definitions, over the
// real numbers.
func TestDerivatives(t *testing.T) {
	for _, test := range []struct {
		forward, backward *def.Definition
		of                []string
	}{
		{ForwardDefinition, BackwardDefinition, []string{"y1", "y2", "x1", "x2"}},
		{NormForwardDefinition, NormBackwardDefinition, []string{"y1", "y2", "x1", "x2", "gamma1", "gamma2"}},
		{InterleavedForwardDefinition, InterleavedBackwardDefinition, []string{"y", "x"}},
		{InterleavedNormForwardDefinition, InterleavedNormBackwardDefinition, []string{"y", "x", "gamma"}},
	} {
		d, err := def.Derivative(test.forward, test.of, fn.All...)
		optest.OK(t, err)
		sizes, g := size(4, 6, 3), gen.New(test.forward.Name)
		values := map[string]num.Array{}
		arrays := func(of *def.Definition) (list []num.Array) {
			for i := range of.Operands {
				o := &of.Operands[i]
				a, ok := values[o.Name]
				if !ok {
					a = o.NewArray(of.DTypes(num.F32)[i], sizes)
					for r := range a.Rows {
						for c := range a.Cols {
							switch {
							case o.IsIndex:
								a.SetBits(r, c, uint32(g.Below(3)))
							case o.IsIn:
								a.Set(r, c, g.Normal())
							}
						}
					}
					values[o.Name] = a
				}
				list = append(list, a)
			}
			return list
		}
		of := arrays(d)
		hasNorm := test.backward.Operand("rstd") >= 0
		if hasNorm { // rstd as binary32, whose rounding is all that may differ
			rstd := test.backward.Operands[test.backward.Operand("rstd")].NewArray(num.F32, sizes)
			for r := range rstd.Rows {
				s, n := 0.0, 0
				for _, name := range []string{"x", "x1", "x2"} {
					x := values[name]
					for c := range x.Cols {
						s += float64(x.At(r, c)) * float64(x.At(r, c))
					}
					n += x.Cols
				}
				rstd.Set(r, 0, float32(1/math.Sqrt(s/float64(n)+float64(float32(DefaultEps)))))
			}
			values["rstd"] = rstd
		}
		want := enclosures(t, d, of, []float64{DefaultEps}[:len(d.Params)])
		got := enclosures(t, test.backward, arrays(test.backward), nil)
		for name, w := range want {
			for i, x := range got[name] {
				a, _ := x.Bounds()
				b, _ := w[i].Bounds()
				// rstd is within 2^-24 of its value. Each gradient has it in at most three factors, of terms
				// whose sizes add up to less than 64.
				if diff := math.Abs(a - b); diff > 64*3*0x1p-24 || !hasNorm && diff > 0x1p-40 {
					t.Errorf("%s: %s, element %d is %v, the derivative %v", test.backward.Name, name, i, a, b)
				}
			}
		}
	}
}

// enclosures returns the real results of a call by output.
func enclosures(t *testing.T, d *def.Definition, operands []num.Array, params []float64) map[string][]ball.Ball {
	t.Helper()
	list := map[string][]ball.Ball{}
	r, err := truth.Enclose(d, operands, truth.Options{Params: params})
	optest.OK(t, err)
	for i, o := range d.Operands {
		if o.IsOut {
			for row := range operands[i].Rows {
				for col := range operands[i].Cols {
					list[o.Name] = append(list[o.Name], r.At(i, row, col))
				}
			}
		}
	}
	return list
}

func TestNormForward(t *testing.T) {
	norm := func(t *testing.T, d num.DType, x1, x2, gamma1, gamma2 []float32, c, s float32, p Params) (y1, y2, rstd *tensor.Tensor) {
		t.Helper()
		n := len(gamma1)
		y1, y2, rstd = optest.Garbage(t, d, len(x1)/n, n), optest.Garbage(t, d, len(x1)/n, n), optest.Garbage(t, num.F32, len(x1)/n)
		cos, sin := make([]float32, n), make([]float32, n)
		for i := range n {
			cos[i], sin[i] = c, s
		}
		optest.OK(t, NormForward(cpu.Queue(), y1, y2, rstd, matrix(t, d, n, x1...), matrix(t, d, n, x2...), matrix(t, d, n, gamma1...), matrix(t, d, n, gamma2...),
			positions(t, make([]int32, len(x1)/n)...), matrix(t, num.F32, n, cos...), matrix(t, num.F32, n, sin...), p))
		return
	}
	none := Params{}
	optest.Clauses(t, NormForwardDefinition, map[string]func(t *testing.T){
		"C1_rows": func(t *testing.T) { optest.Shapes(t, normForward, size(6, 5, 4)) },
		"C2_eps": func(t *testing.T) {
			for _, eps := range []float64{-1, math.Inf(1), 1e39} {
				x := matrix(t, num.F32, 1, 1)
				err := NormForward(cpu.Queue(), matrix(t, num.F32, 1, 1), matrix(t, num.F32, 1, 1), positionsLike(t), x, x, x, x, positions(t, 0), x, x, Params{eps})
				if err == nil || !strings.Contains(err.Error(), "eps") {
					t.Errorf("eps %v: got %v", eps, err)
				}
			}
		},
		"C3_positions": func(t *testing.T) {
			x := matrix(t, num.F32, 1, 1)
			err := NormForward(cpu.Queue(), matrix(t, num.F32, 1, 1), matrix(t, num.F32, 1, 1), positionsLike(t), x, x, x, x, positions(t, 1), x, x, none)
			if err == nil || err.Error() != "rope.norm.forward: position[0] is 1, want 0 to 0" {
				t.Errorf("got %v", err)
			}
		},
		"C4_unrounded": func(t *testing.T) {
			// x is 3 and 4, so that rstd is sqrt(2)/5; h1 has 24 bits, of which a turn by 45 degrees
			// less the same h1 rounded to f16 leaves what f16 would have lost.
			y1, y2, rstd := norm(t, num.F16, []float32{3}, []float32{4}, []float32{1}, []float32{1}, 1, 1, none)
			r := rstd32(t, rstd)
			optest.Want(t, "y1", y1, num.FMA(3*r, 1, -(4*r)))
			optest.Want(t, "y2", y2, num.FMA(3*r, 1, 4*r))
		},
		"C5_nan": func(t *testing.T) {
			y1, y2, rstd := norm(t, num.F16, []float32{1, nan, 1, 1}, []float32{1, 1, 1, 1}, []float32{1, 1}, []float32{1, 1}, 1, 0, none)
			optest.Want(t, "y1", y1, nan, nan, 1, 1)
			optest.Want(t, "y2", y2, nan, nan, 1, 1)
			optest.Want(t, "rstd", rstd, nan, 1)
		},
		"C6_infinite": func(t *testing.T) {
			y1, y2, rstd := norm(t, num.F32, []float32{1, inf, 0x1p64, 1}, []float32{1, 1, 1, 1}, []float32{1, 1}, []float32{1, 1}, 1, 1, none)
			optest.Want(t, "rstd", rstd, 0, 0)
			optest.Want(t, "y1", y1, 0, nan, 0, 0)
			optest.Want(t, "y2", y2, 0, nan, 0, 0)
		},
		"C7_zero": func(t *testing.T) {
			y1, y2, rstd := norm(t, num.F32, []float32{0, 0x1p-80}, []float32{0, 0}, []float32{1, 1}, []float32{1, 1}, 1, 1, none)
			optest.Want(t, "rstd", rstd, inf)
			optest.Want(t, "y1", y1, nan, nan)
			optest.Want(t, "y2", y2, nan, nan)
		},
		"C8_gamma": func(t *testing.T) {
			y1, y2, _ := norm(t, num.F32, []float32{1, 1, 1}, []float32{1, 1, 1}, []float32{nan, 1, 1}, []float32{1, inf, 1}, 1, 1, none)
			optest.Want(t, "y1", y1, nan, -inf, 0)
			optest.Want(t, "y2", y2, nan, inf, 2)
		},
		"C9_range": func(t *testing.T) {
			y1, _, _ := norm(t, num.F16, []float32{4, 4}, []float32{4, 4}, []float32{65504, 0x1p-24}, []float32{0, 0}, 1.5, 0, none)
			optest.Want(t, "y1", y1, inf, 0x1p-23) // 1.5*2^-24, to even
		},
		"C10_in_place": func(t *testing.T) {
			x1, x2, one := matrix(t, num.F32, 1, 3), matrix(t, num.F32, 1, -3), matrix(t, num.F32, 1, 1)
			optest.OK(t, NormForward(cpu.Queue(), x2, x1, positionsLike(t), x1, x2, one, one, positions(t, 0), matrix(t, num.F32, 1, 0), one, none))
			optest.Want(t, "y1", x2, 1)
			optest.Want(t, "y2", x1, 1)
		},
	})
}

// positionsLike returns an rstd for one row.
func positionsLike(t testing.TB) *tensor.Tensor { return optest.Garbage(t, num.F32, 1) }

func rstd32(t *testing.T, x *tensor.Tensor) float32 {
	t.Helper()
	v, err := x.Float32s()
	optest.OK(t, err)
	return v[0]
}

func TestNormBackward(t *testing.T) {
	type call struct{ dy1, dy2, x1, x2, gamma1, gamma2, rstd []float32 }
	run := func(t *testing.T, d num.DType, k call) (dx1, dx2, dgamma1, dgamma2 *tensor.Tensor) {
		t.Helper()
		n := len(k.gamma1)
		rows := len(k.dy1) / n
		dx1, dx2, dgamma1, dgamma2 = optest.Garbage(t, d, rows, n), optest.Garbage(t, d, rows, n), optest.Garbage(t, d, n), optest.Garbage(t, d, n)
		ones, zeros := make([]float32, n), make([]float32, n)
		for i := range ones {
			ones[i] = 1
		}
		m := func(v []float32) *tensor.Tensor { return matrix(t, d, n, v...) }
		optest.OK(t, NormBackward(cpu.Queue(), dx1, dx2, dgamma1, dgamma2, m(k.dy1), m(k.dy2), m(k.x1), m(k.x2), m(k.gamma1), m(k.gamma2),
			optest.Vector(t, num.F32, k.rstd...), positions(t, make([]int32, rows)...), matrix(t, num.F32, n, ones...), matrix(t, num.F32, n, zeros...)))
		return
	}
	usual := func() call {
		return call{[]float32{1, 2, 3, 4}, []float32{5, 6, 7, 8}, []float32{1, -1, 2, 1}, []float32{1, 1, -1, 1}, []float32{1, 2}, []float32{2, 1}, []float32{1, 0.5}}
	}
	optest.Clauses(t, NormBackwardDefinition, map[string]func(t *testing.T){
		"C1_rows": func(t *testing.T) {
			optest.Shapes(t, normBackward, size(6, 5, 4))
			// Row 0: u = 1, 4, 10, 6 and xhat = 1, -1, 1, 1, so k = 13/4. Row 1: u = 3, 8, 14, 8 and
			// xhat = 1, 0.5, -0.5, 0.5, so k = 4/4.
			dx1, dx2, dgamma1, dgamma2 := run(t, num.F32, usual())
			optest.Want(t, "dx1", dx1, 1-3.25, 4+3.25, 0.5*(3-1), 0.5*(8-0.5))
			optest.Want(t, "dx2", dx2, 10-3.25, 6-3.25, 0.5*(14+0.5), 0.5*(8-0.5))
			optest.Want(t, "dgamma1", dgamma1, 1+3, -2+2)
			optest.Want(t, "dgamma2", dgamma2, 5-3.5, 6+4)
		},
		"C2_positions": func(t *testing.T) {
			x, v := matrix(t, num.F32, 1, 1), optest.Vector(t, num.F32, 1)
			err := NormBackward(cpu.Queue(), matrix(t, num.F32, 1, 1), matrix(t, num.F32, 1, 1), optest.Vector(t, num.F32, 1), optest.Vector(t, num.F32, 1), x, x, x, x, v, v, v, positions(t, -1), x, x)
			if err == nil || err.Error() != "rope.norm.backward: position[0] is -1, want 0 to 0" {
				t.Errorf("got %v", err)
			}
		},
		"C3_nan": func(t *testing.T) {
			k := usual()
			k.dy2[1] = nan
			dx1, dx2, _, _ := run(t, num.F32, k)
			optest.Want(t, "dx1", dx1, nan, nan, 1, 3.75)
			optest.Want(t, "dx2", dx2, nan, nan, 7.25, 3.75)
			k = usual()
			k.gamma1[0] = nan
			dx1, _, _, _ = run(t, num.F32, k)
			optest.Want(t, "dx1", dx1, nan, nan, nan, nan)
		},
		"C4_nan_in_columns": func(t *testing.T) {
			k := usual()
			k.dy1[3] = nan // times a sine of 0 it is in both halves
			_, _, dgamma1, dgamma2 := run(t, num.F32, k)
			optest.Want(t, "dgamma1", dgamma1, 4, nan)
			optest.Want(t, "dgamma2", dgamma2, 1.5, nan)
			k = usual()
			k.x2[0] = nan
			_, _, dgamma1, dgamma2 = run(t, num.F32, k)
			optest.Want(t, "dgamma1", dgamma1, 4, 0)
			optest.Want(t, "dgamma2", dgamma2, nan, 10)
		},
		"C5_infinite": func(t *testing.T) {
			for _, change := range []func(k *call){func(k *call) { k.dy1[2] = inf }, func(k *call) { k.x1[3] = -inf }, func(k *call) { k.x2[2] = inf }, func(k *call) { k.rstd[1] = inf }} {
				k := usual()
				change(&k)
				for i, dx := range [2]*tensor.Tensor{} {
					if dx, _, _, _ = run(t, num.F32, k); i == 1 {
						_, dx, _, _ = run(t, num.F32, k)
					}
					v, err := dx.Float32s()
					optest.OK(t, err)
					for c, x := range v {
						if isFinite := x-x == 0; isFinite != (c < 2) {
							t.Errorf("dx%d[%d] is %v", i+1, c, x)
						}
					}
				}
			}
		},
		"C6_rstd_as_given": func(t *testing.T) {
			k := usual()
			k.rstd[1] = 0
			dx1, dx2, _, _ := run(t, num.F32, k)
			optest.Want(t, "dx1", dx1, -2.25, 7.25, 0, 0)
			optest.Want(t, "dx2", dx2, 6.75, 2.75, 0, 0)
		},
		"C7_range": func(t *testing.T) {
			k := usual()
			k.dy1, k.x1 = []float32{0x1p-24, 65504, 1, 1}, []float32{0, 0, 0, 0}
			k.dy2, k.x2 = []float32{0, 0, 0, 0}, []float32{0, 0, 0, 0}
			dx1, _, _, _ := run(t, num.F16, k)
			optest.Want(t, "dx1", dx1, 0x1p-24, inf, 0.5, 1)
		},
		"C8_overlap": func(t *testing.T) {
			one, v := func() *tensor.Tensor { return matrix(t, num.F32, 1, 1) }, func() *tensor.Tensor { return optest.Vector(t, num.F32, 1) }
			dy1, dy2, x1, x2 := one(), one(), one(), matrix(t, num.F32, 1, 3)
			optest.OK(t, NormBackward(cpu.Queue(), x2, dy1, v(), v(), dy1, dy2, x1, x2, v(), v(), v(), positions(t, 0), one(), matrix(t, num.F32, 1, 0)))
			optest.Want(t, "dx1", x2, 1-2) // k = (1 + 3)/2
			optest.Want(t, "dx2", dy1, 1-6)
			if err := NormBackward(cpu.Queue(), x1, x1, v(), v(), dy1, dy2, x1, x2, v(), v(), v(), positions(t, 0), one(), one()); !errors.Is(err, tensor.ErrBadArgument) {
				t.Errorf("both results in one place: got %v", err)
			}
		},
	})
}

// TestTable compares the table with waves of 200 bits, computed from the angle itself.
func TestTable(t *testing.T) {
	for _, f := range []Frequencies{DefaultFrequencies, {Base: 500000, Factor: 8}, {Base: 1}, {Angles: []float64{1, -0.25, 1e-3, 1e22}}} {
		const rows, pairs = 300, 4
		cos, sin, err := Table(rows, pairs, f)
		optest.OK(t, err)
		zero := ball.NewBig(0, 300)
		for p := range rows {
			for i := range pairs {
				var a ball.Big
				switch {
				case f.Angles != nil:
					a = zero.FromFloat64(f.Angles[i])
				default: // the square root of the square root of the base, i times
					root := zero.FromFloat64(f.Base).Sqrt().Sqrt()
					a = zero.FromFloat64(1)
					for range i {
						a = a.Div(root)
					}
				}
				if f.Factor != 0 {
					a = a.Div(zero.FromRat(big.NewRat(8, 1)))
				}
				a = a.Mul(zero.FromFloat64(float64(p)))
				for _, x := range []struct {
					name string
					got  float32
					want ball.Big
				}{{"cos", cos[p*pairs+i], a.Cos()}, {"sin", sin[p*pairs+i], a.Sin()}} {
					want, _ := x.want.Mid().Float32()
					if math.Float32bits(x.got) != math.Float32bits(want) && !(p == 0 && x.got == 0) {
						t.Fatalf("%+v: %s of pair %d at position %d is %v, want %v", f, x.name, i, p, x.got, want)
					}
				}
			}
		}
	}
	for _, f := range []Frequencies{{}, {Base: 0.5}, {Base: math.NaN()}, {Base: 2, Factor: -1}, {Angles: []float64{1}}, {Angles: []float64{1, 2, math.Inf(1), 3}}, {Angles: []float64{1, 2, 0, 3}}} {
		if _, _, err := Table(2, 4, f); err == nil {
			t.Errorf("%+v: no error", f)
		}
	}
	if _, _, err := Table(0, 4, DefaultFrequencies); err == nil {
		t.Error("no positions: no error")
	}
}

// TestTableDecides has balls that hold a number between two binary32.
func TestTableDecides(t *testing.T) {
	middle := 1 + 0x1p-24
	if _, ok := decided(middle-0x1p-50, middle+0x1p-50); ok {
		t.Error("an interval around the middle of two numbers is decided")
	}
	if v, ok := decided(middle-0x1p-49, middle-0x1p-50); !ok || v != 1 {
		t.Errorf("an interval below the middle is %v, %t", v, ok)
	}
	if _, ok := decided(-0x1p-200, 0x1p-200); ok {
		t.Error("the sign of a zero is decided")
	}
}
