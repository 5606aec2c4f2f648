package mutants

import (
	"math"

	"tokitai/num"
)

// parts are what an honest kernel is made of, so that one can be replaced.
type parts struct {
	sum       func(terms []float32) float32
	exp, log  func(x float32) float32
	normalise func(e, sum float32) float32 // e/sum in some form
	step      func(x float32) float32      // what becomes of the result of a step
}

// ordered are honest parts around a sum; functions are correctly rounded, nearly.
func ordered(sum func([]float32) float32) parts {
	return parts{
		sum: sum, exp: exp32, log: log32,
		normalise: func(e, s float32) float32 { return e * (1 / s) },
		step:      func(x float32) float32 { return x },
	}
}

func exp32(x float32) float32 { return float32(math.Exp(float64(x))) }
func log32(x float32) float32 { return float32(math.Log(float64(x))) }

// The orders of additions, as def.Order has them.

func inLanes(width int) func([]float32) float32 {
	return func(x []float32) float32 { return num.LaneSum(x, width) }
}

func ascending(x []float32) float32 {
	s := float32(0)
	for _, v := range x {
		s += v
	}
	return s
}

func descending(x []float32) float32 {
	s := float32(0)
	for i := len(x) - 1; i >= 0; i-- {
		s += x[i]
	}
	return s
}

func inChunks(width int) func([]float32) float32 {
	return func(x []float32) float32 {
		s := float32(0)
		for len(x) > 0 {
			n := min(width, len(x))
			s += ascending(x[:n])
			x = x[n:]
		}
		return s
	}
}

func inPairs(x []float32) float32 {
	switch len(x) {
	case 0:
		return 0
	case 1:
		return x[0]
	}
	half := (len(x) + 1) / 2
	return inPairs(x[:half]) + inPairs(x[half:])
}

// inDouble adds in binary64 and rounds once.
func inDouble(x []float32) float32 {
	s := 0.0
	for _, v := range x {
		s += float64(v)
	}
	return float32(s)
}

// compensated is Kahan's sum.
func compensated(x []float32) float32 {
	s, c := float32(0), float32(0)
	for _, v := range x {
		y := v - c
		t := s + y
		c = (t - s) - y
		s = t
	}
	if s-s != 0 {
		return ascending(x) // c is then NaN, where the sum is infinite
	}
	return s
}

// rounding makes a sum that rounds every partial result.
func rounding(round func(float32) float32) func([]float32) float32 {
	return func(x []float32) float32 {
		s := float32(0)
		for _, v := range x {
			s = round(s + v)
		}
		return s
	}
}

// roundingLanes is the same in 16 lanes.
func roundingLanes(round func(float64) float32) func([]float32) float32 {
	return func(x []float32) float32 {
		var lanes [16]float32
		for i, v := range x {
			lanes[i%16] = round(float64(lanes[i%16]) + float64(v))
		}
		for n := 8; n > 0; n /= 2 {
			for i := range n {
				lanes[i] = round(float64(lanes[2*i]) + float64(lanes[2*i+1]))
			}
		}
		return lanes[0]
	}
}

// to rounds to a storage format and back.
func to(d num.DType) func(float32) float32 {
	return func(x float32) float32 { return num.Round(d, x) }
}

// towardZero cuts a binary64 off to binary32.
func towardZero(x float64) float32 {
	y := float32(x)
	if math.Abs(float64(y)) > math.Abs(x) {
		y = math.Nextafter32(y, 0)
	}
	return y
}

// keepBits rounds to so many bits of significand.
func keepBits(n int) func(float64) float32 {
	return func(x float64) float32 {
		if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
			return float32(x)
		}
		_, e := math.Frexp(x)
		unit := math.Ldexp(1, e-n)
		return float32(math.RoundToEven(x/unit) * unit)
	}
}

func maximum(x []float32) float32 {
	m := x[0]
	for _, v := range x[1:] {
		m = max(m, v)
	}
	return m
}

// The honest kernels. Each takes the steps of its definition.

func softmaxForward(p parts) func(c *call) {
	return func(c *call) {
		x, y := c.in("x"), c.in("y")
		for r := range x.rows {
			softmaxRow(p, x.row(r), y.row(r))
		}
	}
}

func softmaxRow(p parts, x, y []float32) (m, sum float32) {
	m = maximum(x)
	for i, v := range x {
		y[i] = p.step(p.exp(p.step(v - m)))
	}
	sum = p.step(p.sum(y))
	for i, e := range y {
		y[i] = p.normalise(e, sum)
	}
	return m, sum
}

func softmaxBackward(p parts) func(c *call) {
	return func(c *call) {
		dy, y, dx := c.in("dy"), c.in("y"), c.in("dx")
		terms := make([]float32, dy.cols)
		for r := range dy.rows {
			for i := range terms {
				terms[i] = p.step(dy.row(r)[i] * y.row(r)[i])
			}
			dot := p.step(p.sum(terms))
			for i := range terms {
				dx.row(r)[i] = y.row(r)[i] * p.step(dy.row(r)[i]-dot)
			}
		}
	}
}

// crossEntropy takes the loss of a row from its maximum, sum of exponentials and
// label's logit.
func crossEntropy(p parts, loss func(m, sum, x float32) float32) func(c *call) {
	return func(c *call) {
		x, losses, dx := c.in("logits"), c.in("loss"), c.in("dlogits")
		ignore, scale := int32(c.params[0]), c.param("scale")
		for r := range x.rows {
			label := c.index[r]
			if label == ignore || label < 0 || int(label) >= x.cols {
				continue // both outputs are +0
			}
			m, sum := softmaxRow(p, x.row(r), dx.row(r))
			losses.row(r)[0] = loss(m, sum, x.row(r)[label])
			for i, v := range dx.row(r) {
				if i == int(label) {
					v = p.step(v - 1)
				}
				dx.row(r)[i] = scale * v
			}
		}
	}
}

func (p parts) loss(m, sum, x float32) float32 { return p.step(p.log(sum)) - p.step(x-m) }

// gelu's constants, rounded once.
var (
	geluSlope  = float32(2 * math.Sqrt(2/math.Pi))
	geluCubic  = float32(2 * math.Sqrt(2/math.Pi) * 0.044715)
	geluTriple = float32(6 * math.Sqrt(2/math.Pi) * 0.044715)
)

// geluParts are a, e and r of the definition.
func geluParts(p parts, x float32) (a, e, r float32) {
	a = min(float32(math.Abs(float64(x))), 11)
	t := p.step(a * num.FMA(geluCubic, p.step(a*a), geluSlope))
	e = p.step(p.exp(-t))
	return a, e, p.step(1 / p.step(1+e))
}

func geluForward(p parts) func(c *call) {
	return each("x", "y", func(x float32) float32 {
		a, e, r := geluParts(p, x)
		if x < 0 {
			return -p.step(a*e) * r
		}
		return x * r
	})
}

// each is a body that computes element by element.
func each(in, out string, f func(x float32) float32) func(c *call) {
	return func(c *call) {
		x, y := c.in(in).v, c.in(out).v
		for i, v := range x {
			y[i] = f(v)
		}
	}
}

// eachGrad is the same for a gradient.
func eachGrad(f func(dy, x float32) float32) func(c *call) {
	return func(c *call) {
		dy, x, dx := c.in("dy").v, c.in("x").v, c.in("dx").v
		for i := range x {
			dx[i] = f(dy[i], x[i])
		}
	}
}

func geluBackward(p parts) func(c *call) {
	return eachGrad(func(dy, x float32) float32 {
		a, e, r := geluParts(p, x)
		h := p.step(r * p.step(a*num.FMA(geluTriple, p.step(a*a), geluSlope)))
		if x < 0 {
			return dy * p.step(r*num.FMA(-e, h, e))
		}
		return dy * p.step(r*num.FMA(e, h, 1))
	})
}

// inverse is 1/sqrt(variance + eps) of a row, from the sum of squares.
type inverse func(squares, n, eps float32) float32

func rstd(squares, n, eps float32) float32 {
	return 1 / num.Sqrt(squares/n+eps)
}

func layernormForward(p parts, inv inverse) func(c *call) {
	return func(c *call) {
		x, gamma, beta := c.in("x"), c.in("gamma").v, c.in("beta").v
		y, means, rstds := c.in("y"), c.in("mean").v, c.in("rstd").v
		n, eps := float32(x.cols), c.param("eps")
		centred, squares := make([]float32, x.cols), make([]float32, x.cols)
		for r := range x.rows {
			row := x.row(r)
			first := row[0]
			for i, v := range row {
				centred[i] = p.step(v - first)
			}
			shift := p.step(p.sum(centred) / n)
			for i, v := range centred {
				centred[i] = p.step(v - shift)
				squares[i] = p.step(centred[i] * centred[i])
			}
			scale := p.step(inv(p.sum(squares), n, eps))
			for i, v := range centred {
				y.row(r)[i] = num.FMA(p.step(v*scale), gamma[i], beta[i])
			}
			means[r], rstds[r] = first+shift, scale
		}
	}
}

func layernormBackward(p parts) func(c *call) {
	return func(c *call) {
		dy, x, gamma := c.in("dy"), c.in("x"), c.in("gamma").v
		mean, rstd := c.in("mean").v, c.in("rstd").v
		dx, dgamma, dbeta := c.in("dx"), c.in("dgamma").v, c.in("dbeta").v
		n := float32(x.cols)
		products := newMatrix(x.rows, x.cols)
		xhat, t, tx := make([]float32, x.cols), make([]float32, x.cols), make([]float32, x.cols)
		for r := range x.rows {
			for i := range xhat {
				xhat[i] = p.step(p.step(x.row(r)[i]-mean[r]) * rstd[r])
				t[i] = p.step(dy.row(r)[i] * gamma[i])
				tx[i] = p.step(t[i] * xhat[i])
				products.row(r)[i] = p.step(dy.row(r)[i] * xhat[i])
			}
			a, b := p.step(p.sum(t)/n), p.step(p.sum(tx)/n)
			for i := range xhat {
				dx.row(r)[i] = p.step(p.step(t[i]-a)-p.step(xhat[i]*b)) * rstd[r]
			}
		}
		for i := range dgamma {
			dgamma[i], dbeta[i] = p.sum(products.column(i)), p.sum(dy.column(i))
		}
	}
}

// dot is a sum of products that begins at an old value.
type dot func(a, b []float32, old float32, accumulate bool) float32

// products makes a dot of a sum: the products are rounded, the old value is the
// first term.
func products(sum func([]float32) float32) dot {
	return func(a, b []float32, old float32, accumulate bool) float32 {
		terms := make([]float32, 0, len(a)+1)
		if accumulate {
			terms = append(terms, old)
		}
		for k := range a {
			terms = append(terms, float32(a[k]*b[k]))
		}
		return sum(terms)
	}
}

// fused is the chain of fused multiply-adds.
func fused(a, b []float32, old float32, _ bool) float32 {
	for k := range a {
		old = num.FMA(a[k], b[k], old)
	}
	return old
}

// contraction computes each element of the result by itself.
func contraction(f dot) func(c *call) {
	return contractionAt(func(_, _ int, a, b []float32, old float32, accumulate bool) float32 { return f(a, b, old, accumulate) })
}

// contractionAt knows the place of the result.
func contractionAt(f func(m, n int, a, b []float32, old float32, accumulate bool) float32) func(c *call) {
	return func(c *call) {
		left, right, result := c.x[0], c.x[1], c.x[2]
		if c.d.TransposeLeft {
			left = transposed(left)
		}
		if !c.d.TransposeRight {
			right = transposed(right)
		}
		for m := range result.rows {
			for n := range result.cols {
				old := float32(0)
				if c.d.Accumulate {
					old = result.row(m)[n]
				}
				result.row(m)[n] = f(m, n, left.row(m), right.row(n), old, c.d.Accumulate)
			}
		}
	}
}

// scatter adds the rows of every index in ascending order; the old value, where it
// counts, is the first term. A row that no index names is zero, or stays.
func scatter(sum func([]float32) float32) func(c *call) {
	return func(c *call) {
		rows, result := c.in("dout"), c.in("dweight")
		at := make([][]int, result.rows)
		for q, v := range c.index {
			if v >= 0 && int(v) < result.rows {
				at[v] = append(at[v], q)
			}
		}
		for v, list := range at {
			if len(list) == 0 {
				continue
			}
			for i := range result.cols {
				var terms []float32
				if c.d.Accumulate {
					terms = append(terms, result.row(v)[i])
				}
				for _, q := range list {
					terms = append(terms, rows.row(q)[i])
				}
				result.row(v)[i] = sum(terms)
			}
		}
	}
}

// adamStep is one element of AdamW.
type adamStep struct {
	beta1, rest1, beta2, rest2, stepSize, inverse, eps, decay float32
}

func adamParams(c *call) adamStep {
	p := func(name string) float32 { return c.param(name) }
	return adamStep{p("beta1"), p("one_minus_beta1"), p("beta2"), p("one_minus_beta2"), p("step_size"), p("inverse_sqrt_bc2"), p("eps"), p("decay")}
}

func (a adamStep) step(w, m, v, g float32) (nw, nm, nv float32) {
	nm = float32(a.beta1*m) + float32(a.rest1*g)
	nv = float32(a.beta2*v) + float32(float32(a.rest2*g)*g)
	d := float32(num.Sqrt(nv)*a.inverse) + a.eps
	return w - (float32(a.stepSize*(nm/d)) + float32(a.decay*w)), nm, nv
}

// adam is AdamW with a step of its own.
func adam(step func(a adamStep, w, m, v, g float32) (nw, nm, nv float32)) func(c *call) {
	return func(c *call) {
		a := adamParams(c)
		w, m, v, g := c.in("weight").v, c.in("m").v, c.in("v").v, c.in("grad").v
		for i := range w {
			w[i], m[i], v[i] = step(a, w[i], m[i], v[i], g[i])
		}
		if i := c.d.Operand("copy"); i >= 0 {
			copy(c.x[i].v, w)
		}
	}
}

// squareSum adds all squares as one long sum.
func squareSum(sum func([]float32) float32) func(c *call) {
	return func(c *call) {
		x := c.in("x").v
		terms := make([]float32, len(x))
		for i, v := range x {
			terms[i] = v * v
		}
		c.in("total").v[0] = sum(terms)
	}
}

// rowTotal adds up each row.
func rowTotal(sum func([]float32) float32) func(c *call) {
	return func(c *call) {
		x := c.in("sums")
		for r := range x.rows {
			c.in("total").v[r] = sum(x.row(r))
		}
	}
}

func clip(factor func(norm, limit float32) float32) func(c *call) {
	return func(c *call) {
		limit := c.param("max_norm")
		for i, v := range c.in("total").v {
			n := num.Sqrt(v)
			c.in("norm").v[i], c.in("factor").v[i] = n, factor(n, limit)
		}
	}
}

func clipFactor(n, limit float32) float32 {
	if n <= limit {
		return 1
	}
	return limit / n
}
