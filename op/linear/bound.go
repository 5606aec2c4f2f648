package linear

import (
	"math"

	"tokitai/bound"
	"tokitai/num"
	"tokitai/op/silu"
)

// The sum is off by e = g(K)·S + K·2^-149, where S is the sum of the magnitudes. Rounded to the format of Y it is off
// by half an ulp more: at most h of itself, or half of the least number. The addition rounds once more.
var residualBounds = []bound.Form{{
	Output: "Y",
	Text: []string{
		"bound = d + u*(|Y| + d),  d = e + h*(|p| + e) + t,  e = g(K) * (sum |A[m,k]*B[n,k]| over k) + K*2^-149, by the rule fma",
		"p is the exact product; h and t are 2^-11 and 2^-25 for f16, 2^-8 and 2^-134 for bf16, and 0 for f32",
	},
	At: func(call *bound.Call) func(r, c int) float64 {
		a, b, x := call.Matrix("A"), call.Matrix("B"), call.Matrix("X")
		h, t := rounding(call.Operands[call.Definition.Operand("Y")].DType)
		return func(r, c int) float64 {
			p := bound.Sum(a.Cols, func(k int) float64 { return a.At(r, k) * b.At(c, k) })
			s := bound.Sum(a.Cols, func(k int) float64 { return math.Abs(a.At(r, k) * b.At(c, k)) })
			e := bound.Gamma(a.Cols)*s + float64(a.Cols)*0x1p-149
			d := e + h*(math.Abs(p)+e) + t
			return d + bound.U*(math.Abs(x.At(r, c)+p)+d)
		}
	},
}}

// rounding returns half an ulp of a format, relative to a normal number and of a subnormal one; 0 for f32, to which a
// value in binary32 is rounded without an error.
func rounding(d num.DType) (relative, least float64) {
	if d == num.F32 {
		return 0, 0
	}
	return num.ULP(d, 1) / 2, num.ULP(d, 0) / 2
}

// A stored product is off by d: by the error e of its sum, and by half an ulp where the exact product and the computed one
// are rounded to different sides. silu changes by at most 1.2 of that, as its steps are evaluated: its derivative
// is at most 1.0999. swiglu.forward adds what it has itself.
var swigluBounds = []bound.Form{
	{Output: "gate", Text: []string{"bound = d(G), d(B) = e + 2*(h*(|p| + e) + t), by the rule fma", "p is the exact product, e = g(K) * (sum |A[m,k]*B[n,k]| over k) + K*2^-149; h and t are half an ulp of the format at 1, and half its least number"},
		At: func(call *bound.Call) func(r, c int) float64 { return errorOf(productOf(call, "G")) }},
	{Output: "up", Text: []string{"bound = d(U), as for gate"},
		At: func(call *bound.Call) func(r, c int) float64 { return errorOf(productOf(call, "U")) }},
	{
		Output: "Y", Assumes: silu.Assumes,
		Text: []string{
			"bound = 1.2*d(G)*(|up| + d(U)) + |silu(gate)|*d(U) + 9*u*s*v + (1 + (2*a + 3)*v)*2^-150",
			"s = |silu(gate)| + 1.2*d(G), v = |up| + d(U), a = min(|gate| + d(G), 128)",
		},
		At: func(call *bound.Call) func(r, c int) float64 {
			g, u := productOf(call, "G"), productOf(call, "U")
			return func(r, c int) float64 {
				gate, up := g(r, c), u(r, c)
				silu := math.Abs(silu.At(gate.stored).Value())
				s, v, a := silu+1.2*gate.off, math.Abs(up.stored)+up.off, min(math.Abs(gate.stored)+gate.off, 128)
				return 1.2*gate.off*v + silu*up.off + 9*bound.U*s*v + (1+(2*a+3)*v)*bound.Tiny
			}
		},
	},
}

// stored is an exact product, rounded to its format, and how far what is stored may be from it.
type stored struct{ stored, off float64 }

func errorOf(of func(r, c int) stored) func(r, c int) float64 {
	return func(r, c int) float64 { return of(r, c).off }
}

// productOf returns the products of A and another operand.
func productOf(call *bound.Call, right string) func(r, c int) stored {
	a, b := call.Matrix("A"), call.Matrix(right)
	dtype := call.Operands[call.Definition.Operand("gate")].DType
	return func(r, c int) stored {
		p := bound.Sum(a.Cols, func(k int) float64 { return a.At(r, k) * b.At(c, k) })
		s := bound.Sum(a.Cols, func(k int) float64 { return math.Abs(a.At(r, k) * b.At(c, k)) })
		e := bound.Gamma(a.Cols)*s + float64(a.Cols)*0x1p-149
		return stored{float64(num.Widen(dtype, num.NarrowF64(dtype, p))), e + num.ULP(dtype, 1)*(math.Abs(p)+e) + num.ULP(dtype, 0)}
	}
}
