package lower_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/trial/randdef"
)

// fixed are costs that make every program decide the same way.
type fixed struct{ keeps, hoists bool }

func (fixed) Compute(*def.Node) int { return 1 }
func (c fixed) Keep(*def.Node, []*lower.Kept) int {
	if c.keeps {
		return 0
	}
	return lower.Never
}
func (c fixed) Hoist(*def.Node) bool { return c.hoists }

// mixed are costs that differ from node to node.
type mixed uint64

func (m mixed) draw(n *def.Node, sides int) int {
	return gen.Seeded(uint64(m) + uint64(n.ID)).Below(sides)
}

func (m mixed) Compute(n *def.Node) int { return m.draw(n, 3) }
func (m mixed) Keep(n *def.Node, kept []*lower.Kept) int {
	if m.draw(n, 7) == 0 {
		return lower.Never
	}
	return len(kept)
}
func (m mixed) Hoist(n *def.Node) bool { return m.draw(n, 2) == 0 }

var allCosts = []lower.Costs{fixed{true, true}, fixed{false, false}, fixed{true, false}, mixed(1), mixed(2)}

func f32s(d *def.Definition) []num.DType {
	dtypes := make([]num.DType, len(d.Operands))
	for i := range dtypes {
		if dtypes[i] = num.F32; d.Operands[i].IsInt() {
			dtypes[i] = num.I32
		}
	}
	return dtypes
}

// TestPasses counts the walks over a row that known expressions need.
func TestPasses(t *testing.T) {
	for _, test := range []struct {
		name   string
		passes int
		build  func(b *def.Builder)
	}{
		{"an element", 1, func(b *def.Builder) { b.Out("y", b.In("x").Neg()) }},
		{"softmax", 3, func(b *def.Builder) {
			x := b.In("x")
			e := fn.Exp(x.Sub(def.RowMax(x)))
			b.Out("y", e.Div(def.RowSum(e)))
		}},
		{"a row sum alone", 1, func(b *def.Builder) { b.OutRow("y", def.RowSum(b.In("x"))) }},
		{"a sum of a sum", 2, func(b *def.Builder) {
			x := b.In("x")
			b.OutRow("y", def.RowSum(x.Sub(def.RowSum(x))))
		}},
		{"the first element", 1, func(b *def.Builder) {
			x := b.In("x")
			b.Out("y", x.Sub(x.At(def.IntConst(0))))
		}},
		{"an element that is computed", 2, func(b *def.Builder) {
			x := b.In("x")
			b.Out("y", x.Sub(x.Neg().At(def.IntConst(0))))
		}},
		{"an element found by a row sum, read before x is overwritten", 2, func(b *def.Builder) {
			x := b.In("x")
			where := def.Select(def.RowSum(x).Less(def.Zero), def.IntConst(0), def.IntConst(1))
			b.OutRow("z", x.At(where))
			b.Out("y", x)
		}},
		{"two sums side by side", 2, func(b *def.Builder) {
			x := b.In("x")
			b.Out("y", def.RowSum(x).Mul(def.RowMax(x)).Mul(x))
		}},
		{"a column sum", 1, func(b *def.Builder) { b.OutCol("y", def.ColSum(b.In("x"))) }},
		{"a column sum of centred values", 2, func(b *def.Builder) {
			x := b.In("x")
			b.OutCol("y", def.ColSum(x.Sub(def.RowSum(x))))
		}},
	} {
		d, err := def.Rowwise("test", test.build)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if got := len(lower.NewProgram(d, f32s(d), lower.Whole(d), fixed{}).Passes); got != test.passes {
			t.Errorf("%s: got %d passes, want %d", test.name, got, test.passes)
		}
	}
}

// everything has something in every block.
var everything = def.Must(def.Rowwise("everything", func(b *def.Builder) {
	x, scale := b.In("x"), b.InCol("scale")
	label, first := b.InIndex("label"), b.InRow("first")
	weight := scale.Mul(b.Param("p")).As("weight")
	e := x.Sub(def.RowMax(x).As("max")).Mul(weight).As("e")
	b.Out("y", e.Div(def.RowSum(e).As("sum")).Add(first.Neg().As("shift")))
	b.OutRow("at", x.At(label))
	b.OutCol("means", def.ColSum(x).As("columns").Div(b.Rows()))
	b.OutScalar("norm", def.TotalSum(e).As("total").Sqrt())
}))

var update = flag.Bool("update", false, "rewrite the golden listings")

// TestListing compares listings with committed ones: of a whole program with everything
// kept and with nothing kept, and of parts.
func TestListing(t *testing.T) {
	d := everything
	dtypes := []num.DType{num.F32, num.F16, num.I32, num.F32, num.BF16, num.F32, num.F32, num.F32}
	for _, test := range []struct {
		name  string
		part  lower.Part
		costs lower.Costs
	}{
		{"kept", lower.Whole(d), fixed{keeps: true, hoists: true}},
		{"recomputed", lower.Whole(d), fixed{}},
		{"sums", lower.Part{Values: sumsOf(d), Given: lower.IsRowReduction}, fixed{}},
		{"after_sums", lower.Part{Stores: d.Exec().Outputs[2:], Given: lower.IsSum}, fixed{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := lower.NewProgram(d, dtypes, test.part, test.costs).String()
			file := filepath.Join("testdata", test.name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s\nif the change is meant: go test ./lower -run TestListing -update", got, want)
			}
		})
	}
}

func sumsOf(d *def.Definition) []*def.Node {
	return slices.DeleteFunc(slices.Clone(d.Exec().Nodes), func(n *def.Node) bool { return !lower.IsSum(n) })
}

// price is the cost of keeping any value; computing one costs 1, reading an input 0.
type price int

func (price) Compute(n *def.Node) int             { return min(len(n.Args), 1) }
func (p price) Keep(*def.Node, []*lower.Kept) int { return int(p) }
func (price) Hoist(*def.Node) bool                { return false }

// TestCosts keeps what costs no less to compute again, given what is kept already.
func TestCosts(t *testing.T) {
	d := def.Must(def.Rowwise("costs", func(b *def.Builder) {
		x := b.In("x")
		square := x.Neg().Mul(x).As("square")
		root := square.Abs().Sqrt().As("root") // four nodes
		next := root.Add(def.One).As("next")   // a fifth
		s := def.RowSum(next)
		s = def.RowSum(root.Sub(s))
		s = def.RowSum(next.Sub(s))
		b.Out("y", root.Sub(s).Mul(square))
	}))
	for p, want := range map[price]string{
		0:           "square 1-4, root 1-4, next 1-3",
		1:           "square 1-4, root 1-4, next 1-3",
		2:           "square 1-4, root 1-4",
		3:           "root 1-4",
		4:           "root 1-4",
		5:           "next 1-3",
		6:           "",
		lower.Never: "",
	} {
		var got []string
		for _, k := range lower.NewProgram(d, f32s(d), lower.Whole(d), p).Kept {
			name := k.Node.Name
			if name == "" {
				name = k.Node.Op.String()
			}
			got = append(got, fmt.Sprintf("%s %d-%d", name, k.First+1, k.Last+1))
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("price %d: got %q, want %q", p, got, want)
		}
	}
}

// answer returns the case with the reference's outputs.
func answer(t testing.TB, c *randdef.Case) *randdef.Case {
	t.Helper()
	want := c.Clone()
	if err := reference.Run(want.Definition, want.Operands, reference.Options{Params: want.Params}); err != nil {
		t.Fatalf("reference: %v", err)
	}
	return want
}

// randomCase makes a definition and operands for it, small enough for a slow machine.
func randomCase(t testing.TB, seed uint64) (*gen.Generator, *randdef.Case) {
	t.Helper()
	g := gen.Seeded(seed)
	d, err := randdef.New(g)
	for err == nil && d.Stages(randdef.DTypes(g, d)) != nil { // its parts are planned, not the whole
		d, err = randdef.New(g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g, randdef.NewCase(g, d, randdef.DTypes(g, d), randdef.Sizes(g, d, 4000))
}

func dtypesOf(c *randdef.Case) (dtypes []num.DType) {
	for _, o := range c.Operands {
		dtypes = append(dtypes, o.DType)
	}
	return dtypes
}

// TestRandomPrograms executes programs of random definitions, whatever the costs, out of
// place and in place: every value is known where it is used and dies once, and the
// results are the reference's.
func TestRandomPrograms(t *testing.T) {
	for seed := range uint64(testlevel.Pick(300, 2000, 20_000)) {
		g, c := randomCase(t, seed)
		want := answer(t, c)
		for i, costs := range allCosts {
			p := lower.NewProgram(c.Definition, dtypesOf(c), lower.Whole(c.Definition), costs)
			got := c.Clone()
			if i%2 == 1 {
				if inPlace, ok := c.InPlace(g); ok {
					got = inPlace
				}
			}
			if text := mistake(got, want, p); text != "" {
				t.Fatalf("seed %d, costs %v: %s\n%s\n%s", seed, costs, text, c.Definition.Text(), p)
			}
		}
	}
}

// mistake executes programs one after another and returns what is wrong.
func mistake(got, want *randdef.Case, programs ...*lower.Program) string {
	m := newMachine(got)
	for _, p := range programs {
		if err := m.run(p); err != nil {
			return err.Error()
		}
		m.leaveSums(p)
	}
	return randdef.Diff(got, want)
}

// leaveSums finishes the sums of a program that only fills their accumulators.
func (m *machine) leaveSums(p *lower.Program) {
	for _, s := range p.Passes[len(p.Passes)-1].Elements.With(lower.Accumulate) {
		if !lower.IsSum(s.Node) {
			continue
		}
		for col := range m.cols {
			at := place(s.Node, 0, col)
			m.cells[at] = m.finish(s.Node, 0, col)
		}
	}
}

// TestRandomParts divides random definitions as a backend does whose blocks of rows
// cannot wait for each other: row reductions, sums, element outputs, and what follows
// from sums are programs of their own.
func TestRandomParts(t *testing.T) {
	for seed := range uint64(testlevel.Pick(300, 2000, 20_000)) {
		g, c := randomCase(t, seed)
		want := answer(t, c)
		costs := allCosts[int(seed)%len(allCosts)]
		programs := partsOf(c, costs)
		got := c.Clone()
		if inPlace, ok := c.InPlace(g); ok && seed%2 == 1 {
			got = inPlace
		}
		if text := mistake(got, want, programs...); text != "" {
			t.Fatalf("seed %d, costs %v: %s\n%s\n%v", seed, costs, text, c.Definition.Text(), programs)
		}
	}
}

func partsOf(c *randdef.Case, costs lower.Costs) []*lower.Program {
	d := c.Definition
	var rows, elements, late []def.Output
	for _, o := range d.Exec().Outputs {
		switch {
		case o.Value.Extent == def.PerRow:
			rows = append(rows, o)
		case o.Value.Extent == def.PerElement:
			elements = append(elements, o)
		default:
			late = append(late, o)
		}
	}
	program := func(part lower.Part) *lower.Program {
		return lower.NewProgram(d, dtypesOf(c), part, costs)
	}
	sums := program(lower.Part{Values: sumsOf(d), Given: lower.IsRowReduction})
	stores := program(lower.Part{Stores: elements, Given: lower.IsRowReduction})
	handedOn := append(sums.Received(), stores.Received()...)
	return []*lower.Program{
		program(lower.Part{Stores: rows, Values: handedOn}), sums, stores,
		program(lower.Part{Stores: late, Given: lower.IsSum}),
	}
}

// TestMachineSees damages programs: what the tests above rely on has to notice.
func TestMachineSees(t *testing.T) {
	d := everything
	g := gen.New("damage")
	c := randdef.NewCase(g, d, f32s(d), map[string]int{"R": 3, "C": 5})
	for r := range 3 {
		c.Operands[2].SetBits(r, 0, uint32(r))
	}
	want := answer(t, c)
	for name, damage := range map[string]func(p *lower.Program){
		"nothing":             func(p *lower.Program) {},
		"swapped passes":      func(p *lower.Program) { p.Passes[0], p.Passes[1] = p.Passes[1], p.Passes[0] },
		"a dropped reduction": func(p *lower.Program) { drop(&p.Passes[0].Elements, lower.Accumulate) },
		"a dropped result":    func(p *lower.Program) { drop(&p.Passes[0].After, lower.Finish) },
		"a dropped store":     func(p *lower.Program) { drop(&p.Passes[2].Elements, lower.Store) },
		"a dropped row store": func(p *lower.Program) { drop(&p.End, lower.Store) },
		"a dropped sum":       func(p *lower.Program) { drop(&p.Passes[2].Elements, lower.Accumulate) },
		"a dropped element":   func(p *lower.Program) { drop(&p.Passes[1].Elements, lower.Compute) },
		"a dropped load":      func(p *lower.Program) { drop(&p.Passes[0].Elements, lower.Load) },
		"a dropped take":      func(p *lower.Program) { drop(&p.Passes[2].Elements, lower.Take) },
		"a dropped column":    func(p *lower.Program) { drop(&p.Once.Columns, lower.Compute) },
		"nothing before":      func(p *lower.Program) { p.Once = lower.Phase{} },
		"nothing after":       func(p *lower.Program) { p.Late = lower.Phase{} },
		"an early store": func(p *lower.Program) {
			s := p.Passes[2].Elements.With(lower.Store)[0]
			s.Node = p.Passes[1].Elements.Steps[0].Node
			p.Passes[1].Elements.Steps = append(p.Passes[1].Elements.Steps, s)
		},
		"a late load": func(p *lower.Program) {
			p.Passes[2].After = p.Start
			p.Start = lower.Block{Extent: def.PerRow}
		},
		"a value that is not kept": func(p *lower.Program) { first(&p.Passes[1].Elements, isKept).Keep = false },
		"a row value that is not kept": func(p *lower.Program) {
			first(&p.Passes[0].After, isKept).Keep = false
		},
		"an early end": func(p *lower.Program) {
			b := &p.Passes[2].Elements
			b.Steps[1].Kills = append(b.Steps[1].Kills, b.Steps[0].Node)
		},
		"no end": func(p *lower.Program) {
			first(&p.Passes[2].Elements, func(s *lower.Step) bool { return len(s.Kills) > 0 }).Kills = nil
		},
		"an end of another block's value": func(p *lower.Program) {
			b := &p.Passes[2].Elements
			last := &b.Steps[len(b.Steps)-1]
			last.Kills = append(last.Kills, b.Reads[0])
		},
		"nothing read":  func(p *lower.Program) { p.Passes[2].Elements.Reads = nil },
		"too much read": func(p *lower.Program) { p.Passes[0].Elements.Reads = p.End.Reads },
		"an unused value": func(p *lower.Program) {
			s := first(&p.Start, isKept)
			s.Keep = false
			p.Passes[2].Elements.Reads = slices.DeleteFunc(p.Passes[2].Elements.Reads, func(n *def.Node) bool { return n == s.Node })
		},
		"a scalar in a row":     func(p *lower.Program) { p.Start.Steps = append(p.Start.Steps, p.Once.Scalars.Steps[0]) },
		"a value kept longer":   func(p *lower.Program) { p.Kept[0].Last++ },
		"a value kept less":     func(p *lower.Program) { p.Kept[0].Last-- },
		"a kept value unlisted": func(p *lower.Program) { p.Kept = p.Kept[1:] },
		"another format":        func(p *lower.Program) { p.Passes[0].Elements.Steps[0].Format = num.F16 },
		"rows in all columns":   func(p *lower.Program) { p.Passes[0].After.Extent = def.PerElement },
	} {
		p := lower.NewProgram(d, f32s(d), lower.Whole(d), fixed{keeps: true, hoists: true})
		damage(p)
		if text := mistake(c.Clone(), want, p); (text == "") != (name == "nothing") {
			t.Errorf("%s: got mistake %q\n%s", name, text, p)
		}
	}
}

func isKept(s *lower.Step) bool { return s.Keep }

// first returns the first step of a kind.
func first(b *lower.Block, is func(*lower.Step) bool) *lower.Step {
	for i := range b.Steps {
		if is(&b.Steps[i]) {
			return &b.Steps[i]
		}
	}
	panic(fmt.Sprintf("no such step in %v", b))
}

// drop removes the first step with an action.
func drop(b *lower.Block, a lower.Action) {
	i := slices.IndexFunc(b.Steps, func(s lower.Step) bool { return s.Action == a })
	b.Steps = slices.Delete(slices.Clone(b.Steps), i, i+1)
}
