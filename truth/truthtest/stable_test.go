package truthtest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"tokitai/accuracy"
	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op"
	"tokitai/truth"
	"tokitai/truth/internal/tune"
)

// TestStableAdmitsReference checks that the reference's results are admitted, with the heights of
// the definition's own order.
func TestStableAdmitsReference(t *testing.T) {
	for _, run := range runs(t) {
		if run.Data.Definition.IsExact() {
			continue
		}
		name := fmt.Sprintf("%s/%s", run.Data.Definition.Name, run.Data.Name)
		answer, err := run.Answer()
		if err != nil {
			t.Fatal(err)
		}
		s, err := truth.EncloseStable(run.Data.Definition, run.Operands, truth.StableOptions{Params: run.Data.Params})
		if err != nil {
			t.Fatal(err)
		}
		known := 0
		eachOutput(run.Data.Definition, run.Operands, func(i, r, c int) {
			if !s.Known(i, r, c) {
				return
			}
			known++
			if bits := answer[i].Bits(r, c); !s.Admits(i, r, c, s.MostHeight(), bits) {
				lo, hi := s.Between(i, r, c, s.MostHeight())
				d := run.Operands[i].DType
				t.Fatalf("%s: %s[%d,%d] is %v, want %v to %v", name, run.Data.Definition.Operands[i].Name, r, c, num.Widen(d, bits), num.Widen(d, lo), num.Widen(d, hi))
			}
		})
		if known == 0 {
			t.Errorf("%s: no element is known", name)
		}
	}
}

// others are definitions of kinds that no shipped operation has.
var others = []*def.Definition{
	rowwise("three_sums", func(b *def.Builder) {
		x, w := b.In("x"), b.InCol("w")
		n := b.Columns()
		mean := def.RowSum(x).Div(n)
		square := def.RowSum(x.Mul(x)).Div(n)
		cube := def.RowSum(x.Mul(x).Mul(x.Mul(w))).Div(n)
		b.Out("y", x.Sub(mean).Mul(square).Add(cube.Mul(w)), def.Like("x"))
		b.OutRow("z", mean.Mul(square).Sub(cube), def.Only(num.F32))
	}),
	rowwise("extremes", func(b *def.Builder) {
		x := b.In("x")
		b.Out("y", x.Abs().Div(def.RowMax(x.Abs())).Sub(def.RowMin(x)).Add(x.At(def.IntConst(2))), def.Like("x"))
	}),
	rowwise("column_and_total", func(b *def.Builder) {
		x, w := b.In("x"), b.InCol("w")
		y := x.Mul(w).Mul(def.RowSum(x).Add(def.Const(40)))
		column, total := def.ColSum(y), def.TotalSum(y.Mul(x))
		b.OutCol("c", column.Mul(w), def.Only(num.F32))
		b.OutScalar("t", fn.Log(total.Abs()), def.Only(num.F32))
	}),
	rowwise("functions", func(b *def.Builder) {
		x := b.In("x")
		a := x.Abs().Add(def.Half).As("a")
		y := fn.Exp(a.Neg()).Add(fn.Log(a)).Add(fn.Tanh(x)).Add(fn.Sigmoid(x)).Add(fn.Erf(x))
		y = y.Add(fn.Rsqrt(a)).Add(fn.Recip(a)).Add(fn.Exp2(x)).Add(fn.Log2(a)).Add(fn.Log1p(a)).Add(fn.Sin(x)).Mul(fn.Cos(x)).Add(a.Sqrt())
		b.Out("y", y.Min(a.Mul(def.Const(40))).Max(a.Neg()), def.Like("x"))
	}),
}

// shared are definitions whose bound exceeds the inequality: a value of one column acts on the sum
// of another through a reduction of each row, and its effects are added row by row; or an output is
// computed from two sums over rows.
var shared = []*def.Definition{
	rowwise("weights_in_rows", func(b *def.Builder) {
		x, w := b.In("x"), b.InCol("w")
		dot := def.RowSum(x.Mul(w.Mul(w)))
		b.OutCol("c", def.ColSum(x.Mul(dot).Mul(w)), def.Only(num.F32))
		b.OutScalar("t", def.TotalSum(x.Mul(dot).Mul(fn.Exp(w))), def.Only(num.F32))
	}),
	rowwise("two_late_sums", func(b *def.Builder) {
		x := b.In("x")
		mean := def.ColSum(x).Div(b.Rows())
		b.OutCol("variance", def.ColSum(x.Mul(x)).Div(b.Rows()).Sub(mean.Mul(mean)), def.Only(num.F32))
		b.OutCol("ratio", mean.Div(def.TotalSum(x.Abs())), def.Only(num.F32))
	}),
	rowwise("extremes_of_equals", func(b *def.Builder) {
		x := b.In("x")
		y := x.Rint().As("y")
		b.Out("z", x.Mul(def.RowMax(y)).Add(def.RowMin(y.Abs()).Mul(x)).Scale(x.Rint()), def.Like("x"))
	}),
}

// TestStableInequality checks that the bound is that of the inequality, which is computed here by one
// evaluation for each value that has an error, up to second order.
func TestStableInequality(t *testing.T) {
	hold := func(name string, d *def.Definition, operands []num.Array, params []float64) {
		s, err := truth.EncloseStable(d, operands, truth.StableOptions{Params: params})
		if err != nil {
			t.Fatal(err)
		}
		want := newModel(t, d, operands, params).inequality()
		for operand, bounds := range want {
			for i, first := range bounds {
				r, c := i/operands[operand].Cols, i%operands[operand].Cols
				got := s.Error(operand, r, c, s.MostHeight())
				// The errors are below 2^-16 of the values, so a second order of 2^-8 is large.
				if !(first <= got*(1+0x1p-40) && got <= first*(1+0x1p-8)) && s.Known(operand, r, c) {
					t.Errorf("%s: %s[%d,%d] has a bound of %v, want %v or a little more", name, d.Operands[operand].Name, r, c, got, first)
					return
				}
			}
		}
	}
	defer func(n int) { tune.LeastTree = n }(tune.LeastTree)
	for _, tune.LeastTree = range []int{1, 1000} {
		for _, run := range small(t, 2, 13, others) {
			hold(run.Data.Definition.Name+"/"+run.Data.Name, run.Data.Definition, run.Operands, run.Data.Params)
		}
	}
}

// hasOrdering reports whether a definition orders rows or has slots.
func hasOrdering(d *def.Definition) bool {
	return d.Expression() != nil && slices.ContainsFunc(d.Math().Nodes, func(n *def.Node) bool { return n.Op.NeedsRow() })
}

// small returns every shipped rowwise definition on its kinds of data, a few rows and columns of
// each, and more definitions on normally distributed operands.
func small(t *testing.T, rows, cols int, more []*def.Definition) []*accuracy.Run {
	var list []*accuracy.Run
	for _, run := range runs(t) {
		data := run.Data
		if data.Definition.IsExact() || hasOrdering(data.Definition) {
			continue // it has no errors, or compares rounded values, for which the model has no derivatives
		}
		data.Sizes["R"], data.Sizes["C"] = min(data.Sizes["R"], rows), min(data.Sizes["C"], cols)
		z, ok := accuracy.NewRun(run.Operation, data, run.DType)
		if !ok {
			t.Fatalf("%s on %s: no format", data.Definition.Name, data.Name)
		}
		list = append(list, z)
	}
	for _, d := range more {
		z, ok := accuracy.NewRun(op.Of(d, ""), op.Data{Name: "normal", Definition: d, Sizes: map[string]int{"R": rows, "C": cols}}, num.F32)
		if !ok {
			t.Fatalf("%s: no format", d.Name)
		}
		list = append(list, z)
	}
	return list
}

// TestStableIsProven checks that computations whose errors are within those of the promise stay
// within the bound.
func TestStableIsProven(t *testing.T) {
	trials := testlevel.Pick(40, 2000)
	for _, run := range small(t, 3, 9, slices.Concat(others, shared)) {
		d, name := run.Data.Definition, run.Data.Definition.Name+"/"+run.Data.Name
		s, err := truth.EncloseStable(d, run.Operands, truth.StableOptions{Params: run.Data.Params})
		if err != nil {
			t.Fatal(err)
		}
		m := newModel(t, d, run.Operands, run.Data.Params)
		g := gen.New(name)
		worst := 0.0
		for trial := range trials {
			m.error = func(_ *def.Node, _, _ int, most float64) dual {
				switch trial % 4 {
				case 0: // the same sign everywhere
					return dual{v: most * float64(trial/4%2*2-1)}
				case 1:
					return dual{v: most * (float64(g.Below(2049))/1024 - 1)}
				}
				return dual{v: most * float64(g.Below(2)*2-1)} // the largest
			}
			all := m.evaluate()
			for _, o := range d.Math().Outputs {
				for i, y := range all[o.Value.ID].x {
					r, c := i/run.Operands[o.Operand].Cols, i%run.Operands[o.Operand].Cols
					if !s.Known(o.Operand, r, c) {
						continue
					}
					y.v *= 1 + 4*0x1p-24*float64(g.Below(2)*2-1)
					exact := s.At(o.Operand, r, c)
					bound := s.Error(o.Operand, r, c, s.MostHeight())
					// The model computes in float64.
					noise := 0x1p-44*math.Abs(y.v) + 0x1p-1000
					if away := math.Abs(y.v - exact.Mid); !(away <= bound+noise) {
						t.Fatalf("%s: %s[%d,%d] is %v with errors, %v from %v, want at most %v", name, d.Operands[o.Operand].Name, r, c, y.v, away, exact, bound)
					} else if bound > 0 {
						worst = max(worst, away/bound)
					}
				}
			}
		}
		if worst < 0.2 {
			t.Errorf("%s: no error is above %.2f of its bound", name, worst)
		}
	}
}
