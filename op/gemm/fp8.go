package gemm

import (
	"math"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/tensor"
)

// FP8ForwardDefinition is the product of matrices in FP8, with a scale for each row of A and
// for each row of B, which is a column of the result.
var FP8ForwardDefinition = def.Must(def.Contraction("gemm.fp8.forward", scaledForm(def.ContractionForm{
	Factors: def.Only(num.FP8DTypes...),
	Formula: []string{"C[m,n] = (sum over k of A[m,k] * B[n,k]) * scale_a[m] * scale_b[n]"},
	Clauses: []string{
		"by the rule fma: acc = fma(A, B, acc), the summed index ascending from +0; every product is exact",
		"acc is multiplied by scale_a[m], and that by scale_b[n], each product rounded to binary32; one rounding to the result's format",
		"NaN, 0 times an infinity, or infinities of both signs in a sum give NaN, and so does an infinite sum or scale times 0; other infinities give an infinity; e4m3 has no infinities",
		"zeros are multiplied like everything else; by the rule fma, a sum of zero is +0",
	},
})))

// FP8Forward computes C = (A·Bᵀ) ∘ (scaleA·scaleBᵀ): the sum at row m and column n, times
// scaleA[m], times scaleB[n].
func FP8Forward(q *engine.Queue, c, a, b, scaleA, scaleB *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, FP8ForwardDefinition, []*tensor.Tensor{a, b, c, scaleA, scaleB}, nil, opts...)
}

func fp8Operation() *op.Operation {
	d := FP8ForwardDefinition
	o := &op.Operation{
		Name: d.Name, Summary: "product of matrices in FP8, with scales of rows and columns", Definitions: []*def.Definition{d}, Bounds: fp8Bounds(),
		Patterns: fp8Patterns(),
		Clauses:  fp8Clauses,
		Scalings: scalings(d),
	}
	withScales(o)
	o.Data = scaledData(d, "normal", map[string]op.Element{d.Scales().Row: op.Positive, d.Scales().Col: op.Positive})
	return o
}

// fp8Bounds has the closed form of the product. The sum is off by at most g(K)·S + K·2^-149,
// where S is the sum of the magnitudes; each of the two products with a scale rounds once
// more, and by 2^-150 if it is subnormal, which the second scale multiplies too.
func fp8Bounds() []bound.Form {
	return []bound.Form{{
		Output: "C",
		Text:   []string{"bound = (g(K+2) * (sum |A[m,k]*B[n,k]| over k) + K*2^-148) * |scale_a[m]*scale_b[n]| + 2^-149 * (1 + |scale_b[n]|), by the rule fma"},
		At: func(call *bound.Call) func(r, c int) float64 {
			a, b := call.Matrix("A"), call.Matrix("B")
			rows, cols := call.Matrix("scale_a"), call.Matrix("scale_b")
			return func(r, c int) float64 {
				sum := bound.Sum(a.Cols, func(k int) float64 { return math.Abs(a.At(r, k) * b.At(c, k)) })
				x, y := math.Abs(rows.At(r, 0)), math.Abs(cols.At(c, 0))
				return (bound.Gamma(a.Cols+2)*sum+float64(a.Cols)*0x1p-148)*x*y + 0x1p-149*(1+y)
			}
		},
	}}
}

// fp8Fillings are those whose factors FP8 can store, and some of its own. Under isGrid the
// scales are powers of two.
func fp8Fillings() []filling {
	var list []filling
	for _, f := range fillings {
		switch f.name {
		case "cancellation", "exact-cancellation", "one-huge", "ascending", "descending", "alternating-signs", "same-sign", "zeros-against-infinities",
			"plus-minus-one", "small-integers", "identity-right", "identity-left", "identity-right-all-bits", "identity-left-all-bits":
			list = append(list, f)
		}
	}
	return append(list,
		filling{name: "fp8-subnormals", left: everywhere(exponents(-17, -5)), right: everywhere(exponents(-17, -5))},
		filling{name: "fp8-largest", left: cycle(448, -448, 448), right: cycle(448, 448, 416)},
		filling{name: "fp8-all-patterns", left: everywhere(anyFP8), right: everywhere(anyFP8)},
		// 8 of 40 products are 256·16 = 2^12: at most 103·8·2^12 + 4,096 < 2^22. An accumulator
		// of 13 fractional bits loses the others.
		filling{name: "fp8-offset", left: halved(offset(4, 32)), right: offsetSign(4, 32), isGrid: true},
		filling{name: "fp8-offset-long", left: halved(offset(64, 392)), right: offsetSign(64, 392), isGrid: true},
	)
}

// halved is half of a factor that is not 1.
func halved(f factor) factor {
	return func(g *gen.Generator, k, i int) float32 {
		if v := f(g, k, i); v != 1 {
			return v / 2
		}
		return 1
	}
}

// anyFP8 has every exponent of both formats.
func anyFP8(g *gen.Generator, r, c int) float32 {
	if g.Below(16) == 0 {
		return g.Special()
	}
	return g.Exponents(-17, 16)
}

func powersOfTwo(g *gen.Generator, r, _ int) float32 { return float32(math.Ldexp(1, r%9-4)) }

func fp8Patterns() []op.Pattern {
	d := FP8ForwardDefinition
	var list []op.Pattern
	for _, f := range fp8Fillings() {
		p := op.Pattern{Name: f.name, Definition: d, IsGrid: f.isGrid, Values: map[string]op.Element{"A": f.left.element(true), "B": f.right.element(true)}}
		if f.isGrid {
			p.Values[d.Scales().Row], p.Values[d.Scales().Col] = powersOfTwo, powersOfTwo
		}
		list = append(list, p)
	}
	return append(list, scalePatterns(d, nil)...)
}
