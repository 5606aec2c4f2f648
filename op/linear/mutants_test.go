package linear_test

import (
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/linear"
	"tokitai/verify/mutants"
)

func TestMutants(t *testing.T) {
	mutants.Test(t, linear.Operations, wrong(), right(), func(p mutants.Parts) map[*def.Definition]func(*mutants.Call) {
		return map[*def.Definition]func(*mutants.Call){
			linear.ResidualDefinition: body(mutants.Products(p.Sum), func(c *mutants.Call, m, n int, sum float32) float32 {
				return p.Step(c.In("X").Row(m)[n] + p.Step(sum))
			}),
			linear.SwiGLUDefinition: gatedBody(mutants.Products(p.Sum), func(gate, up float32) float32 {
				return p.Step(p.Step(gate/p.Step(1+p.Exp(-gate))) * up)
			}),
		}
	})
}

// body computes each element from the sum of its products.
func body(dot mutants.Dot, end func(c *mutants.Call, m, n int, sum float32) float32) func(c *mutants.Call) {
	return func(c *mutants.Call) {
		a, b, y := c.In("A"), c.In("B"), c.In("Y")
		for m := range y.Rows {
			for n := range y.Cols {
				y.Row(m)[n] = end(c, m, n, dot(a.Row(m), b.Row(n), 0, false))
			}
		}
	}
}

// gated computes gate and up, in their format, and Y from them.
func gatedBody(dot mutants.Dot, end func(gate, up float32) float32) func(c *mutants.Call) {
	return func(c *mutants.Call) {
		a, g, u := c.In("A"), c.In("G"), c.In("U")
		gate, up, y := c.In("gate"), c.In("up"), c.In("Y")
		for m := range y.Rows {
			for n := range y.Cols {
				x, v := rounded(c, dot(a.Row(m), g.Row(n), 0, false)), rounded(c, dot(a.Row(m), u.Row(n), 0, false))
				gate.Row(m)[n], up.Row(m)[n], y.Row(m)[n] = x, v, end(x, v)
			}
		}
	}
}

// silu is gate·sigmoid(gate), with an exponential that cannot overflow.
func silu(gate float32) float32 {
	if gate < 0 {
		a := min(-gate, 128)
		e := mutants.Exp32(-a)
		return -a * e / (1 + e)
	}
	return gate / (1 + mutants.Exp32(-gate))
}

func plain(end func(c *mutants.Call, m, n int, sum float32) float32) mutants.Plain {
	return mutants.Plain{Body: body(mutants.Fused, end)}
}

// rounded returns a value in the format of the result.
func rounded(c *mutants.Call, v float32) float32 {
	return num.Round(c.Stored[len(c.Stored)-1].DType, v)
}

func wrong() []mutants.Mutant {
	l := mutants.NewList(linear.Operations)
	for _, d := range []num.DType{num.F16, num.BF16} {
		l.Of(linear.ResidualDefinition, d)
		l.From(mutants.KernelPractice)
		l.Add("product-not-rounded", "the product is added as it is, and rounded once", mutants.PromisesBits, plain(func(c *mutants.Call, m, n int, sum float32) float32 {
			return c.In("X").Row(m)[n] + sum
		}))
		l.Add("residual-first", "the sum of the products begins with the residual", mutants.PromisesBits, mutants.Plain{Body: func(c *mutants.Call) {
			a, b, x, y := c.In("A"), c.In("B"), c.In("X"), c.In("Y")
			for m := range y.Rows {
				for n := range y.Cols {
					y.Row(m)[n] = mutants.Fused(a.Row(m), b.Row(n), x.Row(m)[n], true)
				}
			}
		}})
	}
	l.Of(linear.ResidualDefinition, num.F16)
	l.Add("residual-missing", "nothing is added", mutants.AnyOrder, plain(func(c *mutants.Call, _, _ int, sum float32) float32 { return rounded(c, sum) }))
	l.Add("residual-of-the-next-column", "the residual comes from the column beside, but for the last one", mutants.AnyOrder, plain(func(c *mutants.Call, m, n int, sum float32) float32 {
		x := c.In("X")
		return x.Row(m)[min(n+1, x.Cols-1)] + rounded(c, sum)
	}))
	l.Add("residual-of-the-first-row", "all rows of a tile of 16 have the residual of its first", mutants.AnyOrder, plain(func(c *mutants.Call, m, n int, sum float32) float32 {
		return c.In("X").Row(m / 16 * 16)[n] + rounded(c, sum)
	}))
	l.Add("saturates", "an infinity becomes 65504", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Store: mutants.StoreSaturated})
	l.Add("whole-vectors", "elements after the last multiple of 4 are not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: mutants.WritesWholeVectors})
	l.Of(linear.ResidualDefinition, num.F32)
	l.Add("residual-in-bf16", "the residual is rounded to bf16", mutants.AnyOrder, plain(func(c *mutants.Call, m, n int, sum float32) float32 {
		return num.Round(num.BF16, c.In("X").Row(m)[n]) + sum
	}))
	l.Add("last-term-missing", "the last product of each sum is left out", mutants.AnyOrder, mutants.Plain{Body: body(func(a, b []float32, old float32, _ bool) float32 {
		return mutants.Fused(a[:len(a)-1], b[:len(b)-1], old, false)
	}, func(c *mutants.Call, m, n int, sum float32) float32 { return c.In("X").Row(m)[n] + sum })})

	l.Of(linear.SwiGLUDefinition, num.F16)
	l.From(mutants.KernelPractice)
	l.Add("gate-and-up-exchanged", "silu of up times the gate", mutants.AnyOrder, mutants.Plain{Body: gatedBody(mutants.Fused, func(gate, up float32) float32 { return silu(up) * gate })})
	l.Add("sigmoid-alone", "sigmoid(gate)·up", mutants.AnyOrder, mutants.Plain{Body: gatedBody(mutants.Fused, func(gate, up float32) float32 { return up / (1 + mutants.Exp32(-gate)) })})
	l.Add("no-activation", "gate·up", mutants.AnyOrder, mutants.Plain{Body: gatedBody(mutants.Fused, func(gate, up float32) float32 { return gate * up })})
	l.Add("outputs-exchanged", "gate is stored as up, and up as gate", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		gate, up := c.In("gate"), c.In("up")
		for i := range gate.V {
			gate.V[i], up.V[i] = up.V[i], gate.V[i]
		}
	}})
	l.Add("silu-rounded", "silu is rounded to f16 before it is multiplied by up", mutants.PromisesBits, mutants.Plain{Body: gatedBody(mutants.Fused, func(gate, up float32) float32 { return num.Round(num.F16, silu(gate)) * up })})
	l.Add("only-y", "gate and up are not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: func(c *mutants.Call, operand, _, _ int) bool { return operand == c.Position("Y") }})
	return l.All
}

func right() []mutants.Mutant {
	l := mutants.NewList(linear.Operations)
	l.Of(linear.ResidualDefinition, num.F16)
	l.Add("element-by-element", "chains and an addition, one element after the other", mutants.PromisesBits, plain(func(c *mutants.Call, m, n int, sum float32) float32 {
		return c.In("X").Row(m)[n] + rounded(c, sum)
	}))
	l.Of(linear.ResidualDefinition, num.F32)
	l.Add("descending", "the products are added from the last to the first", mutants.AnyOrder, mutants.Plain{Body: body(mutants.Products(mutants.Descending), func(c *mutants.Call, m, n int, sum float32) float32 {
		return c.In("X").Row(m)[n] + sum
	})})
	l.Of(linear.SwiGLUDefinition, num.BF16)
	l.Add("library-exp", "the exponential of another library, chains as defined", mutants.AnyOrder, mutants.Plain{Body: gatedBody(mutants.Fused, func(gate, up float32) float32 { return silu(gate) * up })})
	return l.All
}
