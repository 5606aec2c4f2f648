package truthtest

import (
	"math"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/truth"
)

// admitted returns the columns that an int32 output per row admits.
func admitted(r *truth.Result, operand, cols int) []int {
	var list []int
	for c := range cols {
		if r.Admits(operand, 0, 0, uint32(c)) {
			list = append(list, c)
		}
	}
	return list
}

// TestColumnsOfExtremes has the columns that may win, worked out by hand.
func TestColumnsOfExtremes(t *testing.T) {
	nan, inf, minusZero := float32(math.NaN()), float32(math.Inf(1)), float32(math.Copysign(0, -1))
	type function = func(b *def.Builder, x def.Value) def.Value
	of := func(f func(x def.Value) def.Value) function {
		return func(_ *def.Builder, x def.Value) def.Value { return f(x) }
	}
	identity := of(func(x def.Value) def.Value { return x })
	third := of(func(x def.Value) def.Value { return x.Div(def.Const(3)) }) // known within a float64's last digit
	most := float32(math.MaxFloat32)
	type values = []float32
	for _, test := range []struct {
		name     string
		f        function
		x        values
		max, min []int
	}{
		{"an input is exact", identity, values{1, 3, 2, 3, 0, 0}, []int{1}, []int{4}},
		{"zeros are equal", identity, values{minusZero, 0}, []int{0}, []int{0}},
		{"the first NaN", identity, values{inf, 1, nan, nan, -inf}, []int{2}, []int{2}},
		{"infinities of an input", identity, values{1, -inf, inf, inf, -inf}, []int{2}, []int{1}},
		{"nothing but an infinity", identity, values{-inf, -inf}, []int{0}, []int{0}},
		{"an infinity and an equal", identity, values{inf, most, inf}, []int{0}, []int{1}},
		{"exact steps", of(def.Value.Neg), values{1, 3, 3, 1}, []int{0}, []int{1}},
		{"a certain NaN", of(func(x def.Value) def.Value { return x.Mul(x).Add(def.One) }), values{2, nan, 3, nan}, []int{1}, []int{1}},
		{"a certain NaN that is chosen", func(b *def.Builder, x def.Value) def.Value {
			return def.Select(b.Col().Less(def.IntConst(2)), def.One, def.Select(def.IntConst(3).Less(b.Col()), x, x.Neg()))
		}, values{nan, nan, 5, nan, nan}, []int{3}, []int{3}},
		{"a certain NaN that is chosen first", func(b *def.Builder, x def.Value) def.Value {
			return def.Select(def.IntConst(1).Less(b.Col()), x, def.One)
		}, values{nan, 1, 5, nan}, []int{3}, []int{3}},
		{"a certain NaN in every column", of(func(x def.Value) def.Value { return x.Add(def.RowSum(x)) }), values{2, 1, nan}, []int{0}, []int{0}},
		{"a certain NaN among the largest", of(func(x def.Value) def.Value { return x.Sub(def.RowMax(x).Max(def.RowMin(x))) }), values{2, 1, nan}, []int{0}, []int{0}},
		{"overlapping", third, values{1, 1, 0.5, 1}, []int{0, 1, 3}, []int{2}},
		{"far enough apart", third, values{1, 1 + 0x1p-23, 1}, []int{1}, []int{0, 2}},
		{"an infinity of a step", of(func(x def.Value) def.Value { return x.Mul(def.Half) }), values{1, inf, 2, 0.5}, []int{1, 2}, []int{1, 3}},
		{"an overflow before a certain NaN", of(func(x def.Value) def.Value { return x.Mul(def.Const(8)) }),
			values{1, most, nan, 2, most}, []int{1, 2}, []int{1, 2}},
	} {
		d := rowwise("columns", func(b *def.Builder) {
			v := test.f(b, b.In("x"))
			b.OutRow("max", def.RowArgMax(v))
			b.OutRow("min", def.RowArgMin(v))
		})
		operands := []num.Array{row(test.x...), num.NewArray(num.I32, 1, 1), num.NewArray(num.I32, 1, 1)}
		if err := reference.Run(d, operands, reference.Options{}); err != nil {
			t.Fatal(err)
		}
		mode := truth.Exact
		if test.name == "an overflow before a certain NaN" {
			mode = truth.Rounded
		}
		r := enclose(t, d, mode, nil, operands...)
		for operand, want := range map[int][]int{1: test.max, 2: test.min} {
			got := admitted(r, operand, len(test.x))
			if !slices.Equal(got, want) || r.Count(operand, 0, 0) != int64(len(want)) || r.Admits(operand, 0, 0, uint32(len(test.x))) || r.Admits(operand, 0, 0, math.MaxUint32) {
				t.Errorf("%s: %s of %v: got columns %v, want %v", test.name, d.Operands[operand].Name, test.x, got, want)
			}
			if bits := operands[operand].Bits(0, 0); !r.Admits(operand, 0, 0, bits) {
				t.Errorf("%s: %s: the reference's column %d is not admitted", test.name, d.Operands[operand].Name, bits)
			}
			if lo, hi := r.Between(operand, 0, 0); int(lo) != want[0] || int(hi) != want[len(want)-1] {
				t.Errorf("%s: between %d and %d, want %v", test.name, lo, hi, want)
			}
		}
	}
}

// TestOpenColumns checks definitions that use a column that may be one of several.
func TestOpenColumns(t *testing.T) {
	d := rowwise("open", func(b *def.Builder) {
		x := b.In("x")
		best := def.RowArgMax(fn.Exp(x))
		one := func(c def.Value) def.Value { return def.Select(c, def.One, def.Zero) }
		b.OutRow("at", b.In("z").At(best))
		b.Out("equal", one(b.Col().Equal(best)))
		b.Out("less", one(best.Less(b.Col())))
		b.Out("noteq", one(best.NotEqual(b.Col())))
		b.Out("lesseq", one(best.LessEqual(b.Col())))
		b.OutRow("inside", one(best.Inside()))
		b.OutRow("self", one(best.Equal(best)))
		b.Out("choice", def.Select(b.Col().Equal(def.IntConst(1)), best, b.Col()))
		open := best.Less(def.IntConst(2))
		b.OutRow("either", def.Select(open, def.IntConst(3), best))
		b.OutRow("some", one(def.Select(open, def.IntConst(9), def.IntConst(0)).Inside()))
		b.Out("round", b.In("v").StochasticRound(def.FixedStorage(num.F16), def.Select(open, def.IntConst(0), def.IntConst(-1))))
	})
	x, z, v := row(1, 3, 0, 3), row(10, 20, 30, 40), row(1, 1, 1, 1+0x1p-11+0x1p-23)
	perRow := func() num.Array { return num.NewArray(num.F32, 1, 1) }
	operands := []num.Array{x, z, perRow(), like(x), like(x), like(x), like(x), perRow(), perRow(), num.NewArray(num.I32, 1, 4),
		num.NewArray(num.I32, 1, 1), perRow(), v, like(x)}
	r := enclose(t, d, truth.Exact, nil, operands...) // columns 1 and 3
	want := func(operand, col int, lo, hi float64) {
		t.Helper()
		if l, h := r.At(operand, 0, col).Bounds(); l != lo || h != hi {
			t.Errorf("%s[%d] is [%v, %v], want [%v, %v]", d.Operands[operand].Name, col, l, h, lo, hi)
		}
	}
	want(2, 0, 20, 40)
	for col, bounds := range [][2]float64{{0, 0}, {0, 1}, {0, 0}, {0, 1}} {
		want(3, col, bounds[0], bounds[1])
		want(5, col, 1-bounds[1], 1-bounds[0])
	}
	for col, bounds := range [][2]float64{{0, 0}, {0, 0}, {0, 1}, {0, 1}} {
		want(4, col, bounds[0], bounds[1])
	}
	for col, bounds := range [][2]float64{{0, 0}, {0, 1}, {0, 1}, {1, 1}} {
		want(6, col, bounds[0], bounds[1])
	}
	want(7, 0, 1, 1)
	want(8, 0, 1, 1)
	want(11, 0, 0, 1)
	if !slices.Equal(r.Ints(10, 0, 0), []int32{1, 3}) {
		t.Errorf("either is one of %v, want 1 and 3", r.Ints(10, 0, 0))
	}
	for col, values := range [][]uint32{{0}, {1, 3}, {2}, {3}} {
		if r.Count(9, 0, col) != int64(len(values)) || !r.Admits(9, 0, col, values[0]) || !r.Admits(9, 0, col, values[len(values)-1]) {
			t.Errorf("choice[%d] has %d values, want %v", col, r.Count(9, 0, col), values)
		}
	}
	if z := r.Decide(9); z.State[1] != truth.Undecided || z.State[2] != truth.ByFloat64 || z.Bits[2] != 2 {
		t.Errorf("choice rounds to %v %v", z.Bits, z.State)
	}
	r, err := truth.Enclose(d, operands, truth.Options{Mode: truth.Rounded, IsIEEE: true})
	if err != nil {
		t.Fatal(err)
	}
	want(13, 0, 1, 1)
	want(13, 3, 1, 1+0x1p-10) // down by the word 0xffffffff, up by 0
}

// TestColumnsNeedDigits checks that more digits decide what float64 leaves open.
func TestColumnsNeedDigits(t *testing.T) {
	d := rowwise("digits", func(b *def.Builder) {
		x := b.In("x")
		b.OutRow("i", def.RowArgMax(fn.Exp(x)))
	})
	operands := []num.Array{row(1, -1, 1, 0), num.NewArray(num.I32, 1, 1)}
	r := enclose(t, d, truth.Exact, nil, operands...)
	if got := admitted(r, 1, 4); !slices.Equal(got, []int{0, 2}) {
		t.Fatalf("float64 admits %v, want 0 and 2", got)
	}
	z, err := r.Round(1)
	if err != nil {
		t.Fatal(err)
	}
	if z.State[0] != truth.Undecided {
		t.Errorf("equal values round to %d, %v, want undecided at any precision", z.Bits[0], z.State[0])
	}
	close := rowwise("close", func(b *def.Builder) {
		x := b.In("x")
		b.OutRow("i", def.RowArgMax(x.Add(def.Number("0.1")).Sub(b.In("z"))))
	})
	operands = []num.Array{row(1, 1, 0), row(0, -0x1p-70, 0), num.NewArray(num.I32, 1, 1)}
	r = enclose(t, close, truth.Exact, nil, operands...)
	if got := admitted(r, 2, 3); !slices.Equal(got, []int{0, 1}) {
		t.Fatalf("float64 admits %v, want 0 and 1", got)
	}
	if z, err = r.Round(2); err != nil || z.State[0] != truth.ByBig || z.Bits[0] != 1 {
		t.Errorf("got column %d %v, error %v, want 1 by more digits", z.Bits[0], z.State[0], err)
	}
}

// TestColumnsOfInputs has rows with ties, zeros, infinities and NaNs at random: the one
// column admitted is the reference's.
func TestColumnsOfInputs(t *testing.T) {
	d := rowwise("inputs", func(b *def.Builder) {
		x := b.In("x")
		b.OutRow("max", def.RowArgMax(x))
		b.OutRow("min", def.RowArgMin(x.Neg().Max(def.Const(-2)))) // never −Inf, but NaN where x is
	})
	g := gen.New(t.Name())
	pool := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 2, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}
	for range 500 {
		x := num.NewArray(num.F32, 1, 1+g.Below(9))
		n := 1 + g.Below(len(pool))
		for c := range x.Cols {
			x.Set(0, c, pool[g.Below(n)])
		}
		operands := []num.Array{x, num.NewArray(num.I32, 1, 1), num.NewArray(num.I32, 1, 1)}
		if err := reference.Run(d, operands, reference.Options{}); err != nil {
			t.Fatal(err)
		}
		for _, o := range []truth.Options{{}, {Mode: truth.Rounded}, {Mode: truth.Rounded, IsIEEE: true}} {
			r, err := truth.Enclose(d, operands, o)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Count(1, 0, 0); got != 1 || !r.Admits(1, 0, 0, operands[1].Bits(0, 0)) {
				t.Errorf("%v: %d columns admitted, the reference's %d among them: %t", x, got, operands[1].Bits(0, 0), r.Admits(1, 0, 0, operands[1].Bits(0, 0)))
			}
			if !r.Admits(2, 0, 0, operands[2].Bits(0, 0)) {
				t.Errorf("%v: the reference's column %d of a step is not admitted", x, operands[2].Bits(0, 0))
			}
		}
	}
}
