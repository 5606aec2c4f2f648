package gemm

import (
	"fmt"
	"math"
	"strings"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/num"
)

// boundsOf returns the closed form of a product of K terms, in the words of the
// definition: g(K) * (sum |A[m,k]*B[k,n]| over k) + K*2^-149.
func boundsOf(d *def.Definition) []bound.Form {
	element := func(o *def.Operand) string { return o.Name + "[" + strings.ToLower(strings.Join(o.Dims, ",")) + "]" }
	left, right, result, length := element(&d.Operands[0]), element(&d.Operands[1]), element(&d.Operands[2]), d.SummedOver()
	over, more := strings.ToLower(length), fmt.Sprintf("; |%s| joins the sum when accumulating", result)
	switch groups := d.Groups(); {
	case groups.Of == length:
		length, more = "L", "; L is the number of rows of the group"
	case groups.Offsets != "":
		more = ""
	}
	return []bound.Form{{
		Output: d.Operands[2].Name, Theorem: "Gemm.fma_chain_error",
		Text: []string{fmt.Sprintf("bound = g(%s) * (sum |%s*%s| over %s) + %s*2^-149, by the rule fma%s", length, left, right, over, length, more)},
		At:   boundAt,
	}}
}

func boundAt(call *bound.Call) func(r, c int) float64 {
	d := call.Definition
	a, b, old := call.Matrix(d.Operands[0].Name), call.Matrix(d.Operands[1].Name), call.Matrix(d.Operands[2].Name)
	return func(r, c int) float64 {
		s := termsOf(call, r)
		sum := bound.Sum(s.count, func(k int) float64 {
			i, j := s.left(k)
			x := a.At(i, j)
			i, j = s.right(k, c)
			return math.Abs(x * b.At(i, j))
		})
		if d.Accumulates() {
			sum += math.Abs(old.At(r, c))
		}
		return bound.Gamma(s.count)*sum + float64(s.count)*0x1p-149
	}
}

// terms says where the factors are whose products the elements of a row of the result sum. Rows are
// counted through all matrices of an operand.
type terms struct {
	count int
	left  func(k int) (row, col int)
	right func(k, n int) (row, col int)
}

// termsOf returns the terms of a row of the result: those of its matrix, or of its group.
func termsOf(c *bound.Call, row int) terms {
	d, a, b, result := c.Definition, &c.Operands[0], &c.Operands[1], &c.Operands[2]
	f := d.Product()
	first, end := 0, a.Cols
	if f.TransposeLeft {
		end = a.Rows / a.Matrices()
	}
	rows := result.Rows / result.Matrices()
	matrix, row := row/rows, row%rows
	if f.Groups.Offsets != "" {
		offsets := &c.Operands[d.Operand(f.Groups.Offsets)]
		begin := func(g int) int { return int(offsets.Int(g, 0)) }
		if f.Groups.Of == d.SummedOver() {
			first, end = begin(matrix), begin(matrix+1)
		} else {
			for begin(matrix+1) <= row {
				matrix++
			}
		}
	}
	firstRow := func(x *num.Array) int { // one matrix may be that of all
		if n := x.Matrices(); n > 1 {
			return matrix * (x.Rows / n)
		}
		return 0
	}
	leftRow, rightRow := firstRow(a), firstRow(b)
	return terms{
		count: end - first,
		left: func(k int) (int, int) {
			if f.TransposeLeft {
				return leftRow + first + k, row
			}
			return leftRow + row, first + k
		},
		right: func(k, n int) (int, int) {
			if f.TransposeRight {
				return rightRow + n, first + k
			}
			return rightRow + first + k, n
		},
	}
}
