package rmsnorm

import (
	"math"

	"tokitai/bound"
	"tokitai/num"
)

const u = bound.U

const forwardText = "V = sum x[r,c]^2 / C,  F = u*(h(C)+3)*V + 2^-148,  q = 1.001*F/(V + eps),  rho = q/(2*(1-q)) + 3*u"

var forwardBounds = []bound.Form{
	{
		Output: "y", None: "q >= 1",
		Text: []string{
			"bound = 1.001*|y|*(rho + 2*u) + (1 + |gamma|)*2^-149; no bound where q >= 1",
			forwardText,
		},
		At: yBound,
	},
	{Output: "rstd", None: "q >= 1", Text: []string{"bound = rho * rstd; no bound where q >= 1"}, At: rstdBound},
}

var residualBounds = []bound.Form{
	{
		Output: "sum", IsTighter: true, // its rounding is that of the storage
		Text: []string{"bound = u*|sum|"},
		At: func(call *bound.Call) func(r, c int) float64 {
			rows := rowsOf(call)
			return bound.ByRow(func(r int) func(c int) float64 {
				s := rows(r)
				return func(c int) float64 { return u * math.Abs(s.exact[c]) }
			})
		},
	},
	{
		Output: "y", None: "q >= 1", IsTighter: true, // sum occurs twice
		Text: []string{
			"bound = 1.001*|gamma|*rstd * (E*(1 + rho) + |s|*(rho + 2*u)) + (1 + |gamma|)*2^-149; no bound where q >= 1",
			"s = x + residual,  E = u*|s| + e,  e = 1.001*max(w*|s|, m) with w = 2^-11, m = 2^-25 in f16, w = 2^-8, m = 2^-134 in bf16, e = 0 in f32",
			"V = sum s[r,c]^2 / C,  F = u*(h(C)+3)*V + 2*sum |s|*E / C + sum E^2 / C + 2^-148,  q = 1.001*F/(V + eps),  rho = q/(2*(1-q)) + 3*u",
		},
		At: yBound,
	},
	{Output: "rstd", None: "q >= 1", IsTighter: true, Text: []string{"bound = rho * rstd; no bound where q >= 1"}, At: rstdBound},
}

func yBound(call *bound.Call) func(r, c int) float64 {
	rows, gamma := rowsOf(call), call.Matrix("gamma")
	return bound.ByRow(func(r int) func(c int) float64 {
		s := rows(r)
		return func(c int) float64 {
			if math.IsInf(s.rho, 1) {
				return s.rho
			}
			g := math.Abs(gamma.At(0, c))
			return g*s.rstd*(s.error[c]*(1+s.rho)+math.Abs(s.exact[c])*(s.rho+2*u))*bound.More + (1+g)*0x1p-149
		}
	})
}

func rstdBound(call *bound.Call) func(r, c int) float64 {
	rows := rowsOf(call)
	return func(r, _ int) float64 {
		s := rows(r)
		if math.IsInf(s.rho, 1) {
			return s.rho
		}
		return s.rho * s.rstd
	}
}

var backwardBounds = []bound.Form{
	{
		Output: "dx",
		Text: []string{
			"bound = 1.001*|rstd| * (u*(3*|t| + (h(C)+8)*|xhat|*Q) + (3 + Q + |xhat|*(2 + T + X))*2^-150) + 2^-150",
			"xhat = x*rstd,  t = dy*gamma,  T = sum |t| / C,  X = sum |xhat| / C,  Q = sum |t*xhat| / C over the row",
		},
		At: func(call *bound.Call) func(r, c int) float64 {
			dy, gamma, rstd, xhat := call.Matrix("dy"), call.Matrix("gamma"), call.Matrix("rstd"), xhatOf(call)
			C, h := float64(dy.Cols), float64(bound.RowHeight(dy.Cols))
			return bound.ByRow(func(r int) func(c int) float64 {
				t := func(c int) float64 { return math.Abs(dy.At(r, c) * gamma.At(0, c)) }
				T := bound.Sum(dy.Cols, t) / C
				Q := bound.Sum(dy.Cols, func(c int) float64 { return t(c) * math.Abs(xhat(r, c)) }) / C
				X := bound.Sum(dy.Cols, func(c int) float64 { return math.Abs(xhat(r, c)) }) / C
				s := math.Abs(rstd.At(r, 0))
				return func(c int) float64 {
					x := math.Abs(xhat(r, c))
					return s*(u*(3*t(c)+(h+8)*x*Q)+(3+Q+x*(2+T+X))*bound.Tiny)*bound.More + bound.Tiny
				}
			})
		},
	},
	{
		Output: "dgamma",
		Text:   []string{"bound = g(H(R,C)+2) * sum |dy[r,c]*xhat[r,c]| over the rows + sum (1 + |dy[r,c]|) over the rows * 2^-149"},
		At: func(call *bound.Call) func(r, c int) float64 {
			dy, xhat := call.Matrix("dy"), xhatOf(call)
			return func(_, c int) float64 {
				abs := bound.Sum(dy.Rows, func(r int) float64 { return math.Abs(dy.At(r, c) * xhat(r, c)) })
				small := bound.Sum(dy.Rows, func(r int) float64 { return 1 + math.Abs(dy.At(r, c)) }) * 0x1p-149
				return bound.Gamma(bound.ColHeight(dy.Rows, dy.Cols)+2)*abs + small
			}
		},
	},
}

// row is what is known of a row that is normalized: its numbers and their errors, the mean
// square, the exact rstd, and the relative error rho of the computed one, +Inf if it has none.
type row struct {
	exact, error      []float64
	square, rstd, rho float64
}

// rowsOf returns the rows of a forward call: those of x, or of x + residual, which is off by a
// rounding to binary32 and one to the format of x. Squares are off by 2|s|E + E² on account of
// that, by one rounding and 2^-150, their mean by h+1 more and 2^-150. rstd = (V+eps)^(-1/2)
// turns a relative error q into at most q/(2(1-q)), and is rounded three times on the way.
func rowsOf(call *bound.Call) func(r int) row {
	x, eps := call.Matrix("x"), call.Param("eps")
	residual, rounding := bound.Matrix{}, func(float64) float64 { return 0 }
	if call.Definition == ResidualDefinition {
		residual = call.Matrix("residual")
		rounding = roundingTo(call.Operands[0].DType)
	}
	C := x.Cols
	mean := func(f func(c int) float64) float64 { return bound.Sum(C, f) / float64(C) }
	return func(r int) row {
		s := row{exact: x.Row(r), error: make([]float64, C)}
		if residual.Values != nil {
			s.exact = make([]float64, C)
			for c, v := range x.Row(r) {
				s.exact[c] = v + residual.At(r, c)
				s.error[c] = u*math.Abs(s.exact[c]) + rounding(s.exact[c])
			}
		}
		s.square = mean(func(c int) float64 { return s.exact[c] * s.exact[c] })
		s.rstd = 1 / math.Sqrt(s.square+eps)
		f := u*float64(bound.RowHeight(C)+3)*s.square + 0x1p-148
		f += mean(func(c int) float64 { return s.error[c] * (2*math.Abs(s.exact[c]) + s.error[c]) })
		if q := bound.More * f / (s.square + eps); q < 1 {
			s.rho = q/(2*(1-q)) + 3*u
		} else {
			s.rho = math.Inf(1)
		}
		return s
	}
}

// roundingTo returns the error of a rounding to a format.
func roundingTo(d num.DType) func(s float64) float64 {
	if d == num.F32 {
		return func(float64) float64 { return 0 }
	}
	return func(s float64) float64 { return bound.More * max(num.ULP(d, 1)/2*math.Abs(s), num.ULP(d, 0)/2) }
}

// xhatOf returns the normalized input of a backward call.
func xhatOf(call *bound.Call) func(r, c int) float64 {
	x, rstd := call.Matrix("x"), call.Matrix("rstd")
	return func(r, c int) float64 { return x.At(r, c) * rstd.At(r, 0) }
}
