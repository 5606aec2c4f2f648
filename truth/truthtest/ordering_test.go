package truthtest

import (
	"math"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/truth"
)

// TestOrderings checks which ranks and columns a row's enclosures allow: exactly the reference's where
// values are exact, and all that a comparison leaves open elsewhere.
func TestOrderings(t *testing.T) {
	type values = []float32
	inf, nan, minusZero := float32(math.Inf(1)), float32(math.NaN()), float32(math.Copysign(0, -1))
	exact := func(x def.Value) def.Value { return x.Neg().Neg() }
	open := func(x def.Value) def.Value { return fn.Exp(x) }
	for _, test := range []struct {
		name         string
		f            func(x def.Value) def.Value
		x, e         values
		k            int32
		p            float64
		ranks        [][]int
		kth, nucleus []int
	}{
		{"exact", exact, values{1, minusZero, nan, 0, 1, -inf}, values{0.5, 0, 0.25, 0, 0.25, 0}, 2, 0.75,
			[][]int{{1}, {3}, {0}, {4}, {2}, {5}}, []int{4}, []int{0}},
		{"equal enclosures", open, values{1, 3, 0, 3}, values{0, 0.5, 0, 0.5}, 1, 0.25,
			[][]int{{2}, {0, 1}, {3}, {0, 1}}, []int{1, 3}, []int{1, 3}},
		{"no mass", exact, values{1, 2, 3}, values{0, -1, nan}, -1, 0.5, [][]int{{2}, {1}, {0}}, []int{2}, []int{0}},
		{"a share that reaches the second", exact, values{3, 2, 1}, values{0.25, 0.25, 0.5}, 9, 0.5, [][]int{{0}, {1}, {2}}, []int{2}, []int{1}},
	} {
		d := rowwise("orders", func(b *def.Builder) {
			x, e := test.f(b.In("x")), b.In("e")
			b.Out("rank", def.Rank(x))
			b.OutRow("kth", def.RowKth(x, def.IntConst(test.k)))
			b.OutRow("nucleus", def.RowNucleus(x, e, def.Const(test.p)))
		})
		cols := len(test.x)
		operands := []num.Array{row(test.x...), row(test.e...), num.NewArray(num.I32, 1, cols), num.NewArray(num.I32, 1, 1), num.NewArray(num.I32, 1, 1)}
		if err := reference.Run(d, operands, reference.Options{}); err != nil {
			t.Fatal(err)
		}
		r := enclose(t, d, truth.Exact, nil, operands...)
		check := func(operand, col int, want []int) {
			t.Helper()
			var got []int
			for v := range cols + 1 {
				if r.Admits(operand, 0, col, uint32(v)) {
					got = append(got, v)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %s[%d] may be %v, want %v", test.name, d.Operands[operand].Name, col, got, want)
			}
			if bits := operands[operand].Bits(0, col); !slices.Contains(want, int(bits)) {
				t.Errorf("%s: the reference's %s[%d] is %d, want one of %v", test.name, d.Operands[operand].Name, col, bits, want)
			}
		}
		for c, want := range test.ranks {
			check(2, c, want)
		}
		check(3, 0, test.kth)
		check(4, 0, test.nucleus)
	}
}

// TestChoiceOfClaims selects between comparisons: the choice is as certain as what it chooses.
func TestChoiceOfClaims(t *testing.T) {
	open := func(x def.Value) def.Value { return fn.Exp(x).Sub(fn.Exp(x)) } // 0, as far as enclosures tell
	for _, test := range []struct {
		name        string
		cond, other func(x def.Value) def.Value
		want        []int
	}{
		{"certain", func(x def.Value) def.Value { return x.Less(def.One) }, func(x def.Value) def.Value { return x.Less(x) }, []int{1}},
		{"either way the same", func(x def.Value) def.Value { return open(x).Less(def.Zero) }, func(x def.Value) def.Value { return x.Less(def.Const(3)) }, []int{1}},
		{"open", func(x def.Value) def.Value { return open(x).Less(def.Zero) }, func(x def.Value) def.Value { return x.Less(x) }, []int{0, 1}},
	} {
		d := rowwise("choice", func(b *def.Builder) {
			x := b.In("x", def.Only(num.F32))
			claim := def.Select(test.cond(x), x.Less(def.Const(2)), test.other(x))
			b.Out("y", def.Select(claim, def.IntConst(1), def.IntConst(0)))
		})
		r := enclose(t, d, truth.Exact, nil, row(0.5), num.NewArray(num.I32, 1, 1))
		var got []int
		for v := range 3 {
			if r.Admits(1, 0, 0, uint32(v)) {
				got = append(got, v)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: may be %v, want %v", test.name, got, test.want)
		}
	}
}
