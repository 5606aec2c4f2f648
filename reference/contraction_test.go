package reference_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/trial/randdef"
)

// element computes one element of a contraction with axes from its letters alone: the
// letters of the result say where it is, and the sum runs over k.
func element(d *def.Definition, operands []num.Array, sizes, at map[string]int, old float32) float32 {
	value := func(i int) float32 {
		o, r := &d.Operands[i], 0
		for _, l := range o.Dims[:len(o.Dims)-1] {
			r = r*sizes[l] + at[l]
		}
		return operands[i].At(r, at[o.Dims[len(o.Dims)-1]])
	}
	group := func(letter string) int { // the group in which an index lies, the last of several
		for g := sizes[d.Groups().Number] - 1; g > 0; g-- {
			if at[letter] >= int(operands[3].Int(g, 0)) {
				return g
			}
		}
		return 0
	}
	rows := d.Operands[2].Dims[len(d.Operands[2].Dims)-2]
	if d.Groups().Of == rows {
		at[d.Groups().Number] = group(rows)
	}
	acc, summed := old, d.SummedOver()
	for k := range sizes[summed] {
		at[summed] = k
		if d.Groups().Of == summed && group(summed) != at[d.Groups().Number] {
			continue
		}
		acc = num.FMA(value(0), value(1), acc)
	}
	return acc
}

// Products with batch axes and groups, at random, against sums by their letters.
func TestProductsWithAxes(t *testing.T) {
	g := gen.New(t.Name())
	kinds := map[string]int{}
	for range 400 {
		d := randdef.Product(g)
		sizes := randdef.ProductSizes(g, d, 6)
		c := randdef.NewCase(g, d, randdef.DTypes(g, d), sizes)
		want := c.Clone()
		result := &want.Operands[2]
		dims := d.Operands[2].Dims
		for r := range result.Rows {
			for col := range result.Cols {
				at := map[string]int{dims[len(dims)-1]: col}
				i := r
				for _, l := range slices.Backward(dims[:len(dims)-1]) {
					at[l] = i % sizes[l]
					i /= sizes[l]
				}
				old := float32(0)
				if d.Accumulates() {
					old = result.At(r, col)
				}
				result.Set(r, col, element(d, want.Operands, sizes, at, old))
			}
		}
		got := c.Clone()
		if err := reference.Run(d, got.Operands, reference.Options{}); err != nil {
			t.Fatal(err)
		}
		if text := randdef.Diff(got, want); text != "" {
			t.Fatalf("%s\n%s%v", text, d.Text(), sizes)
		}
		kinds[fmt.Sprint(len(d.Operands[2].BatchDims()), d.Groups().Of == "M", d.Groups().Of == "K")]++
	}
	if len(kinds) < 7 {
		t.Errorf("only these kinds of products were tried: %v", kinds)
	}
}

// The rule of panels, written out for four of them: the third is short, the fourth empty.
func TestPanels(t *testing.T) {
	const k = 150 // in panels of 64, 64, 22 and none
	form := def.ContractionForm{Left: "a", LeftDims: []string{"M", "K"}, Right: "b", RightDims: []string{"K", "N"}, Result: "c", ResultDims: []string{"M", "N"}}
	set := def.Must(def.Contraction("product", form))
	form.Accumulate = true
	accumulate := def.Must(def.Contraction("product", form))
	g := gen.New(t.Name())
	apart := map[def.Accum]bool{}
	for trial := range 30 {
		a, b, old := num.NewArray(num.F16, 1, k), num.NewArray(num.F16, k, 1), num.ArrayOf(num.F32, 1, 1, g.Normal())
		for i := range k {
			a.Set(0, i, g.Ordinary())
			b.Set(i, 0, g.Ordinary())
		}
		run := func(d *def.Definition, m def.Accum, from, to int) float32 {
			cut := num.Array{DType: num.F16, Rows: 1, Cols: to - from, Stride: k, Data: a.Data[2*from:]}
			rest := num.Array{DType: num.F16, Rows: to - from, Cols: 1, Stride: 1, Data: b.Data[2*from:]}
			c := old.Clone()
			if err := reference.Run(d, []num.Array{cut, rest, c}, reference.Options{Accum: m}); err != nil {
				t.Fatal(err)
			}
			return c.At(0, 0)
		}
		for _, inner := range []def.Accum{def.FMAChain, def.MMA(16, 25)} {
			m := def.Panels(inner, 4)
			s0, s1, s2 := run(set, inner, 0, 64), run(set, inner, 64, 128), run(set, inner, 128, k)
			want := (s0 + s1) + s2
			if got := run(set, m, 0, k); math.Float32bits(got) != math.Float32bits(want) {
				t.Errorf("trial %d, %s: got %v, want %v", trial, m, got, want)
			}
			if got := run(accumulate, m, 0, k); math.Float32bits(got) != math.Float32bits(want+old.At(0, 0)) {
				t.Errorf("trial %d, %s, accumulated: got %v, want %v", trial, m, got, want+old.At(0, 0))
			}
			for _, other := range []def.Accum{inner, def.Panels(inner, 1), def.Panels(inner, 2)} {
				if run(set, other, 0, k) != want {
					apart[other] = true
				}
			}
		}
	}
	if len(apart) != 6 {
		t.Errorf("the data tell these models apart alone: %v", apart)
	}
}

// A negative zero stays one: an empty panel adds nothing, not even +0, and neither does an
// old result that there is not.
func TestPanelsOfNegativeZero(t *testing.T) {
	d := def.Must(def.Contraction("product", def.ContractionForm{Left: "a", LeftDims: []string{"M", "K"}, Right: "b", RightDims: []string{"K", "N"}, Result: "c", ResultDims: []string{"M", "N"}}))
	c := num.NewArray(num.F32, 1, 1)
	a, b := num.ArrayOf(num.F32, 1, 1, -0x1p-100), num.ArrayOf(num.F32, 1, 1, 0x1p-100)
	if err := reference.Run(d, []num.Array{a, b, c}, reference.Options{Accum: def.Panels(def.FMAChain, 4)}); err != nil {
		t.Fatal(err)
	}
	if got := c.Bits(0, 0); got != 0x80000000 {
		t.Errorf("got 0x%08x, want -0", got)
	}
}

// A product keeps its bits whatever the batch: alone, and as any row of any matrix.
func TestRowsDoNotDependOnTheBatch(t *testing.T) {
	d := def.Must(def.Contraction("product", def.ContractionForm{Left: "a", LeftDims: []string{"H", "M", "K"}, Right: "b", RightDims: []string{"H", "K", "N"}, Result: "c", ResultDims: []string{"H", "M", "N"}}))
	g := gen.New(t.Name())
	for _, m := range []def.Accum{def.FMAChain, def.MMA(16, 25), def.Panels(def.FMAChain, 8), def.Panels(def.MMA(16, 25), 2)} {
		sizes := map[string]int{"H": 3, "M": 5, "K": 300, "N": 4}
		whole := randdef.NewCase(g, d, []num.DType{num.BF16, num.BF16, num.F32}, sizes)
		inputs := whole.Clone()
		if err := reference.Run(d, whole.Operands, reference.Options{Accum: m}); err != nil {
			t.Fatal(err)
		}
		plain := def.Must(def.Contraction("product", def.ContractionForm{Left: "a", LeftDims: []string{"M", "K"}, Right: "b", RightDims: []string{"K", "N"}, Result: "c", ResultDims: []string{"M", "N"}}))
		for h := range 3 {
			left, right := inputs.Operands[0].Matrix(h), inputs.Operands[1].Matrix(h)
			for r := range 5 {
				row := left
				row.Rows, row.Data = 1, left.Row(r)
				c := num.NewArray(num.F32, 1, 4)
				if err := reference.Run(plain, []num.Array{row, right, c}, reference.Options{Accum: m}); err != nil {
					t.Fatal(err)
				}
				for col := range 4 {
					x, y := c.Bits(0, col), whole.Operands[2].Bits(h*5+r, col)
					if num.Canonical(num.F32, x) != num.Canonical(num.F32, y) {
						t.Errorf("%s: row %d of matrix %d: 0x%08x in the batch, 0x%08x alone", m, r, h, y, x)
					}
				}
			}
		}
	}
}

// Sums of FP8 and their scales, written out: an exact product, an addition for each k,
// two multiplications and one store, each rounded.
func TestScales(t *testing.T) {
	g := gen.New(t.Name())
	apart := map[string]bool{}
	for _, scales := range []def.Scales{{Row: "s"}, {Col: "t"}, {Row: "s", Col: "t"}, {}} {
		for _, factors := range []num.DType{num.E4M3, num.E5M2, num.BF16} {
			f := def.ContractionForm{Left: "a", LeftDims: []string{"M", "K"}, Right: "b", RightDims: []string{"N", "K"}, TransposeRight: true,
				Result: "c", ResultDims: []string{"M", "N"}, Scales: scales, Factors: def.Only(factors)}
			d := def.Must(def.Contraction("scaled", f))
			for _, m := range []def.Accum{def.FMAChain, def.MMA(32, 13).Narrow(13)} {
				for _, formats := range d.Formats() {
					c := randdef.NewCase(g, d, formats, map[string]int{"M": 3, "N": 4, "K": 70})
					want := c.Clone()
					for r := range 3 {
						for col := range 4 {
							var x, y []uint32
							sum := float32(0)
							for k := range 70 {
								x, y = append(x, want.Operands[0].Bits(r, k)), append(y, want.Operands[1].Bits(col, k))
								sum = num.FMA(want.Operands[0].At(r, k), want.Operands[1].At(col, k), sum)
							}
							if m != def.FMAChain {
								sum = num.MMA{L: 32, F: 13, R: 13}.Dot(factors, x, y, 0)
							}
							product := sum
							if scales.Row != "" {
								product = float32(product * want.Operands[3].At(r, 0))
							}
							if scales.Col != "" {
								product = float32(product * want.Operands[len(formats)-1].At(col, 0))
							}
							want.Operands[2].Set(r, col, product)
							if scales.Row != "" && scales.Col != "" && product != sum*float32(want.Operands[3].At(r, 0)*want.Operands[4].At(col, 0)) {
								apart["the order of the scales"] = true
							}
						}
					}
					got := c.Clone()
					if err := reference.Run(d, got.Operands, reference.Options{Accum: m}); err != nil {
						t.Fatal(err)
					}
					if text := randdef.Diff(got, want); text != "" {
						t.Fatalf("%s %v: %s\n%s", m, formats, text, d.Text())
					}
				}
			}
		}
	}
	if len(apart) != 1 {
		t.Error("the data do not tell the order of the scales")
	}
	f := def.ContractionForm{Left: "a", LeftDims: []string{"M", "K"}, Right: "b", RightDims: []string{"K", "N"}, Result: "c", ResultDims: []string{"M", "N"}, Scales: def.Scales{Row: "s"}}
	err := reference.Run(def.Must(def.Contraction("scaled", f)),
		[]num.Array{num.NewArray(num.F16, 2, 3), num.NewArray(num.F16, 3, 4), num.NewArray(num.F16, 2, 4), num.NewArray(num.F32, 4, 1)}, reference.Options{})
	if want := "scaled: sizes do not fit: M = 4 in s, want 2"; err == nil || err.Error() != want {
		t.Errorf("scales of another number of rows: %v, want %q", err, want)
	}
}

func TestAxesRefused(t *testing.T) {
	grouped := def.Must(def.Contraction("grouped", def.ContractionForm{Left: "a", LeftDims: []string{"M", "K"}, Right: "b", RightDims: []string{"G", "K", "N"}, Result: "c", ResultDims: []string{"M", "N"},
		Groups: def.Groups{Number: "G", Of: "M", Offsets: "offsets"}}))
	a, c := num.NewArray(num.F16, 5, 2), num.NewArray(num.F16, 5, 3)
	b := num.NewArray(num.F16, 4, 3)
	b.Batch.Append(2, 6)
	for _, test := range []struct {
		b       num.Array
		offsets []int32
		want    string
	}{
		{b, []int32{0, 2, 5}, ""},
		{b, []int32{0, 0, 5}, ""},
		{b, []int32{0, 5, 5}, ""},
		{b, []int32{1, 2, 5}, "offsets[0] is 1, want offsets that ascend from 0 to 5"},
		{b, []int32{0, 2, 4}, "offsets[2] is 4"},
		{b, []int32{0, 6, 5}, "offsets[2] is 5"},
		{b, []int32{0, -1, 5}, "offsets[1] is -1"},
		{b, []int32{0, 5}, "2 offsets, want 3"},
		{num.NewArray(num.F16, 4, 3), []int32{0, 2, 5}, "b has 0 batch axes, want 1"},
	} {
		err := reference.Run(grouped, []num.Array{a, test.b, c, num.IndexArray(test.offsets...)}, reference.Options{})
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("offsets %v: %v, want %q", test.offsets, err, test.want)
		}
	}
	if err := reference.Run(grouped, []num.Array{a, b, c, num.IndexArray(0, 2, 5)}, reference.Options{Accum: def.Panels(def.FMAChain, 3)}); err == nil || !strings.Contains(err.Error(), "power of two") {
		t.Errorf("three panels: %v", err)
	}
}
