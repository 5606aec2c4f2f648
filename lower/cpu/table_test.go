package cpu_test

import (
	"fmt"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/cputest"
	"tokitai/num"
	"tokitai/trial/randdef"
)

var gather = def.Must(def.Gather("rows", def.GatherForm{Index: "index", Table: "table", Out: "out"}))

var scatters = []*def.Definition{
	def.Must(def.ScatterAdd("sums", def.ScatterForm{Index: "index", Rows: "rows", Result: "result"})),
	def.Must(def.ScatterAdd("sums.accumulate", def.ScatterForm{Index: "index", Rows: "rows", Result: "result", Accumulate: true})),
}

// compareTable compares a program with the reference on one case.
func compareTable(t *testing.T, c *randdef.Case, workers int, g *gen.Generator) *randdef.Case {
	t.Helper()
	dtypes := cputest.DTypesOf(c.Operands)
	p, err := lowercpu.Compile(c.Definition, dtypes, lowercpu.Short)
	if err != nil {
		t.Fatal(err)
	}
	if p.String() == "" {
		t.Error("the program lists nothing")
	}
	want, got := answer(t, c), c.Clone()
	cputest.Execute(p, cputest.CallOf(got), workers, g)
	report(t, got, want, p, "%s %v, %d queries, %d workers", c.Definition.Name, dtypes, c.Operands[0].Rows, workers)
	return got
}

// TestGather copies rows, those of bad indices as zeros. The data are any
// patterns, so NaN payloads must be kept.
func TestGather(t *testing.T) {
	g := gen.New("gather")
	for _, dtype := range num.FloatDTypes {
		for _, s := range [][3]int{{1, 1, 1}, {5, 3, 7}, {40, 4, 9}, {3, 70, 513}, {200, 2, 1}, {2, 2, 40000}} {
			c := randdef.NewCase(g, gather, []num.DType{num.I32, dtype, dtype}, map[string]int{"Q": s[0], "V": s[1], "D": s[2]})
			for r := range c.Operands[1].Rows {
				for k := range c.Operands[1].Cols {
					c.Operands[1].SetBits(r, k, uint32(g.Next()))
				}
			}
			got := compareTable(t, c, 3, g)
			for q := range s[0] {
				if v := int(c.Operands[0].Int(q, 0)); v < 0 || v >= s[1] {
					if bits := got.Operands[2].Bits(q, s[2]-1); bits != 0 {
						t.Errorf("%s: row of the bad index %d holds 0x%x, want zeros", dtype, v, bits)
					}
				}
			}
		}
	}
	// A signalling NaN with a payload is a pattern like any other.
	c := randdef.NewCase(g, gather, []num.DType{num.I32, num.F16, num.F16}, map[string]int{"Q": 1, "V": 1, "D": 1})
	c.Operands[0].SetBits(0, 0, 0)
	c.Operands[1].SetBits(0, 0, 0xfd01)
	if got := compareTable(t, c, 1, g).Operands[2].Bits(0, 0); got != 0xfd01 {
		t.Errorf("NaN 0xfd01 was copied as 0x%04x", got)
	}
}

func TestScatterAdd(t *testing.T) {
	g := gen.New("scatter")
	for _, d := range scatters {
		for _, dtypes := range [][2]num.DType{
			{num.F16, num.F16}, {num.F16, num.F32}, {num.BF16, num.BF16}, {num.BF16, num.F32}, {num.F32, num.F32},
		} {
			t.Run(fmt.Sprintf("%s/%v", d.Name, dtypes), func(t *testing.T) {
				for _, s := range [][3]int{ // Q, V, D
					{1, 1, 1}, {7, 3, 2}, {63, 1, 3}, {64, 1, 3}, {65, 1, 3}, {127, 1, 2}, {128, 1, 2}, {129, 1, 2}, {200, 2, 3},
					{300, 3, 7}, {40, 33, 5}, {9, 70, 515}, {5, 2, 1025}, {2, 100, 1},
				} {
					for range 3 { // as many kinds of data
						c := randdef.NewCase(g, d, []num.DType{num.I32, dtypes[0], dtypes[1]}, map[string]int{"Q": s[0], "V": s[1], "D": s[2]})
						compareTable(t, c, workerCounts[g.Below(len(workerCounts))], g)
					}
				}
			})
		}
	}
}

// TestScatterF16KnownAnswers has answers worked out by hand: exact sums of f16
// values, with an old value or without, rounded once.
func TestScatterF16KnownAnswers(t *testing.T) {
	for _, test := range cputest.ScatterAnswers() {
		d := scatters[len(test.Old)]
		dtypes := []num.DType{num.I32, num.F16, test.Result}
		c := randdef.NewCase(gen.New(test.Name), d, dtypes, map[string]int{"Q": len(test.Values), "V": 2, "D": 1})
		for q, v := range test.Values {
			c.Operands[0].SetBits(q, 0, 1)
			c.Operands[1].Set(q, 0, float32(v))
		}
		for _, v := range test.Old {
			c.Operands[2].Set(1, 0, float32(v))
		}
		untouched := c.Operands[2].Bits(0, 0)
		got := compareTable(t, c, 2, gen.New(test.Name))
		if bits := num.Canonical(test.Result, got.Operands[2].Bits(1, 0)); bits != test.Want {
			t.Errorf("%s: got 0x%x, want 0x%x", test.Name, bits, test.Want)
		}
		rest := uint32(0)
		if d.Accumulates() {
			rest = untouched
		}
		if bits := got.Operands[2].Bits(0, 0); bits != rest {
			t.Errorf("%s: the row that no index names holds 0x%x, want 0x%x", test.Name, bits, rest)
		}
	}
}

// TestScatterF16OldValues adds exact sums to old f32 values that are no multiples
// of 2^-24, at every distance between the two.
func TestScatterF16OldValues(t *testing.T) {
	g := gen.New("old values")
	for range 40 {
		c := randdef.NewCase(g, scatters[1], []num.DType{num.I32, num.F16, num.F32}, map[string]int{"Q": 70, "V": 3, "D": 20})
		for r := range 3 {
			for k := range 20 {
				c.Operands[2].Set(r, k, g.Exponents(-60, 45))
			}
		}
		compareTable(t, c, 2, g)
	}
}

// TestScatterF16OrderFree permutes the queries: an exact sum has no order.
func TestScatterF16OrderFree(t *testing.T) {
	g := gen.New("order")
	const queries, width = 150, 9
	for _, d := range scatters {
		for _, result := range []num.DType{num.F16, num.F32} {
			dtypes := []num.DType{num.I32, num.F16, result}
			p, err := lowercpu.Compile(d, dtypes, lowercpu.Short)
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				c := randdef.NewCase(g, d, dtypes, map[string]int{"Q": queries, "V": 2, "D": width})
				want, permuted := c.Clone(), c.Clone()
				order := make([]int, queries)
				for i := range order {
					k := g.Below(i + 1)
					order[i], order[k] = order[k], i
				}
				for q, from := range order {
					permuted.Operands[0].SetBits(q, 0, c.Operands[0].Bits(from, 0))
					for k := range width {
						permuted.Operands[1].SetBits(q, k, c.Operands[1].Bits(from, k))
					}
				}
				cputest.Execute(p, cputest.CallOf(want), 1, g)
				cputest.Execute(p, cputest.CallOf(permuted), 3, g)
				if f := permuted.Memory.Difference(want.Operands); f != nil {
					t.Fatalf("%s to %s: in another order: %v", d.Name, result, f)
				}
			}
		}
	}
}

// TestScatterF16VeryLongSum has more terms than 64 bits certainly hold.
func TestScatterF16VeryLongSum(t *testing.T) {
	testlevel.Need(t, testlevel.Quick, "four million terms take seconds")
	const queries = 1<<22 + 3
	c := randdef.NewCase(gen.New("very long"), scatters[0], []num.DType{num.I32, num.F16, num.F32}, map[string]int{"Q": queries, "V": 1, "D": 1})
	for q := range queries {
		c.Operands[0].SetBits(q, 0, 0)
		c.Operands[1].SetBits(q, 0, 0x7bff)
	}
	got := compareTable(t, c, 1, gen.New("very long"))
	want := float64(queries) * 65504
	if v := float64(got.Operands[2].At(0, 0)); v != float64(float32(want)) {
		t.Errorf("%d times 65504 is %v, want %v", queries, v, want)
	}
}
