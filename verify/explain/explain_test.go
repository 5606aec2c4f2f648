package explain_test

import (
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/trial"
	"tokitai/verify/cases"
	"tokitai/verify/explain"
)

func twice() *cases.Target {
	d := def.Must(def.Rowwise("test.twice", func(b *def.Builder) { x := b.In("x"); b.Out("y", x.Add(x), def.Like("x")) }))
	return cases.New(cases.Facts{Definition: d, DType: num.F32, Formats: d.Formats()[:1], IsBits: true, Checks: func() []cases.Check { return nil }})
}

// TestWhen checks that a condition on sizes, layouts or values is found, and that its boundary is made
// exact by further cases.
func TestWhen(t *testing.T) {
	t.Parallel()
	target := twice()
	size := func(c *cases.Case, letter string) int { n, _ := c.Size(letter); return n }
	inputs := func(c *cases.Case) []num.Array {
		operands := trial.New(target.Definition, c.Formats, c.Lengths(), func(int) trial.Layout { return trial.Layout{} }).Arrays()
		target.Fill(c, 1, operands)
		return operands
	}
	hasNaN := func(c *cases.Case) bool {
		a := inputs(c)[0]
		for r := range a.Rows {
			for col := range a.Cols {
				if v := a.At(r, col); v != v {
					return true
				}
			}
		}
		return false
	}
	isAbove := func(c *cases.Case) bool { // and large negative numbers are no fault
		a := inputs(c)[0]
		for r := range a.Rows {
			for col := range a.Cols {
				if v := a.At(r, col); v > 2.5 && v <= math.MaxFloat32 {
					return true
				}
			}
		}
		return false
	}
	for _, test := range []struct {
		want  string
		fails func(c *cases.Case) bool
	}{
		{"only where C is odd: all ", func(c *cases.Case) bool { return size(c, "C")%2 == 1 }},
		{"only where C > 700: all ", func(c *cases.Case) bool { return size(c, "C") > 700 }},
		{"only where rows have gaps between them: all ", func(c *cases.Case) bool { return c.Gap > 0 }},
		{"only where a NaN is among the inputs: all ", hasNaN},
		{"where a NaN is among the inputs (", func(c *cases.Case) bool { return hasNaN(c) || size(c, "C") > 32 }}, // and not where a subnormal is, as in most of these
		{"only where the largest x ≥ ", isAbove},
		{"in ", func(c *cases.Case) bool { // at random, and always with gaps: two conditions say no more than that most fail
			h := fnv.New32()
			h.Write([]byte(c.Name(target)))
			return c.Gap > 0 || h.Sum32()%16 < 11
		}},
		{"always: all ", func(*cases.Case) bool { return true }},
	} {
		var examples []*explain.Example
		for _, c := range target.List(&cases.Request{Level: cases.Smoke}) {
			examples = append(examples, &explain.Example{Case: c, Fails: test.fails(c), Params: target.Params(c)})
		}
		tried := 0
		s := &explain.Search{Target: target, Inputs: inputs, Try: func(c *cases.Case) (fails, ok bool) { tried++; return test.fails(c), true }}
		if got := s.When(examples); !strings.HasPrefix(got, test.want) {
			t.Errorf("after %d further cases: got %q, want %q", tried, got, test.want)
		}
	}
}

// TestWhenIndices checks that indices are told apart from the value that stands for none, and both are named by their operand.
func TestWhenIndices(t *testing.T) {
	t.Parallel()
	d := def.Must(def.Rowwise("test.pick", func(b *def.Builder) {
		x, none := b.In("x"), b.IntParam("none", def.Default(-100))
		b.OutRow("y", x.At(b.InIndex("label", none)), def.Like("x"))
	}))
	target := cases.New(cases.Facts{Definition: d, DType: num.F32, Formats: d.Formats()[:1], IsBits: true, Checks: func() []cases.Check { return nil }})
	for want, beside := range map[string]int32{ // the value that stands for none
		"only where label equals none somewhere: all ":           0,
		"only where a value of label is outside of 0..C-1: all ": -1,
	} {
		fails := func(c *cases.Case) bool { return len(c.Name(target))%3 == 0 }
		var examples []*explain.Example
		for _, c := range target.List(&cases.Request{Level: cases.Smoke}) {
			examples = append(examples, &explain.Example{Case: c, Fails: fails(c), Params: target.Params(c)})
		}
		s := &explain.Search{
			Target: target,
			Try:    func(*cases.Case) (fails, ok bool) { return false, false },
			Inputs: func(c *cases.Case) []num.Array {
				operands := trial.New(d, c.Formats, c.Lengths(), func(int) trial.Layout { return trial.Layout{} }).Arrays()
				target.Fill(c, 1, operands)
				a := operands[1]
				for i := range a.Rows * a.Cols {
					a.SetBits(i/a.Cols, i%a.Cols, 0)
				}
				if fails(c) && a.Rows*a.Cols > 0 {
					a.SetBits(0, 0, uint32(int32(target.Params(c)[0])+beside))
				}
				return operands
			},
		}
		if got := s.When(examples); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestWhere checks that the places of wrong elements are described by rows and columns.
func TestWhere(t *testing.T) {
	t.Parallel()
	o := &twice().Definition.Operands[1]
	a := num.NewArray(num.F32, 6, 40)
	for want, isWrong := range map[string]func(r, c int) bool{
		"column ≥ 32":                   func(_, c int) bool { return c >= 32 },
		"the last row, 5":               func(r, _ int) bool { return r == 5 },
		"row from 2 to 4":               func(r, _ int) bool { return 2 <= r && r <= 4 },
		"every 8th column from 3 on":    func(_, c int) bool { return c%8 == 3 },
		"all 240 elements of y":         func(int, int) bool { return true },
		"y[0,0] alone, of 240 elements": func(r, c int) bool { return r+c == 0 },
		"row from 2 to 4 and column from 9 to 15: all 21 such elements of y": func(r, c int) bool { return 2 <= r && r <= 4 && 9 <= c && c <= 15 },
		// A rule of two conditions, or none, says less than the names of a few elements.
		"y[2,8] and y[4,8] alone, of 240 elements":          func(r, c int) bool { return c == 8 && (r == 2 || r == 4) },
		"y[0,1], y[1,8] and y[2,15] alone, of 240 elements": func(r, c int) bool { return r < 3 && c == 7*r+1 },
	} {
		var places []trial.Place
		for r := range a.Rows {
			for c := range a.Cols {
				if isWrong(r, c) {
					places = append(places, trial.Place{Operand: 1, Row: r, Col: c})
				}
			}
		}
		if got := explain.Where(o, a, places, func(r, c int) string { return fmt.Sprintf("y[%d,%d]", r, c) }); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
