package gpu_test

import (
	"fmt"
	"math"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/trial"
	"tokitai/trial/randdef"
)

// edges are binary32 values at which an operation behaves differently.
var edges = func() []float32 {
	var all []float32
	for _, v := range []float64{
		0, 0x1p-149, 0x3p-149, 0x1p-127, 0x1p-127 + 0x1p-149, 0x1.fffffcp-127, 0x1p-126, 0x1.fffffep-126, 0x1p-75, 0x1p-26, 0x1p-25, 0x1.000002p-25,
		0x1.8p-24, 0x1p-24, 0x1.ff8p-15, 0x1.ffcp-15, 0x1.ffdp-15, 0x1p-14, 0x1.002p-14, 0x1p-12 * (1 + 0x1p-23), 0x1p-12 * (1 - 0x1p-23),
		0.5, 1, 1 + 0x1p-23, 1 + 0x1p-11, 1 + 0x3p-11, 1 + 0x1p-8, 1 + 0x3p-8, 1.5, 2.5, 126, 251, 252, 253, 254, 255, 300, 65503, 65504, 65519, 65520, 65536,
		0x1p23, 0x1p24 - 1, 0x1p31 - 128, 0x1p31, 0x1p64, 0x1.fefffep127, 0x1.ffp127, 0x1p127, math.MaxFloat32, math.Inf(1), math.NaN(),
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
	t.Parallel()
	choose := func(c def.Value) def.Value { return def.Select(c, def.One, def.Zero) }
	ops := []func(b *def.Builder, x, y def.Value) def.Value{
		func(_ *def.Builder, x, y def.Value) def.Value { return x.Add(y).Sub(x.Mul(y)).Div(x) },
		func(_ *def.Builder, x, y def.Value) def.Value { return x.Min(y).Add(x.Max(y).Abs().Sqrt()) },
		func(_ *def.Builder, x, y def.Value) def.Value {
			return def.One.Div(x.Min(y)).Sub(def.One.Div(x.Max(y)))
		},
		func(_ *def.Builder, x, y def.Value) def.Value { return x.Scale(y) },
		func(_ *def.Builder, x, y def.Value) def.Value {
			return choose(x.Less(y)).Add(choose(x.LessEqual(y)).Mul(def.Two))
		},
		func(_ *def.Builder, x, y def.Value) def.Value {
			return choose(x.Equal(y)).Sub(choose(x.NotEqual(y)).Mul(def.Two)).Neg()
		},
		func(_ *def.Builder, x, y def.Value) def.Value { return convert.Of(x).Sub(y.Rint()) },
		func(_ *def.Builder, x, y def.Value) def.Value { return def.FMA(x, y, x.Neg()) },
		func(_ *def.Builder, x, y def.Value) def.Value {
			return x.Round(def.FixedStorage(num.F16)).Add(y.Round(def.FixedStorage(num.BF16)))
		},
	}
	var b batch
	b.source.WriteString(plainly)
	g := gen.New("edges")
	for i, op := range ops {
		for _, isRow := range []bool{false, true} {
			d := def.Must(def.Rowwise("edges", func(b *def.Builder) {
				if isRow {
					b.In("unused")
					b.OutRow("z", op(b, b.InRow("x"), b.InRow("y")), def.Only(num.F32))
				} else {
					b.Out("z", op(b, b.In("x"), b.In("y")), def.Only(num.F32))
				}
			}))
			dtypes := make([]num.DType, len(d.Operands))
			for i := range dtypes {
				dtypes[i] = num.F32
			}
			k := b.compile(d, dtypes, gpu.Element)
			n := len(edges)
			sizes := map[string]int{"R": n, "C": n}
			if isRow {
				sizes = map[string]int{"R": n * n, "C": 1}
			}
			c := randdef.NewCase(g, d, dtypes, sizes)
			x, y := c.Operands[d.Operand("x")], c.Operands[d.Operand("y")]
			for e := range n * n {
				x.Set(e/x.Cols, e%x.Cols, edges[e/n])
				y.Set(e/x.Cols, e%x.Cols, edges[e%n])
			}
			b.add(t, fmt.Sprintf("op %d, per row %t", i, isRow), k, c, layout{})
		}
	}
	b.run(t, simtest.Plain, 32, 0)
}

// TestFormats reads and writes every 16-bit pattern, and rounds at random around each.
func TestFormats(t *testing.T) {
	t.Parallel()
	var b batch
	for _, format := range []num.DType{num.F16, num.BF16} {
		widen := def.Must(def.Rowwise("widen", func(b *def.Builder) { b.Out("y", b.In("x"), def.Only(num.F32)) }))
		narrow := def.Must(def.Rowwise("narrow", func(b *def.Builder) {
			x := b.In("x", def.Only(num.F32))
			word := b.Random(b.IntParam("low"), b.IntParam("high"), b.IntParam("tensor"), b.IntParam("step"))
			b.Out("y", x)
			b.Out("z", x.StochasticRound(def.StorageOf("y"), word), def.Like("y"))
		}))
		g := gen.New("formats")
		for _, v := range variants {
			dtypes := []num.DType{format, num.F32}
			c := randdef.NewCase(g, widen, dtypes, map[string]int{"R": 1, "C": 1 << 16})
			for i := range 1 << 16 {
				c.Operands[0].SetBits(0, i, uint32(i))
			}
			b.add(t, fmt.Sprintf("widen %s", format), b.compile(widen, dtypes, v), c, layout{variant: v})

			dtypes = []num.DType{num.F32, format, format}
			c = randdef.NewCase(g, narrow, dtypes, map[string]int{"R": 4, "C": 1 << 16})
			half := map[num.DType]uint32{num.F16: 1 << 12, num.BF16: 1 << 15}[format]
			for i := range 1 << 16 {
				bits := math.Float32bits(num.Widen(format, uint32(i)))
				c.Operands[0].SetBits(0, i, bits)
				c.Operands[0].SetBits(1, i, bits+half)
				c.Operands[0].SetBits(2, i, bits+half-1+2*uint32(g.Below(2)))
				c.Operands[0].SetBits(3, i, uint32(g.Next()))
			}
			b.add(t, fmt.Sprintf("narrow %s", format), b.compile(narrow, dtypes, v), c, layout{variant: v, gap: 8})
		}
	}
	b.run(t, simtest.Plain, 32, 0)
}

// sums has one of each sum, on top of a row reduction.
var sums = def.Must(def.Rowwise("sums", func(b *def.Builder) {
	x := b.In("x")
	top := def.RowMax(x).As("top")
	b.Out("y", x.Sub(top), def.Like("x"))
	b.OutRow("row", def.RowSum(x.Sub(top)), def.Only(num.F32))
	b.OutCol("col", def.ColSum(x.Mul(top)), def.Only(num.F32))
	b.OutScalar("total", def.TotalSum(x.Sub(top)), def.Only(num.F32))
}))

// besideSums has a value that is stored once beside column sums that the rows kernel takes
// with it.
var besideSums = def.Must(def.Rowwise("beside_sums", func(b *def.Builder) {
	x, p := b.In("x"), b.Param("p")
	b.Out("y", x.Sub(def.RowMax(x)), def.Like("x"))
	b.OutCol("col", def.ColSum(x), def.Only(num.F32))
	b.OutScalar("twice", p.Add(p), def.Only(num.F32))
}))

var flatSum = def.Must(def.Rowwise("flat_sum", func(b *def.Builder) {
	b.OutScalar("total", def.TotalSum(b.In("x")), def.Only(num.F32))
}))

// TestSumShapes sums matrices on both sides of every number of lanes.
func TestSumShapes(t *testing.T) {
	t.Parallel()
	var shapes [][2]int
	for _, c := range []int{1, 255, 256, 257, 2047, 2048, 2049, 8191, 8192, 8193, num.FlatRow - 1, num.FlatRow, num.FlatRow + 1} {
		shapes = append(shapes, [2]int{2, c})
	}
	// Columns, for one row more than their sums have lanes.
	lanes := testlevel.Pick([]int{13}, []int{1, 13, 257}, []int{1, 13, 257, 256, 2048, 2049})
	for _, c := range lanes {
		shapes = append(shapes, [2]int{num.ColLanes(c) + 1, c})
	}
	shapes = append(shapes, [2]int{2*num.ColLanes(7) + 3, 7}, [2]int{num.FlatRow + 1, 1}, [2]int{3, 2 * num.FlatRow / 3})
	var b batch
	b.source.WriteString(plainly)
	for n, d := range []*def.Definition{sums, besideSums, flatSum} {
		dtypes := onePerFormat(d, d.Formats())[0]
		g := gen.New("sum shapes")
		for _, v := range variants {
			k := b.compile(d, dtypes, v)
			for i, s := range shapes {
				if i%2 != int(v) && s[0]*s[1] > 1<<13 && !isFull() {
					continue
				}
				if isSmoke() && (i%3 != n || s[0]*s[1] > 1<<15 && d != flatSum) {
					continue
				}
				c := randdef.NewCase(g, d, dtypes, sized(d, v, s))
				b.add(t, fmt.Sprintf("%s %v %s", d.Name, s, v), k, c, layout{variant: v, gap: i % 3 / 2 * 8, inPlace: i%2 == 0})
			}
		}
	}
	b.run(t, simtest.Plain, 32, 5)
}

// TestSumsOfNegativeZeros sums rows of −0, which are +0, with and without groups that only
// some threads have, where a row is kept in every way.
func TestSumsOfNegativeZeros(t *testing.T) {
	t.Parallel()
	d := def.Must(def.Rowwise("zeros", func(b *def.Builder) {
		x := b.In("x")
		sum := def.RowSum(x)
		b.Out("y", x.Sub(sum.Div(b.Columns())), def.Like("x"))
		b.OutRow("sum", sum, def.Only(num.F32))
	}))
	var b batch
	b.source.WriteString(plainly)
	g := gen.New("zeros")
	for _, dtypes := range onePerFormat(d, d.Formats()) {
		k := b.compile(d, dtypes, gpu.Vector)
		for _, s := range [][2]int{{2, 128}, {3, 128}, {1, 1024}, {1, 1000}, {1, 4096}, {1, 16_384}} {
			c := randdef.NewCase(g, d, dtypes, sized(d, gpu.Vector, s))
			trial.FillBits(c.Operands[0], func(int, int) uint32 { return 1 << (8*dtypes[0].Size() - 1) })
			b.add(t, fmt.Sprintf("%v %v", dtypes, s), k, c, layout{variant: gpu.Vector})
		}
	}
	b.run(t, simtest.Plain, 32, 6)
}

// TestOverwrittenInput stores a copy of an input beside an output that takes its
// place, and exchanges two operands.
func TestOverwrittenInput(t *testing.T) {
	t.Parallel()
	var b batch
	b.source.WriteString(plainly)
	g := gen.New("overwritten")
	for _, d := range []*def.Definition{
		firstReplaced,
		def.Must(def.Rowwise("overwritten", func(b *def.Builder) {
			x := b.In("x")
			b.Out("y", x.Add(def.One), def.Like("x"))
			b.Out("old", x, def.Only(num.F32))
			b.OutRow("first", x.At(def.IntConst(0)), def.Only(num.F32))
		})),
		def.Must(def.Rowwise("exchanged", func(b *def.Builder) {
			x, z := b.In("x"), b.In("z", def.Like("x"))
			b.Out("x", z)
			b.Out("z", x)
		})),
		def.Must(def.Rowwise("one_hot", func(b *def.Builder) {
			x, label := b.In("x"), b.InIndex("label")
			b.Out("y", def.Select(b.Col().Equal(label), x, x.Sub(x.At(label))), def.Like("x"))
			b.OutRow("inside", def.Select(label.Inside(), def.One, def.Zero))
		})),
		// Names that mean something to a C++ compiler or to the generator.
		def.Must(def.Rowwise("float.int", func(b *def.Builder) {
			x, w := b.In("float"), b.InCol("BARRIER")
			p := b.Param("threadIdx")
			b.Out("p", x.Mul(w).As("row").Add(p).As("columns"))
			b.OutRow("n", def.RowSum(x).As("scratch").Add(b.InRow("float_stride")).As("t"))
		})),
	} {
		formats := onePerFormat(d, d.Formats())
		for _, dtypes := range testlevel.Pick(formats[:1], formats) {
			for _, v := range variants {
				k := b.compile(d, dtypes, v)
				for _, s := range [][2]int{{3, 513}, {30, 1300}, {2, 5000}, {2, 9001}} {
					c := randdef.NewCase(g, d, dtypes, sized(d, v, s))
					b.add(t, fmt.Sprintf("%s %v %v %s", d.Name, dtypes, s, v), k, c, layout{variant: v, gap: 1, inPlace: true})
				}
			}
		}
	}
	b.run(t, simtest.Plain, 32, 9)
}
