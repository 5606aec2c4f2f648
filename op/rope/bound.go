package rope

import (
	"math"

	"tokitai/bound"
)

const u = bound.U

var (
	forwardBounds  = []bound.Form{turnedBound("y1", "x2*s", "x1", "x2"), turnedBound("y2", "x2*c", "x1", "x2")}
	backwardBounds = []bound.Form{turnedBound("dx1", "dy2*s", "dy1", "dy2"), turnedBound("dx2", "dy2*c", "dy1", "dy2")}

	normForwardBounds  = []bound.Form{normBound("y1"), normBound("y2"), rstdBound}
	normBackwardBounds = []bound.Form{dxBound("dx1", 0), dxBound("dx2", 1), dgammaBound("dgamma1", 0), dgammaBound("dgamma2", 1)}
)

// angleOf returns the cosine and the sine that each element is turned by: zeros where a position
// names none.
func angleOf(call *bound.Call) func(r, i int) (c, s float64) {
	cos, sin := call.Matrix("cos"), call.Matrix("sin")
	position := call.Operands[call.Definition.Operand("position")]
	return func(r, i int) (c, s float64) {
		p := int(position.Int(r, 0))
		if p < 0 || p >= cos.Rows {
			return 0, 0
		}
		return cos.At(p, i), sin.At(p, i)
	}
}

// turned is one of the two results of a pair that is turned: a*p + b*q, of which the second
// product is rounded.
type turned struct{ value, rounded float64 }

// turns returns both results of the pair a, b, turned by an angle or back.
func turns(a, b, c, s float64, isBack bool) [2]turned {
	if isBack {
		s = -s
	}
	return [2]turned{{a*c - b*s, math.Abs(b * s)}, {a*s + b*c, math.Abs(b * c)}}
}

// error bounds the error of a result: the product and the sum have a rounding each, and 2^-150.
func (t turned) error() float64 { return u*(t.rounded+math.Abs(t.value)) + 2*bound.Tiny }

func turnedBound(output, product, first, second string) bound.Form {
	which := int(output[len(output)-1] - '1')
	return bound.Form{
		Output: output,
		Text:   []string{"bound = 1.001*(u*(|" + product + "| + |" + output + "|) + 2^-149)"},
		At: func(call *bound.Call) func(r, c int) float64 {
			a, b, angle := call.Matrix(first), call.Matrix(second), angleOf(call)
			return func(r, i int) float64 {
				c, s := angle(r, i)
				return bound.More * turns(a.At(r, i), b.At(r, i), c, s, first == "dy1")[which].error()
			}
		},
	}
}

// normBound: h has the error rho of rstd, two roundings, and 2^-150 of each product, the first of
// them times |gamma|. Turning multiplies these errors by |c| and |s|, and adds its own.
func normBound(output string) bound.Form {
	which := int(output[len(output)-1] - '1')
	text := []string{
		"bound = 1.001*(|c|*E1 + |s|*E2 + u*(|h2*s| + |y1|) + 2^-149),  E = |h|*(rho + 2*u) + (1 + |gamma|)*2^-150 of each half; no bound where q >= 1",
		"V = sum (x1[r,i]^2 + x2[r,i]^2) / (2*C),  F = u*(h(C)+4)*V + 2^-149,  q = 1.001*F/(V + eps),  t = q*(1+q)/2,  rho = t/(1-t) + 3*u",
	}
	if which == 1 {
		text = []string{"bound = 1.001*(|s|*E1 + |c|*E2 + u*(|h2*c| + |y2|) + 2^-149),  E1, E2, rho and q as for y1; no bound where q >= 1"}
	}
	return bound.Form{
		Output: output, None: "q >= 1", Text: text,
		At: func(call *bound.Call) func(r, c int) float64 {
			x := [2]bound.Matrix{call.Matrix("x1"), call.Matrix("x2")}
			gamma := [2]bound.Matrix{call.Matrix("gamma1"), call.Matrix("gamma2")}
			angle := angleOf(call)
			return bound.ByRow(func(r int) func(i int) float64 {
				rstd, rho := rstdOf(x[0].Row(r), x[1].Row(r), call.Param("eps"))
				return func(i int) float64 {
					if math.IsInf(rho, 1) {
						return rho // also where x or gamma is 0
					}
					c, s := angle(r, i)
					var h, e [2]float64
					for k := range h {
						g := gamma[k].At(0, i)
						h[k] = x[k].At(r, i) * rstd * g
						e[k] = math.Abs(h[k])*(rho+2*u) + (1+math.Abs(g))*bound.Tiny
					}
					own := turns(h[0], h[1], c, s, false)[which].error()
					if which == 1 {
						c, s = s, c
					}
					return bound.More * (math.Abs(c)*e[0] + math.Abs(s)*e[1] + own)
				}
			})
		},
	}
}

var rstdBound = bound.Form{
	Output: "rstd", None: "q >= 1",
	Text: []string{"bound = rho * rstd; no bound where q >= 1"},
	At: func(call *bound.Call) func(r, c int) float64 {
		x1, x2 := call.Matrix("x1"), call.Matrix("x2")
		return func(r, _ int) float64 {
			rstd, rho := rstdOf(x1.Row(r), x2.Row(r), call.Param("eps"))
			return rho * rstd
		}
	},
}

// rstdOf returns the exact rstd of a head and the relative error rho of the computed one, +Inf if
// it has no bound.
//
// A term x1² + x2² has two roundings and twice 2^-150. The h roundings of the sum, that of 2C and
// that of the quotient make (h+4)u·V of the mean V over 2C; the terms' 2·C·2^-150 become 2^-150,
// and the quotient adds 2^-150. That is F, with More for what is of second order. From there on
// rstd is that of an RMSNorm. A relative error of at most q of V + eps changes its root by at most
// 1 - √(1-q) <= q(1+q)/2 = t, and the inverse of that by at most t/(1-t); the sum with eps counts
// half a rounding, root and quotient one each, and 3u leaves u/2 for second order.
func rstdOf(x1, x2 []float64, eps float64) (rstd, rho float64) {
	C := len(x1)
	square := bound.Sum(C, func(i int) float64 { return x1[i]*x1[i] + x2[i]*x2[i] }) / float64(2*C)
	return inverseOf(square, bound.RowHeight(C)+4, eps)
}

// inverseOf returns rstd and rho by the mean square, whose computation has that many roundings.
func inverseOf(square float64, roundings int, eps float64) (rstd, rho float64) {
	rstd = 1 / math.Sqrt(square+eps)
	f := u*float64(roundings)*square + 0x1p-149
	if q := bound.More * f / (square + eps); q < 1 {
		t := q * (1 + q) / 2
		return rstd, t/(1-t) + 3*u
	}
	return rstd, math.Inf(1)
}

// gradient is what the gradients of one element of a half are made of, with bounds of the errors.
type gradient struct{ g, gError, xhat, xError, t, tError float64 }

// gradientsOf returns both halves of an element. g is turned back; xhat = x·rstd has a rounding and
// 2^-150; t = g·gamma has the error of g times |gamma|, a rounding and 2^-150.
func gradientsOf(call *bound.Call) func(r, i int) [2]gradient {
	dy1, dy2, rstd, angle := call.Matrix("dy1"), call.Matrix("dy2"), call.Matrix("rstd"), angleOf(call)
	x := [2]bound.Matrix{call.Matrix("x1"), call.Matrix("x2")}
	gamma := [2]bound.Matrix{call.Matrix("gamma1"), call.Matrix("gamma2")}
	return func(r, i int) (list [2]gradient) {
		c, s := angle(r, i)
		for k, g := range turns(dy1.At(r, i), dy2.At(r, i), c, s, true) {
			list[k] = gradientOf(g, x[k].At(r, i), rstd.At(r, 0), gamma[k].At(0, i))
		}
		return list
	}
}

func gradientOf(g turned, x, rstd, gamma float64) gradient {
	e := gradient{g: g.value, gError: g.error(), xhat: x * rstd, t: g.value * gamma}
	e.xError = u*math.Abs(e.xhat) + bound.Tiny
	e.tError = math.Abs(gamma)*e.gError + u*math.Abs(e.t) + bound.Tiny
	return e
}

// dxBound: a term t1·xhat1 + t2·xhat2 of k has the errors of its factors, and a rounding and 2^-150
// of the second product and of the sum; its size is at most A = |t1·xhat1| + |t2·xhat2|. The sum
// has h roundings, 2C and the quotient one each, and the quotient 2^-150: that is the error of k,
// whose size is at most K, the sum of A over 2C. t - xhat·k adds a rounding of its size and 2^-150,
// the product with rstd another.
func dxBound(output string, which int) bound.Form {
	text := []string{
		"bound = 1.001*(|rstd|*(K*X + |xhat|*D + T + 2*u*(|u1| + |xhat|*K) + 2^-150) + 2^-150), with xhat, X and T of the first half",
		"G = u*(|dy2*s| + |g1|) + 2^-149 and u*(|dy2*c| + |g2|) + 2^-149,  X = u*|xhat| + 2^-150,  T = |gamma|*G + u*|u| + 2^-150 of each half",
		"A = |u1*xhat1| + |u2*xhat2|,  K = sum A / (2*C),  D = sum (|xhat|*T + |u|*X of both halves + u*(h(C)+4)*A + 2^-149) / (2*C) + 2^-150",
	}
	if which == 1 {
		text = []string{"bound as for dx1, with u2, xhat, X and T of the second half"}
	}
	return bound.Form{
		Output: output, Text: text,
		At: func(call *bound.Call) func(r, c int) float64 {
			at, rstd := gradientsOf(call), call.Matrix("rstd")
			C := call.Operands[0].Cols
			h := float64(bound.RowHeight(C))
			return bound.ByRow(func(r int) func(i int) float64 {
				K, D := 0.0, 0.0
				row := make([]gradient, C)
				for i := range C {
					both := at(r, i)
					A := 0.0
					for _, e := range both {
						A += math.Abs(e.t * e.xhat)
						D += math.Abs(e.xhat)*e.tError + math.Abs(e.t)*e.xError
					}
					K += A
					D += u*(h+4)*A + 2*bound.Tiny
					row[i] = both[which]
				}
				K, D = K/float64(2*C), D/float64(2*C)+bound.Tiny
				scale := math.Abs(rstd.At(r, 0))
				return func(i int) float64 {
					e := &row[i]
					x := math.Abs(e.xhat)
					return bound.More * (scale*(K*e.xError+x*D+e.tError+2*u*(math.Abs(e.t)+x*K)+bound.Tiny) + bound.Tiny)
				}
			})
		},
	}
}

// dgammaBound is that of one half.
func dgammaBound(output string, which int) bound.Form {
	text := []string{"bound = 1.001*sum over the rows of (|xhat|*G + |g1|*X + u*|g1*xhat| + 2^-150) + g(H(R,C)) * sum over the rows of |g1*xhat|, letters as for dx1"}
	if which == 1 {
		text = []string{"bound as for dgamma1, of the second half"}
	}
	return factorBound(output, text, func(call *bound.Call) func(r, i int) gradient {
		at := gradientsOf(call)
		return func(r, i int) gradient { return at(r, i)[which] }
	})
}

// factorBound bounds the gradient of a factor of a norm: a term g·xhat has the errors of its factors, a
// rounding and 2^-150; H additions follow.
func factorBound(output string, text []string, of func(call *bound.Call) func(r, i int) gradient) bound.Form {
	return bound.Form{
		Output: output, Text: text,
		At: func(call *bound.Call) func(r, c int) float64 {
			at, a := of(call), call.Operands[0]
			return func(_, i int) float64 {
				abs, own := 0.0, 0.0
				for r := range a.Rows {
					e := at(r, i)
					term := math.Abs(e.g * e.xhat)
					abs += term
					own += math.Abs(e.xhat)*e.gError + math.Abs(e.g)*e.xError + u*term + bound.Tiny
				}
				return bound.More * (own + bound.Gamma(bound.ColHeight(a.Rows, a.Cols))*abs)
			}
		},
	}
}
