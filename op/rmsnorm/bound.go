package rmsnorm

import (
	"math"

	"tokitai/bound"
	"tokitai/num"
	"tokitai/op"
)

const u = bound.U

var (
	forwardBounds = []bound.Form{
		yBound("V = sum x[r,c]^2 / C,  F = u*(h(C)+2)*V + 2^-149,  q = 1.001*F/(V + eps),  rho = 1.001*(q/(2*(1-q)) + 2.5*u)"),
		rstdBound,
	}
	residualForwardBounds = []bound.Form{
		{
			// Rounding to binary32 first changes nothing: 24 bits are at least twice those of x, and
			// two more (Figueroa 1995).
			Output: "sum",
			Text:   []string{"bound = 0: sum and truth are both x + residual, rounded to the format"},
			At:     func(*bound.Call) func(r, c int) float64 { return func(int, int) float64 { return 0 } },
		},
		yBound("V, F, q and rho as in rmsnorm.forward, of sum"),
		rstdBound,
	}
	backwardBounds         = []bound.Form{dxBound(), dgammaBound()}
	residualBackwardBounds = []bound.Form{residualDXBound(), dgammaBound()}
)

// yBound: x*rstd has the error rho of rstd, one rounding, and 2^-150 if it is subnormal. The product
// by gamma multiplies all that by |gamma|, and adds a rounding and 2^-150.
func yBound(text string) bound.Form {
	return bound.Form{
		Output: "y", None: "q >= 1",
		Text: []string{"bound = 1.001*(|y|*(rho + 2*u) + (1 + |gamma|)*2^-150); no bound where q >= 1", text},
		At: func(call *bound.Call) func(r, c int) float64 {
			x, gamma := normalized(call), call.Matrix("gamma")
			return bound.ByRow(func(r int) func(c int) float64 {
				row := x(r)
				rstd, rho := rstdOf(row, call.Param("eps"))
				return func(c int) float64 {
					if math.IsInf(rho, 1) {
						return rho // also where x or gamma is 0
					}
					g := math.Abs(gamma.At(0, c))
					return bound.More * (math.Abs(row[c])*rstd*g*(rho+2*u) + (1+g)*bound.Tiny)
				}
			})
		},
	}
}

var rstdBound = bound.Form{
	Output: "rstd", None: "q >= 1",
	Text: []string{"bound = rho * rstd; no bound where q >= 1"},
	At: func(call *bound.Call) func(r, c int) float64 {
		x := normalized(call)
		return func(r, _ int) float64 {
			rstd, rho := rstdOf(x(r), call.Param("eps"))
			return rho * rstd
		}
	},
}

// rstdOf returns the exact rstd of a row and the relative error rho of the computed one, +Inf if it
// has no bound.
//
// A square has one rounding and 2^-150. Of the squares' mean, the h roundings of the sum and that of
// the quotient make (h+2)u·V, the squares' own 2^-150 stay 2^-150, and the quotient adds 2^-150:
// additions of binary32 numbers lose nothing to underflow. That is F, with More for what is of
// second order. With A = V+eps, a relative error of at most q changes A^(-1/2) by at most
// (1-q)^(-1/2) - 1 = √(1 + q/(1-q)) - 1 <= q/(2(1-q)). The rounding of A counts half, those of root
// and quotient count one each, and none of the three can be subnormal but a sum, which is exact.
func rstdOf(x []float64, eps float64) (rstd, rho float64) {
	C := len(x)
	square := squares(x) / float64(C)
	rstd = 1 / math.Sqrt(square+eps)
	f := u*float64(bound.RowHeight(C)+2)*square + 0x1p-149
	if q := bound.More * f / (square + eps); q < 1 {
		return rstd, bound.More * (q/(2*(1-q)) + 2.5*u)
	}
	return rstd, math.Inf(1)
}

// normalized returns the numbers of a row that are normalized: those of x, or of the sum as it is
// stored.
func normalized(c *bound.Call) func(row int) []float64 {
	x := c.Matrix("x")
	if c.Definition == ForwardDefinition {
		return x.Row
	}
	residual, d := c.Matrix("residual"), c.Operands[0].DType
	return op.ByRow(func(row int) []float64 {
		s := make([]float64, x.Cols)
		for i, v := range x.Row(row) {
			s[i] = float64(num.Round(d, float32(v)+float32(residual.At(row, i))))
		}
		return s
	})
}

func squares(s []float64) float64 {
	return bound.Sum(len(s), func(i int) float64 { return s[i] * s[i] })
}

func dxBound() bound.Form {
	return bound.Form{
		Output: "dx",
		Text: []string{
			"bound = 1.001*|rstd| * (u*(3*|t| + (h(C)+8)*|xhat|*Q) + (2 + Q + |xhat|*(2 + T + X))*2^-150) + 2^-150",
			"xhat = x*rstd,  t = dy*gamma,  T = sum |t| / C,  X = sum |xhat| / C,  Q = sum |t*xhat| / C over the row",
		},
		At: func(call *bound.Call) func(r, c int) float64 {
			rows, rstd := projections(call), call.Matrix("rstd")
			return bound.ByRow(func(r int) func(c int) float64 {
				row, s := rows(r), math.Abs(rstd.At(r, 0))
				return func(c int) float64 { return bound.More*s*(row.error(c)+u*row.size(c)) + bound.Tiny }
			})
		},
	}
}

func residualDXBound() bound.Form {
	return bound.Form{
		Output: "dx",
		Text: []string{
			"bound = 1.001*(|rstd| * (u*(2*|t| + (h(C)+7)*|xhat|*Q) + (2 + Q + |xhat|*(2 + T + X))*2^-150) + u*|dx|) + 2^-150",
			"xhat = sum*rstd, the other letters as in rmsnorm.backward",
		},
		At: func(call *bound.Call) func(r, c int) float64 {
			rows, rstd, dsum := projections(call), call.Matrix("rstd"), call.Matrix("dsum")
			return bound.ByRow(func(r int) func(c int) float64 {
				row, s := rows(r), rstd.At(r, 0)
				return func(c int) float64 {
					dx := (row.t[c]-row.xhat[c]*row.c)*s + dsum.At(r, c)
					return bound.More*(math.Abs(s)*row.error(c)+u*math.Abs(dx)) + bound.Tiny
				}
			})
		},
	}
}

// projection is a row of t - xhat·c, with c the mean of t·xhat, and the mean magnitudes of t, xhat
// and t·xhat.
type projection struct {
	t, xhat       []float64
	c, T, X, Q, h float64
}

// projections: t and xhat have one rounding and 2^-150 each, so t·xhat has three, and
// (1 + |t| + |xhat|)·2^-150. The h roundings of the sum and that of the quotient make (h+4)u·Q of c,
// and the means of the absolute terms and the quotient's own (2 + T + X)·2^-150. The product xhat·c
// adds the rounding of xhat, its own, 2^-150 and Q·2^-150; the difference adds one of each part.
func projections(call *bound.Call) func(r int) *projection {
	dy, gamma, xhat := call.Matrix("dy"), call.Matrix("gamma"), xhatOf(call)
	C := dy.Cols
	mean := func(f func(c int) float64) float64 { return bound.Sum(C, f) / float64(C) }
	return func(r int) *projection {
		p := &projection{t: make([]float64, C), xhat: make([]float64, C), h: float64(bound.RowHeight(C))}
		for c := range C {
			p.t[c], p.xhat[c] = dy.At(r, c)*gamma.At(0, c), xhat(r, c)
		}
		p.c = mean(func(c int) float64 { return p.t[c] * p.xhat[c] })
		p.T = mean(func(c int) float64 { return math.Abs(p.t[c]) })
		p.X = mean(func(c int) float64 { return math.Abs(p.xhat[c]) })
		p.Q = mean(func(c int) float64 { return math.Abs(p.t[c] * p.xhat[c]) })
		return p
	}
}

func (p *projection) size(c int) float64 { return math.Abs(p.t[c]) + math.Abs(p.xhat[c])*p.Q }

// error bounds the error of an element, up to second order.
func (p *projection) error(c int) float64 {
	x := math.Abs(p.xhat[c])
	return u*(2*math.Abs(p.t[c])+(p.h+7)*x*p.Q) + (2+p.Q+x*(2+p.T+p.X))*bound.Tiny
}

// dgammaBound: a term has the roundings of xhat and of the product, and (1 + |dy|)·2^-150; H
// additions follow.
func dgammaBound() bound.Form {
	return bound.Form{
		Output: "dgamma",
		Text:   []string{"bound = g(H(R,C)+2) * sum |dy[r,c]*xhat[r,c]| over the rows + 1.001*sum (1 + |dy[r,c]|) over the rows * 2^-150"},
		At: func(call *bound.Call) func(r, c int) float64 {
			dy, xhat := call.Matrix("dy"), xhatOf(call)
			return func(_, c int) float64 {
				abs := bound.Sum(dy.Rows, func(r int) float64 { return math.Abs(dy.At(r, c) * xhat(r, c)) })
				small := bound.Sum(dy.Rows, func(r int) float64 { return 1 + math.Abs(dy.At(r, c)) }) * bound.Tiny
				return bound.Gamma(bound.ColHeight(dy.Rows, dy.Cols)+2)*abs + bound.More*small
			}
		},
	}
}

// xhatOf returns the normalized input of a call for gradients.
func xhatOf(call *bound.Call) func(r, c int) float64 {
	x, rstd := call.Matrix(savedRow(call)), call.Matrix("rstd")
	return func(r, c int) float64 { return x.At(r, c) * rstd.At(r, 0) }
}

// savedRow names the operand of a call for gradients that holds what was normalized.
func savedRow(call *bound.Call) string {
	if call.Definition == BackwardDefinition {
		return "x"
	}
	return "sum"
}
