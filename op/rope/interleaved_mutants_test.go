package rope_test

import (
	"tokitai/num"
	"tokitai/verify/mutants"
)

// turnRow turns the pairs of a row by the waves of its position. pair returns the columns of pair i of n columns;
// the second may be beyond them.
func turnRow(c *mutants.Call, r int, to, x []float32, of row, pair func(i, n int) (a, b int), form func(a, b, c, s float32) (y1, y2 float32)) {
	wave, n := c.In("wave"), len(x)
	p := of(int(c.Index[r]), wave.Rows)
	at := func(list []float32, i int) float32 {
		if i < len(list) {
			return list[i]
		}
		return 0
	}
	var waves []float32
	if p >= 0 {
		waves = wave.Row(p)
	}
	for i := range (n + 1) / 2 {
		a, b := pair(i, n)
		y1, y2 := form(at(x, a), at(x, b), at(waves, 2*i), at(waves, 2*i+1))
		to[a] = y1
		if b < n {
			to[b] = y2
		}
	}
}

// head is rope.interleaved.norm.forward. before scales what is turned, after what was turned; the other parts
// are as in norm.
type head struct {
	square func(a float32, i, cols int) float32
	count  func(cols int) float32
	before func(x, rstd, gamma float32) float32
	after  func(y, gamma float32) float32
	pair   func(i, n int) (a, b int)
	turn   func(a, b, c, s float32) (y1, y2 float32)
}

func usualHead(p mutants.Parts) head {
	return head{
		square: func(a float32, _, _ int) float32 { return p.Step(a * a) },
		count:  func(cols int) float32 { return float32(cols) },
		before: usual(p).scaled,
		after:  func(y, _ float32) float32 { return y },
		pair:   adjacent, turn: forward(p),
	}
}

func (n head) body(p mutants.Parts) func(c *mutants.Call) {
	return func(c *mutants.Call) {
		x, y, gamma := c.In("x"), c.In("y"), c.In("gamma").V
		terms, h := make([]float32, x.Cols), make([]float32, x.Cols)
		for r := range x.Rows {
			for i, v := range x.Row(r) {
				terms[i] = n.square(v, i, x.Cols)
			}
			rstd := p.Step(1 / num.Sqrt(p.Step(p.Step(p.Sum(terms)/n.count(x.Cols))+c.Param("eps"))))
			c.In("rstd").V[r] = rstd
			for i, v := range x.Row(r) {
				h[i] = n.before(v, rstd, gamma[i])
			}
			turnRow(c, r, y.Row(r), h, inside, n.pair, n.turn)
			for i, v := range y.Row(r) {
				y.Row(r)[i] = n.after(v, gamma[i])
			}
		}
	}
}

// headGradients is rope.interleaved.norm.backward, with parts as in gradients.
type headGradients struct {
	pair  func(i, n int) (a, b int)
	turn  func(a, b, c, s float32) (y1, y2 float32)
	count func(cols int) float32
	mean  func(k float32) float32
}

func usualHeadGradients(p mutants.Parts) headGradients {
	return headGradients{adjacent, backward(p), usualHead(p).count, func(k float32) float32 { return k }}
}

func (n headGradients) body(p mutants.Parts) func(c *mutants.Call) {
	return func(c *mutants.Call) {
		dy, x, dx, gamma := c.In("dy"), c.In("x"), c.In("dx"), c.In("gamma").V
		products := mutants.NewMatrix(x.Rows, x.Cols)
		g, t, xhat, terms := make([]float32, x.Cols), make([]float32, x.Cols), make([]float32, x.Cols), make([]float32, x.Cols)
		for r := range x.Rows {
			rstd := c.In("rstd").V[r]
			turnRow(c, r, g, dy.Row(r), inside, n.pair, n.turn)
			for i, v := range x.Row(r) {
				xhat[i] = p.Step(v * rstd)
				t[i] = p.Step(g[i] * gamma[i])
				terms[i] = p.Step(t[i] * xhat[i])
				products.Row(r)[i] = p.Step(g[i] * xhat[i])
			}
			k := n.mean(p.Step(p.Sum(terms) / n.count(x.Cols)))
			for i := range terms {
				dx.Row(r)[i] = p.Step(t[i]-p.Step(xhat[i]*k)) * rstd
			}
		}
		for i := range x.Cols {
			c.In("dgamma").V[i] = p.Sum(products.Column(i))
		}
	}
}
