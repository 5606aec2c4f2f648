package rope

import (
	"errors"
	"math"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/optest"
	"tokitai/op/rmsnorm"
	"tokitai/tensor"
	"tokitai/truth"
)

// TestInterleavedNormComposes compares both operations with an RMSNorm and a turn, one after the other: in
// binary32 they have the same bits. Columns are an odd number too.
func TestInterleavedNormComposes(t *testing.T) {
	q := cpu.Queue()
	for _, cols := range []int{1, 2, 7, 128, 301} {
		const rows, table = 6, 4
		g := gen.New("composes")
		random := func(rows, cols int) *tensor.Tensor {
			v := make([]float32, rows*cols)
			for i := range v {
				v[i] = g.Normal()
			}
			return matrix(t, num.F32, cols, v...)
		}
		vector := func(x *tensor.Tensor) *tensor.Tensor {
			v, err := x.Reshape(x.Len())
			optest.OK(t, err)
			return v
		}
		x, dy, gamma, wave, at := random(rows, cols), random(rows, cols), vector(random(1, cols)), random(table, cols), positions(t, 0, 3, 1, 3, 2, 0)
		like := func() *tensor.Tensor { return optest.Garbage(t, num.F32, rows, cols) }
		y, rstd := like(), optest.Garbage(t, num.F32, rows)
		optest.OK(t, InterleavedNormForward(q, y, rstd, x, gamma, at, wave, DefaultParams))
		h, turned, wantRstd := like(), like(), optest.Garbage(t, num.F32, rows)
		optest.OK(t, rmsnorm.Forward(q, h, wantRstd, x, gamma, rmsnorm.Params{Eps: DefaultEps}))
		optest.OK(t, InterleavedForward(q, turned, h, at, wave))
		wantSame(t, "y", y, turned)
		wantSame(t, "rstd", rstd, wantRstd)

		dx, dgamma := like(), optest.Garbage(t, num.F32, cols)
		optest.OK(t, InterleavedNormBackward(q, dx, dgamma, dy, x, gamma, rstd, at, wave))
		back, wantDX, wantGamma := like(), like(), optest.Garbage(t, num.F32, cols)
		optest.OK(t, InterleavedBackward(q, back, dy, at, wave))
		optest.OK(t, rmsnorm.Backward(q, wantDX, wantGamma, back, x, gamma, rstd))
		wantSame(t, "dx", dx, wantDX)
		wantSame(t, "dgamma", dgamma, wantGamma)
	}
}

func wantSame(t *testing.T, name string, got, want *tensor.Tensor) {
	t.Helper()
	a, err := got.Float32s()
	optest.OK(t, err)
	b, err := want.Float32s()
	optest.OK(t, err)
	for i := range a {
		if !same(a[i], b[i]) {
			t.Fatalf("%s[%d] of %v is %v, want %v", name, i, got.Shape(), a[i], b[i])
		}
	}
}

// TestInterleavedNormOverTheReals compares the definitions, enclosed over the real numbers, with those for halves:
// even columns are x1, odd ones x2.
func TestInterleavedNormOverTheReals(t *testing.T) {
	const rows, half, table = 4, 3, 3
	g := gen.New("reals")
	values := map[string][]float64{}
	for name, n := range map[string]int{"x": rows * 2 * half, "dy": rows * 2 * half, "gamma": 2 * half, "wave": table * 2 * half, "rstd": rows} {
		for range n {
			values[name] = append(values[name], float64(g.Normal()))
		}
	}
	at := []int{2, 0, 1, 2}
	arrays := func(d *def.Definition, of func(name string, r, c int) float64) []num.Array {
		var list []num.Array
		sizes := map[string]int{"R": rows, "C": half, "P": table}
		if d.Operand("wave") >= 0 {
			sizes["C"] = 2 * half
		}
		for i := range d.Operands {
			o := &d.Operands[i]
			a := o.NewArray(d.DTypes(num.F32)[i], sizes)
			for r := range a.Rows {
				for c := range a.Cols {
					switch {
					case o.IsIndex:
						a.SetBits(r, c, uint32(at[r]))
					case o.IsIn:
						a.Set(r, c, float32(of(o.Name, r, c)))
					}
				}
			}
			list = append(list, a)
		}
		return list
	}
	whole := func(name string, r, c int) float64 {
		if n := len(values[name]); n == rows {
			return values[name][r]
		} else if n == 2*half {
			return values[name][c]
		}
		return values[name][r*2*half+c]
	}
	halves := func(name string, r, c int) float64 {
		switch name {
		case "cos":
			return whole("wave", r, 2*c)
		case "sin":
			return whole("wave", r, 2*c+1)
		case "rstd":
			return whole(name, r, 0)
		}
		return whole(name[:len(name)-1], r, 2*c+int(name[len(name)-1]-'1'))
	}
	for _, test := range []struct{ neighbours, halves *def.Definition }{
		{InterleavedNormForwardDefinition, NormForwardDefinition}, {InterleavedNormBackwardDefinition, NormBackwardDefinition},
	} {
		params := []float64{DefaultEps}[:len(test.halves.Params)]
		operands, others := arrays(test.neighbours, whole), arrays(test.halves, halves)
		got, err := truth.Enclose(test.neighbours, operands, truth.Options{Params: params})
		optest.OK(t, err)
		want, err := truth.Enclose(test.halves, others, truth.Options{Params: params})
		optest.OK(t, err)
		for i := range test.neighbours.Operands {
			o := &test.neighbours.Operands[i]
			if !o.IsOut {
				continue
			}
			for r := range operands[i].Rows {
				for c := range operands[i].Cols {
					name, col := o.Name, c
					if name != "rstd" {
						name, col = name+string("12"[c&1]), c/2
					}
					a, _ := got.At(i, r, c).Bounds()
					b, _ := want.At(test.halves.Operand(name), r, col).Bounds()
					if math.Abs(a-b) > 0x1p-40 {
						t.Errorf("%s: %s[%d,%d] is %v, of halves %v", test.neighbours.Name, o.Name, r, c, a, b)
					}
				}
			}
		}
	}
}

func TestInterleavedNormForward(t *testing.T) {
	turned := func(t *testing.T, d num.DType, c, s float32, p Params, gamma []float32, x ...float32) (y, rstd *tensor.Tensor) {
		t.Helper()
		n := len(gamma)
		rows := len(x) / n
		y, rstd = optest.Garbage(t, d, rows, n), optest.Garbage(t, num.F32, rows)
		waves := []float32{c, s, c, s}[:n]
		optest.OK(t, InterleavedNormForward(cpu.Queue(), y, rstd, matrix(t, d, n, x...), optest.Vector(t, d, gamma...), positions(t, make([]int32, rows)...), matrix(t, num.F32, n, waves...), p))
		return y, rstd
	}
	none, ones := Params{}, []float32{1, 1}
	optest.Clauses(t, InterleavedNormForwardDefinition, map[string]func(t *testing.T){
		"C1_rows": func(t *testing.T) { optest.Shapes(t, interleavedNorm, size(6, 5, 4)) },
		"C2_eps": func(t *testing.T) {
			for _, eps := range []float64{-1, math.Inf(1), 1e39} {
				x := matrix(t, num.F32, 2, 1, 1)
				err := InterleavedNormForward(cpu.Queue(), matrix(t, num.F32, 2, 1, 1), positionsLike(t), x, optest.Vector(t, num.F32, 1, 1), positions(t, 0), x, Params{eps})
				if err == nil || !strings.Contains(err.Error(), "eps") {
					t.Errorf("eps %v: got %v", eps, err)
				}
			}
		},
		"C3_positions": func(t *testing.T) {
			x, y, rstd := matrix(t, num.F32, 2, 3, 4), matrix(t, num.F32, 2, 7, 7), optest.Vector(t, num.F32, 7)
			call := func(opts ...engine.CallOption) error {
				return InterleavedNormForward(cpu.Queue(), y, rstd, x, optest.Vector(t, num.F32, 1, 1), positions(t, 1), matrix(t, num.F32, 2, 1, 0), none, opts...)
			}
			if err := call(); err == nil || err.Error() != "rope.interleaved.norm.forward: position[0] is 1, want 0 to 0" {
				t.Errorf("got %v", err)
			}
			optest.Want(t, "y", y, 7, 7)
			optest.OK(t, call(engine.WithBadIndex(engine.Skip)))
			optest.Want(t, "y", y, 0, 0)
			optest.Want(t, "rstd", rstd, 1/num.Sqrt(12.5))
		},
		"C4_composed": func(t *testing.T) {
			TestInterleavedNormComposes(t)
			// x is 3 and 4, so that rstd is sqrt(2)/5; a turn by 45 degrees leaves what f16 would have lost of h.
			y, rstd := turned(t, num.F16, 1, 1, none, ones, 3, 4)
			r := rstd32(t, rstd)
			optest.Want(t, "y", y, num.FMA(3*r, 1, -(4*r)), num.FMA(4*r, 1, 3*r))
		},
		"C5_nan": func(t *testing.T) {
			y, rstd := turned(t, num.F16, 1, 0, none, []float32{1, 1, 1, 1}, 1, 1, 1, nan, 1, 1, 1, 1)
			optest.Want(t, "y", y, nan, nan, nan, nan, 1, 1, 1, 1)
			optest.Want(t, "rstd", rstd, nan, 1)
		},
		"C6_infinite": func(t *testing.T) {
			y, rstd := turned(t, num.F32, 1, 1, none, []float32{1, 1, 1, 1}, 1, 1, inf, 1, 0x1p64, 1, 1, 1)
			optest.Want(t, "rstd", rstd, 0, 0)
			optest.Want(t, "y", y, 0, 0, nan, nan, 0, 0, 0, 0)
		},
		"C7_zero": func(t *testing.T) {
			y, rstd := turned(t, num.F32, 1, 1, none, ones, 0, 0, 0x1p-80, 0)
			optest.Want(t, "rstd", rstd, inf, inf)
			optest.Want(t, "y", y, nan, nan, nan, nan)
		},
		"C8_gamma": func(t *testing.T) {
			y, _ := turned(t, num.F32, 1, 1, none, []float32{nan, 1, 1, inf}, 1, 1, 1, 1)
			optest.Want(t, "y", y, nan, nan, -inf, inf)
		},
		"C9_range": func(t *testing.T) {
			y, _ := turned(t, num.F16, 1.5, 0, none, []float32{65504, 0x1p-24}, 4, 4)
			optest.Want(t, "y", y, inf, 0x1p-23) // 1.5*2^-24, to even
		},
		"C10_overlap": func(t *testing.T) {
			x := matrix(t, num.F32, 2, 1, 2)
			if err := InterleavedNormForward(cpu.Queue(), x, positionsLike(t), x, optest.Vector(t, num.F32, 1, 1), positions(t, 0), matrix(t, num.F32, 2, 1, 0), none); !errors.Is(err, tensor.ErrBadArgument) {
				t.Errorf("in place: got %v, want a BadArgument", err)
			}
		},
	})
}

func TestInterleavedNormBackward(t *testing.T) {
	type call struct{ dy, x, gamma, rstd []float32 }
	run := func(t *testing.T, d num.DType, k call) (dx, dgamma *tensor.Tensor) {
		t.Helper()
		n, rows := len(k.gamma), len(k.rstd)
		dx, dgamma = optest.Garbage(t, d, rows, n), optest.Garbage(t, d, n)
		waves := []float32{1, 0, 1, 0}[:n]
		optest.OK(t, InterleavedNormBackward(cpu.Queue(), dx, dgamma, matrix(t, d, n, k.dy...), matrix(t, d, n, k.x...), optest.Vector(t, d, k.gamma...),
			optest.Vector(t, num.F32, k.rstd...), positions(t, make([]int32, rows)...), matrix(t, num.F32, n, waves...)))
		return dx, dgamma
	}
	// The halves of TestNormBackward, mixed.
	usual := func() call {
		return call{[]float32{1, 5, 2, 6, 3, 7, 4, 8}, []float32{1, 1, -1, 1, 2, -1, 1, 1}, []float32{1, 2, 2, 1}, []float32{1, 0.5}}
	}
	optest.Clauses(t, InterleavedNormBackwardDefinition, map[string]func(t *testing.T){
		"C1_rows": func(t *testing.T) {
			optest.Shapes(t, interleavedNormBack, size(6, 5, 4))
			// Row 0: u = 1, 10, 4, 6 and xhat = 1, 1, -1, 1, so k = 13/4. Row 1: u = 3, 14, 8, 8 and
			// xhat = 1, -0.5, 0.5, 0.5, so k = 4/4.
			dx, dgamma := run(t, num.F32, usual())
			optest.Want(t, "dx", dx, 1-3.25, 10-3.25, 4+3.25, 6-3.25, 0.5*(3-1), 0.5*(14+0.5), 0.5*(8-0.5), 0.5*(8-0.5))
			optest.Want(t, "dgamma", dgamma, 1+3, 5-3.5, -2+2, 6+4)
		},
		"C2_positions": func(t *testing.T) {
			x, v := matrix(t, num.F32, 2, 1, 1), optest.Vector(t, num.F32, 1, 1)
			err := InterleavedNormBackward(cpu.Queue(), matrix(t, num.F32, 2, 1, 1), optest.Vector(t, num.F32, 1, 1), x, x, v, positionsLike(t), positions(t, -1), x)
			if err == nil || err.Error() != "rope.interleaved.norm.backward: position[0] is -1, want 0 to 0" {
				t.Errorf("got %v", err)
			}
		},
		"C3_composed": TestInterleavedNormComposes,
		"C4_nan": func(t *testing.T) {
			k := usual()
			k.dy[3] = nan
			dx, _ := run(t, num.F32, k)
			optest.Want(t, "dx", dx, nan, nan, nan, nan, 1, 7.25, 3.75, 3.75)
			k = usual()
			k.gamma[0] = nan
			dx, _ = run(t, num.F32, k)
			optest.Want(t, "dx", dx, nan, nan, nan, nan, nan, nan, nan, nan)
		},
		"C5_nan_in_columns": func(t *testing.T) {
			k := usual()
			k.dy[6] = nan // times a sine of 0 it is in both columns
			_, dgamma := run(t, num.F32, k)
			optest.Want(t, "dgamma", dgamma, 4, 1.5, nan, nan)
			k = usual()
			k.x[1] = nan
			_, dgamma = run(t, num.F32, k)
			optest.Want(t, "dgamma", dgamma, 4, nan, 0, 10)
			k = usual()
			k.rstd[1] = nan
			_, dgamma = run(t, num.F32, k)
			optest.Want(t, "dgamma", dgamma, nan, nan, nan, nan)
		},
		"C6_infinite": func(t *testing.T) {
			for _, change := range []func(k *call){func(k *call) { k.dy[4] = inf }, func(k *call) { k.x[6] = -inf }, func(k *call) { k.rstd[1] = inf }} {
				k := usual()
				change(&k)
				dx, _ := run(t, num.F32, k)
				v, err := dx.Float32s()
				optest.OK(t, err)
				for i, x := range v {
					if isFinite := x-x == 0; isFinite != (i < 4) {
						t.Errorf("dx[%d] is %v", i, x)
					}
				}
			}
		},
		"C7_rstd_as_given": func(t *testing.T) {
			k := usual()
			k.rstd[1] = 0
			dx, _ := run(t, num.F32, k)
			optest.Want(t, "dx", dx, -2.25, 6.75, 7.25, 2.75, 0, 0, 0, 0)
		},
		"C8_range": func(t *testing.T) {
			k := usual()
			k.dy, k.x = []float32{0x1p-24, 0, 65504, 0, 1, 0, 1, 0}, make([]float32, 8)
			dx, _ := run(t, num.F16, k)
			optest.Want(t, "dx", dx, 0x1p-24, 0, inf, 0, 0.5, 0, 1, 0)
		},
		"C9_overlap": func(t *testing.T) {
			x, dy, v := matrix(t, num.F32, 2, 1, 3), matrix(t, num.F32, 2, 1, 1), func() *tensor.Tensor { return optest.Vector(t, num.F32, 1, 1) }
			in := func(dx *tensor.Tensor) error {
				return InterleavedNormBackward(cpu.Queue(), dx, v(), dy, x, v(), optest.Vector(t, num.F32, 1), positions(t, 0), matrix(t, num.F32, 2, 1, 0))
			}
			optest.OK(t, in(x))
			optest.Want(t, "dx", x, 1-2, 1-6) // k = (1 + 3)/2
			if err := in(dy); !errors.Is(err, tensor.ErrBadArgument) {
				t.Errorf("in the place of dy: got %v, want a BadArgument", err)
			}
		},
	})
}
