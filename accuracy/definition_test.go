package accuracy_test

import (
	"fmt"
	"slices"
	"testing"

	"tokitai/accuracy"
	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/adamw"
	"tokitai/op/all"
	"tokitai/op/layernorm"
	"tokitai/op/softmax"
	"tokitai/truth"
)

// paramsFor are parameters by name, for definitions without data of their own.
var paramsFor = map[string]float64{
	"scale": 1, "ignore": -100, "eps": 1e-5, "max_norm": 1,
	"beta1": 0.9, "one_minus_beta1": 0.1, "beta2": 0.999, "one_minus_beta2": 0.001,
	"step_size": 0.002, "inverse_sqrt_bc2": 10, "decay": 1e-5,
	"seed_low": 7, "seed_high": -3, "tensor": 2, "t": 5,
}

// Variants that have no data of their own keep the promise too: those that add to the
// old result, the other modes of AdamW, and matrix products on tensor cores.
func TestEveryDefinition(t *testing.T) {
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			data := op.Data{
				Name: "variant", Definition: d,
				Sizes:  map[string]int{"R": 9, "C": 300, "M": 7, "N": 70, "K": 75, "Q": 500, "V": 7, "D": 11},
				Values: map[string]op.Element{"v": op.AbsScaled(1), "total": op.Positive, "sums": op.Positive},
			}
			for _, p := range d.Params {
				v, ok := paramsFor[p.Name]
				if !ok {
					t.Fatalf("%s: no value for parameter %s", d.Name, p.Name)
				}
				data.Params = append(data.Params, v)
			}
			count := 0
			for _, dtype := range num.FloatDTypes {
				models := []def.Model{def.FMAChain}
				if d.Kind == def.KindContraction && dtype != num.F32 {
					models = append(models, def.Model{L: 16, F: 25}, def.Model{L: 8, F: 24})
				}
				for _, model := range models {
					run, ok := accuracy.NewRun(o, data, dtype)
					if !ok {
						continue
					}
					run.Model = model
					rows, err := run.Measure()
					if err != nil {
						t.Errorf("model %v: %v", model, err)
					}
					for _, r := range rows {
						count += r.Elements - r.Unknown
					}
				}
			}
			if count == 0 {
				t.Errorf("%s: nothing was judged", d.Name)
			}
		}
	}
}

// Definitions that differ from an operation by a known mistake are seen: some result
// is not among the values that the right definition admits.
func TestWrongDefinitionsAreSeen(t *testing.T) {
	normal := func(b *def.Builder, unbiased, epsOutside bool) {
		x := b.In("x")
		gamma, beta := b.InCol("gamma", def.Like("x").Or(num.F32)), b.InCol("beta", def.Like("gamma"))
		eps, n := b.Param("eps"), b.Columns()
		first := x.At(def.IntConst(0))
		shifted := x.Sub(first)
		centred := shifted.Sub(def.RowSum(shifted).Div(n))
		count := n
		if unbiased {
			count = n.Sub(def.One)
		}
		variance := def.RowSum(centred.Mul(centred)).Div(count)
		root := variance.Add(eps).Sqrt()
		if epsOutside {
			root = variance.Sqrt().Add(eps)
		}
		rstd := def.One.Div(root)
		b.Out("y", def.FMA(centred.Mul(rstd), gamma, beta), def.Like("x"))
		b.OutRow("mean", first.Add(def.RowSum(shifted).Div(n)), def.Only(num.F32))
		b.OutRow("rstd", rstd, def.Only(num.F32))
	}
	normalised := func(b *def.Builder, change func(e def.Value) def.Value) {
		x := b.In("x")
		e := change(fn.ExpNonPositive(x.Sub(def.RowMax(x))))
		b.Out("y", e.Mul(def.One.Div(def.RowSum(e))), def.Like("x"))
	}
	for _, test := range []struct {
		name  string
		right *def.Definition
		build func(b *def.Builder)
		wrong bool
	}{
		{"layernorm, the same", layernorm.ForwardDefinition, func(b *def.Builder) { normal(b, false, false) }, false},
		{"layernorm, variance of a sample", layernorm.ForwardDefinition, func(b *def.Builder) { normal(b, true, false) }, true},
		{"layernorm, eps outside the root", layernorm.ForwardDefinition, func(b *def.Builder) { normal(b, false, true) }, true},
		{"softmax, the same", softmax.ForwardDefinition, func(b *def.Builder) {
			normalised(b, func(e def.Value) def.Value { return e })
		}, false},
		{"softmax, exponentials rounded to storage", softmax.ForwardDefinition, func(b *def.Builder) {
			normalised(b, func(e def.Value) def.Value { return e.Round(def.StorageOf("x")) })
		}, true},
		{"softmax, a column left out of the sum", softmax.ForwardDefinition, func(b *def.Builder) {
			x := b.In("x")
			e := fn.ExpNonPositive(x.Sub(def.RowMax(x)))
			sum := def.RowSum(def.Select(b.Col().Equal(def.IntConst(299)), def.Zero, e))
			b.Out("y", e.Mul(def.One.Div(sum)), def.Like("x"))
		}, true},
		{"adamw, eps inside the root", adamw.InPlaceDefinition, func(b *def.Builder) {
			w := b.In("weight")
			m, v, g := b.In("m", def.Only(num.F32)), b.In("v", def.Only(num.F32)), b.In("grad")
			beta1, rest1 := b.Param("beta1"), b.Param("one_minus_beta1")
			beta2, rest2 := b.Param("beta2"), b.Param("one_minus_beta2")
			stepSize, inverse := b.Param("step_size"), b.Param("inverse_sqrt_bc2")
			eps, decay := b.Param("eps"), b.Param("decay")
			newM := beta1.Mul(m).Add(rest1.Mul(g))
			newV := beta2.Mul(v).Add(rest2.Mul(g).Mul(g))
			d := newV.Mul(inverse.Mul(inverse)).Add(eps).Sqrt()
			b.Out("m", newM)
			b.Out("v", newV)
			b.Out("weight", w.Sub(stepSize.Mul(newM.Div(d)).Add(decay.Mul(w))))
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			wrong := def.Must(def.Rowwise("wrong", test.build))
			data := op.Data{
				Name: "normal", Definition: test.right, Sizes: map[string]int{"R": 9, "C": 300},
				Values: map[string]op.Element{"v": op.AbsScaled(0x1p-10)},
			}
			for _, p := range test.right.Params {
				data.Params = append(data.Params, paramsFor[p.Name])
			}
			run, ok := accuracy.NewRun(&op.Operation{Name: test.name}, data, num.F16)
			if !ok {
				t.Fatal("no run")
			}
			rounded, err := run.Enclose(truth.Rounded)
			if err != nil {
				t.Fatal(err)
			}
			run.Data.Definition = wrong
			answer, err := run.Answer()
			if err != nil {
				t.Fatal(err)
			}
			outside := 0
			for i, o := range test.right.Operands {
				if o.IsOut {
					outside += countOutside(rounded, i, answer[i])
				}
			}
			if (outside > 0) != test.wrong {
				t.Errorf("%d results are outside", outside)
			}
		})
	}
}

func countOutside(rounded *truth.Result, operand int, y num.Array) int {
	n := 0
	for r := range y.Rows {
		for c := range y.Cols {
			lo, hi := rounded.Between(operand, r, c)
			if i := num.Index(y.DType, y.Bits(r, c)); i < num.Index(y.DType, lo) || i > num.Index(y.DType, hi) {
				n++
			}
		}
	}
	return n
}

// Random expressions: what the reference computes is among the values that truth
// admits, whatever nodes are combined.
func TestRandomDefinitions(t *testing.T) {
	judged, unknown := 0, 0
	for seed := range 300 {
		g := gen.New(fmt.Sprint(t.Name(), seed))
		d, err := def.Rowwise("random", func(b *def.Builder) { randomDefinition(b, g) })
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		data := op.Data{Name: fmt.Sprint(seed), Definition: d, Sizes: map[string]int{"R": 1 + g.Below(5), "C": 1 + g.Below(20)}, Params: []float64{0.3}}
		if seed%4 == 0 {
			data.Values = map[string]op.Element{"x": nearUnderflow, "s": nearUnderflow}
		}
		run, ok := accuracy.NewRun(&op.Operation{Name: "random"}, data, num.FloatDTypes[seed%3])
		if !ok {
			t.Fatalf("seed %d: no run", seed)
		}
		rows, err := run.Measure()
		if err != nil {
			t.Errorf("%v\n%s", err, d.Text())
		}
		for _, r := range rows {
			judged += r.Elements - r.Unknown
			unknown += r.Unknown
		}
	}
	if judged < 9*unknown {
		t.Errorf("%d elements judged, %d unknown: the expressions leave their domains too often", judged, unknown)
	}
}

// nearUnderflow has products among the subnormals of binary32.
func nearUnderflow(g *gen.Generator, _, _ int) float32 { return g.Exponents(-90, -50) }

func randomDefinition(b *def.Builder, g *gen.Generator) {
	elements := []def.Value{b.In("x"), b.In("y")}
	rows := []def.Value{b.InRow("s")}
	others := []def.Value{b.InCol("k"), b.Param("p"), b.Columns(), b.Rows(), def.Decimal("0.7"), def.Const(-3)}
	pick := func() def.Value {
		switch g.Below(6) {
		case 0:
			return rows[g.Below(len(rows))]
		case 1:
			return others[g.Below(len(others))]
		}
		return elements[g.Below(len(elements))]
	}
	squash := func(v def.Value) def.Value { return fn.Tanh(v) } // keeps magnitudes at bay
	for range 2 + g.Below(8) {
		x, y, z := pick(), pick(), pick()
		var v def.Value
		switch g.Below(20) {
		case 0:
			v = x.Add(y)
		case 1:
			v = x.Sub(y)
		case 2:
			v = x.Mul(y)
		case 3:
			v = x.Mul(x)
		case 4:
			v = x.Div(y.Abs().Add(def.Half))
		case 5:
			v = def.FMA(x, y, z)
		case 6:
			v = x.Abs().Sqrt()
		case 7:
			v = x.Min(y).Max(z.Neg())
		case 8:
			v = def.Select(x.Less(y), z, x)
		case 9:
			v = def.Select(x.LessEqual(x), y, z)
		case 10:
			v = fn.Exp(squash(x).Mul(def.Const(9)))
		case 11:
			v = fn.ExpNonPositive(x.Abs().Neg())
		case 12:
			v = fn.Log(x.Abs().Add(def.Half))
		case 13:
			v = fn.Sigmoid(x)
		case 14:
			v = fn.Rsqrt(x.Mul(x).Add(def.One))
		case 15:
			v = fn.Recip(x.Abs().Add(y.Abs()).Add(def.Half))
		case 16:
			v = x.Round(def.In(num.BF16)).Add(y)
		case 17:
			v = squash(x).Scale(squash(y).Mul(def.Const(5)).Rint())
		case 18:
			v = squash(x).Rint().Add(y)
		case 19:
			v = squash(x)
		}
		switch {
		case v.Extent == def.PerElement:
			elements = append(elements, v)
			if g.Below(3) == 0 {
				reduced := []func() def.Value{
					func() def.Value { return def.RowSum(v) },
					func() def.Value { return def.RowMax(v) },
					func() def.Value { return def.RowMin(v) },
					func() def.Value { return v.At(def.IntConst(int32(g.Below(4)))) },
				}
				rows = append(rows, reduced[g.Below(len(reduced))]())
			}
		case v.Extent == def.PerRow:
			rows = append(rows, v)
		}
	}
	last := elements[len(elements)-1]
	b.Out("o", last.Add(elements[g.Below(len(elements))]), def.AnyFloat)
	b.OutRow("r", def.RowSum(last).Add(rows[len(rows)-1]), def.AnyFloat)
	b.OutCol("c", def.ColSum(last.Mul(elements[0])), def.AnyFloat)
	b.OutScalar("t", def.TotalSum(slices.MaxFunc(elements, func(a, b def.Value) int { return len(a.Args) - len(b.Args) })).Sqrt(), def.AnyFloat)
}
