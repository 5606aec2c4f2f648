package gemm

import (
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/tensor"
)

// The three products, each set or added to the old result.
var (
	ForwardDefinition           = forward("gemm.forward", nil, false)
	ForwardAccumulateDefinition = forward("gemm.forward.accumulate", nil, true)
	GradADefinition             = gradA("gemm.grad_a", nil, false)
	GradAAccumulateDefinition   = gradA("gemm.grad_a.accumulate", nil, true)
	GradBDefinition             = gradB("gemm.grad_b", nil, false)
	GradBAccumulateDefinition   = gradB("gemm.grad_b.accumulate", nil, true)
)

// clauses returns those of a product, with batch axes or without, that starts at +0 or at
// the old result.
func clauses(batch []string, accumulate bool) []string {
	start := "+0"
	if accumulate {
		start = "the old result"
	}
	list := []string{
		sizesClause,
		"by the rule fma: acc = fma(left, right, acc), the summed index ascending from " + start + "; one rounding to the result's format",
		"NaN, 0 times an infinity, or infinities of both signs in a sum give NaN; other infinities give that infinity",
		"zeros are multiplied like everything else",
		apartClause,
		"by the rule fma: a step whose exact sum is zero gives +0, or -0 if acc and the product are both -0; a sum that underflows to zero, in a step or at the store, keeps its sign",
		"subnormals are kept; a partial sum that overflows binary32 is an infinity from then on, and a result too large for its format is infinite",
	}
	if batch != nil {
		list[0] = "M >= 0, H, N, K >= 1; further leading dimensions count as H, and the rows of a matrix may be strided"
		list = append(list,
			"leading dimensions may have any strides, at most 4 that do not fold; an operand may repeat matrices (stride 0), the result may not",
			"each matrix of the result has the bits of the product of the two matrices alone",
		)
	}
	return list
}

func product(name string, batch []string, formula string, f def.ContractionForm, accumulate bool) *def.Definition {
	if f.Accumulate = accumulate; accumulate {
		formula += " + " + formula[:strings.Index(formula, "]")+1]
	}
	f.LeftDims, f.RightDims, f.ResultDims = slices.Concat(batch, f.LeftDims), slices.Concat(batch, f.RightDims), slices.Concat(batch, f.ResultDims)
	f.Formula, f.Clauses = []string{formula}, clauses(batch, accumulate)
	return def.Must(def.Contraction(name, f))
}

func forward(name string, batch []string, accumulate bool) *def.Definition {
	return product(name, batch, indexed("C[m,n] = sum over k of A[m,k] * B[k,n]", batch), def.ContractionForm{
		Left: "A", LeftDims: []string{"M", "K"},
		Right: "B", RightDims: []string{"K", "N"},
		Result: "C", ResultDims: []string{"M", "N"},
	}, accumulate)
}

func gradA(name string, batch []string, accumulate bool) *def.Definition {
	return product(name, batch, indexed("dA[m,k] = sum over n of dC[m,n] * B[k,n]", batch), def.ContractionForm{
		Left: "dC", LeftDims: []string{"M", "N"},
		Right: "B", RightDims: []string{"K", "N"}, TransposeRight: true,
		Result: "dA", ResultDims: []string{"M", "K"},
	}, accumulate)
}

func gradB(name string, batch []string, accumulate bool) *def.Definition {
	return product(name, batch, indexed("dB[k,n] = sum over m of A[m,k] * dC[m,n]", batch), def.ContractionForm{
		Left: "A", LeftDims: []string{"M", "K"}, TransposeLeft: true,
		Right: "dC", RightDims: []string{"M", "N"},
		Result: "dB", ResultDims: []string{"K", "N"},
	}, accumulate)
}

// indexed adds the batch index to every element of a formula.
func indexed(formula string, batch []string) string {
	if batch == nil {
		return formula
	}
	return strings.ReplaceAll(formula, "[", "["+strings.ToLower(strings.Join(batch, ","))+",")
}

// Forward computes C = A·B.
func Forward(q *engine.Queue, c, a, b *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, ForwardDefinition, []*tensor.Tensor{a, b, c}, nil, opts...)
}

// ForwardAccumulate computes C = A·B + C.
func ForwardAccumulate(q *engine.Queue, c, a, b *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, ForwardAccumulateDefinition, []*tensor.Tensor{a, b, c}, nil, opts...)
}

// GradA computes dA = dC·Bᵀ.
func GradA(q *engine.Queue, da, dc, b *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, GradADefinition, []*tensor.Tensor{dc, b, da}, nil, opts...)
}

// GradAAccumulate computes dA = dC·Bᵀ + dA.
func GradAAccumulate(q *engine.Queue, da, dc, b *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, GradAAccumulateDefinition, []*tensor.Tensor{dc, b, da}, nil, opts...)
}

// GradB computes dB = Aᵀ·dC.
func GradB(q *engine.Queue, db, a, dc *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, GradBDefinition, []*tensor.Tensor{a, dc, db}, nil, opts...)
}

// GradBAccumulate computes dB = Aᵀ·dC + dB.
func GradBAccumulate(q *engine.Queue, db, a, dc *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, GradBAccumulateDefinition, []*tensor.Tensor{a, dc, db}, nil, opts...)
}
