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

// Int8Definition is the product of matrices in i8, summed in int32 that wrap, with a scale for
// each row of A and for each row of B, which is a column of the result.
var Int8Definition = def.Must(def.Contraction("gemm.int8", scaledForm(def.ContractionForm{
	Factors: def.Only(num.I8),
	Ring:    def.Ring{P: 2, K: 32},
	Formula: []string{"C[m,n] = (sum over k of A[m,k] * B[n,k] in Z/2^32) * scale_a[m] * scale_b[n]"},
	Clauses: []string{
		"acc is the sum over k of A[m,k] * B[n,k] in Z/2^32, as an int32 that wraps; its order makes no difference",
		"acc is rounded once to binary32 and multiplied by scale_a[m], and that by scale_b[n], each product rounded to binary32; one rounding to the result's format",
		"a scale that is NaN gives NaN, and so does an infinite product times 0; otherwise an infinite scale gives an infinity",
		"acc = 0 becomes +0, and a negative scale makes it -0",
	},
})))

// Int8 computes C = (A·Bᵀ) ∘ (scaleA·scaleBᵀ) of matrices in i8: the int32 sum at row m and
// column n, times scaleA[m], times scaleB[n].
func Int8(q *engine.Queue, c, a, b, scaleA, scaleB *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, Int8Definition, []*tensor.Tensor{a, b, c, scaleA, scaleB}, nil, opts...)
}

func int8Operation() *op.Operation {
	d := Int8Definition
	o := &op.Operation{
		Name: d.Name, Summary: "product of matrices in i8, summed in int32, with scales of rows and columns", Definitions: []*def.Definition{d}, Bounds: int8Bounds(),
		Patterns: int8Patterns(),
		Clauses: op.ClausesOf(d, op.Interfaces(), op.Calculates(), op.Calculates(),
			op.Specially(whereInt8(func(_ int32, row, col float64, _ num.DType) bool { return op.IsNoNumber(row + col) })),
			op.Specially(whereInt8(func(acc int32, _, _ float64, _ num.DType) bool { return acc == 0 })),
			op.Interfaces(),
			op.Specially(whereInt8(func(acc int32, row, col float64, out num.DType) bool {
				first := float64(acc) * row
				return op.IsAtAnEnd(num.F32, first) || op.IsAtAnEnd(num.F32, first*col) || op.IsAtAnEnd(out, first*col)
			})),
		),
	}
	withScales(o)
	o.Data = scaledData(d, "uniform", map[string]op.Element{"A": anyByte, "B": anyByte, d.Scales().Row: smallScale, d.Scales().Col: smallScale})
	return o
}

// int8Sum returns the accumulator of an element.
func int8Sum(c *bound.Call, row, col int) (acc int32) {
	a, b := c.Operands[0], c.Operands[1]
	for k := range a.Cols {
		acc += int32(a.Integer(row, k)) * int32(b.Integer(col, k))
	}
	return acc
}

// whereInt8 covers elements by their accumulator, their scales, and the format of the result.
func whereInt8(is func(acc int32, row, col float64, out num.DType) bool) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		return func(_, row, col int) bool {
			return is(int8Sum(c, row, col), float64(c.Operands[3].At(row, 0)), float64(c.Operands[4].At(col, 0)), c.Operands[2].DType)
		}
	}
}

// int8Bounds has the closed form of the product: acc and two products round, and a subnormal
// one by 2^-150, which the second scale multiplies too.
func int8Bounds() []bound.Form {
	return []bound.Form{{
		Output: "C",
		Text:   []string{"bound = g(3) * |acc*scale_a[m]*scale_b[n]| + 2^-149 * (1 + |scale_b[n]|), where acc is the sum over k of A[m,k]*B[n,k] in Z/2^32"},
		At: func(call *bound.Call) func(r, c int) float64 {
			rows, cols := call.Matrix("scale_a"), call.Matrix("scale_b")
			return func(r, c int) float64 {
				x, y := math.Abs(rows.At(r, 0)), math.Abs(cols.At(c, 0))
				return bound.Gamma(3)*math.Abs(float64(int8Sum(call, r, c)))*x*y*(1+0x1p-50) + 0x1p-149*(1+y)
			}
		},
	}}
}

// smallScale has scales as of quantised values, with which results are in the range of f16.
func smallScale(g *gen.Generator, r, c int) float32 { return op.Positive(g, r, c) * 0x1p-7 }

// anyByte is every value of i8.
func anyByte(g *gen.Generator, _, _ int) float32 { return float32(g.Below(256) - 128) }

// int8Patterns have the ends of i8, of which more than 2^17 products overflow an int32 and
// three an int16, and scales that show their order.
func int8Patterns() []op.Pattern {
	d := Int8Definition
	least := func(*gen.Generator, int, int) float32 { return -128 }
	var list []op.Pattern
	add := func(name string, left, right op.Element) {
		list = append(list, op.Pattern{Name: name, Definition: d, Values: map[string]op.Element{"A": left, "B": right}})
	}
	add("all-bytes", anyByte, anyByte)
	add("least", least, least)
	add("greatest", func(*gen.Generator, int, int) float32 { return 127 }, least)
	add("signs", func(g *gen.Generator, _, _ int) float32 { return float32(g.Below(2)*255 - 128) }, func(g *gen.Generator, _, _ int) float32 { return float32(g.Below(2)*255 - 128) })
	add("last-alone", func(_ *gen.Generator, _, c int) float32 { return float32(c%17 - 8) }, func(g *gen.Generator, r, c int) float32 { return float32((r+3*c)%255 - 127) })
	add("negative", func(g *gen.Generator, _, _ int) float32 { return float32(-1 - g.Below(128)) }, anyByte)
	add("odd", func(*gen.Generator, int, int) float32 { return 127 }, func(*gen.Generator, int, int) float32 { return 127 })
	list[1].IsLong = true           // 2^17 products of 2^14
	list[len(list)-1].IsLong = true // of more than 1,040 of these, the last digit is beyond those of a float32
	return append(list, scalePatterns(d, map[string]op.Element{"A": anyByte, "B": anyByte})...)
}
