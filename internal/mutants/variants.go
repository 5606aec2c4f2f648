package mutants

import (
	"math"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/crossentropy"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/norm"
	"tokitai/op/softmax"
)

// orders are ways to add up, each with the contract that it keeps. A sum in binary64
// is nearer to the truth than any declared order demands.
var orders = []struct {
	name, text string
	contract   contract
	sum        func([]float32) float32
}{
	{"sequential", "one sum, ascending", sequential, ascending},
	{"lanes-16", "16 lanes and a tree", lanes16, inLanes(16)},
	{"lanes-128", "128 lanes and a tree", lanes128, inLanes(128)},
	{"pairwise", "halves of halves", pairwise, inPairs},
	{"chunks-32", "chunks of 32", chunks32, inChunks(32)},
	{"reversed", "one sum, descending, declared as any order", anyOrder, descending},
	{"binary64", "sums in binary64, rounded once", pairwise, inDouble},
}

func gemmVariants() []Mutant {
	l := &list{}
	l.of(gemm.ForwardDefinition, num.F16)
	for _, o := range orders {
		l.add(o.name, o.text, o.contract, plain{body: contraction(products(o.sum))})
	}
	l.add("compensated", "Kahan's sum", pairwise, plain{body: contraction(products(compensated))})
	l.of(gemm.ForwardDefinition, num.F32)
	l.add("fused", "fused multiply-adds, ascending", sequential, plain{body: contraction(fused)})
	l.add("not-fused", "products rounded, ascending", sequential, plain{body: contraction(products(ascending))})
	l.of(gemm.GradADefinition, num.BF16)
	l.add("lanes-16", "16 lanes and a tree", lanes16, plain{body: contraction(products(inLanes(16)))})
	l.of(gemm.GradBAccumulateDefinition, num.F16)
	l.add("old-last", "the old result is added at the end", anyOrder, plain{body: contraction(func(a, b []float32, old float32, _ bool) float32 {
		return products(inPairs)(a, b, 0, false) + old
	})})
	return l.all
}

func rowwiseVariants() []Mutant {
	l := &list{}
	type body func(parts) func(*call)
	layernormBody := func(p parts) func(*call) { return layernormForward(p, rstd) }
	crossEntropyBody := func(p parts) func(*call) { return crossEntropy(p, p.loss) }
	inOrders := func(d *def.Definition, dtype num.DType, b body, names ...string) {
		l.of(d, dtype)
		for _, o := range orders {
			for _, name := range names {
				if o.name == name {
					l.add(o.name, o.text, o.contract, plain{body: b(ordered(o.sum))})
				}
			}
		}
	}
	inOrders(softmax.ForwardDefinition, num.F16, softmaxForward, "sequential", "lanes-16", "reversed", "binary64")
	l.add("divided", "e/sum instead of e times the reciprocal", lanes16, plain{body: softmaxForward(
		replaced(ordered(inLanes(16)), func(p *parts) { p.normalise = func(e, s float32) float32 { return e / s } }))})
	l.of(softmax.ForwardDefinition, num.F32)
	l.add("ieee-lanes-16", "the definition's steps, each rounded, 16 lanes", lanes16.ieee(), plain{body: softmaxForward(ordered(inLanes(16)))})
	l.add("all-binary64", "everything in binary64, rounded once", pairwise, plain{body: func(c *call) {
		x, y := c.in("x"), c.in("y")
		for r := range x.rows {
			m, s := float64(maximum(x.row(r))), 0.0
			for _, v := range x.row(r) {
				s += math.Exp(float64(v) - m)
			}
			for i, v := range x.row(r) {
				y.row(r)[i] = float32(math.Exp(float64(v)-m) / s)
			}
		}
	}})
	inOrders(softmax.BackwardDefinition, num.BF16, softmaxBackward, "lanes-128", "chunks-32")
	inOrders(crossentropy.Definition, num.F16, crossEntropyBody, "sequential", "pairwise")
	inOrders(crossentropy.Definition, num.F32, crossEntropyBody, "lanes-16")
	inOrders(layernorm.ForwardDefinition, num.F16, layernormBody, "sequential", "lanes-16", "pairwise")
	inOrders(layernorm.ForwardDefinition, num.F32, layernormBody, "lanes-128", "binary64")
	inOrders(layernorm.BackwardDefinition, num.F16, layernormBackward, "sequential", "lanes-16")
	inOrders(layernorm.BackwardDefinition, num.F32, layernormBackward, "pairwise")

	for _, d := range []*def.Definition{softmax.BackwardDefinition, crossentropy.Definition, layernorm.ForwardDefinition, layernorm.BackwardDefinition, gelu.BackwardDefinition} {
		l.of(d, num.F16)
		l.add("reference-order", "the reference's own order, declared as any order", anyOrder, plain{body: answer})
	}
	l.of(gelu.ForwardDefinition, num.F16)
	l.add("library-exp", "the exponential of another library", anyOrder, plain{body: geluForward(ordered(nil))})
	l.of(gelu.ForwardDefinition, num.F32)
	l.add("library-exp", "the exponential of another library, steps as defined", anyOrder.ieee(), plain{body: geluForward(ordered(nil))})
	l.of(gelu.BackwardDefinition, num.BF16)
	l.add("library-exp", "the exponential of another library", anyOrder, plain{body: geluBackward(ordered(nil))})

	l.of(adamw.InPlaceDefinition, num.F16)
	l.add("fused", "the moments with fused multiply-adds", anyOrder, plain{body: adam(fusedStep)})
	l.of(adamw.InPlaceDefinition, num.F32)
	l.add("as-defined", "the definition's steps, each rounded", anyOrder.ieee(), plain{body: adam(adamStep.step)})
	l.of(adamw.MasterDefinition, num.BF16)
	l.add("as-defined", "the definition's steps, each rounded", anyOrder, plain{body: adam(adamStep.step)})

	l.of(norm.SquareSumDefinition, num.F16)
	l.add("lanes-128", "128 lanes and a tree over all elements", lanes128, plain{body: squareSum(inLanes(128))})
	l.of(norm.SquareSumDefinition, num.F32)
	l.add("reversed", "one sum, descending, declared as any order", anyOrder, plain{body: squareSum(descending)})
	l.of(norm.TotalDefinition, num.F32)
	l.add("sequential", "one sum, ascending", sequential, plain{body: rowTotal(ascending)})
	l.of(norm.ClipDefinition, num.F32)
	l.add("as-defined", "the definition's steps, each rounded", anyOrder.ieee(), plain{body: clip(clipFactor)})
	return l.all
}

// fusedStep is a step of AdamW as a compiler would contract it.
func fusedStep(a adamStep, w, m, v, g float32) (nw, nm, nv float32) {
	nm = num.FMA(a.beta1, m, float32(a.rest1*g))
	nv = num.FMA(a.beta2, v, float32(float32(a.rest2*g)*g))
	d := num.FMA(num.Sqrt(nv), a.inverse, a.eps)
	return w - num.FMA(a.stepSize, nm/d, float32(a.decay*w)), nm, nv
}

func embeddingVariants() []Mutant {
	l := &list{}
	l.of(embedding.BackwardDefinition, num.F16)
	l.add("sequential", "one f32 sum, ascending", sequential, plain{body: scatter(ascending)})
	l.add("reversed", "one f32 sum, descending, declared as any order", anyOrder, plain{body: scatter(descending)})
	l.of(embedding.BackwardDefinition, num.BF16)
	l.add("pairwise", "halves of halves", pairwise, plain{body: scatter(inPairs)})
	l.of(embedding.AccumulateDefinition, num.F32)
	l.add("sequential", "one sum, ascending, the old value first", sequential, plain{body: scatter(ascending)})
	l.of(embedding.ForwardDefinition, num.F16)
	l.add("copy", "a plain copy", bits, gather(rowOf))
	return l.all
}
