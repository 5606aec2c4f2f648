package randdef

import (
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/num"
)

// Fused returns a random definition of one or two products, perhaps grouped, that end in an expression.
func Fused(g *gen.Generator) *def.Definition {
	return def.Must(def.FusedOf(fmt.Sprintf("fused%d", g.Below(1000)), func(b *def.FusedBuilder) {
		form := product(g)
		form.Result = "p0"
		if g.Below(3) == 0 {
			form.Groups = def.Groups{Number: "G", Of: "M", Offsets: "offsets"}
			form.RightDims = slices.Insert(slices.Clone(form.RightDims), 0, "G")
		}
		values := []def.Value{b.Product(form)}
		if g.Below(2) == 0 { // of the same left operand, and its other factor in the same order or not
			other := form
			other.Result, other.Right = "p1", "b1"
			values = append(values, b.Product(other))
		}
		e := &fusedBody{g: g, b: b, values: values}
		e.expression()
	}))
}

// fusedBody is the expression in the making.
type fusedBody struct {
	g      *gen.Generator
	b      *def.FusedBuilder
	values []def.Value
	inputs int
}

func (e *fusedBody) input(isInt bool) def.Value {
	dims := [][]string{{"M", "N"}, {"M"}, {"N"}}[e.g.Below(3)]
	rule := []def.Rule{def.AnyFloat, def.Only(num.F32), def.Only(num.F16, num.BF16)}[e.g.Below(3)]
	if isInt {
		rule = def.Only(num.I32)
	}
	e.inputs++
	return e.b.In(fmt.Sprintf("x%d", e.inputs), dims, rule)
}

func (e *fusedBody) pick() def.Value {
	if e.g.Below(3) > 0 {
		return e.values[len(e.values)-1-e.g.Below(min(3, len(e.values)))]
	}
	return e.values[e.g.Below(len(e.values))]
}

func (e *fusedBody) expression() {
	g := e.g
	products := len(e.values)
	for range 1 + g.Below(3) {
		e.values = append(e.values, e.input(false))
	}
	if g.Below(3) == 0 {
		e.values = append(e.values, e.b.Param("alpha"))
	}
	last := e.values[0]
	for _, p := range e.values[1:products] {
		last = last.Mul(p)
	}
	e.values = append(e.values, last)
	for range 1 + g.Below(6) {
		y := e.pick()
		switch g.Below(8) {
		case 0:
			last = last.Add(y)
		case 1:
			last = last.Mul(y)
		case 2:
			last = def.FMA(last, y, e.pick())
		case 3:
			last = last.Round(def.FixedStorage([]num.DType{num.F16, num.BF16}[g.Below(2)]))
		case 4:
			last = last.Round(def.StorageOf("y"))
		case 5:
			last = last.Max(y)
		case 6:
			last = []func(def.Value) def.Value{fn.Exp, fn.Tanh, fn.Sigmoid}[g.Below(3)](last)
		case 7:
			if e.inputs < 6 {
				last = def.Select(e.input(true).Less(def.IntConst(0)), last, y)
			}
		}
		e.values = append(e.values, last)
	}
	e.b.Out("y", last, def.AnyFloat)
	if g.Below(2) == 0 { // what backward passes read again
		e.b.Out("kept", e.values[g.Below(products)], def.Only(num.F32, num.BF16))
	}
	if g.Below(4) == 0 {
		e.b.Out("sign", def.Select(last.Less(def.Zero), def.IntConst(-1), e.input(true)))
	}
}
