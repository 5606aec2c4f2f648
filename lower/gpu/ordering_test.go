package gpu_test

import (
	"fmt"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/op/router"
	"tokitai/op/sample"
	"tokitai/trial/randdef"
)

// Definitions with orderings: of an input and of what is computed, one after another, with sums that
// need them, and with an index.
var orderingDefinitions = []*def.Definition{
	def.Must(def.Rowwise("orders", func(b *def.Builder) {
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
	})),
	def.Must(def.Rowwise("marks", func(b *def.Builder) {
		x, label := b.In("x"), b.InIndex("label")
		b.OutRow("kept", def.RowNucleus(x, x.Mul(x), x.At(label)))
		b.Out("y", def.Select(def.Rank(x).Equal(label), x, def.Zero), def.Like("x"))
	})),
	def.Must(def.Rowwise("turns", func(b *def.Builder) {
		x, n, each := b.In("x"), b.In("n", def.Only(num.I32)), b.InRow("each", def.Only(num.I32))
		t := b.InTable("t", "P").At(b.InIndexOf("row", "P"))
		low := b.IntParam("low")
		kth := def.RowKth(x.Mul(t), each)
		b.OutRow("words", def.RowSum(def.Select(def.Rank(n.IToF()).Less(each), x.Stored(), b.Element(low, low))))
		b.OutCol("counts", def.ColSum(n.IXor(b.RandomRow(low, low, kth, each, low))))
	})),
	sample.Definition,
	// Of these, short rows have one kernel.
	def.Must(def.Rowwise("chosen", func(b *def.Builder) {
		x, label, low := b.In("x"), b.InIndex("label"), b.IntParam("low")
		n := b.In("n", def.Only(num.I32))
		rank := def.Rank(x)
		again := def.Rank(def.Select(rank.Less(label), rank.IToF(), x))
		g := def.Unpacked(rank.LessEqual(label), b.InSlots("slots", def.Like("x"))).As("g")
		b.OutSlots("numbers", def.Packed(again.Less(label), n))
		b.OutSlots("values", def.Packed(x.Less(x.At(label)), x.Mul(g)), def.Like("x"))
		b.OutRow("sum", def.RowSum(g.Mul(x)), def.Only(num.F32))
		b.Out("again", again)
		b.Out("y", def.Select(again.Less(rank), g, x).Add(b.RandomRow(low, low, label, label, low).IToF()), def.Like("x"))
		b.OutRow("first", def.RowArgMin(again.IToF()))
	})),
	router.SoftmaxForwardDefinition, router.SigmoidBackwardDefinition,
}

// TestOrderings computes them for rows that are counted and sorted, in warps of 32 and of 64.
func TestOrderings(t *testing.T) {
	t.Parallel()
	var b batch
	b.source.WriteString(plainly)
	g := gen.New(t.Name())
	for i, d := range orderingDefinitions {
		for _, v := range variants {
			if isSmoke() && int(v) != i%2 {
				continue
			}
			dtypes := onePerFormat(d, d.Formats())[(i+int(v)+1)%3]
			k := b.compile(d, dtypes, v)
			for n, s := range [][2]int{{40, 1}, {40, 9}, {35, 64}, {21, 128}, {19, 90}, {9, 256}, {9, 257}, {3, 1024}, {3, 1032}, {3, 4099}, {2, 5000}, {1, 70000}} {
				if isSmoke() && n%2 == 0 {
					continue
				}
				sizes := sized(d, v, s)
				sizes["K"] = 1 + n%4
				c := randdef.NewCase(g, d, dtypes, sizes)
				randdef.Contenders(g, c.Operands[0])
				b.add(t, fmt.Sprintf("%s %s %v %s", d.Name, dtypes, s, v), k, c, layout{variant: v, gap: n % 3, inPlace: n%2 == 0})
				b.calls[len(b.calls)-1].limits.Multiprocessors = 4 << (i % 4) // long rows of few belong to several blocks
			}
		}
	}
	for _, build := range testlevel.Pick([]simtest.Build{simtest.Plain}, []simtest.Build{simtest.Plain, simtest.Race, simtest.Address}) {
		program := simtest.Compile(t, b.text(t), build)
		for _, warp := range []int{32, 64} {
			if text := b.tryProgram(t, program, build, warp, uint64(warp)); text != "" {
				t.Errorf("%s, warps of %d: %s", build, warp, text)
			}
		}
	}
}

// TestRanksBelow keeps the first elements of rows that are computed by the threads of a warp: few of them,
// which are found one after another, and around the number from which all are counted.
func TestRanksBelow(t *testing.T) {
	t.Parallel()
	d := def.Must(def.Rowwise("first", func(b *def.Builder) {
		x := b.In("x")
		keep := def.Rank(x.Add(x)).Less(b.IntParam("k"))
		b.Out("y", def.Select(keep, x, def.Const(-7)), def.Like("x"))
		b.OutSlots("columns", def.Packed(keep, b.Col()))
	}))
	var b batch
	b.source.WriteString(plainly)
	g := gen.New(t.Name())
	dtypes := d.Formats()[0]
	k := b.compile(d, dtypes, gpu.Vector)
	if !strings.Contains(k.Source.Text, "ranks_below<T>(p.") {
		t.Fatal("the kernel counts all ranks")
	}
	for _, cols := range []int{8, 64, 72, 256} {
		threads := (cols + 7) / 8
		for _, limit := range []int{1, 2, 8, 2*threads - 1, 2 * threads, 2*threads + 1, cols, 1 << 20} {
			sizes := sized(d, gpu.Vector, [2]int{5, cols})
			sizes["K"] = 9
			c := randdef.NewCase(g, d, dtypes, sizes)
			randdef.Contenders(g, c.Operands[0])
			c.Params = []float64{float64(limit)}
			b.add(t, fmt.Sprintf("%d of %d columns", limit, cols), k, c, layout{variant: gpu.Vector})
		}
	}
	program := simtest.Compile(t, b.text(t), simtest.Plain)
	for _, warp := range []int{32, 64} {
		if text := b.tryProgram(t, program, simtest.Plain, warp, uint64(warp)); text != "" {
			t.Errorf("warps of %d: %s", warp, text)
		}
	}
}
