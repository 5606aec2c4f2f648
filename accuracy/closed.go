package accuracy

import (
	"fmt"
	"math"
	"math/bits"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/ball"
)

// Bound is a closed form for one output of an operation, in terms of sums that anyone
// can compute: the result before it is stored is within the bound of the truth, so
//
//	|y - truth| <= ulp(y)/2 + bound
//
// on any finite data, as long as nothing overflows and no sum is longer than
// closedForms says. Where the text states a condition, +Inf stands for no bound. The
// forms add up the error of each step and are a little wider than what truth.Rounded
// finds element by element. They take exp and log to be within 1 ulp, and the
// reciprocal within 0.75.
//
// A product, a quotient or an FMA also has an absolute error of 2^-150, a function one
// of its error times 2^-149. It counts like any other: multiplied by all that the value
// is multiplied by later.
type Bound struct {
	Operation string
	Output    string
	Text      []string // the bound, and what its letters mean
	At        func(run *Run) func(r, c int) float64

	// IsTighter says that the radius may exceed the bound: the evaluator does not see
	// that a value occurs twice in an expression.
	IsTighter bool
}

// boundFor is the closed form for an output of the run, nil if there is none: the
// forms are those of the plain definitions, and of accumulation.
func (run *Run) boundFor(output string) *Bound {
	d := run.Data.Definition
	isPlain := len(run.Operation.Definitions) > 0 && d == run.Operation.Definitions[0]
	if !(isPlain || d.Accumulate) || run.Model != def.FMAChain {
		return nil
	}
	for i := range Bounds {
		if b := &Bounds[i]; b.Operation == run.Operation.Name && b.Output == output {
			return b
		}
	}
	return nil
}

// check holds an answer to the closed form, and the closed form to the radius, which
// is derived without it.
func (b *Bound) check(bound float64, y float64, d num.DType, t ball.Ball, radius float64) error {
	lo, hi := t.Bounds()
	limit := bound
	if d != num.F32 {
		limit += num.ULP(d, y) / 2
	}
	if distance := max(lo-y, y-hi); distance > limit {
		return fmt.Errorf("the reference gives %v, truth %v: %g apart, closed form %g", y, t, distance, limit)
	}
	// The bound is evaluated in float64, in fewer than 2^13 steps; the radius is a
	// difference of float64 endpoints.
	slack := bound*0x1p-40 + (hi - lo) + max(-lo, hi)*0x1p-50
	if !b.IsTighter && radius > bound+slack {
		return fmt.Errorf("the radius %g is above the closed form %g", radius, bound)
	}
	return nil
}

const u = 0x1p-24

// tiny is what a product, a quotient or an FMA may lose among the subnormals.
const tiny = 0x1p-150

// more stands above terms of second order where a form leaves them out: errors that
// add up to less than 2^10 u, times one another.
const more = 1.001

func gamma(n int) float64 { return float64(n) * u / (1 - float64(n)*u) }

// rowHeight is how many roundings a term passes in a row sum of C columns.
func rowHeight(C int) int { return height(C, num.RowLanes(C)) }

// colHeight is the same for a column sum over R rows of a matrix of C columns.
func colHeight(R, C int) int { return height(R, num.ColLanes(C)) }

func height(n, lanes int) int { return (n-1)/lanes + log2(min(n, lanes)) }

// log2 is the binary logarithm, rounded up.
func log2(n int) int { return bits.Len(uint(n - 1)) }

// totalHeight is the same for the sum of n elements in flat rows.
func totalHeight(n int) int {
	if n <= num.FlatRow {
		return rowHeight(n)
	}
	return rowHeight(num.FlatRow) + totalHeight((n+num.FlatRow-1)/num.FlatRow)
}

// matrix is an operand in float64.
type matrix struct {
	rows, cols int
	values     []float64
}

func (m matrix) at(r, c int) float64 { return m.values[r*m.cols+c] }
func (m matrix) row(r int) []float64 { return m.values[r*m.cols : (r+1)*m.cols] }

func (run *Run) matrix(name string) matrix {
	a := run.Operands[run.Data.Definition.Operand(name)]
	m := matrix{a.Rows, a.Cols, make([]float64, 0, a.Rows*a.Cols)}
	for r := range a.Rows {
		for c := range a.Cols {
			m.values = append(m.values, float64(a.At(r, c)))
		}
	}
	return m
}

// param is a parameter as executed.
func (run *Run) param(name string) float64 {
	return float64(float32(run.Data.Params[run.Data.Definition.Param(name)]))
}

// byRow computes once per row what its columns share.
func byRow(f func(r int) func(c int) float64) func(r, c int) float64 {
	last, at := -1, (func(int) float64)(nil)
	return func(r, c int) float64 {
		if r != last {
			last, at = r, f(r)
		}
		return at(c)
	}
}

func sumOf(n int, f func(i int) float64) float64 {
	s := 0.0
	for i := range n {
		s += f(i)
	}
	return s
}

// Bounds are the closed forms, an entry for every output.
var Bounds = []Bound{
	{
		Operation: "gemm.forward", Output: "C", Text: gemmText("K", "|A[m,k]*B[k,n]| over k", "C[m,n]"), At: gemmBound,
	},
	{
		Operation: "gemm.grad_a", Output: "dA", Text: gemmText("N", "|dC[m,n]*B[k,n]| over n", "dA[m,k]"), At: gemmBound,
	},
	{
		Operation: "gemm.grad_b", Output: "dB", Text: gemmText("M", "|A[m,k]*dC[m,n]| over m", "dB[k,n]"), At: gemmBound,
	},
	{
		Operation: "softmax.forward", Output: "y",
		Text: []string{"bound = (max - x[r,c] + ln C + h(C) + 7)*u * y + 2^-148"},
		At: func(run *Run) func(r, c int) float64 {
			x := run.matrix("x")
			return byRow(func(r int) func(c int) float64 {
				p := probabilities(x.row(r))
				return func(c int) float64 { return p.error(c) }
			})
		},
	},
	{
		Operation: "softmax.backward", Output: "dx",
		Text: []string{
			"bound = |y| * (g(h(C)+3)*P + 2.1*u*|dy[r,c] - dot|) + (1 + C*|y|)*2^-149",
			"P = sum |dy[r,c]*y[r,c]| over the row, dot the same sum without bars",
		},
		At: func(run *Run) func(r, c int) float64 {
			dy, y := run.matrix("dy"), run.matrix("y")
			return byRow(func(r int) func(c int) float64 {
				g, p := dy.row(r), y.row(r)
				dot := sumOf(dy.cols, func(c int) float64 { return g[c] * p[c] })
				abs := sumOf(dy.cols, func(c int) float64 { return math.Abs(g[c] * p[c]) })
				return func(c int) float64 {
					m := math.Abs(p[c])
					return m*(gamma(rowHeight(dy.cols)+3)*abs+2.1*u*math.Abs(g[c]-dot)) + (1+float64(dy.cols)*m)*0x1p-149
				}
			})
		},
	},
	{
		Operation: "crossentropy", Output: "loss",
		Text: []string{"bound = (ln C + h(C) + 3 + 3*loss)*u + 2^-148, and 0 for an ignored row"},
		At: func(run *Run) func(r, c int) float64 {
			x, label := run.matrix("logits"), run.matrix("label")
			return func(r, _ int) float64 {
				if !run.counts(label.at(r, 0)) {
					return 0
				}
				p := probabilities(x.row(r))
				loss := math.Log(p.sum) + (p.max - x.at(r, int(label.at(r, 0))))
				return (math.Log(float64(x.cols))+float64(rowHeight(x.cols))+3+3*loss)*u + 0x1p-148
			}
		},
	},
	{
		Operation: "crossentropy", Output: "dlogits",
		Text: []string{
			"bound = |scale| * ((max - logits[r,c] + ln C + h(C) + 7)*u * p + 2.1*u*|p - onehot| + 2^-147) + 2^-149, and 0 for an ignored row",
			"p = softmax(logits)[r,c], onehot = 1 in the label's column, else 0",
		},
		At: func(run *Run) func(r, c int) float64 {
			x, label, scale := run.matrix("logits"), run.matrix("label"), math.Abs(run.param("scale"))
			return byRow(func(r int) func(c int) float64 {
				l := label.at(r, 0)
				if !run.counts(l) {
					return func(int) float64 { return 0 }
				}
				p := probabilities(x.row(r))
				return func(c int) float64 {
					gap := p.at(c)
					if c == int(l) {
						gap = 1 - gap
					}
					return scale*(p.error(c)+2.1*u*gap+0x1p-148) + 0x1p-149
				}
			})
		},
	},
	{
		Operation: "gelu.forward", Output: "y",
		Text: []string{
			"bound = 6*u*y + 2^-150 for x >= 0",
			"bound = (4*t + 7)*u*|y| + 2^-144 for x < 0, with t = 2*sqrt(2/pi) * (a + 0.044715*a^3), a = min(|x|, 11)",
		},
		At: func(run *Run) func(r, c int) float64 {
			x := run.matrix("x")
			return func(r, c int) float64 {
				v := x.at(r, c)
				g := geluParts(v)
				if v >= 0 {
					return 6*u*v*g.r + tiny
				}
				return (4*g.t+7)*u*g.a*g.e*g.r + 0x1p-144
			}
		},
	},
	{
		Operation: "gelu.backward", Output: "dx", IsTighter: true, // e - e·h
		Text: []string{
			"bound = u*|dy|*r * (8*(1 + e*k) + (4*t + 12)*e*k) + (1 + |dy|)*2^-138 for x >= 0",
			"bound = u*|dy|*r*e * ((4*t + 10)*|1 - k| + 10*k) + (1 + |dy|)*2^-138 for x < 0",
			"t and a as in gelu.forward, e = exp(-t), r = 1/(1+e), k = r*a * 2*sqrt(2/pi) * (1 + 0.134145*a^2)",
		},
		At: func(run *Run) func(r, c int) float64 {
			dy, x := run.matrix("dy"), run.matrix("x")
			return func(r, c int) float64 {
				g, d := geluParts(x.at(r, c)), math.Abs(dy.at(r, c))
				k := g.r * g.a * geluSlope * (1 + 0.134145*g.a*g.a)
				small := (1 + d) * 0x1p-138
				if x.at(r, c) >= 0 {
					return u*d*g.r*(8*(1+g.e*k)+(4*g.t+12)*g.e*k) + small
				}
				return u*d*g.r*g.e*((4*g.t+10)*math.Abs(1-k)+10*k) + small
			}
		},
	},
	{
		Operation: "embedding.forward", Output: "out",
		Text: []string{"bound = 0, and y is the truth itself: bits are copied"},
		At:   func(*Run) func(r, c int) float64 { return func(int, int) float64 { return 0 } },
	},
	{
		Operation: "embedding.backward", Output: "dweight",
		Text: []string{
			"bound = 0 for dout in f16: the sum is exact",
			"bound = g(min(n,64) + ceil(n/64)) * sum |dout[q,d]| over the n queries with that index otherwise; |dweight| joins the sum when accumulating",
		},
		At: scatterBound,
	},
	{
		Operation: "layernorm.forward", Output: "y",
		Text: []string{
			"bound = 1.001*|gamma|*rstd * (E*(1 + rho) + |x - mean|*(rho + 2*u)) + 1.1*u*|y| + (1 + |gamma|)*2^-149; no bound where q >= 1",
			"A = sum |x[r,c] - x[r,0]| / C,  V = sum (x[r,c] - mean)^2 / C,  K = u*(h(C)+5)*A + 2^-149,  E = 2*u*|x - mean| + K",
			"F = u*(h(C)+7)*V + 2*K*sqrt(V) + 2*K^2 + 2^-148,  q = F/(V + eps),  rho = 1.001*q/(2*(1-q)) + 3*u",
		},
		At: func(run *Run) func(r, c int) float64 {
			x, gam, beta := run.matrix("x"), run.matrix("gamma"), run.matrix("beta")
			return byRow(func(r int) func(c int) float64 {
				m := momentsOf(x.row(r), run.param("eps"))
				return func(c int) float64 {
					if math.IsInf(m.rho, 1) {
						return m.rho
					}
					d, g := x.at(r, c)-m.mean, math.Abs(gam.at(0, c))
					y := d*m.rstd*gam.at(0, c) + beta.at(0, c)
					e := 2*u*math.Abs(d) + m.k
					return g*m.rstd*(e*(1+m.rho)+math.Abs(d)*(m.rho+2*u))*more + 1.1*u*math.Abs(y) + (1+g)*0x1p-149
				}
			})
		},
	},
	{
		Operation: "layernorm.forward", Output: "mean",
		Text: []string{"bound = 1.001*u * ((h(C)+3)*A + |mean|) + 2^-149"},
		At: func(run *Run) func(r, c int) float64 {
			x := run.matrix("x")
			return func(r, _ int) float64 {
				m := momentsOf(x.row(r), run.param("eps"))
				return u*((m.h+3)*m.abs+math.Abs(m.mean))*more + 0x1p-149
			}
		},
	},
	{
		Operation: "layernorm.forward", Output: "rstd",
		Text: []string{"bound = rho * rstd; no bound where q >= 1"},
		At: func(run *Run) func(r, c int) float64 {
			x := run.matrix("x")
			return func(r, _ int) float64 {
				m := momentsOf(x.row(r), run.param("eps"))
				if math.IsInf(m.rho, 1) {
					return m.rho
				}
				return m.rho * m.rstd
			}
		},
	},
	{
		Operation: "layernorm.backward", Output: "dx",
		Text: []string{
			"bound = 1.001*|rstd| * (u*(4*|t| + (h(C)+5)*T + (h(C)+10)*|xhat|*Q) + (4 + Q + |xhat|*(2 + T + X))*2^-150) + 2^-150",
			"xhat = (x - mean)*rstd,  t = dy*gamma,  T = sum |t| / C,  X = sum |xhat| / C,  Q = sum |t*xhat| / C over the row",
		},
		At: func(run *Run) func(r, c int) float64 {
			dy, gam, xhat := run.matrix("dy"), run.matrix("gamma"), run.xhat()
			rstd := run.matrix("rstd")
			C, h := float64(dy.cols), float64(rowHeight(dy.cols))
			return byRow(func(r int) func(c int) float64 {
				t := func(c int) float64 { return math.Abs(dy.at(r, c) * gam.at(0, c)) }
				T := sumOf(dy.cols, t) / C
				Q := sumOf(dy.cols, func(c int) float64 { return t(c) * math.Abs(xhat(r, c)) }) / C
				X := sumOf(dy.cols, func(c int) float64 { return math.Abs(xhat(r, c)) }) / C
				s := math.Abs(rstd.at(r, 0))
				return func(c int) float64 {
					x := math.Abs(xhat(r, c))
					return s*(u*(4*t(c)+(h+5)*T+(h+10)*x*Q)+(4+Q+x*(2+T+X))*tiny)*more + tiny
				}
			})
		},
	},
	{
		Operation: "layernorm.backward", Output: "dgamma",
		Text: []string{"bound = g(H(R,C)+3) * sum |dy[r,c]*xhat[r,c]| over the rows + sum (1 + |dy[r,c]|) over the rows * 2^-149"},
		At: func(run *Run) func(r, c int) float64 {
			dy, xhat := run.matrix("dy"), run.xhat()
			return func(_, c int) float64 {
				abs := sumOf(dy.rows, func(r int) float64 { return math.Abs(dy.at(r, c) * xhat(r, c)) })
				small := sumOf(dy.rows, func(r int) float64 { return 1 + math.Abs(dy.at(r, c)) }) * 0x1p-149
				return gamma(colHeight(dy.rows, dy.cols)+3)*abs + small
			}
		},
	},
	{
		Operation: "layernorm.backward", Output: "dbeta",
		Text: []string{"bound = g(H(R,C)) * sum |dy[r,c]| over the rows"},
		At: func(run *Run) func(r, c int) float64 {
			dy := run.matrix("dy")
			return func(_, c int) float64 {
				return gamma(colHeight(dy.rows, dy.cols)) * sumOf(dy.rows, func(r int) float64 { return math.Abs(dy.at(r, c)) })
			}
		},
	},
	{
		Operation: "adamw.step", Output: "m",
		Text: []string{"bound = 2.1*u * (|beta1*m| + |(1-beta1)*grad|) + 2^-148"},
		At: func(run *Run) func(r, c int) float64 {
			s := run.adamw()
			return func(r, c int) float64 { return s(r, c).momentError() }
		},
	},
	{
		Operation: "adamw.step", Output: "v",
		Text: []string{"bound = 3.1*u * (|beta2*v| + (1-beta2)*grad^2) + (2 + |grad|)*2^-149"},
		At: func(run *Run) func(r, c int) float64 {
			s := run.adamw()
			return func(r, c int) float64 { a := s(r, c); return 3.1*u*a.squares + a.lost }
		},
	},
	{
		Operation: "adamw.step", Output: "weight",
		Text: []string{
			"bound = 1.001 * (lr/bc1 * bound(m)/d + |q| * (7.6*u + delta)) / (1 - delta) + 2.1*u*|lr*weight_decay*weight| + 1.1*u*|weight'| + (1 + lr/bc1)*2^-148; no bound where delta > 1/2, or v < 0",
			"i = 1/sqrt(bc2),  d = sqrt(v')*i + eps,  q = lr/bc1 * m'/d,  delta = (i*sqrt((2 + |grad|)*2^-149) + 2^-149)/d,  primes mark new values",
		},
		At: func(run *Run) func(r, c int) float64 {
			s, old := run.adamw(), run.matrix("v")
			return func(r, c int) float64 {
				a := s(r, c)
				delta := (a.inverse*math.Sqrt(a.lost) + 0x1p-149) / a.d
				if !(delta <= 0.5) || old.at(r, c) < 0 {
					return math.Inf(1)
				}
				q := a.step * a.m / a.d
				next := a.w - (q + a.decay*a.w)
				return (a.step*a.momentError()/a.d+math.Abs(q)*(7.6*u+delta))/(1-delta)*more +
					2.1*u*math.Abs(a.decay*a.w) + 1.1*u*math.Abs(next) + (1+a.step)*0x1p-148
			}
		},
	},
	{
		Operation: "norm.square_sum", Output: "total",
		Text: []string{
			"bound = g(k+1) * total + n*2^-149 for one tensor of n elements, k = h(n) for n <= 65,536, else 20 + h(ceil(n/65,536)) and so on",
			"several tensors: k is the largest of theirs, plus h(number of tensors), and n counts the elements of all",
		},
		At: func(run *Run) func(r, c int) float64 {
			bound := squareSumBound(run.matrix("x").values)
			return func(int, int) float64 { return bound }
		},
	},
	{
		// Here the total is the input, so its bound is none.
		Operation: "norm.clip", Output: "norm",
		Text: []string{
			"bound = bound(total)/(1.9*norm) + 1.1*u*norm where bound(total) <= total/32, else 1.001*sqrt(bound(total)) + 1.1*u*norm",
			"total and its bound as in norm.square_sum",
		},
		At: func(run *Run) func(r, c int) float64 {
			total := run.matrix("total")
			return func(r, c int) float64 { return normBound(total.at(r, c), 0) }
		},
	},
	{
		Operation: "norm.clip", Output: "factor",
		Text: []string{"bound = factor * (bound(total)/(1.9*total) + 2.1*u) + 2^-149 where bound(total) <= total/32, else 1, as for any two factors"},
		At: func(run *Run) func(r, c int) float64 {
			total, limit := run.matrix("total"), run.param("max_norm")
			return func(r, c int) float64 { return factorBound(total.at(r, c), 0, limit) }
		},
	},
}

func squareSumBound(x []float64) float64 {
	n := len(x)
	total := sumOf(n, func(i int) float64 { return x[i] * x[i] })
	return gamma(totalHeight(n)+1)*total + float64(n)*0x1p-149
}

// normBound: roots differ by what their squares differ, over their sum, which is at
// least √(31/32) + 1 times the true one; or by the root of the difference at most.
func normBound(total, bound float64) float64 {
	norm := math.Sqrt(total)
	switch {
	case bound == 0:
		return 1.1 * u * norm
	case bound <= total/32:
		return bound/(1.9*norm) + 1.1*u*norm
	}
	return more*math.Sqrt(bound) + 1.1*u*norm
}

// factorBound: reciprocals of roots differ by √(32/31) more than the roots.
func factorBound(total, bound, limit float64) float64 {
	factor := min(1, limit/math.Sqrt(total))
	switch {
	case bound == 0:
		return factor*2.1*u + 0x1p-149
	case bound <= total/32:
		return factor*(bound/(1.9*total)+2.1*u) + 0x1p-149
	}
	return 1
}

func gemmText(length, sum, old string) []string {
	return []string{
		"bound = g(" + length + ") * (sum " + sum + ") + " + length + "*2^-149, under model fma; |" + old + "| joins the sum when accumulating",
	}
}

func gemmBound(run *Run) func(r, c int) float64 {
	d := run.Data.Definition
	a, b, old := run.matrix(d.Operands[0].Name), run.matrix(d.Operands[1].Name), run.matrix(d.Operands[2].Name)
	length := a.cols
	if d.TransposeLeft {
		length = a.rows
	}
	return func(r, c int) float64 {
		sum := sumOf(length, func(k int) float64 {
			x, y := 0.0, 0.0
			if d.TransposeLeft {
				x = a.at(k, r)
			} else {
				x = a.at(r, k)
			}
			if d.TransposeRight {
				y = b.at(c, k)
			} else {
				y = b.at(k, c)
			}
			return math.Abs(x * y)
		})
		if d.Accumulate {
			sum += math.Abs(old.at(r, c))
		}
		return gamma(length)*sum + float64(length)*0x1p-149
	}
}

func scatterBound(run *Run) func(r, c int) float64 {
	d := run.Data.Definition
	index, rows, old := run.matrix(d.Operands[0].Name), run.matrix(d.Operands[1].Name), run.matrix(d.Operands[2].Name)
	if run.Operands[1].DType == num.F16 {
		return func(int, int) float64 { return 0 }
	}
	return func(v, c int) float64 {
		sum, n := 0.0, 0
		for q := range index.rows {
			if int(index.at(q, 0)) == v {
				sum += math.Abs(rows.at(q, c))
				n++
			}
		}
		if d.Accumulate {
			sum += math.Abs(old.at(v, c))
		}
		return gamma(min(n, def.ScatterChunk)+(n+def.ScatterChunk-1)/def.ScatterChunk) * sum
	}
}

// softmaxRow is a row of exponentials relative to its maximum.
type softmaxRow struct {
	x        []float64
	max, sum float64
}

func probabilities(x []float64) softmaxRow {
	p := softmaxRow{x: x, max: math.Inf(-1)}
	for _, v := range x {
		p.max = max(p.max, v)
	}
	p.sum = sumOf(len(x), func(c int) float64 { return math.Exp(x[c] - p.max) })
	return p
}

func (p softmaxRow) at(c int) float64 { return math.Exp(p.x[c]-p.max) / p.sum }

// error: the difference to the maximum rounds, by u of itself, which the exponential
// turns into a relative error of max-x times u; the exponential adds 2u. The terms of
// the sum have the same, weighted by their probabilities: Σ p·(max-x) is the entropy
// of the row less the logarithm of the sum, at most ln C. The sum adds h roundings,
// reciprocal and product one each.
func (p softmaxRow) error(c int) float64 {
	C := len(p.x)
	return (p.max-p.x[c]+math.Log(float64(C))+float64(rowHeight(C))+7)*u*p.at(c) + 0x1p-148
}

// counts reports whether a row of cross-entropy is not ignored.
func (run *Run) counts(label float64) bool {
	return label != run.Data.Params[run.Data.Definition.Param("ignore")] && label >= 0 && int(label) < run.Data.Sizes["C"]
}

const geluSlope = 1.5957691216057308 // 2·√(2/π)

type geluPart struct{ a, t, e, r float64 }

// geluParts are the quantities of the definition. With rounded constants a²'s
// polynomial is off by 3u, t by 4u, e by (4t+2)u, r by (4t+2)u·e/(1+e) + 2.5u, and
// t·e/(1+e) is at most 0.279.
func geluParts(x float64) (g geluPart) {
	g.a = min(math.Abs(x), 11)
	g.t = geluSlope * (g.a + 0.044715*g.a*g.a*g.a)
	g.e = math.Exp(-g.t)
	g.r = 1 / (1 + g.e)
	return g
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
	mean := func(f func(c int) float64) float64 { return sumOf(C, f) / float64(C) }
	shift := mean(func(c int) float64 { return x[c] - x[0] })
	m.mean = x[0] + shift
	m.abs = mean(func(c int) float64 { return math.Abs(x[c] - x[0]) })
	m.variance = mean(func(c int) float64 { d := (x[c] - x[0]) - shift; return d * d })
	m.h = float64(rowHeight(C))
	m.rstd = 1 / math.Sqrt(m.variance+eps)
	m.k = u*(m.h+5)*m.abs + 0x1p-149
	f := u*(m.h+7)*m.variance + 2*m.k*math.Sqrt(m.variance) + 2*m.k*m.k + 0x1p-148
	if q := f / (m.variance + eps); q < 1 {
		m.rho = more*q/(2*(1-q)) + 3*u
	} else {
		m.rho = math.Inf(1)
	}
	return m
}

func (run *Run) xhat() func(r, c int) float64 {
	x, mean, rstd := run.matrix("x"), run.matrix("mean"), run.matrix("rstd")
	return func(r, c int) float64 { return (x.at(r, c) - mean.at(r, 0)) * rstd.at(r, 0) }
}

// adamwStep is one element's step; m is the new one. The magnitude is that of the two
// terms of m, squares are those of v, of which products that underflow lose the last.
type adamwStep struct{ w, m, d, step, inverse, decay, magnitude, squares, lost float64 }

func (run *Run) adamw() func(r, c int) adamwStep {
	w, m, v, g := run.matrix("weight"), run.matrix("m"), run.matrix("v"), run.matrix("grad")
	beta1, rest1 := run.param("beta1"), run.param("one_minus_beta1")
	beta2, rest2 := run.param("beta2"), run.param("one_minus_beta2")
	step, inverse, eps, decay := run.param("step_size"), run.param("inverse_sqrt_bc2"), run.param("eps"), run.param("decay")
	return func(r, c int) adamwStep {
		s := adamwStep{w: w.at(r, c), step: step, inverse: inverse, decay: decay}
		s.m = beta1*m.at(r, c) + rest1*g.at(r, c)
		s.magnitude = math.Abs(beta1*m.at(r, c)) + math.Abs(rest1*g.at(r, c))
		s.squares = math.Abs(beta2*v.at(r, c)) + rest2*g.at(r, c)*g.at(r, c)
		s.lost = (2 + math.Abs(g.at(r, c))) * 0x1p-149
		s.d = math.Sqrt(s.squares)*inverse + eps
		return s
	}
}

func (s adamwStep) momentError() float64 { return 2.1*u*s.magnitude + 0x1p-148 }
