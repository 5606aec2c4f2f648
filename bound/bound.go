// Package bound provides the parts of error bounds in closed form. A closed form bounds the
// error of one output of an operation in terms of sums that anyone can compute: the result
// before it is stored is within the bound of the truth, so
//
//	|y - truth| <= ulp(y)/2 + bound
//
// on any finite data, as long as nothing overflows and no sum is longer than
// docs/accuracy.md says. The forms add up the error of each step and are a little wider
// than what truth.Rounded finds element by element.
//
// A product, a quotient or an FMA also has an absolute error of 2^-150, a function one of
// its error times 2^-149. It counts like any other error: it is multiplied by every factor by
// which the value is multiplied later.
//
// The forms of an operation are in its folder (op/softmax/bound.go). Package accuracy checks
// that the reference stays within them.
package bound

import (
	"math"
	"math/bits"

	"tokitai/def"
	"tokitai/num"
)

// Form is a closed form for one output of an operation.
type Form struct {
	Output string
	Text   []string // the bound, and what its letters mean

	// At returns the bound of each element of the output of a call.
	At func(call *Call) func(r, c int) float64

	// None is the condition under which there is no bound, as stated in Text, and At returns
	// +Inf; it is "" if there is always one.
	None string

	// Theorem names the theorem of docs/proofs.md that proves the form, as FILE.NAME; "" if
	// none does.
	Theorem string

	// Assumes lists the functions that the output depends on, each with the largest error in
	// ulps that the form assumes.
	Assumes map[*def.Function]float64

	// IsTighter says that the radius computed by package truth may exceed the bound: the
	// evaluator does not know that a value occurs twice in an expression.
	IsTighter bool
}

// Call is one call of a definition, with operands as stored.
type Call struct {
	Definition *def.Definition
	Params     []float64 // in the order of the definition
	Operands   []num.Array
}

// Matrix is an operand in float64.
type Matrix struct {
	Rows, Cols int
	Values     []float64
}

// At returns an element.
func (m Matrix) At(r, c int) float64 { return m.Values[r*m.Cols+c] }

// Row returns a row.
func (m Matrix) Row(r int) []float64 { return m.Values[r*m.Cols : (r+1)*m.Cols] }

// Matrix returns the named operand in float64.
func (c *Call) Matrix(name string) Matrix {
	a := c.Operands[c.Definition.Operand(name)]
	m := Matrix{a.Rows, a.Cols, make([]float64, 0, a.Rows*a.Cols)}
	for r := range a.Rows {
		for col := range a.Cols {
			m.Values = append(m.Values, float64(a.At(r, col)))
		}
	}
	return m
}

// Param returns the named parameter as executed: rounded to binary32.
func (c *Call) Param(name string) float64 {
	return float64(float32(c.Params[c.Definition.Param(name)]))
}

// U is the relative error of one rounding to binary32.
const U = 0x1p-24

// Tiny is the largest absolute error of a product, quotient or FMA with a subnormal result.
const Tiny = 0x1p-150

// More is a factor that covers the terms of second order that a form leaves out: products of
// errors that add up to less than 2^10 U.
const More = 1.001

// Gamma returns n*U/(1 - n*U), the relative error of n roundings (Higham 2002, lemma 3.1).
func Gamma(n int) float64 { return float64(n) * U / (1 - float64(n)*U) }

// RowHeight returns the number of roundings that a term goes through in a row sum of C columns.
func RowHeight(C int) int { return height(C, num.RowLanes(C)) }

// ColHeight returns the number of roundings that a term goes through in a column sum over R
// rows of a matrix of C columns.
func ColHeight(R, C int) int { return height(R, num.ColLanes(C)) }

// TotalHeight returns the number of roundings that a term goes through in the sum of n elements
// of a whole tensor.
func TotalHeight(n int) int {
	if n <= num.FlatRow {
		return RowHeight(n)
	}
	return RowHeight(num.FlatRow) + TotalHeight((n+num.FlatRow-1)/num.FlatRow)
}

func height(n, lanes int) int { return (n-1)/lanes + log2(min(n, lanes)) }

// log2 returns the binary logarithm, rounded up.
func log2(n int) int { return bits.Len(uint(n - 1)) }

// ByRow returns a function that returns f(r)(c) and calls f once per row, to compute what the
// columns share.
func ByRow(f func(r int) func(c int) float64) func(r, c int) float64 {
	last, at := -1, (func(int) float64)(nil)
	return func(r, c int) float64 {
		if r != last {
			last, at = r, f(r)
		}
		return at(c)
	}
}

// Sum returns the sum of f(i) for i below n.
func Sum(n int, f func(i int) float64) float64 {
	s := 0.0
	for i := range n {
		s += f(i)
	}
	return s
}

// Probabilities are the softmax of a row, as exponentials relative to the maximum.
type Probabilities struct {
	x        []float64
	Max, Sum float64
}

// ProbabilitiesOf returns the softmax of a row.
func ProbabilitiesOf(x []float64) Probabilities {
	p := Probabilities{x: x, Max: math.Inf(-1)}
	for _, v := range x {
		p.Max = max(p.Max, v)
	}
	p.Sum = Sum(len(x), func(c int) float64 { return math.Exp(x[c] - p.Max) })
	return p
}

// At returns a probability.
func (p Probabilities) At(c int) float64 { return math.Exp(p.x[c]-p.Max) / p.Sum }

// Error bounds the error of a probability that is computed as exp(x-max) * 1/sum. The
// difference from the maximum has a relative rounding error of U, which the exponential turns
// into a relative error of (max-x)·U; the exponential adds 2U. The terms of the sum have the
// same errors, weighted by their probabilities: Σ p·(max-x) is the entropy of the row less the
// logarithm of the sum, at most ln C. The sum adds h roundings, reciprocal and product one
// each.
func (p Probabilities) Error(c int) float64 {
	C := len(p.x)
	return (p.Max-p.x[c]+math.Log(float64(C))+float64(RowHeight(C))+7)*U*p.At(c) + 0x1p-148
}
