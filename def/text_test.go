package def_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/trial/randdef"
)

var update = flag.Bool("update", false, "write the golden texts")

// power is 2^x for integral x, in integers.
var power = &def.Function{
	Name: "power", Math: def.MathExp, ULPs: 1.5, Domain: def.Domain{Low: -126, High: 127},
	Expand: func(x def.Value) def.Value {
		n := x.Rint().FToI().As("n")
		return n.IAdd(def.IntConst(127)).Shl(23).Float()
	},
}

func softmax(b *def.Builder) {
	x := b.In("x")
	e := power.Of(x.Sub(def.RowMax(x).As("max"))).As("e")
	b.Out("y", e.Mul(def.One.Div(def.RowSum(e))), def.Like("x"))
}

func layernormBackward(b *def.Builder) {
	dy, x := b.In("dy"), b.In("x", def.Like("dy"))
	gamma, mean, rstd, n := b.InCol("gamma"), b.InRow("mean"), b.InRow("rstd"), b.Columns()
	xhat, t := x.Sub(mean).Mul(rstd).As("xhat"), dy.Mul(gamma).As("t")
	a, c := def.RowSum(t).Div(n), def.RowSum(t.Mul(xhat)).Div(n)
	b.Out("dx", t.Sub(a).Sub(xhat.Mul(c)).Mul(rstd))
	b.OutCol("dgamma", def.ColSum(dy.Mul(xhat)).As("dgamma"))
	b.OutCol("dbeta", def.ColSum(dy))
}

// everything has one of each node that can be written outside a function.
func everything(b *def.Builder) {
	x, w := b.In("x"), b.In("w", def.Only(num.F16, num.BF16))
	ignore := b.IntParam("ignore")
	label, scale := b.InIndex("label", ignore), b.Param("scale")
	counts := def.Select(label.NotEqual(ignore), label, def.IntConst(-1))
	word := b.Random(ignore, def.IntConst(math.MinInt32), def.IntConst(7), ignore)
	v := def.FMA(x, scale, def.Number("0.1")).Min(x.Max(def.Const(math.Inf(-1)))).Scale(def.Const(-3))
	v = v.Neg().Abs().Sqrt().Rint().Div(b.Rows()).Round(def.FixedStorage(num.BF16)).Round(def.StorageOf("w"))
	v = power.Of(half.Of(v))
	v = def.Select(b.Col().Equal(label), v, def.Select(x.LessEqual(w), def.Const(math.NaN()), def.Const(0.1)))
	b.Out("w", v.StochasticRound(def.StorageOf("w"), word))
	b.OutRow("r", def.Select(counts.Inside(), x.At(counts), def.RowMin(x)))
	b.OutScalar("s", def.TotalSum(x).Add(scale))
	b.OutScalar("one", def.Const(math.Copysign(0, -1)))
}

// columns has what the numbers of columns are for: one of each node, in outputs of
// each extent.
func columns(b *def.Builder) {
	x := b.In("x")
	best, worst := def.RowArgMax(x).As("best"), def.RowArgMin(x)
	b.OutRow("index", best, def.Only(num.I32))
	b.OutRow("top", x.At(best), def.Like("x"))
	b.Out("mark", def.Select(b.Col().Equal(best), b.Col(), worst))
	b.Out("ramp", x.Mul(b.ColFloat()))
	b.OutCol("sign", def.Select(def.ColSum(x).Less(def.Zero), def.IntConst(-1), def.IntConst(1)))
	b.OutScalar("copy", b.IntParam("n"))
}

// integers has every node of int32, inputs and outputs of each extent, and the sums.
func integers(b *def.Builder) {
	isInt := def.Only(num.I32)
	x, k, n, count := b.In("x"), b.In("k", isInt), b.InRow("n", isInt), b.InCol("count", isInt)
	low, high := b.IntParam("low"), b.IntParam("high")
	word := b.Random(low, high, low, high, low, high).As("word")
	own := b.RandomRow(low, high, n, high, low).As("own")
	v := x.Stored().IXor(word).IMul(own).IAnd(b.Element(low, high)).IOr(b.ElementHigh(low, high))
	v = v.ShrUBy(k).ISub(count).UMulHigh(k.ShrBy(n)).As("v")
	b.Out("k", v.ShlBy(def.IntConst(3)))
	b.OutRow("rows", def.RowSum(v))
	b.OutCol("cols", def.ColSum(v))
	b.OutScalar("all", def.TotalSum(v))
	b.OutRow("mean", def.RowSum(v).IToF().Div(b.Columns()), def.Only(num.F32))
	b.Out("copy", n.IAdd(k))
}

func golden() []*def.Definition {
	return []*def.Definition{
		def.Must(def.Rowwise("softmax.forward", softmax)),
		def.Must(def.Rowwise("layernorm.backward", layernormBackward)),
		def.Must(def.Rowwise("everything", everything)),
		def.Must(def.Rowwise("columns", columns)),
		def.Must(def.Rowwise("integers", integers)),
		def.Must(def.Contraction("product", def.ContractionForm{
			Left: "A", LeftDims: []string{"M", "K"}, Right: "B", RightDims: []string{"K", "N"}, Result: "C", ResultDims: []string{"M", "N"},
		})),
		def.Must(def.Contraction("product.transposed", def.ContractionForm{
			Left: "A", LeftDims: []string{"K", "M"}, TransposeLeft: true, Right: "B", RightDims: []string{"N", "K"}, TransposeRight: true,
			Result: "C", ResultDims: []string{"M", "N"}, Accumulate: true,
		})),
		def.Must(def.Contraction("product.scaled", def.ContractionForm{
			Left: "A", LeftDims: []string{"M", "K"}, Right: "B", RightDims: []string{"N", "K"}, TransposeRight: true,
			Result: "C", ResultDims: []string{"M", "N"}, Factors: def.Only(num.FP8DTypes...), Scales: def.Scales{Row: "scale_a", Col: "scale_b"},
		})),
		def.Must(def.Gather("rows", def.GatherForm{Index: "index", Table: "table", Out: "out"})),
		def.Must(def.ScatterAdd("sums", def.ScatterForm{Index: "index", Rows: "rows", Result: "result"})),
		def.Must(def.ScatterAdd("sums.accumulate", def.ScatterForm{Index: "index", Rows: "rows", Result: "result", Accumulate: true})),
		def.Must(def.GatherSum("rows.added", def.GatherSumForm{Index: "index", Table: "table", Out: "out"})),
		def.Must(def.Dispatch("choices", def.DispatchForm{Index: "index", Counts: "counts", Offsets: "offsets", Source: "source", Slot: "slot", Place: "place"})),
		def.Must(def.WriteRows("rows.written", def.RowWriteForm{Index: "index", Rows: "rows", Table: "table"})),
		def.Must(def.GatherSum("rows.weighted", def.GatherSumForm{Index: "index", Table: "table", Weight: "weight", Out: "out"})),
	}
}

// TestText compares the text forms with what they have always been: a changed
// text is a changed identity.
func TestText(t *testing.T) {
	for _, d := range golden() {
		file := filepath.Join("testdata", d.Name+".txt")
		if *update {
			if err := os.WriteFile(file, []byte(d.Text()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("%v; -update writes it", err)
		}
		if d.Text() != string(want) {
			t.Errorf("%s: the text has changed; -update writes it anew\ngot:\n%s\nwant:\n%s", d.Name, d.Text(), want)
		}
	}
}

// variants of one definition, each different in one thing.
var variants = map[string]func(b *def.Builder){
	"the definition itself": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		b.Out("y", x.Sub(z).Mul(def.Const(3)).Add(b.Param("p")))
	},
	"another node": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		b.Out("y", x.Add(z).Mul(def.Const(3)).Add(b.Param("p")))
	},
	"another order": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		b.Out("y", z.Sub(x).Mul(def.Const(3)).Add(b.Param("p")))
	},
	"another constant": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		b.Out("y", x.Sub(z).Mul(def.Const(-3)).Add(b.Param("p")))
	},
	"a constant near it": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		b.Out("y", x.Sub(z).Mul(def.Const(3+0x1p-22)).Add(b.Param("p")))
	},
	"a real constant that rounds to it": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		b.Out("y", x.Sub(z).Mul(def.Const(3+0x1p-40)).Add(b.Param("p")))
	},
	"a parameter instead": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		p := b.Param("p")
		b.Out("y", x.Sub(z).Mul(p).Add(p))
	},
	"an int32 parameter beside": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		b.IntParam("q")
		b.Out("y", x.Sub(z).Mul(def.Const(3)).Add(b.Param("p")))
	},
	"another operand name": func(b *def.Builder) {
		x, z := b.In("x"), b.In("w")
		b.Out("y", x.Sub(z).Mul(def.Const(3)).Add(b.Param("p")))
	},
	"another extent": func(b *def.Builder) {
		x, z := b.In("x"), b.InRow("z")
		b.Out("y", x.Sub(z).Mul(def.Const(3)).Add(b.Param("p")))
	},
	"per column": func(b *def.Builder) {
		x, z := b.In("x"), b.InCol("z")
		b.Out("y", x.Sub(z).Mul(def.Const(3)).Add(b.Param("p")))
	},
	"in place": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		b.Out("z", x.Sub(z).Mul(def.Const(3)).Add(b.Param("p")))
	},
	"another grouping": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		b.Out("y", x.Sub(z.Mul(def.Const(3))).Add(b.Param("p")))
	},
	"fused": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		b.Out("y", def.FMA(x.Sub(z), def.Const(3), b.Param("p")))
	},
	"rounded": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		b.Out("y", x.Sub(z).Round(def.FixedStorage(num.F16)).Mul(def.Const(3)).Add(b.Param("p")))
	},
	"rounded otherwise": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		b.Out("y", x.Sub(z).Round(def.StorageOf("z")).Mul(def.Const(3)).Add(b.Param("p")))
	},
	"a function": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		b.Out("y", power.Of(x.Sub(z)).Mul(def.Const(3)).Add(b.Param("p")))
	},
	"a function with another expansion": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		f := *power
		f.Expand = func(x def.Value) def.Value { return x.Rint().FToI().As("n").IAdd(def.IntConst(126)).Shl(23).Float() }
		b.Out("y", f.Of(x.Sub(z)).Mul(def.Const(3)).Add(b.Param("p")))
	},
	"a function with another error": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		f := *power
		f.ULPs = 2
		b.Out("y", f.Of(x.Sub(z)).Mul(def.Const(3)).Add(b.Param("p")))
	},
	"a minus zero": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		b.Out("y", x.Sub(z).Mul(def.Const(3)).Add(def.Const(math.Copysign(0, -1))))
		b.Param("p")
	},
	"a zero": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		b.Out("y", x.Sub(z).Mul(def.Const(3)).Add(def.Zero))
		b.Param("p")
	},
	"an output twice": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		v := x.Sub(z).Mul(def.Const(3)).Add(b.Param("p"))
		b.Out("y", v)
		b.Out("w", v)
	},
	"outputs exchanged": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		v := x.Sub(z).Mul(def.Const(3)).Add(b.Param("p"))
		b.Out("w", v)
		b.Out("y", v)
	},
	"an index": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		b.InIndex("i")
		b.Out("y", x.Sub(z).Mul(def.Const(3)).Add(b.Param("p")))
	},
	"an index with an exception": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		p := b.IntParam("q")
		b.InIndex("i", p)
		b.Out("y", x.Sub(z).Mul(def.Const(3)).Add(b.Param("p")))
	},
	"a decimal": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		b.Out("y", x.Sub(z).Mul(def.Number("0.1")))
		b.Param("p")
	},
	"the binary64 nearest to it": func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		b.Out("y", x.Sub(z).Mul(def.Const(0.1)))
		b.Param("p")
	},
}

func TestHash(t *testing.T) {
	names := map[string]string{}
	for name, build := range variants {
		d := def.Must(def.Rowwise("variant", build))
		if other, taken := names[d.Hash()]; taken {
			t.Errorf("%s and %s have one identity:\n%s", name, other, d.Text())
		}
		names[d.Hash()] = name
		if again := def.Must(def.Rowwise("variant", build)); again.Hash() != d.Hash() || again.Text() != d.Text() {
			t.Errorf("%s: built twice, two identities", name)
		}
		if d.Hash() == def.Must(def.Rowwise("other", build)).Hash() {
			t.Errorf("%s: two names, one identity", name)
		}
		if len(d.Hash()) != 64 {
			t.Errorf("%s: hash %s is no SHA-256", name, d.Hash())
		}
	}
	hashes := map[string]string{}
	for _, d := range golden() {
		if other, taken := hashes[d.Hash()]; taken {
			t.Errorf("%s and %s have one identity", d.Name, other)
		}
		hashes[d.Hash()] = d.Name
	}
}

// TestNamesInsideFunctions names values of an expansion alike, and like its
// argument: the text keeps them apart.
func TestNamesInsideFunctions(t *testing.T) {
	difference := func(first, second int) *def.Function {
		return &def.Function{Name: "difference", Math: def.MathExp, ULPs: 1, Domain: def.EveryX, Expand: func(x def.Value) def.Value {
			v := []def.Value{x, x.Neg().As("x"), x.Abs().As("v"), half.Of(x.Sqrt().As("v"))}
			return v[first].Sub(v[second])
		}}
	}
	texts := map[string]string{}
	for first := range 4 {
		for second := range 4 {
			text := difference(first, second).Text()
			if other, taken := texts[text]; taken {
				t.Errorf("%d − %d and %s have one text:\n%s", first, second, other, text)
			}
			texts[text] = fmt.Sprintf("%d − %d", first, second)
		}
	}
}

// TestHashTellsGraphsApart looks for two random definitions with one text but
// different nodes.
func TestHashTellsGraphsApart(t *testing.T) {
	shapes := map[string]string{}
	for seed := range uint64(1500) {
		d, err := randdef.Sized(gen.Seeded(seed), 1+int(seed%4))
		if err != nil {
			t.Fatal(err)
		}
		shape := shapeOf(d)
		if other, seen := shapes[d.Hash()]; seen && other != shape {
			t.Fatalf("seed %d: two graphs have one text:\n%s\n%s\n%s", seed, d.Text(), shape, other)
		}
		shapes[d.Hash()] = shape
	}
	if len(shapes) < 200 {
		t.Errorf("only %d different definitions", len(shapes))
	}
}

// shapeOf writes a graph without names: nodes by number, constants by bits.
func shapeOf(d *def.Definition) string {
	s := ""
	for _, n := range d.Exec().Nodes {
		s += fmt.Sprint(n.Op, n.Operand, n.Param, n.Int, n.Storage, n.Extent, n.Type)
		if n.Real != nil {
			s += fmt.Sprint(math.Float32bits(n.Real.F32()))
		}
		for _, a := range n.Args {
			s += fmt.Sprint(" ", a.ID)
		}
		s += ";"
	}
	for _, o := range d.Exec().Outputs {
		s += fmt.Sprint(o.Operand, o.Value.ID, " ")
	}
	return s
}

// TestAs names computed values only: a leaf has its name already.
func TestAs(t *testing.T) {
	d := def.Must(def.Rowwise("named", func(b *def.Builder) { b.Out("y", b.In("x").As("z").Mul(def.Two.As("two")).As("w")) }))
	if want := def.Version + "\nrowwise named\n  in    x[R,C] f16 bf16 f32\n  out   y[R,C] f16 bf16 f32, may be x\n  w = mul(x, 2)\n  y <- w\n"; d.Text() != want || d.String() != "named" {
		t.Errorf("%s: got:\n%s\nwant:\n%s", d, d.Text(), want)
	}
}

// TestLines lists what is executed: expansions, under the names of the calls.
func TestLines(t *testing.T) {
	d := def.Must(def.Rowwise("twice", func(b *def.Builder) {
		e := power.Of(b.In("x")).As("e")
		b.Out("y", power.Of(e))
	}))
	want := []string{
		"  t1 = rint(x)", "  n = ftoi(t1)", "  t2 = iadd(n, 127i)", "  t3 = shl(t2, 23i)", "  e = float(t3)",
		"  t4 = rint(e)", "  n.2 = ftoi(t4)", "  t5 = iadd(n.2, 127i)", "  t6 = shl(t5, 23i)", "  t7 = float(t6)", "  y <- t7",
	}
	if got := d.Exec().Lines(d); !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestGraphs checks the two faces: the mathematics keeps calls, execution has none,
// and arguments come before their users in both.
func TestGraphs(t *testing.T) {
	for seed := range uint64(300) {
		d, err := randdef.New(gen.Seeded(seed))
		if err != nil {
			t.Fatal(err)
		}
		for name, g := range map[string]def.Graph{"math": d.Math(), "exec": d.Exec()} {
			for i, n := range g.Nodes {
				if n.ID != i {
					t.Fatalf("seed %d, %s: node %d says it is %d", seed, name, i, n.ID)
				}
				if isExec := name == "exec"; isExec && n.Op == def.OpCall || !isExec && (n.Op == def.OpBits || n.Op == def.OpFloat || n.Op == def.OpFToI) {
					t.Fatalf("seed %d, %s: it has a node %s", seed, name, n.Op)
				}
				for _, a := range n.Args {
					if a.ID >= i || g.Nodes[a.ID] != a {
						t.Fatalf("seed %d, %s: node %d uses %d, which does not come before it", seed, name, i, a.ID)
					}
				}
			}
			if len(g.Outputs) == 0 {
				t.Fatalf("seed %d, %s: no outputs", seed, name)
			}
		}
		if len(d.Exec().Lines(d)) < len(d.Exec().Outputs) {
			t.Fatalf("seed %d: a listing without its outputs", seed)
		}
	}
}
