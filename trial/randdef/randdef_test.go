package randdef_test

import (
	"fmt"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/trial/randdef"
)

const seeds = 2000

func build(t *testing.T, seed uint64) *def.Definition {
	t.Helper()
	d, err := randdef.New(gen.Seeded(seed))
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	return d
}

func TestSameSeedSameBits(t *testing.T) {
	for seed := range uint64(seeds / 10) {
		var texts, data [2]string
		for i := range 2 {
			g := gen.Seeded(seed)
			d, err := randdef.New(g)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			c := randdef.NewCase(g, d, randdef.DTypes(g, d), randdef.Sizes(g, d, 10000))
			texts[i], data[i] = d.Text(), fmt.Sprint(c.Operands, c.Params)
		}
		if texts[0] != texts[1] {
			t.Fatalf("seed %d gives two definitions:\n%s\n%s", seed, texts[0], texts[1])
		}
		if data[0] != data[1] {
			t.Fatalf("seed %d gives two cases of one definition", seed)
		}
	}
	if a, b := build(t, 1), build(t, 2); a.Text() == b.Text() {
		t.Error("seeds 1 and 2 give the same definition")
	}
}

// TestReachesEverything fails if the generator no longer makes some node, extent,
// function or relation between operands: what it does not make is not tested.
func TestReachesEverything(t *testing.T) {
	seen := map[string]int{}
	mark := func(format string, args ...any) { seen[fmt.Sprintf(format, args...)]++ }
	for seed := range uint64(seeds) {
		d := build(t, seed)
		for _, n := range slices.Concat(d.Exec().Nodes, d.Math().Nodes) {
			mark("op %s", n.Op)
			if n.Op == def.OpCall {
				mark("function %s", n.Func.Name)
			}
			if n.Late && len(n.Args) > 0 && n.Op != def.OpColSum && n.Op != def.OpTotalSum {
				mark("late arithmetic")
			}
			if n.Op == def.OpRowSum || n.Op == def.OpColSum || n.Op == def.OpTotalSum {
				mark("%s of %s", n.Op, n.Type)
			}
			if n.Op == def.OpStored {
				mark("stored, %s, of an int32: %t", n.Extent, d.Operands[n.Operand].IsInt())
			}
			if n.Op == def.OpRandom {
				mark("random of %d", len(n.Args))
			}
			if n.Op == def.OpRandomRow && n.Args[0].Extent == def.PerRow {
				mark("random words by a seed of a row")
			}
			if n.Op == def.OpAt {
				mark("at %s", n.Args[1].Op)
			}
			if n.Op == def.OpLookup {
				mark("lookup: %s", n.Extent)
			}
			if n.Op == def.OpRound || n.Op == def.OpSRound {
				mark("%s of an operand: %t", n.Op, n.Storage.Of != "")
			}
		}
		mark("reductions %d deep", min(4, depth(d)))
		sizes := map[string]bool{}
		for _, o := range d.Operands {
			if o.IsTable() {
				sizes[o.Dims[0]] = true
			}
		}
		if n := len(sizes); n > 0 {
			mark("tables of %d size%s", n, "s"[:n-1])
		}
		for _, n := range d.Exec().Nodes {
			if n.Op.NeedsRow() {
				markBeside(d, func(what string) { mark("an ordering beside %s", what) })
				break
			}
		}
		tables, indices := map[int]map[int]bool{}, map[int]map[int]bool{} // what reads what
		for _, n := range d.Math().Nodes {
			if n.Op == def.OpLookup {
				set(tables, n.Args[0].Operand, n.Args[1].Operand)
				set(indices, n.Args[1].Operand, n.Args[0].Operand)
			}
		}
		for _, by := range tables {
			mark("a table read by %d indices", len(by))
		}
		for _, of := range indices {
			mark("an index of %d tables", len(of))
		}
		values := map[*def.Node]bool{}
		for _, o := range d.Exec().Outputs {
			mark("output: %s, %s", o.Value.Type, o.Value.Extent)
			mark("output of %s", o.Value.Op)
			if d.Operands[o.Operand].IsIn {
				mark("updated in place")
			}
			if o.Value.Op == def.OpInput {
				mark("an input as output")
			}
			if values[o.Value] {
				mark("a value stored twice")
			}
			values[o.Value] = true
		}
		for _, o := range d.Operands {
			if o.IsIn {
				mark("input: %s, index %t, exception %t", o.Extent, o.IsIndex, o.Except != "")
				if o.IsInt() && !o.IsIndex {
					mark("input of int32: %s", o.Extent)
				}
			}
			if o.DTypes.Like != "" {
				mark("stored like another")
			}
			if o.IsOut && len(d.InPlacePartners(&o)) > 0 {
				mark("may be in place")
			}
		}
		for _, p := range d.Params {
			mark("int parameter: %t", p.IsInt)
		}
		mark("flat: %t", d.IsFlat())
		mark("%d tens of values", len(d.Math().Nodes)/10)
	}
	want := []string{
		"late arithmetic", "updated in place", "an input as output", "a value stored twice", "stored like another", "may be in place",
		"reductions 0 deep", "reductions 1 deep", "reductions 2 deep", "reductions 3 deep", "reductions 4 deep",
		"flat: true", "flat: false", "int parameter: true", "int parameter: false",
		"output of rowargmax", "output of rowargmin", "output of col", "output of input", "output of param", "output of int", "output of select",
		"at rowargmax", "at rowargmin", "at int", "at input", "at param", "at select",
		"round of an operand: true", "round of an operand: false", "sround of an operand: true", "sround of an operand: false",
		"input: one value per element, index false, exception false", "input: one value per column, index false, exception false",
		"input: one value per row, index false, exception false", "input: one value per row, index true, exception false",
		"input: one value per row, index true, exception true",
		"input of int32: one value per element", "input of int32: one value per column", "input of int32: one value per row",
		"rowsum of int32", "colsum of int32", "totalsum of int32", "random of 4", "random of 6", "random words by a seed of a row",
		"stored, one value per element, of an int32: false", "stored, one value per element, of an int32: true",
		"stored, one value per column, of an int32: false", "stored, one value per row, of an int32: true",
		"lookup: one value per element", "lookup: one value per row", "tables of 1 size", "tables of 2 sizes", "a table read by 2 indices", "an index of 2 tables",
		"output: float, one value per slot", "output: int32, one value per slot", "input: one value per slot, index false, exception false",
		"an ordering beside a table", "an ordering beside int32 of a row", "an ordering beside int32 of elements", "an ordering beside an index",
		"an ordering beside colsum", "an ordering beside totalsum", "an ordering beside stored", "an ordering beside element", "an ordering beside randomrow",
		"0 tens of values", "1 tens of values", "4 tens of values",
	}
	for op := def.OpInput; op <= def.OpCall; op++ {
		if op != def.OpArg {
			want = append(want, "op "+op.String())
		}
	}
	for e := def.Scalar; e <= def.PerElement; e++ {
		want = append(want, "output: float, "+e.String(), "output: int32, "+e.String())
	}
	for _, f := range fn.All {
		want = append(want, "function "+f.Name)
	}
	for _, w := range want {
		if seen[w] < 3 {
			t.Errorf("%q: seen %d times in %d definitions, want at least 3", w, seen[w], seeds)
		}
	}
}

// markBeside marks what a definition has.
func markBeside(d *def.Definition, mark func(what string)) {
	for _, o := range d.Operands {
		switch {
		case o.IsTable():
			mark("a table")
		case o.IsIndex:
			mark("an index")
		case o.IsIn && o.IsInt() && o.Extent == def.PerRow:
			mark("int32 of a row")
		case o.IsIn && o.IsInt() && o.Extent == def.PerElement:
			mark("int32 of elements")
		}
	}
	for _, n := range d.Exec().Nodes {
		mark(n.Op.String())
	}
}

func set(m map[int]map[int]bool, i, k int) {
	if m[i] == nil {
		m[i] = map[int]bool{}
	}
	m[i][k] = true
}

// depth is the longest chain of row reductions, each over elements that need the one before.
func depth(d *def.Definition) int {
	levels := make([]int, len(d.Exec().Nodes))
	most := 0
	for _, n := range d.Exec().Nodes {
		for _, a := range n.Args {
			levels[n.ID] = max(levels[n.ID], levels[a.ID])
		}
		if n.Op.IsRowReduction() {
			levels[n.ID]++
		}
		most = max(most, levels[n.ID])
	}
	return most
}

// TestSizesReachBoundaries looks for the lengths at which lowerings change their ways.
func TestSizesReachBoundaries(t *testing.T) {
	d := def.Must(def.Rowwise("copy", func(b *def.Builder) { b.Out("y", b.In("x")) }))
	g := gen.New("sizes")
	columns, tall := map[int]bool{}, false
	for range 5000 {
		s := randdef.Sizes(g, d, 1<<20)
		if s["R"] < 1 || s["C"] < 1 || s["R"]*s["C"]*2 > 1<<20 {
			t.Fatalf("sizes %v: want at least 1 each and no more work than the limit", s)
		}
		columns[s["C"]] = true
		tall = tall || s["R"] > num.ColLanes(s["C"])
	}
	for _, c := range []int{1, 7, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 4097, 8193, 1<<16 + 1} {
		if !columns[c] {
			t.Errorf("never %d columns", c)
		}
	}
	if !tall {
		t.Error("never more rows than a column sum has lanes")
	}
	if s := randdef.Sizes(g, d, 0); s["R"] != 1 || s["C"] != 1 {
		t.Errorf("sizes %v for no work at all, want 1 and 1", s)
	}
}

// TestDiffSees changes every kind of thing that Diff is there to notice.
func TestDiffSees(t *testing.T) {
	d := def.Must(def.Rowwise("copy", func(b *def.Builder) {
		x := b.In("x", def.Only(num.F16))
		b.Out("y", x, def.Only(num.F16))
	}))
	g := gen.New("diff")
	sizes := map[string]int{"R": 3, "C": 4}
	want := randdef.NewCase(g, d, []num.DType{num.F16, num.F16}, sizes)
	for want.Operands[1].Stride == 4 { // until there are gaps
		want = randdef.NewCase(g, d, []num.DType{num.F16, num.F16}, sizes)
	}
	if text := randdef.Diff(want.Clone(), want); text != "" {
		t.Fatalf("a copy differs: %s", text)
	}
	flip := func(operand, r, c int) func(*randdef.Case) {
		return func(k *randdef.Case) {
			a := k.Operands[operand]
			a.SetBits(r, c, a.Bits(r, c)^1)
		}
	}
	for _, test := range []struct {
		name   string
		change func(c *randdef.Case)
	}{
		{"the first output", flip(1, 0, 0)},
		{"the last output", flip(1, 2, 3)},
		{"an input", flip(0, 1, 1)},
		{"a gap", flip(1, 1, 4)},
		{"a zero's sign", func(c *randdef.Case) {
			want.Operands[1].SetBits(0, 0, 0)
			c.Operands[1].SetBits(0, 0, 0x8000)
		}},
	} {
		got := want.Clone()
		test.change(got)
		if randdef.Diff(got, want) == "" {
			t.Errorf("%s changed: no difference seen", test.name)
		}
	}

	nan := want.Clone()
	want.Operands[1].SetBits(0, 0, 0x7e01)
	nan.Operands[1].SetBits(0, 0, 0xfe00)
	if text := randdef.Diff(nan, want); text != "" {
		t.Errorf("two NaN differ: %s", text)
	}
	want.Operands[0].SetBits(0, 0, 0x7e01)
	nan.Operands[0].SetBits(0, 0, 0x7e02)
	if randdef.Diff(nan, want) == "" {
		t.Error("an input's NaN changed: no difference seen")
	}
}

func TestInPlace(t *testing.T) {
	d := def.Must(def.Rowwise("copy", func(b *def.Builder) {
		x, z := b.In("x"), b.In("z")
		b.Out("y", x)
		b.Out("w", z)
	}))
	g := gen.New("in place")
	c := randdef.NewCase(g, d, []num.DType{num.F32, num.F16, num.F16, num.F32}, map[string]int{"R": 2, "C": 5})
	n, ok := c.InPlace(g)
	if !ok || &n.Operands[2].Data[0] != &n.Operands[1].Data[0] || &n.Operands[3].Data[0] != &n.Operands[0].Data[0] {
		t.Fatal("outputs do not take the places of the inputs of their format")
	}
	n.Operands[2].SetBits(1, 1, n.Operands[2].Bits(1, 1)^1)
	if randdef.Diff(n, c) == "" {
		t.Error("an output in place changed: no difference seen")
	}
	if _, ok := randdef.NewCase(g, d, []num.DType{num.F32, num.F32, num.F16, num.BF16}, map[string]int{"R": 2, "C": 5}).InPlace(g); ok {
		t.Error("an output takes the place of an input in another format")
	}
}
