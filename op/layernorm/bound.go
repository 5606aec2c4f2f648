package layernorm

import (
	"math"

	"tokitai/bound"
)

const u = bound.U

var forwardBounds = []bound.Form{
	{
		Output: "y", None: "q >= 1",
		Text: []string{
			"bound = 1.001*|gamma|*rstd * (E*(1 + rho) + |x - mean|*(rho + 2*u)) + 1.1*u*|y| + (1 + |gamma|)*2^-149; no bound where q >= 1",
			"A = sum |x[r,c] - x[r,0]| / C,  V = sum (x[r,c] - mean)^2 / C,  K = u*(h(C)+5)*A + 2^-149,  E = 2*u*|x - mean| + K",
			"F = u*(h(C)+7)*V + 2*K*sqrt(V) + 2*K^2 + 2^-148,  q = F/(V + eps),  rho = 1.001*q/(2*(1-q)) + 3*u",
		},
		At: func(call *bound.Call) func(r, c int) float64 {
			x, gam, beta := call.Matrix("x"), call.Matrix("gamma"), call.Matrix("beta")
			return bound.ByRow(func(r int) func(c int) float64 {
				m := momentsOf(x.Row(r), call.Param("eps"))
				return func(c int) float64 {
					if math.IsInf(m.rho, 1) {
						return m.rho
					}
					d, g := x.At(r, c)-m.mean, math.Abs(gam.At(0, c))
					y := d*m.rstd*gam.At(0, c) + beta.At(0, c)
					e := 2*u*math.Abs(d) + m.k
					return g*m.rstd*(e*(1+m.rho)+math.Abs(d)*(m.rho+2*u))*bound.More + 1.1*u*math.Abs(y) + (1+g)*0x1p-149
				}
			})
		},
	},
	{
		Output: "mean",
		Text:   []string{"bound = 1.001*u * ((h(C)+3)*A + |mean|) + 2^-149"},
		At: func(call *bound.Call) func(r, c int) float64 {
			x := call.Matrix("x")
			return func(r, _ int) float64 {
				m := momentsOf(x.Row(r), call.Param("eps"))
				return u*((m.h+3)*m.abs+math.Abs(m.mean))*bound.More + 0x1p-149
			}
		},
	},
	{
		Output: "rstd", None: "q >= 1",
		Text: []string{"bound = rho * rstd; no bound where q >= 1"},
		At: func(call *bound.Call) func(r, c int) float64 {
			x := call.Matrix("x")
			return func(r, _ int) float64 {
				m := momentsOf(x.Row(r), call.Param("eps"))
				if math.IsInf(m.rho, 1) {
					return m.rho
				}
				return m.rho * m.rstd
			}
		},
	},
}

var backwardBounds = []bound.Form{
	{
		Output: "dx",
		Text: []string{
			"bound = 1.001*|rstd| * (u*(4*|t| + (h(C)+5)*T + (h(C)+10)*|xhat|*Q) + (4 + Q + |xhat|*(2 + T + X))*2^-150) + 2^-150",
			"xhat = (x - mean)*rstd,  t = dy*gamma,  T = sum |t| / C,  X = sum |xhat| / C,  Q = sum |t*xhat| / C over the row",
		},
		At: func(call *bound.Call) func(r, c int) float64 {
			dy, gam, xhat := call.Matrix("dy"), call.Matrix("gamma"), xhatOf(call)
			rstd := call.Matrix("rstd")
			C, h := float64(dy.Cols), float64(bound.RowHeight(dy.Cols))
			return bound.ByRow(func(r int) func(c int) float64 {
				t := func(c int) float64 { return math.Abs(dy.At(r, c) * gam.At(0, c)) }
				T := bound.Sum(dy.Cols, t) / C
				Q := bound.Sum(dy.Cols, func(c int) float64 { return t(c) * math.Abs(xhat(r, c)) }) / C
				X := bound.Sum(dy.Cols, func(c int) float64 { return math.Abs(xhat(r, c)) }) / C
				s := math.Abs(rstd.At(r, 0))
				return func(c int) float64 {
					x := math.Abs(xhat(r, c))
					return s*(u*(4*t(c)+(h+5)*T+(h+10)*x*Q)+(4+Q+x*(2+T+X))*bound.Tiny)*bound.More + bound.Tiny
				}
			})
		},
	},
	{
		Output: "dgamma",
		Text:   []string{"bound = g(H(R,C)+3) * sum |dy[r,c]*xhat[r,c]| over the rows + sum (1 + |dy[r,c]|) over the rows * 2^-149"},
		At: func(call *bound.Call) func(r, c int) float64 {
			dy, xhat := call.Matrix("dy"), xhatOf(call)
			return func(_, c int) float64 {
				abs := bound.Sum(dy.Rows, func(r int) float64 { return math.Abs(dy.At(r, c) * xhat(r, c)) })
				small := bound.Sum(dy.Rows, func(r int) float64 { return 1 + math.Abs(dy.At(r, c)) }) * 0x1p-149
				return bound.Gamma(bound.ColHeight(dy.Rows, dy.Cols)+3)*abs + small
			}
		},
	},
	{
		Output: "dbeta",
		Text:   []string{"bound = g(H(R,C)) * sum |dy[r,c]| over the rows"},
		At: func(call *bound.Call) func(r, c int) float64 {
			dy := call.Matrix("dy")
			return func(_, c int) float64 {
				return bound.Gamma(bound.ColHeight(dy.Rows, dy.Cols)) * bound.Sum(dy.Rows, func(r int) float64 { return math.Abs(dy.At(r, c)) })
			}
		},
	},
}

// moments are those of a row of layernorm. k bounds the error of a centred value that
// is not in proportion to it, rho the relative error of rstd: +Inf if it has none.
type moments struct{ mean, abs, k, variance, rstd, rho, h float64 }

// momentsOf: a difference to the first element is off by u of itself, the mean of
// the differences by h+2 roundings of their mean magnitude A and by 2^-150, so a
// centred value by E = 2u|c| + K, K = u(h+5)A + 2^-149 at most, since
// |x-x0| <= |c|+A. Squares are off by 2|c|E + E², one rounding and 2^-150, their mean
// by h+1 more and 2^-150; mean |c| <= √V and E² <= 2(4u²c² + K²) give F.
// rstd = (V+eps)^(-1/2) turns a relative error q into at most q/(2(1-q)), and is
// rounded three times on the way.
func momentsOf(x []float64, eps float64) (m moments) {
	C := len(x)
	mean := func(f func(c int) float64) float64 { return bound.Sum(C, f) / float64(C) }
	shift := mean(func(c int) float64 { return x[c] - x[0] })
	m.mean = x[0] + shift
	m.abs = mean(func(c int) float64 { return math.Abs(x[c] - x[0]) })
	m.variance = mean(func(c int) float64 { d := (x[c] - x[0]) - shift; return d * d })
	m.h = float64(bound.RowHeight(C))
	m.rstd = 1 / math.Sqrt(m.variance+eps)
	m.k = u*(m.h+5)*m.abs + 0x1p-149
	f := u*(m.h+7)*m.variance + 2*m.k*math.Sqrt(m.variance) + 2*m.k*m.k + 0x1p-148
	if q := f / (m.variance + eps); q < 1 {
		m.rho = bound.More*q/(2*(1-q)) + 3*u
	} else {
		m.rho = math.Inf(1)
	}
	return m
}

// xhatOf returns the normalised input of a backward call.
func xhatOf(call *bound.Call) func(r, c int) float64 {
	x, mean, rstd := call.Matrix("x"), call.Matrix("mean"), call.Matrix("rstd")
	return func(r, c int) float64 { return (x.At(r, c) - mean.At(r, 0)) * rstd.At(r, 0) }
}
