package rope

import (
	"math"

	"tokitai/bound"
)

var (
	interleavedNormForwardBounds  = []bound.Form{interleavedNormBound, headRstdBound}
	interleavedNormBackwardBounds = []bound.Form{interleavedDXBound, factorBound("dgamma",
		[]string{"bound = 1.001*sum over the rows of (|xhat|*G + |g|*X + u*|g*xhat| + 2^-150) + g(H(R,C)) * sum over the rows of |g*xhat|, letters as for dx"}, headGradients)}
)

// interleavedNormBound: h has the error rho of rstd, two roundings, and 2^-150 of each product, the first of
// them times |gamma|. Turning multiplies these errors by |c| and |s|, and adds its own.
var interleavedNormBound = bound.Form{
	Output: "y", None: "q >= 1",
	Text: []string{
		"bound = 1.001*(|c|*E + |s|*E' + u*(|b*w'| + |y|) + 2^-149),  E = |h|*(rho + 2*u) + (1 + |gamma|)*2^-150, E' that of the other column of the pair; no bound where q >= 1",
		"b the second element of the pair of h, w' the wave in the other column,  V = sum x[r,i]^2 / C,  F = u*(h(C)+2)*V + 2^-149,  q = 1.001*F/(V + eps),  t = q*(1+q)/2,  rho = t/(1-t) + 3*u",
	},
	At: func(call *bound.Call) func(r, c int) float64 {
		x, gamma, wave := call.Matrix("x"), call.Matrix("gamma"), waveOf(call)
		return bound.ByRow(func(r int) func(c int) float64 {
			rstd, rho := headRstd(x.Row(r), call.Param("eps"))
			h := func(r, c int) float64 { return x.At(r, c) * rstd * gamma.At(0, c) }
			result := neighbours(call, h, x.Cols, false)
			error := func(c int) float64 {
				if c >= x.Cols {
					return 0
				}
				return math.Abs(h(r, c))*(rho+2*u) + (1+math.Abs(gamma.At(0, c)))*bound.Tiny
			}
			return func(c int) float64 {
				if math.IsInf(rho, 1) {
					return rho // also where x or gamma is 0
				}
				cos, sin := wave(r, c)
				return bound.More * (math.Abs(cos)*error(c) + math.Abs(sin)*error(c^1) + result(r, c).error())
			}
		})
	},
}

var headRstdBound = bound.Form{
	Output: "rstd", None: "q >= 1",
	Text: []string{"bound = rho * rstd; no bound where q >= 1"},
	At: func(call *bound.Call) func(r, c int) float64 {
		x := call.Matrix("x")
		return func(r, _ int) float64 {
			rstd, rho := headRstd(x.Row(r), call.Param("eps"))
			return rho * rstd
		}
	},
}

// headRstd is rstdOf for one square a term: it has one rounding and 2^-150, the sum h roundings, and the
// quotient one and 2^-150.
func headRstd(x []float64, eps float64) (rstd, rho float64) {
	C := len(x)
	return inverseOf(squares(x)/float64(C), bound.RowHeight(C)+2, eps)
}

// headGradients returns what the gradients of each element are made of.
func headGradients(call *bound.Call) func(r, c int) gradient {
	dy, x, gamma, rstd := call.Matrix("dy"), call.Matrix("x"), call.Matrix("gamma"), call.Matrix("rstd")
	g := neighbours(call, dy.At, dy.Cols, true)
	return func(r, c int) gradient { return gradientOf(g(r, c), x.At(r, c), rstd.At(r, 0), gamma.At(0, c)) }
}

// interleavedDXBound: a term of k has the errors of its factors, a rounding and 2^-150. The sum has h
// roundings, the quotient one and 2^-150. The product xhat·k adds a rounding of its size and 2^-150, the
// difference one of both parts, the product with rstd another.
var interleavedDXBound = bound.Form{
	Output: "dx",
	Text: []string{
		"bound = 1.001*(|rstd|*(K*X + |xhat|*D + T + u*(2*|u| + 3*|xhat|*K) + 2^-150) + 2^-150)",
		"G = u*(|b*w'| + |g|) + 2^-149, b the second of the pair of dy, w' the wave in the other column,  X = u*|xhat| + 2^-150,  T = |gamma|*G + u*|u| + 2^-150",
		"A = |u*xhat|,  K = sum A / C,  D = sum (|xhat|*T + |u|*X + u*(h(C)+2)*A + 2^-150) / C + 2^-150",
	},
	At: func(call *bound.Call) func(r, c int) float64 {
		at, rstd := headGradients(call), call.Matrix("rstd")
		C := call.Operands[0].Cols
		h := float64(bound.RowHeight(C))
		return bound.ByRow(func(r int) func(c int) float64 {
			K, D := 0.0, 0.0
			row := make([]gradient, C)
			for c := range C {
				e := at(r, c)
				A := math.Abs(e.t * e.xhat)
				K += A
				D += math.Abs(e.xhat)*e.tError + math.Abs(e.t)*e.xError + u*(h+2)*A + bound.Tiny
				row[c] = e
			}
			K, D = K/float64(C), D/float64(C)+bound.Tiny
			scale := math.Abs(rstd.At(r, 0))
			return func(c int) float64 {
				e := &row[c]
				x := math.Abs(e.xhat)
				return bound.More * (scale*(K*e.xError+x*D+e.tError+u*(2*math.Abs(e.t)+3*x*K)+bound.Tiny) + bound.Tiny)
			}
		})
	},
}
