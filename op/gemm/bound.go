package gemm

import (
	"fmt"
	"math"
	"strings"

	"tokitai/bound"
	"tokitai/def"
)

// boundsOf returns the closed form of a product of K terms, in the words of the
// definition: g(K) * (sum |A[m,k]*B[k,n]| over k) + K*2^-149.
func boundsOf(d *def.Definition) []bound.Form {
	element := func(o *def.Operand) string { return o.Name + "[" + strings.ToLower(strings.Join(o.Dims, ",")) + "]" }
	left, right, result, length := element(&d.Operands[0]), element(&d.Operands[1]), element(&d.Operands[2]), d.SummedOver()
	return []bound.Form{{
		Output: d.Operands[2].Name, Theorem: "Gemm.fma_chain_error",
		Text: []string{fmt.Sprintf("bound = g(%s) * (sum |%s*%s| over %s) + %s*2^-149, by the rule fma; |%s| joins the sum when accumulating",
			length, left, right, strings.ToLower(length), length, result)},
		At: boundAt,
	}}
}

func boundAt(call *bound.Call) func(r, c int) float64 {
	d := call.Definition
	a, b, old := call.Matrix(d.Operands[0].Name), call.Matrix(d.Operands[1].Name), call.Matrix(d.Operands[2].Name)
	matrices := call.Operands[2].Matrices()
	leftRows, rightRows, rows := a.Rows/matrices, b.Rows/matrices, old.Rows/matrices
	length := a.Cols
	if d.Product().TransposeLeft {
		length = leftRows
	}
	return func(r, c int) float64 {
		h, row := r/rows, r%rows
		sum := bound.Sum(length, func(k int) float64 {
			x, y := 0.0, 0.0
			if d.Product().TransposeLeft {
				x = a.At(h*leftRows+k, row)
			} else {
				x = a.At(h*leftRows+row, k)
			}
			if d.Product().TransposeRight {
				y = b.At(h*rightRows+c, k)
			} else {
				y = b.At(h*rightRows+k, c)
			}
			return math.Abs(x * y)
		})
		if d.Accumulates() {
			sum += math.Abs(old.At(r, c))
		}
		return bound.Gamma(length)*sum + float64(length)*0x1p-149
	}
}
