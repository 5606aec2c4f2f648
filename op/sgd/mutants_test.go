package sgd_test

import (
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/sgd"
	"tokitai/verify/mutants"
)

func TestMutants(t *testing.T) {
	mutants.Test(t, sgd.Operations, wrong(), right(), peers)
}

// isNesterov lists the definitions.
var isNesterov = map[*def.Definition]bool{sgd.StepDefinition: false, sgd.MasterDefinition: false, sgd.NesterovDefinition: true, sgd.NesterovMasterDefinition: true}

// numbers are the parameters of a call.
type numbers struct {
	lr, momentum, keep, decay float32
	isNesterov                bool
}

// stepping is a kernel that computes a step element by element.
func stepping(isNesterov bool, step func(n numbers, w, b, g float32) (nw, nb float32)) func(*mutants.Call) {
	return func(c *mutants.Call) {
		n := numbers{lr: float32(c.Params[0]), momentum: float32(c.Params[1]), keep: 1 - float32(c.Params[2]), decay: float32(c.Params[3]), isNesterov: isNesterov}
		w, b, g := c.In("weight").V, c.In("buffer").V, c.In("grad").V
		for i := range w {
			w[i], b[i] = step(n, w[i], b[i], g[i])
		}
		if i := c.Definition.Operand("copy"); i >= 0 {
			copy(c.Operands[i].V, w)
		}
	}
}

func (n numbers) step(w, b, g float32) (nw, nb float32) {
	g += float32(n.decay * w)
	nb = float32(n.momentum*b) + float32(n.keep*g)
	s := nb
	if n.isNesterov {
		s = g + float32(n.momentum*nb)
	}
	return w - float32(n.lr*s), nb
}

func wrong() []mutants.Mutant {
	l := mutants.NewList(sgd.Operations)
	form := func(isNesterov bool, step func(n numbers, w, b, g float32) (nw, nb float32)) mutants.Plain {
		return mutants.Plain{Body: stepping(isNesterov, step)}
	}
	l.From(mutants.KernelPractice)
	for _, o := range sgd.Operations {
		d := o.Definitions[0]
		isNesterov := isNesterov[d]
		l.Of(d, num.F16)
		l.Add("uphill", "the step goes up, not down", mutants.AnyOrder, form(isNesterov, func(n numbers, w, b, g float32) (float32, float32) {
			n.lr = -n.lr
			return n.step(w, b, g)
		}))
		l.Add("old-buffer", "the step is taken with the buffer of the step before", mutants.AnyOrder, form(isNesterov, func(n numbers, w, b, g float32) (float32, float32) {
			_, nb := n.step(w, b, g)
			return w - n.lr*b, nb
		}))
		if d.Operand("copy") < 0 {
			continue
		}
		l.Add("copy-of-the-old", "the copy is that of the old weight", mutants.PromisesBits, mutants.Plain{Body: func(c *mutants.Call) {
			old := slices.Clone(c.In("weight").V)
			mutants.Answer(c)
			copy(c.In("copy").V, old)
		}})
		l.Add("copy-not-written", "the copy is not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: func(c *mutants.Call, i, _, _ int) bool { return i != c.Position("copy") }})
		l.Add("weight-from-copy", "the weight is rounded like its copy: updates are lost", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
			for i, w := range c.In("weight").V {
				c.In("weight").V[i] = num.Round(num.F16, w)
			}
		}})
	}
	l.Of(sgd.StepDefinition, num.F16)
	l.Add("decoupled-decay", "the weight decays outside the buffer, as in AdamW", mutants.AnyOrder, form(false, func(n numbers, w, b, g float32) (float32, float32) {
		decay := n.decay
		n.decay = 0
		nw, nb := n.step(w, b, g)
		return nw - n.lr*decay*w, nb
	}))
	l.Add("no-decay", "weights do not decay", mutants.AnyOrder, form(false, func(n numbers, w, b, g float32) (float32, float32) {
		n.decay = 0
		return n.step(w, b, g)
	}))
	l.Of(sgd.StepDefinition, num.F32)
	l.Add("rate-in-buffer", "the learning rate is multiplied into the buffer, as in Sutskever's form", mutants.AnyOrder, form(false, func(n numbers, w, b, g float32) (float32, float32) {
		nb := n.momentum*b + n.lr*(g+n.decay*w)
		return w - nb, nb
	}))
	l.Add("dampening-ignored", "the gradient is not dampened", mutants.AnyOrder, form(false, func(n numbers, w, b, g float32) (float32, float32) {
		n.keep = 1
		return n.step(w, b, g)
	}))
	l.Add("nesterov", "Nesterov's step instead of the plain one", mutants.AnyOrder, form(true, numbers.step))
	l.Add("only-weight", "the buffer is not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: mutants.FirstOutput})
	l.Of(sgd.NesterovDefinition, num.F32)
	l.Add("plain", "the plain step instead of Nesterov's", mutants.AnyOrder, form(false, numbers.step))
	l.Add("undecayed-gradient", "the step has the gradient without its decay", mutants.AnyOrder, form(true, func(n numbers, w, b, g float32) (float32, float32) {
		_, nb := n.step(w, b, g)
		return w - n.lr*(g+n.momentum*nb), nb
	}))
	l.Of(sgd.NesterovDefinition, num.BF16)
	l.Add("store-truncates", "results are cut off, not rounded", mutants.AnyOrder, mutants.Plain{Body: stepping(true, numbers.step), Store: mutants.StoreTowardZero})
	return l.All
}

func right() []mutants.Mutant {
	l := mutants.NewList(sgd.Operations)
	l.Of(sgd.StepDefinition, num.F32)
	l.Add("same-steps", "the same operations in the same order", mutants.PromisesBits, mutants.Plain{Body: stepping(false, numbers.step)})
	fused := func(n numbers, w, b, g float32) (float32, float32) {
		g = num.FMA(n.decay, w, g)
		nb := num.FMA(n.keep, g, n.momentum*b)
		s := nb
		if n.isNesterov {
			s = num.FMA(n.momentum, nb, g)
		}
		return num.FMA(-n.lr, s, w), nb
	}
	l.AddAll(sgd.StepDefinition, "fused", "products and sums are fused", mutants.Stable, mutants.Plain{Body: stepping(false, fused)})
	l.AddAll(sgd.NesterovDefinition, "fused", "products and sums are fused", mutants.Stable, mutants.Plain{Body: stepping(true, fused)})
	return l.All
}

// peers returns plain kernels of the definitions.
func peers(mutants.Parts) map[*def.Definition]func(*mutants.Call) {
	list := map[*def.Definition]func(*mutants.Call){}
	for d, isNesterov := range isNesterov {
		list[d] = stepping(isNesterov, numbers.step)
	}
	return list
}
