package lower_test

import (
	"fmt"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/internal/randdef"
	"tokitai/lower"
)

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
		if got := len(lower.NewSchedule(d).Passes); got != test.passes {
			t.Errorf("%s: got %d passes, want %d", test.name, got, test.passes)
		}
	}
}

// TestScheduleOrder follows schedules of random definitions as a machine would:
// every value is computed once all it needs is known, inputs are read before they
// can be overwritten, and nothing is left out.
func TestScheduleOrder(t *testing.T) {
	for seed := range uint64(800) {
		d, err := randdef.New(gen.Seeded(seed))
		if err != nil {
			t.Fatal(err)
		}
		if mistake := follow(d, lower.NewSchedule(d)); mistake != "" {
			t.Fatalf("seed %d: %s\n%s", seed, mistake, d.Text())
		}
	}
}

// TestFollowSees damages schedules: what TestScheduleOrder relies on has to notice.
func TestFollowSees(t *testing.T) {
	d := def.Must(def.Rowwise("softmax", func(b *def.Builder) {
		x := b.In("x")
		e := fn.Exp(x.Sub(def.RowMax(x)))
		b.Out("y", e.Div(def.RowSum(e)))
		b.OutRow("z", x.At(def.IntConst(3)))
		b.OutCol("w", def.ColSum(x))
	}))
	if mistake := follow(d, lower.NewSchedule(d)); mistake != "" {
		t.Fatal(mistake)
	}
	for name, damage := range map[string]func(s *lower.Schedule){
		"swapped passes":      func(s *lower.Schedule) { s.Passes[0], s.Passes[1] = s.Passes[1], s.Passes[0] },
		"a dropped reduction": func(s *lower.Schedule) { s.Passes[0].Reductions = nil },
		"a dropped store":     func(s *lower.Schedule) { s.Passes[2].Stores = nil },
		"an early store":      func(s *lower.Schedule) { s.Passes[1].Stores, s.Passes[2].Stores = s.Passes[2].Stores, nil },
		"a dropped sum":       func(s *lower.Schedule) { s.Passes[2].Sums = nil },
		"a dropped element":   func(s *lower.Schedule) { s.Passes[1].Elements = s.Passes[1].Elements[1:] },
		"a late load": func(s *lower.Schedule) {
			s.Passes[2].After, s.Start = s.Start, nil
		},
		"nothing before": func(s *lower.Schedule) { s.Once = nil },
		"nothing after":  func(s *lower.Schedule) { s.Late = nil },
	} {
		s := lower.NewSchedule(d)
		damage(&s)
		if follow(d, s) == "" {
			t.Errorf("%s: not noticed", name)
		}
	}
}

// follow computes a schedule symbolically and returns the first mistake.
func follow(d *def.Definition, s lower.Schedule) string {
	known := map[*def.Node]bool{}
	know := func(where string, n *def.Node, args []*def.Node) string {
		for _, a := range args {
			if !known[a] {
				return fmt.Sprintf("%s computes %s before its %s", where, n.Op, a.Op)
			}
		}
		known[n] = true
		return ""
	}
	var mistake string
	note := func(text string) {
		if mistake == "" {
			mistake = text
		}
	}
	for _, n := range s.Once {
		if n.Extent&def.PerRow != 0 || n.Late {
			note(fmt.Sprintf("%s changes from row to row, but is computed once", n.Op))
		}
		note(know("the beginning", n, n.Args))
	}
	stored := false
	row := func(where string, n *def.Node) {
		if n.Extent != def.PerRow || n.Late {
			note(fmt.Sprintf("%s has no value per row", n.Op))
		}
		switch {
		case lower.IsRowLoad(n):
			if stored {
				note("a load after the outputs have replaced inputs")
			}
			note(know(where, n, n.Args[1:]))
		case n.Op.IsRowReduction():
			if !known[n] {
				note(fmt.Sprintf("%s of a row that has not been walked over", n.Op))
			}
		default:
			note(know(where, n, n.Args))
		}
	}
	for _, n := range s.Start {
		row("the row's beginning", n)
	}
	outputs, sums := 0, 0
	for i, p := range s.Passes {
		where := fmt.Sprintf("pass %d", i)
		if stored {
			note("a pass after the outputs have replaced inputs")
		}
		for _, n := range p.Elements {
			if n.Extent != def.PerElement || n.Late {
				note(fmt.Sprintf("%s has no value per element", n.Op))
			}
			note(know(where, n, n.Args))
		}
		for _, n := range p.Reductions {
			if !slices.Contains(p.After, n) {
				note(fmt.Sprintf("the result of %s is not taken", n.Op))
			}
			note(know(where, n, n.Args))
		}
		for _, n := range p.Sums {
			sums++
			if !known[n.Args[0]] {
				note("a sum of values that are not known")
			}
		}
		for _, o := range p.Stores {
			outputs++
			stored = true
			if !known[o.Value] {
				note("a store of a value that is not known")
			}
		}
		for _, n := range p.After {
			row(where, n)
		}
		for _, n := range p.Elements {
			delete(known, n) // each pass computes its own
		}
	}
	for _, n := range s.Late {
		if n.Op == def.OpColSum || n.Op == def.OpTotalSum {
			sums--
			known[n] = true
			continue
		}
		note(know("the end", n, n.Args))
	}
	if sums != 0 {
		note("sums are not added up as often as they are taken")
	}
	for _, o := range d.Exec.Outputs {
		if o.Value.Extent == def.PerElement {
			outputs--
		} else if !known[o.Value] {
			note(fmt.Sprintf("the value of %s is never known", d.Operands[o.Operand].Name))
		}
	}
	if outputs != 0 {
		note("not every output is stored once")
	}
	return mistake
}
