package cpu_test

import (
	"fmt"
	"math"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/cputest"
	"tokitai/num"
	"tokitai/trial/randdef"
)

// same is a function that is its argument, read as an integer and back.
var same = &def.Function{
	Name: "same", Math: def.MathExp, ULPs: 1, Domain: def.NoX,
	Expand: func(x def.Value) def.Value { return x.Bits().Float() },
}

// TestKeptPatterns keeps a reinterpreted value from one pass to the next while the
// value itself is still wanted: both live in the same place at first.
func TestKeptPatterns(t *testing.T) {
	d := def.Must(def.Rowwise("kept_patterns", func(b *def.Builder) {
		v := b.In("x").Mul(b.In("z"))
		f := same.Of(v)
		top := def.RowMax(f.Mul(def.Two))
		b.Out("y", f.Sub(top).Mul(def.RowSum(v)))
	}))
	compareAll(t, d, map[string]int{"R": 2, "C": 515})
}

// TestTotalOfOneElement sums a single −0: a lane starts at +0.
func TestTotalOfOneElement(t *testing.T) {
	for _, sizes := range []map[string]int{{"R": 1, "C": 1}, {"R": 1, "C": 2}} {
		c := randdef.NewCase(gen.New("one"), flatSum, []num.DType{num.F32, num.F32}, sizes)
		for i := range sizes["C"] {
			c.Operands[0].SetBits(0, i, 1<<31)
		}
		want := answer(t, c)
		if bits := want.Operands[1].Bits(0, 0); bits != 0 {
			t.Errorf("reference: the sum of %d times −0 is 0x%08x, want +0", sizes["C"], bits)
		}
		for _, k := range contenders {
			got := c.Clone()
			cputest.Execute(k.compile(t, flatSum, []num.DType{num.F32, num.F32}), cputest.CallOf(got), 1, gen.New("one"))
			if bits := got.Operands[1].Bits(0, 0); bits != 0 {
				t.Errorf("%s: the sum of %d times −0 is 0x%08x, want +0", k.name, sizes["C"], bits)
			}
		}
	}
}

// compareAll compares a definition's programs with the reference for every choice
// of formats, by all contenders, out of place and in place.
func compareAll(t *testing.T, d *def.Definition, sizes map[string]int) {
	t.Helper()
	g := gen.New(d.Name)
	for _, dtype := range num.FloatDTypes {
		dtypes := dtypesOf(d, dtype)
		for _, k := range contenders {
			p := k.compile(t, d, dtypes)
			c := randdef.NewCase(g, d, dtypes, sizes)
			want, got := answer(t, c), c.Clone()
			cputest.Execute(p, cputest.CallOf(got), 2, g)
			report(t, got, want, p, "%s, %s", dtype, k.name)
			if got, ok := c.InPlace(g); ok {
				cputest.Execute(p, cputest.CallOf(got), 2, g)
				report(t, got, want, p, "%s, %s, in place", dtype, k.name)
			}
		}
	}
}

// edges are binary32 values at which an operation behaves differently.
var edges = func() []float32 {
	var all []float32
	for _, v := range []float64{
		0, 0x1p-149, 0x3p-149, 0x1p-127, 0x1p-127 + 0x1p-149, 0x1.fffffcp-127, 0x1p-126, 0x1.fffffep-126, 0x1.555556p-120, 0x1p-75,
		0x1p-75 * (1 + 0x1p-23), 0x1p-75 * (1 - 0x1p-23), 0x1p-24, 0x1p-12 * (1 + 0x1p-23), 0x1p-12 * (1 - 0x1p-23),
		0.5, 1, 1 + 0x1p-23, 1.5, 2.5, 13, 25, 126, 251, 252, 253, 254, 255, 300, 65504, 65520, 0x1p23, 0x1p24 - 1, 0x1p31 - 128, 0x1p31, 0x1p64, 0x1p127,
		math.MaxFloat32, math.Inf(1), math.NaN(),
	} {
		all = append(all, float32(v), float32(-v))
	}
	return all
}()

// convert converts a number to int32 and back, with integer operations between.
var convert = &def.Function{
	Name: "convert", Math: def.MathExp, ULPs: 1, Domain: def.NoX,
	Expand: func(x def.Value) def.Value {
		i := x.FToI()
		j := i.IAdd(def.IntConst(1)).Shl(33).ISub(i.Shr(35)).IAnd(def.IntConst(0x0fffffff)).IOr(i)
		return def.Select(i.LessEqual(j), i, j).IToF().Add(x.FToI().IToF())
	},
}

// TestEdges computes every node on all pairs of edges, per element and per row.
func TestEdges(t *testing.T) {
	d := def.Must(def.Rowwise("edges", func(b *def.Builder) {
		x, y, p, q := b.In("x"), b.In("y"), b.InRow("p"), b.InRow("q")
		choose := func(c def.Value) def.Value { return def.Select(c, def.One, def.Zero) }
		for i, op := range []func(x, y def.Value) def.Value{
			func(x, y def.Value) def.Value { return x.Add(y).Sub(x.Mul(y)).Div(x) },
			func(x, y def.Value) def.Value { return x.Min(y).Add(x.Max(y).Abs().Sqrt()) },
			func(x, y def.Value) def.Value { return x.Scale(y) },
			func(x, y def.Value) def.Value { return choose(x.Less(y)).Add(choose(x.LessEqual(y)).Mul(def.Two)) },
			func(x, y def.Value) def.Value {
				return choose(x.Equal(y)).Sub(choose(x.NotEqual(y)).Mul(def.Two)).Neg()
			},
			func(x, y def.Value) def.Value { return convert.Of(x).Sub(y.Rint()) },
		} {
			b.Out(fmt.Sprintf("element%d", i), op(x, y), def.Only(num.F32))
			b.OutRow(fmt.Sprintf("row%d", i), op(p, q), def.Only(num.F32))
		}
	}))
	compareEdges(t, d, len(edges)/8, func(c *randdef.Case, i int) {
		for r := range edges {
			c.Operands[2].Set(r, 0, edges[r])
			c.Operands[3].Set(r, 0, edges[(r+8*i+1)%len(edges)])
		}
	})
}

// TestFusedRounding computes the fused multiply-add on all triples of edges.
func TestFusedRounding(t *testing.T) {
	d := def.Must(def.Rowwise("fused", func(b *def.Builder) {
		b.Out("y", def.FMA(b.In("a"), b.In("b"), b.Param("c")), def.Only(num.F32))
	}))
	compareEdges(t, d, len(edges), func(c *randdef.Case, i int) { c.Params[0] = float64(edges[i]) })
}

// compareEdges gives the first two operands all pairs of edges, and leaves the rest
// to change, for a number of rounds.
func compareEdges(t *testing.T, d *def.Definition, rounds int, change func(c *randdef.Case, i int)) {
	t.Helper()
	dtypes := dtypesOf(d, num.F32)
	var programs []lowercpu.Program
	for _, k := range contenders {
		programs = append(programs, k.compile(t, d, dtypes))
	}
	g, n := gen.New(d.Name), len(edges)
	for i := range rounds {
		c := randdef.NewCase(g, d, dtypes, map[string]int{"R": n, "C": n})
		for r := range n {
			for k := range n {
				c.Operands[0].Set(r, k, edges[r])
				c.Operands[1].Set(r, k, edges[k])
			}
		}
		change(c, i)
		want := answer(t, c)
		for which, p := range programs {
			got := c.Clone()
			cputest.Execute(p, cputest.CallOf(got), 1, g)
			report(t, got, want, p, "round %d, %s", i, contenders[which].name)
		}
	}
}

// TestColumnNumbers compares columns beyond the first chunk with a label.
func TestColumnNumbers(t *testing.T) {
	compareAll(t, def.Must(def.Rowwise("one_hot", func(b *def.Builder) {
		x, label := b.In("x"), b.InIndex("label")
		b.Out("y", def.Select(b.Col().Equal(label), x, x.Sub(x.At(label))))
		b.OutRow("inside", def.Select(label.Inside(), def.One, def.Zero))
	})), map[string]int{"R": 30, "C": 1300})
}

// TestOverwrittenInput stores a copy of an input beside an output that takes its
// place: the copy is of the old value.
func TestOverwrittenInput(t *testing.T) {
	sizes := map[string]int{"R": 3, "C": 513}
	compareAll(t, def.Must(def.Rowwise("overwritten", func(b *def.Builder) {
		x := b.In("x")
		b.Out("y", x.Add(def.One), def.Like("x"))
		b.Out("old", x, def.Only(num.F32))
		b.OutRow("first", x.At(def.IntConst(0)), def.Only(num.F32))
	})), sizes)
	compareAll(t, def.Must(def.Rowwise("overwritten.patterns", func(b *def.Builder) {
		x := b.In("x")
		b.Out("y", x.Add(def.One), def.Like("x"))
		b.Out("old", same.Of(x), def.Only(num.F32))
	})), sizes)
	compareAll(t, def.Must(def.Rowwise("exchanged", func(b *def.Builder) {
		x, z := b.In("x"), b.In("z", def.Like("x"))
		b.Out("x", z)
		b.Out("z", x)
	})), sizes)
}

// TestInfiniteRows takes the extremes of rows of nothing but one infinity, and indices
// just outside: a reduction starts at the infinity itself, not at the largest number.
func TestInfiniteRows(t *testing.T) {
	d := def.Must(def.Rowwise("extremes", func(b *def.Builder) {
		x, index := b.In("x", def.Only(num.F32)), b.InIndex("index")
		b.OutRow("most", def.RowMax(x), def.Only(num.F32))
		b.OutRow("least", def.RowMin(x), def.Only(num.F32))
		b.Out("inside", def.Select(index.Inside(), x, def.Zero), def.Like("x"))
	}))
	for _, cols := range []int{1, 7, 513, 2050} {
		for _, k := range contenders {
			dtypes := d.Formats()[0]
			c := randdef.NewCase(gen.New("infinite"), d, dtypes, map[string]int{"R": 4, "C": cols})
			for r := range 4 {
				for k := range cols {
					c.Operands[0].SetBits(r, k, []uint32{0xff800000, 0x7f800000}[r%2])
				}
				c.Operands[1].SetBits(r, 0, uint32(int32([]int{cols, cols - 1, -1, 0}[r])))
			}
			want, got := answer(t, c), c.Clone()
			p := k.compile(t, d, dtypes)
			cputest.Execute(p, cputest.CallOf(got), 2, gen.New("infinite"))
			report(t, got, want, p, "%d columns, %s", cols, k.name)
		}
	}
}

// TestOrderings has columns that contend in rows of every length around what an insertion sort and a
// chunk take.
func TestOrderings(t *testing.T) {
	d := def.Must(def.Rowwise("orders", func(b *def.Builder) {
		x, e, k := b.In("x"), b.In("e", def.Like("x")), b.IntParam("k", def.Default(3))
		rank := def.Rank(x)
		last := def.RowKth(x.Neg(), k)
		b.Out("rank", rank)
		b.OutRow("last", last)
		b.OutRow("kept", def.RowNucleus(x, e.Abs(), def.Const(0.75)))
		b.OutRow("again", def.RowKth(def.Select(rank.Less(last), x, def.Zero), last))
		b.OutRow("sum", def.RowSum(def.Select(rank.LessEqual(k), x, def.Zero)), def.Only(num.F32))
		b.OutSlots("columns", def.Packed(rank.Less(k), b.Col()))
		b.OutSlots("values", def.Packed(rank.Less(k), x.Neg()), def.Like("x"))
		b.Out("back", def.Unpacked(rank.LessEqual(k), b.InSlots("slots", def.Like("x"))).Add(x), def.Like("x"))
		b.OutCol("counts", def.ColSum(def.Select(rank.Less(k), def.One, def.Zero)), def.Only(num.F32))
	}))
	g := gen.New(t.Name())
	for _, cols := range []int{1, 2, 3, 23, 24, 25, 256, 511, 513, 2049, 1<<16 + 3} {
		dtypes := dtypesOf(d, num.FloatDTypes[cols%3])
		for _, k := range contenders {
			p := k.compile(t, d, dtypes)
			c := randdef.NewCase(g, d, dtypes, map[string]int{"R": max(3, min(60, 10_000/cols)), "C": cols, "K": 1 + cols%4})
			randdef.Contenders(g, c.Operands[0])
			want, got := answer(t, c), c.Clone()
			cputest.Execute(p, cputest.CallOf(got), 3, g)
			report(t, got, want, p, "%d columns, %s", cols, k.name)
		}
	}
}

// TestColumnsOfExtremes has columns that contend for a row's extremes, in rows of every
// length around a chunk.
func TestColumnsOfExtremes(t *testing.T) {
	d := def.Must(def.Rowwise("columns", func(b *def.Builder) {
		x := b.In("x")
		best, worst := def.RowArgMax(x), def.RowArgMin(x.Neg())
		b.OutRow("best", best)
		b.OutRow("worst", worst)
		b.OutRow("other", def.RowArgMin(x))
		b.OutRow("top", x.Neg().At(worst), def.Only(num.F32))
		b.Out("mark", def.Select(b.Col().Equal(best), worst, b.Col()))
		b.Out("ramp", b.ColFloat().Add(x), def.Like("x"))
	}))
	g := gen.New(t.Name())
	for _, cols := range []int{1, 2, 3, 7, 511, 512, 513, 1024, 1025, 2049, 1<<16 + 3} {
		dtypes := dtypesOf(d, num.FloatDTypes[cols%3])
		for _, k := range contenders {
			p := k.compile(t, d, dtypes)
			c := randdef.NewCase(g, d, dtypes, map[string]int{"R": max(3, min(200, 40_000/cols)), "C": cols})
			randdef.Contenders(g, c.Operands[0])
			want, got := answer(t, c), c.Clone()
			cputest.Execute(p, cputest.CallOf(got), 3, g)
			report(t, got, want, p, "%d columns, %s", cols, k.name)
		}
	}
}
