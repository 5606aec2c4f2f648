package dropout_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/dropout"
	"tokitai/op/optest"
	"tokitai/tensor"
)

var (
	used    = dropout.Words{Seed: 0xfeedfacecafebeef, Tensor: 7, Step: -3, First: 1<<32 - 3}
	forward = optest.Subject{
		Definition: dropout.ForwardDefinition, Data: optest.Operation(dropout.Operations, "dropout.forward").Data, Params: list(0.75, used),
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return dropout.Forward(q, x[1], x[0], 0.75, used, opts...)
		},
	}
	backward = optest.Subject{
		Definition: dropout.BackwardDefinition, Data: optest.Operation(dropout.Operations, "dropout.backward").Data, Params: list(0.75, used),
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return dropout.Backward(q, x[1], x[0], 0.75, used, opts...)
		},
	}
	inf  = float32(math.Inf(1))
	nan  = float32(math.NaN())
	zero = float32(math.Copysign(0, -1))
)

// list returns the parameters of a call in the order of the definitions.
func list(keep float64, w dropout.Words) []float64 {
	threshold, scale := dropout.Limits(keep)
	return []float64{float64(int32(w.Seed)), float64(int32(w.Seed >> 32)), float64(w.Tensor), float64(w.Step), float64(int32(w.First)), float64(int32(w.First >> 32)), threshold, scale}
}

func size(r, c int) map[string]int { return map[string]int{"R": r, "C": c} }

func TestDoc(t *testing.T) {
	optest.Doc(t, "doc.go", dropout.ForwardDefinition, dropout.BackwardDefinition)
}

func TestMatchReference(t *testing.T) {
	optest.MatchReference(t, forward, size(5, 77), size(2, 1025))
	optest.MatchReference(t, backward, size(5, 77), size(2, 1025))
}

func TestErrors(t *testing.T) {
	optest.Errors(t, forward, size(3, 5))
	optest.Errors(t, backward, size(3, 5))
	x := optest.Vector(t, num.F32, 1)
	for _, keep := range []float64{-0x1p-50, 1 + 0x1p-50, math.NaN(), math.Inf(1)} {
		if err := dropout.Forward(cpu.Queue(), x, x, keep, dropout.Words{}); err == nil || !strings.Contains(err.Error(), "want a probability from 0 to 1") {
			t.Errorf("keep = %v: got %v", keep, err)
		}
	}
}

// of drops elements of values.
func of(t *testing.T, d num.DType, keep float64, w dropout.Words, values ...float32) []float32 {
	t.Helper()
	x := optest.Vector(t, d, values...)
	y, dx := optest.Garbage(t, d, len(values)), optest.Garbage(t, d, len(values))
	optest.OK(t, dropout.Forward(cpu.Queue(), y, x, keep, w))
	optest.OK(t, dropout.Backward(cpu.Queue(), dx, x, keep, w))
	got := optest.Floats(t, y)
	for i, v := range optest.Floats(t, dx) {
		if math.Float32bits(v) != math.Float32bits(got[i]) {
			t.Fatalf("element %d: forward gives %v, backward %v", i, got[i], v)
		}
	}
	return got
}

// kept returns the numbers of elements that are kept, of so many.
func kept(t *testing.T, n int, keep float64, w dropout.Words) (list []int) {
	t.Helper()
	for i, v := range of(t, num.F32, keep, w, slices.Repeat([]float32{1}, n)...) {
		if v != 0 {
			list = append(list, i)
		}
	}
	return list
}

func TestLimits(t *testing.T) {
	for _, x := range []struct {
		keep      float64
		threshold uint32
		scale     float64
	}{
		{1, 0, 1}, {0.5, 1 << 31, 2}, {0.75, 1 << 30, 4. / 3}, {0, 0, 0},
		{0x1p-32, math.MaxUint32, 0x1p32}, {1 - 0x1p-32, 1, 0x1p32 / (0x1p32 - 1)},
		{0x1p-33, 0, 0}, {3 * 0x1p-33, math.MaxUint32 - 1, 0x1p31}, // 2^-1 and 3/2 words, ties to even
		{0.9, 429496730, 0x1p32 / 3865470566}, // 0.9·2^32 = 3865470566.4
		{1e-300, 0, 0},
	} {
		if threshold, scale := dropout.Limits(x.keep); uint32(int32(threshold)) != x.threshold || scale != x.scale {
			t.Errorf("Limits(%v) = %v, %v, want %v, %v", x.keep, uint32(int32(threshold)), scale, x.threshold, x.scale)
		}
	}
}

// TestWords compares which elements are kept with Philox itself, at numbers around 2^32 and 2^64.
func TestWords(t *testing.T) {
	for _, w := range []dropout.Words{{}, {Seed: 1}, used, {Seed: math.MaxUint64, Tensor: math.MinInt32, Step: math.MaxInt32, First: math.MaxUint64 - 17}} {
		for _, keep := range []float64{0.5, 0.1, 0.9} {
			threshold, _ := dropout.Limits(keep)
			got := kept(t, 300, keep, w)
			var want []int
			for i := range 300 {
				e := w.First + uint64(i)
				word := num.Philox(w.Seed, [4]uint32{uint32(e >> 2), uint32(e >> 34), uint32(w.Tensor), uint32(w.Step)})[e%4]
				if word >= uint32(int32(threshold)) {
					want = append(want, i)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v, keep %v: kept %v, want %v", w, keep, got, want)
			}
		}
	}
}

func clauses(d *def.Definition, s optest.Subject) map[string]func(t *testing.T) {
	want := func(t *testing.T, dtype num.DType, keep float64, i int, x, want float32) {
		t.Helper()
		values := slices.Repeat([]float32{x}, i+1)
		if y := of(t, dtype, keep, dropout.Words{}, values...)[i]; math.Float32bits(y) != math.Float32bits(want) && !(y != y && want != want) {
			t.Errorf("element %d = %v in %s gives %v, want %v", i, x, dtype, y, want)
		}
	}
	// With seed 0, element 0 is dropped at a half, and the three after it are kept: Philox(0, 0) is
	// 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
	const isDropped, isKept = 0, 1
	return map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, s, size(6, 5)) },
		"C2_words": func(t *testing.T) {
			whole := kept(t, 1000, 0.5, dropout.Words{Seed: 3, First: 5})
			var parts []int
			for first := 0; first < 1000; first += 300 {
				for _, i := range kept(t, min(300, 1000-first), 0.5, dropout.Words{Seed: 3, First: uint64(5 + first)}) {
					parts = append(parts, first+i)
				}
			}
			if !slices.Equal(parts, whole) {
				t.Error("parts of a tensor drop other elements than the whole")
			}
			for _, other := range []dropout.Words{{Seed: 4, First: 5}, {Seed: 3, First: 6}, {Seed: 3 + 1<<32, First: 5}, {Seed: 3, First: 5 + 1<<32}, {Seed: 3, First: 5, Tensor: 1}, {Seed: 3, First: 5, Step: 1}} {
				if slices.Equal(kept(t, 1000, 0.5, other), whole) {
					t.Errorf("%+v drops the same elements", other)
				}
			}
		},
		"C3_ends": func(t *testing.T) {
			x := []float32{1, -2, inf, zero, 0x1p-24}
			for i, y := range of(t, num.F16, 1, dropout.Words{Seed: 1}, x...) {
				if math.Float32bits(y) != math.Float32bits(x[i]) {
					t.Errorf("keep = 1 makes %v of %v", y, x[i])
				}
			}
			for i, y := range of(t, num.F16, 0, dropout.Words{Seed: 1}, append(x, nan, -inf, -1)...) {
				if math.Float32bits(y) != 0 {
					t.Errorf("keep = 0 leaves %v of element %d", y, i)
				}
			}
		},
		"C4_special": func(t *testing.T) {
			for _, v := range []float32{nan, inf, -inf, -1, zero} {
				want(t, num.F32, 0.5, isDropped, v, 0)
			}
			want(t, num.F32, 0.5, isKept, nan, nan)
			want(t, num.F32, 0.5, isKept, inf, inf)
			want(t, num.F32, 0.5, isKept, -inf, -inf)
			want(t, num.F32, 0.5, isKept, zero, zero)
			want(t, num.F32, 0.5, isKept, -3, -6)
		},
		"C5_range": func(t *testing.T) {
			want(t, num.F16, 0.5, isKept, 65504, inf)
			want(t, num.F16, 0.5, isKept, 0x1p-24, 0x1p-23)
			want(t, num.F32, 0.5, isKept, -0x1p-149, -0x1p-148)
		},
		"C6_in_place": func(t *testing.T) {
			x := optest.Vector(t, num.BF16, 1, 2, 3, 4)
			optest.OK(t, engine.Call(cpu.Queue(), d, []*tensor.Tensor{x, x}, list(0.5, dropout.Words{})))
			optest.Want(t, "in place", x, 0, 4, 6, 8)
		},
	}
}

func TestForward(t *testing.T) {
	optest.Clauses(t, dropout.ForwardDefinition, clauses(dropout.ForwardDefinition, forward))
}
func TestBackward(t *testing.T) {
	optest.Clauses(t, dropout.BackwardDefinition, clauses(dropout.BackwardDefinition, backward))
}

// TestDerivative compares backward with the derivative of forward: the same expression.
func TestDerivative(t *testing.T) {
	d, err := def.Derivative(dropout.ForwardDefinition, nil)
	optest.OK(t, err)
	for _, n := range d.Math().Nodes {
		if n.Op == def.OpInput && n.Name != "dy" {
			t.Errorf("the derivative reads %s: nothing may be saved", n.Name)
		}
	}
}

// TestFairness draws a million words: the number kept is within six standard deviations, which a fair
// coin misses once in 5·10^8 times.
func TestFairness(t *testing.T) {
	const n = 1 << 20
	for _, keep := range []float64{0.5, 0.1, 0.9} {
		got := float64(len(kept(t, n, keep, dropout.Words{Seed: 12345})))
		if limit := 6 * math.Sqrt(n*keep*(1-keep)); math.Abs(got-n*keep) > limit {
			t.Errorf("keep %v: %v of %d are kept, want within %v of %v", keep, got, n, limit, n*keep)
		}
	}
}
