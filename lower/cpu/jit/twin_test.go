package jit_test

import (
	"fmt"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/lower/cpu"
	"tokitai/lower/cpu/cputest"
	"tokitai/lower/cpu/jit"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/reference"
	"tokitai/trial/randdef"
)

// sets returns the instruction sets that this machine generates code for.
func sets(t testing.TB) []machine.Set {
	t.Helper()
	list := machine.Available()
	list = list[:len(list)-1]
	if len(list) == 0 {
		t.Skip(machine.Note())
	}
	return list
}

// twin compares the code of one definition in one choice of formats with another answer.
type twin struct {
	d        *def.Definition
	dtypes   []num.DType
	sets     []machine.Set
	programs map[string]cpu.Program // by set and class
}

func newTwin(t testing.TB, d *def.Definition, dtypes []num.DType) *twin {
	t.Helper()
	return &twin{d, dtypes, sets(t), map[string]cpu.Program{}}
}

// program returns the code for a call.
func (w *twin) program(t testing.TB, set machine.Set, class jit.Class) cpu.Program {
	t.Helper()
	name := fmt.Sprint(set, class)
	p, ok := w.programs[name]
	if !ok {
		var err error
		if p, err = jit.Compile(w.d, w.dtypes, class, set); err != nil {
			t.Fatal(err)
		}
		w.programs[name] = p
	}
	return p
}

// interpreted returns the case with the interpreter's outputs.
func (w *twin) interpreted(t testing.TB, c *randdef.Case, g *gen.Generator) *randdef.Case {
	t.Helper()
	p, err := cpu.Compile(w.d, w.dtypes, cpu.Short)
	if err != nil {
		t.Fatal(err)
	}
	want := c.Clone()
	cputest.Execute(p, cputest.CallOf(want), 1, g)
	return want
}

// compare runs a case with every set and with the code of every class, out of place
// and in place.
func (w *twin) compare(t testing.TB, c, want *randdef.Case, g *gen.Generator) {
	t.Helper()
	class := jit.ClassOf(w.d, cputest.CallOf(c))
	for _, set := range w.sets {
		for _, class := range []jit.Class{class, class ^ jit.Long, class ^ jit.Streamed} {
			p := w.program(t, set, class)
			got := c.Clone()
			workers := 1 + g.Below(4)
			cputest.Execute(p, cputest.CallOf(got), workers, g)
			w.report(t, got, want, p, fmt.Sprintf("%v, class %d, %d workers", set, class, workers))
		}
		if got, ok := c.InPlace(g); ok {
			p := w.program(t, set, class)
			cputest.Execute(p, cputest.CallOf(got), 2, g)
			w.report(t, got, want, p, fmt.Sprintf("%v, in place", set))
		}
	}
}

func (w *twin) report(t testing.TB, got, want *randdef.Case, p cpu.Program, how string) {
	t.Helper()
	if text := randdef.Diff(got, want); text != "" {
		t.Fatalf("%s: %s\n%s\nparams %v\n%s", how, text, w.d.Text(), want.Params, p)
	}
}

// shipped returns the rowwise definitions of the shipped operations.
func shipped() []*def.Definition {
	var list []*def.Definition
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if d.Expression() != nil {
				list = append(list, d)
			}
		}
	}
	return list
}

// TestShippedDefinitions compares the shipped definitions in all their formats with the
// interpreter.
func TestShippedDefinitions(t *testing.T) {
	widths := testlevel.Pick([]int{1, 67}, []int{1, 3, 16, 67, 300, 1025, 2500, 9000})
	for _, d := range shipped() {
		t.Run(d.Name, func(t *testing.T) {
			g := gen.New(d.Name)
			for _, dtypes := range d.Formats() {
				w := newTwin(t, d, dtypes)
				for _, cols := range widths {
					c := randdef.NewCase(g, d, dtypes, map[string]int{"R": 1 + g.Below(9), "C": cols})
					w.compare(t, c, w.interpreted(t, c, g), g)
				}
			}
		})
	}
}

// TestLengths compares rows of every length from 1 to 300: some shipped definitions in some
// formats, and all of them at a higher level.
func TestLengths(t *testing.T) {
	step, formats := testlevel.Pick(7, 1), testlevel.Pick(1, 100)
	for i, d := range shipped() {
		t.Run(d.Name, func(t *testing.T) {
			g := gen.New(d.Name)
			choices := d.Formats()
			for k := range min(formats, len(choices)) {
				dtypes := choices[(i+k)%len(choices)]
				w := newTwin(t, d, dtypes)
				for cols := 1 + i%step; cols <= 300; cols += step {
					c := randdef.NewCase(g, d, dtypes, map[string]int{"R": 1 + cols%3, "C": cols})
					w.compare(t, c, w.interpreted(t, c, g), g)
				}
			}
		})
	}
}

// TestRandomDefinitions compares random definitions with the reference.
func TestRandomDefinitions(t *testing.T) {
	count, work := testlevel.Pick(60, 600, 20_000), 30_000
	for seed := range count {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			g := gen.Seeded(uint64(seed))
			d, err := randdef.Sized(g, 1+g.Below(1+g.Below(randdef.MaxSteps)))
			if err != nil {
				t.Fatal(err)
			}
			limit := work
			if seed%50 == 49 {
				limit = 40 * work // long rows, and column sums beyond their lanes
			}
			w := newTwin(t, d, randdef.DTypes(g, d))
			for range 3 {
				c := randdef.NewCase(g, d, w.dtypes, randdef.Sizes(g, d, limit))
				want := c.Clone()
				if err := reference.Run(d, want.Operands, reference.Options{Params: want.Params}); err != nil {
					t.Fatal(err)
				}
				w.compare(t, c, want, g)
			}
		})
	}
}
