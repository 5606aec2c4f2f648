package accuracy_test

import (
	"cmp"
	"slices"
	"testing"

	"tokitai/accuracy"
	"tokitai/def"
	"tokitai/fn"
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
			for _, letter := range d.Sizes() { // those of operations that are not thought of here
				data.Sizes[letter] = d.FitSize(letter, cmp.Or(data.Sizes[letter], 3))
			}
			for i := range d.Params {
				v, ok := paramsFor[d.Params[i].Name]
				if !ok {
					v = d.Params[i].Usual(0.25)
				}
				data.Params = append(data.Params, v)
			}
			if !slices.ContainsFunc(d.Operands, func(o def.Operand) bool { return o.IsOut && !o.IsInt() }) {
				continue // integers have no error
			}
			count := 0
			for _, dtype := range num.RealDTypes {
				accums := []def.Accum{def.FMAChain}
				if d.Product() != nil {
					accums = append(accums, def.Accum{L: 16, F: 25}, def.Accum{L: 8, F: 24}, def.Accum{L: 32, F: 13, R: 13})
				}
				for _, accum := range accums {
					run, ok := accuracy.NewRun(o, data, dtype)
					if !ok || accum.Takes(d.DTypes(dtype)[0]) != nil {
						continue
					}
					run.Accum = accum
					rows, err := run.Measure()
					if err != nil {
						t.Errorf("model %v: %v", accum, err)
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
