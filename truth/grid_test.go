package truth

import (
	"math"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/num"
)

// TestSumsOnTheGrid checks the limit of a sum: the largest that fits, and one unit more.
func TestSumsOnTheGrid(t *testing.T) {
	total := def.Must(def.Rowwise("total", func(b *def.Builder) { b.OutRow("y", def.RowSum(b.In("x")), def.Only(num.F32)) }))
	product := def.Must(def.Contraction("product", def.ContractionForm{
		Left: "A", LeftDims: []string{"M", "K"}, Right: "B", RightDims: []string{"K", "N"}, Result: "C", ResultDims: []string{"M", "N"},
	}))
	for _, test := range []struct {
		terms []float32
		want  bool
	}{
		{[]float32{0x1p23, 0x1p23 - 2, 1}, true},
		{[]float32{0x1p23, 0x1p23 - 1, 1}, false},
		{[]float32{0x1p23, -0x1p23, 1}, false}, // exact in every order, but not by its size
		{[]float32{0x1p19, -0x1p19, 0x1p-3}, true},
		{[]float32{0x1p20, -0x1p20, 0x1p-3}, false},
		{[]float32{0x1.fffffep3, 0, 0}, true},
		{[]float32{0, 0, 0}, true},
		{[]float32{0x1p127, 0, 0}, false}, // at the end of the range
		{[]float32{float32(math.Inf(1)), 0, 1}, false},
		{[]float32{float32(math.NaN()), 0, 1}, false},
	} {
		for _, isInAnyForm := range []bool{false, true} {
			x := num.ArrayOf(num.F32, 1, 3, test.terms...)
			rows := gridOf(t, total, []num.Array{x, num.NewArray(num.F32, 1, 1)}, GridOptions{InAnyForm: isInAnyForm})
			sum := gridOf(t, product, []num.Array{num.ArrayOf(num.F32, 1, 3, 1, 1, 1), num.ArrayOf(num.F32, 3, 1, test.terms...), num.NewArray(num.F32, 1, 1)}, GridOptions{})
			isLarge := test.terms[0] == 0x1p127 // exact in the definition's own steps
			if got := rows.Has(1, 0, 0); got != (test.want || isLarge && !isInAnyForm) {
				t.Errorf("row sum of %v, in any form %v: got %v", test.terms, isInAnyForm, got)
			}
			if got := sum.Has(2, 0, 0); got != test.want {
				t.Errorf("product of %v: got %v, want %v", test.terms, got, test.want)
			}
		}
	}
}

// TestModelsOnTheGrid checks a sum that needs more bits than a narrow tensor core has.
func TestModelsOnTheGrid(t *testing.T) {
	product := def.Must(def.Contraction("product", def.ContractionForm{
		Left: "A", LeftDims: []string{"M", "K"}, Right: "B", RightDims: []string{"K", "N"}, Result: "C", ResultDims: []string{"M", "N"},
	}))
	operands := []num.Array{num.ArrayOf(num.F16, 1, 2, 1, 1), num.ArrayOf(num.F16, 2, 1, 0x1p13, 1), num.NewArray(num.F32, 1, 1)} // 14 bits
	for accum, want := range map[def.Accum]bool{def.FMAChain: true, {L: 16, F: 25}: true, {L: 32, F: 13}: true, {L: 32, F: 12}: false, {L: 32, F: 13, R: 12}: false} {
		if got := gridOf(t, product, operands, GridOptions{Accum: accum}).Has(2, 0, 0); got != want {
			t.Errorf("%s: got %v, want %v", accum, got, want)
		}
	}
}

// TestOneFormOnTheGrid checks results that are exact in the definition's own steps but not in every
// form, or that depend on fused steps.
func TestOneFormOnTheGrid(t *testing.T) {
	for _, test := range []struct {
		name           string
		f              func(x, y def.Value) def.Value
		x, y           float32
		isOwn, isOfAny bool
	}{
		{"exact product", func(x, y def.Value) def.Value { return x.Mul(y).Add(x) }, 3, 5, true, true},
		{"rounded product", def.Value.Mul, 0x1.000002p0, 0x1.000002p0, false, false}, // which may be fused with the addition of 0
		{"rounded product and a sum", func(x, y def.Value) def.Value { return x.Mul(y).Add(x) }, 0x1.000002p0, 0x1.000002p0, false, false},
		{"fused", func(x, y def.Value) def.Value { return def.FMA(x, y, x) }, 0x1.000002p0, 0x1.000002p0, false, false},
		{"rounded sum", def.Value.Add, 0x1p24, 1, true, false},
		{"factored", func(x, y def.Value) def.Value { return x.Sub(y).Mul(x) }, 0x1p13 + 1, 0x1p13 - 1, true, false}, // x² needs 27 bits
		{"factored, small", func(x, y def.Value) def.Value { return x.Sub(y).Mul(x) }, 0x1p10, 0x1p10 - 1, true, true},
		{"quotient", def.Value.Div, 1, 3, true, false},
		{"power of two", def.Value.Div, 1, 4, true, false}, // a mean that is updated divides by 3 on the way
		{"zero over", func(x, y def.Value) def.Value { return x.Sub(x).Mul(y).Div(y) }, 0, 3, true, true},
		{"root", func(x, y def.Value) def.Value { return x.Sqrt() }, 4, 0, true, false},
		{"choice", func(x, y def.Value) def.Value { return def.Select(x.Less(y), x, y) }, 4, 5, true, true},
		{"maximum", def.Value.Max, 4, 5, true, true},
		{"overflow", func(x, y def.Value) def.Value { return x.Mul(y) }, 0x1p70, 0x1p70, false, false},
		{"overflow on the way", func(x, y def.Value) def.Value { return x.Mul(y).Mul(y) }, 0x1p120, 0x1p-100, true, false}, // y² is no number of binary32
	} {
		d := def.Must(def.Rowwise("form", func(b *def.Builder) {
			x := b.In("x", def.Only(num.F32))
			b.OutRow("z", def.RowSum(test.f(x, b.In("y", def.Only(num.F32)))), def.Only(num.F32)) // a sum of one term
		}))
		operands := []num.Array{num.ArrayOf(num.F32, 1, 1, test.x), num.ArrayOf(num.F32, 1, 1, test.y), num.NewArray(num.F32, 1, 1)}
		own, ofAny := gridOf(t, d, operands, GridOptions{}).Has(2, 0, 0), gridOf(t, d, operands, GridOptions{InAnyForm: true}).Has(2, 0, 0)
		if own != test.isOwn || ofAny != test.isOfAny {
			t.Errorf("%s: got %v, and %v in any form; want %v, and %v", test.name, own, ofAny, test.isOwn, test.isOfAny)
		}
	}
}

// TestNoSumOnTheGrid checks a product, whose intermediate results another form may round.
func TestNoSumOnTheGrid(t *testing.T) {
	d := def.Must(def.Rowwise("product", func(b *def.Builder) {
		b.Out("z", b.In("x", def.Only(num.F32)).Mul(def.Two), def.Only(num.F32))
	}))
	operands := []num.Array{num.ArrayOf(num.F32, 1, 1, 3), num.NewArray(num.F32, 1, 1)}
	if !gridOf(t, d, operands, GridOptions{}).Has(1, 0, 0) || gridOf(t, d, operands, GridOptions{InAnyForm: true}).Has(1, 0, 0) {
		t.Error("a product without a sum: want it on the grid of the definition's own steps alone")
	}
}

func gridOf(t *testing.T, d *def.Definition, operands []num.Array, o GridOptions) *Grid {
	t.Helper()
	g, err := FindGrid(d, operands, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGridRefuses(t *testing.T) {
	d := def.Must(def.Rowwise("total", func(b *def.Builder) {
		b.OutRow("y", def.RowSum(b.In("x")).Mul(b.Param("p")), def.Only(num.F32))
	}))
	x, y := num.NewArray(num.F32, 1, 3), num.NewArray(num.F32, 1, 1)
	for name, call := range map[string]func() (*Grid, error){
		"operands":   func() (*Grid, error) { return FindGrid(d, []num.Array{x}, GridOptions{Params: []float64{1}}) },
		"parameters": func() (*Grid, error) { return FindGrid(d, []num.Array{x, y}, GridOptions{}) },
		"sizes":      func() (*Grid, error) { return FindGrid(d, []num.Array{x, x}, GridOptions{Params: []float64{1}}) },
	} {
		if _, err := call(); err == nil {
			t.Errorf("%s that do not fit: no error", name)
		}
	}
	if !slices.Equal([]int{lowestBit(6), lowestBit(0.75), lowestBit(-0x1p-149), lowestBit(0)}, []int{1, -2, -149, noUnit}) {
		t.Error("lowest bits are wrong")
	}
}
