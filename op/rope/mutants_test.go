package rope_test

import (
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/rope"
	"tokitai/verify/mutants"
)

func TestMutants(t *testing.T) {
	mutants.Test(t, rope.Operations, wrong(), right(), peers)
}

// row says which row of the tables a position names; below 0 for none.
type row func(position, rows int) int

func inside(position, rows int) int {
	if position >= rows {
		return -1
	}
	return position
}

// angle returns the cosine and the sine of an element.
func angle(c *mutants.Call, of row, r, i int) (cos, sin float32) {
	table := c.In("cos")
	p := of(int(c.Index[r]), table.Rows)
	if p < 0 {
		return 0, 0
	}
	return table.Row(p)[i], c.In("sin").Row(p)[i]
}

// turn is a kernel that turns each pair in some form.
func turn(of row, form func(a, b, c, s float32) (y1, y2 float32)) mutants.Plain {
	return mutants.Plain{Body: func(c *mutants.Call) {
		from, to := [2]string{"x1", "x2"}, [2]string{"y1", "y2"}
		if c.Definition == rope.BackwardDefinition {
			from, to = [2]string{"dy1", "dy2"}, [2]string{"dx1", "dx2"}
		}
		a, b := c.In(from[0]), c.In(from[1])
		for r := range a.Rows {
			for i := range a.Cols {
				cos, sin := angle(c, of, r, i)
				c.In(to[0]).Row(r)[i], c.In(to[1]).Row(r)[i] = form(a.Row(r)[i], b.Row(r)[i], cos, sin)
			}
		}
	}}
}

func forward(p mutants.Parts) func(a, b, c, s float32) (y1, y2 float32) {
	return func(a, b, c, s float32) (y1, y2 float32) {
		return num.FMA(a, c, -p.Step(b*s)), num.FMA(a, s, p.Step(b*c))
	}
}

func backward(p mutants.Parts) func(a, b, c, s float32) (y1, y2 float32) {
	return func(a, b, c, s float32) (y1, y2 float32) {
		return num.FMA(a, c, p.Step(b*s)), num.FMA(-a, s, p.Step(b*c))
	}
}

// neighbours is a kernel that turns pairs of neighbours in some form.
func neighbours(of row, pair func(i, n int) (a, b int), form func(a, b, c, s float32) (y1, y2 float32)) mutants.Plain {
	return mutants.Plain{Body: func(c *mutants.Call) {
		from, to := "x", "y"
		if c.Definition == rope.InterleavedBackwardDefinition {
			from, to = "dy", "dx"
		}
		for r := range c.In(from).Rows {
			turnRow(c, r, c.In(to).Row(r), c.In(from).Row(r), of, pair, form)
		}
	}}
}

func adjacent(i, _ int) (a, b int) { return 2 * i, 2*i + 1 }

// norm is rope.norm.forward. square is the term of a pair, count the number of elements that the
// mean is taken of, scaled what becomes of a normalized element.
type norm struct {
	square func(a, b float32) float32
	count  func(cols int) float32
	scaled func(x, rstd, gamma float32) float32
	turn   func(a, b, c, s float32) (y1, y2 float32)
}

func usual(p mutants.Parts) norm {
	return norm{
		square: func(a, b float32) float32 { return p.Step(num.FMA(a, a, p.Step(b*b))) },
		count:  func(cols int) float32 { return float32(2 * cols) },
		scaled: func(x, rstd, gamma float32) float32 { return p.Step(p.Step(x*rstd) * gamma) },
		turn:   forward(p),
	}
}

func (n norm) body(p mutants.Parts) func(c *mutants.Call) {
	return func(c *mutants.Call) {
		x1, x2, gamma1, gamma2 := c.In("x1"), c.In("x2"), c.In("gamma1").V, c.In("gamma2").V
		terms := make([]float32, x1.Cols)
		for r := range x1.Rows {
			for i := range terms {
				terms[i] = n.square(x1.Row(r)[i], x2.Row(r)[i])
			}
			rstd := p.Step(1 / num.Sqrt(p.Step(p.Step(p.Sum(terms)/n.count(x1.Cols))+c.Param("eps"))))
			c.In("rstd").V[r] = rstd
			for i := range terms {
				cos, sin := angle(c, inside, r, i)
				a, b := n.scaled(x1.Row(r)[i], rstd, gamma1[i]), n.scaled(x2.Row(r)[i], rstd, gamma2[i])
				c.In("y1").Row(r)[i], c.In("y2").Row(r)[i] = n.turn(a, b, cos, sin)
			}
		}
	}
}

// gradients is rope.norm.backward. turn turns gradients back, count is as in norm, and mean says
// what is subtracted of an element.
type gradients struct {
	turn  func(a, b, c, s float32) (y1, y2 float32)
	count func(cols int) float32
	mean  func(xhat, k float32) float32
}

func usualGradients(p mutants.Parts) gradients {
	return gradients{backward(p), usual(p).count, func(xhat, k float32) float32 { return xhat }}
}

func (n gradients) body(p mutants.Parts) func(c *mutants.Call) {
	return func(c *mutants.Call) {
		var x, dy, dx, products [2]mutants.Matrix
		var gamma [2][]float32
		for k, half := range []string{"1", "2"} {
			x[k], dy[k], dx[k], gamma[k] = c.In("x"+half), c.In("dy"+half), c.In("dx"+half), c.In("gamma"+half).V
			products[k] = mutants.NewMatrix(x[k].Rows, x[k].Cols)
		}
		cols := x[0].Cols
		terms := make([]float32, cols)
		xhat, t := [2][]float32{make([]float32, cols), make([]float32, cols)}, [2][]float32{make([]float32, cols), make([]float32, cols)}
		for r := range x[0].Rows {
			rstd := c.In("rstd").V[r]
			for i := range terms {
				cos, sin := angle(c, inside, r, i)
				var g [2]float32
				g[0], g[1] = n.turn(dy[0].Row(r)[i], dy[1].Row(r)[i], cos, sin)
				for k := range g {
					xhat[k][i] = p.Step(x[k].Row(r)[i] * rstd)
					t[k][i] = p.Step(g[k] * gamma[k][i])
					products[k].Row(r)[i] = p.Step(g[k] * xhat[k][i])
				}
				terms[i] = p.Step(num.FMA(t[0][i], xhat[0][i], p.Step(t[1][i]*xhat[1][i])))
			}
			mean := p.Step(p.Sum(terms) / n.count(cols))
			for k := range dx {
				for i := range terms {
					dx[k].Row(r)[i] = p.Step(num.FMA(-n.mean(xhat[k][i], mean), mean, t[k][i])) * rstd
				}
			}
		}
		for k, half := range []string{"1", "2"} {
			for i := range cols {
				c.In("dgamma" + half).V[i] = p.Sum(products[k].Column(i))
			}
		}
	}
}

func wrong() []mutants.Mutant {
	l := mutants.NewList(rope.Operations)
	plain := forward(mutants.Ordered(nil))
	before := func(edit func(c *mutants.Call)) mutants.Plain {
		return mutants.Plain{Body: func(c *mutants.Call) {
			edit(c)
			mutants.Answer(c)
		}}
	}
	l.Of(rope.ForwardDefinition, num.F16)
	l.From(mutants.KernelPractice)
	l.Add("sign-of-sine", "y2 has the sign of the transpose", mutants.AnyOrder, turn(inside, backward(mutants.Ordered(nil))))
	l.Add("sines-and-cosines-swapped", "the tables are exchanged", mutants.AnyOrder, turn(inside, func(a, b, c, s float32) (y1, y2 float32) { return plain(a, b, s, c) }))
	l.Add("halves-swapped", "x1 and x2 are exchanged", mutants.AnyOrder, turn(inside, func(a, b, c, s float32) (y1, y2 float32) { return plain(b, a, c, s) }))
	l.Add("next-position", "positions count from 1", mutants.AnyOrder, turn(func(p, rows int) int { return inside(min(p+1, rows-1), rows) }, plain))
	l.Add("position-of-the-first-row", "all rows have the position of the first, as where one is broadcast", mutants.PromisesBits, before(func(c *mutants.Call) {
		for r := range c.Index {
			c.Index[r] = c.Index[0]
		}
	}))
	l.Add("row-as-position", "the number of the row is its position, as where positions are left out", mutants.PromisesBits, before(func(c *mutants.Call) {
		rows := int32(c.In("cos").Rows)
		for r, p := range c.Index {
			if p >= 0 && p < rows {
				c.Index[r] = int32(r) % rows
			}
		}
	}))
	l.Add("eighth-of-consecutive", "where eight rows have consecutive positions, the last has that of the one before it", mutants.PromisesBits, before(func(c *mutants.Call) {
		for r := 7; r < len(c.Index); r += 8 {
			isRun := true
			for k := range 7 {
				isRun = isRun && c.Index[r-k] == c.Index[r-k-1]+1
			}
			if isRun {
				c.Index[r]--
			}
		}
	}))
	l.Add("bad-position-wraps", "a position is taken modulo the rows of the tables", mutants.PromisesBits, turn(func(p, rows int) int { return ((p % rows) + rows) % rows }, plain))
	l.Add("bad-position-clamped", "a position beyond the tables reads the nearest row", mutants.PromisesBits, turn(func(p, rows int) int { return max(0, min(p, rows-1)) }, plain))
	l.Add("bad-position-keeps", "a row whose position names none is copied", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		for r, p := range c.Index {
			if p < 0 || int(p) >= c.In("cos").Rows {
				copy(c.In("y1").Row(r), c.In("x1").Row(r))
				copy(c.In("y2").Row(r), c.In("x2").Row(r))
			}
		}
	}})
	l.Add("tables-in-f16", "cosines and sines are rounded to f16", mutants.Stable, turn(inside, func(a, b, c, s float32) (y1, y2 float32) {
		return plain(a, b, num.Round(num.F16, c), num.Round(num.F16, s))
	}))
	l.Add("products-rounded", "both products are rounded to f16", mutants.Stable, turn(inside, func(a, b, c, s float32) (y1, y2 float32) {
		to := mutants.To(num.F16)
		return to(a*c) - to(b*s), to(a*s) + to(b*c)
	}))
	l.Add("interleaved", "pairs are neighbours, of which halves are made", mutants.PromisesBits, before(func(c *mutants.Call) {
		a, b := c.In("x1"), c.In("x2")
		for r := range a.Rows {
			both := append(append([]float32{}, a.Row(r)...), b.Row(r)...)
			for i := range a.Cols {
				a.Row(r)[i], b.Row(r)[i] = both[2*i], both[2*i+1]
			}
		}
	}))
	l.Add("saturates", "an infinity becomes 65504", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Store: mutants.StoreSaturated})
	l.Add("whole-vectors", "elements after the last multiple of 4 are not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: mutants.WritesWholeVectors})
	l.Add("only-y1", "y2 is not written", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Puts: mutants.FirstOutput})
	l.Of(rope.ForwardDefinition, num.F32)
	l.Add("two-roundings", "both products are rounded to binary32", mutants.PromisesBits, turn(inside, func(a, b, c, s float32) (y1, y2 float32) {
		return float32(a*c) - float32(b*s), float32(a*s) + float32(b*c)
	}))
	l.Add("second-product-exact", "the second product of a sum is exact, and the first is rounded", mutants.PromisesBits, turn(inside, func(a, b, c, s float32) (y1, y2 float32) {
		return num.FMA(-b, s, float32(a*c)), num.FMA(b, c, float32(a*s))
	}))
	l.Add("loads-flush", "subnormal inputs count as zero", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Load: mutants.LoadFlushed})
	l.Of(rope.ForwardDefinition, num.BF16)
	l.Add("store-truncates", "results are cut off, not rounded", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Store: mutants.StoreTowardZero})

	l.Of(rope.BackwardDefinition, num.F16)
	l.Add("forward-again", "gradients are turned by the angle, not back", mutants.AnyOrder, turn(inside, plain))
	l.From(mutants.ZerosPass)
	l.Add("zeros", "every gradient is zero", mutants.AnyOrder, mutants.Edited(mutants.Zeros))
	l.From(mutants.KernelPractice)
	l.Of(rope.BackwardDefinition, num.F32)
	l.Add("outputs-swapped", "dx1 and dx2 are exchanged", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		a, b := c.In("dx1").V, c.In("dx2").V
		for i := range a {
			a[i], b[i] = b[i], a[i]
		}
	}})

	l.Of(rope.BackwardDefinition, num.BF16)
	l.Add("bad-position-wraps", "a position is taken modulo the rows of the tables", mutants.PromisesBits, turn(func(p, rows int) int { return ((p % rows) + rows) % rows }, backward(mutants.Ordered(nil))))

	ordered := mutants.Ordered(mutants.Ascending)
	changed := func(change func(n *norm)) mutants.Plain {
		n := usual(ordered)
		change(&n)
		return mutants.Plain{Body: n.body(ordered)}
	}
	l.Of(rope.NormForwardDefinition, num.F16)
	l.Add("mean-of-one-half", "the mean square is that of x1", mutants.AnyOrder, changed(func(n *norm) {
		n.square, n.count = func(a, _ float32) float32 { return a * a }, func(cols int) float32 { return float32(cols) }
	}))
	l.Add("sum-over-pairs", "the sum of squares is divided by the number of pairs", mutants.AnyOrder, changed(func(n *norm) { n.count = func(cols int) float32 { return float32(cols) } }))
	l.Add("norm-rounded", "what is normalized is rounded to f16 before it is turned, as two kernels do", mutants.Stable, changed(func(n *norm) {
		n.scaled = func(x, rstd, gamma float32) float32 { return num.Round(num.F16, x*rstd*gamma) }
	}))
	l.Add("turned-first", "gamma scales after the turn", mutants.AnyOrder, mutants.Plain{Body: func(c *mutants.Call) {
		n := usual(ordered)
		n.scaled = func(x, rstd, _ float32) float32 { return x * rstd }
		n.body(ordered)(c)
		for r := range c.In("y1").Rows {
			for i := range c.In("y1").Cols {
				c.In("y1").Row(r)[i] *= c.In("gamma1").V[i]
				c.In("y2").Row(r)[i] *= c.In("gamma2").V[i]
			}
		}
	}})
	l.Add("one-gamma", "gamma1 scales both halves", mutants.AnyOrder, before(func(c *mutants.Call) { copy(c.In("gamma2").V, c.In("gamma1").V) }))
	l.Add("eps-outside", "eps is added to the root", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		for r, v := range c.In("rstd").V {
			c.In("rstd").V[r] = 1 / (1/v + c.Param("eps"))
		}
	}})
	l.Of(rope.NormForwardDefinition, num.F32)
	l.Add("norm-left-out", "heads are turned as they are", mutants.AnyOrder, changed(func(n *norm) { n.scaled = func(x, _, gamma float32) float32 { return x * gamma } }))
	l.Add("squares-in-bf16", "squares are rounded to bf16", mutants.AnyOrder, changed(func(n *norm) {
		n.square = func(a, b float32) float32 { return num.Round(num.BF16, a*a+b*b) }
	}))
	l.Of(rope.NormForwardDefinition, num.BF16)
	l.Add("not-turned", "heads are normalized alone", mutants.AnyOrder, changed(func(n *norm) { n.turn = func(a, b, _, _ float32) (y1, y2 float32) { return a, b } }))

	changedGradients := func(change func(n *gradients)) mutants.Plain {
		n := usualGradients(ordered)
		change(&n)
		return mutants.Plain{Body: n.body(ordered)}
	}
	l.Of(rope.NormBackwardDefinition, num.F16)
	l.Add("not-turned-back", "gradients reach the norm as they are", mutants.AnyOrder, changedGradients(func(n *gradients) { n.turn = func(a, b, _, _ float32) (y1, y2 float32) { return a, b } }))
	l.Add("turned-forward", "gradients are turned by the angle, not back", mutants.AnyOrder, changedGradients(func(n *gradients) { n.turn = plain }))
	l.Add("mean-over-pairs", "the mean is taken over the pairs", mutants.AnyOrder, changedGradients(func(n *gradients) { n.count = func(cols int) float32 { return float32(cols) } }))
	l.Add("projection-left-out", "the gradient of rstd is left out", mutants.AnyOrder, changedGradients(func(n *gradients) { n.mean = func(xhat, k float32) float32 { return 0 } }))
	l.Of(rope.NormBackwardDefinition, num.F32)
	l.Add("dgamma-of-dy", "dgamma is that of gradients before they are turned back", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		for _, half := range []string{"1", "2"} {
			x, dy := c.In("x"+half), c.In("dy"+half)
			for i := range x.Cols {
				sum := float32(0)
				for r := range x.Rows {
					sum += dy.Row(r)[i] * x.Row(r)[i] * c.In("rstd").V[r]
				}
				c.In("dgamma" + half).V[i] = sum
			}
		}
	}})
	l.Add("dgammas-swapped", "dgamma1 and dgamma2 are exchanged", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		a, b := c.In("dgamma1").V, c.In("dgamma2").V
		for i := range a {
			a[i], b[i] = b[i], a[i]
		}
	}})

	l.Of(rope.InterleavedForwardDefinition, num.F16)
	l.Add("halves", "pairs are columns of both halves, not neighbours", mutants.AnyOrder, neighbours(inside, func(i, n int) (a, b int) { return i, i + (n+1)/2 }, plain))
	l.Add("sign-of-sine", "the second of a pair has the sign of the transpose", mutants.AnyOrder, neighbours(inside, adjacent, backward(mutants.Ordered(nil))))
	l.Add("pair-swapped", "the two of a pair are exchanged", mutants.AnyOrder, neighbours(inside, adjacent, func(a, b, c, s float32) (y1, y2 float32) { return plain(b, a, c, s) }))
	l.Add("sines-and-cosines-swapped", "the waves of a pair are exchanged", mutants.AnyOrder, neighbours(inside, adjacent, func(a, b, c, s float32) (y1, y2 float32) { return plain(a, b, s, c) }))
	l.Add("bad-position-clamped", "a position beyond the table reads the nearest row", mutants.PromisesBits, neighbours(func(p, rows int) int { return max(0, min(p, rows-1)) }, adjacent, plain))
	l.Add("last-copied", "the last of an odd number of columns is copied", mutants.PromisesBits, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		if x := c.In("x"); x.Cols%2 == 1 {
			for r := range x.Rows {
				c.In("y").Row(r)[x.Cols-1] = x.Row(r)[x.Cols-1]
			}
		}
	}})
	l.Of(rope.InterleavedForwardDefinition, num.F32)
	l.Add("two-roundings", "both products are rounded to binary32", mutants.PromisesBits, neighbours(inside, adjacent, func(a, b, c, s float32) (y1, y2 float32) {
		return float32(a*c) - float32(b*s), float32(a*s) + float32(b*c)
	}))
	l.Of(rope.InterleavedForwardDefinition, num.BF16)
	l.Add("store-truncates", "results are cut off, not rounded", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Store: mutants.StoreTowardZero})
	l.Of(rope.InterleavedBackwardDefinition, num.F16)
	l.Add("forward-again", "gradients are turned by the angle, not back", mutants.AnyOrder, neighbours(inside, adjacent, plain))
	l.Add("halves", "pairs are columns of both halves, not neighbours", mutants.AnyOrder, neighbours(inside, func(i, n int) (a, b int) { return i, i + (n+1)/2 }, backward(mutants.Ordered(nil))))
	l.Of(rope.InterleavedBackwardDefinition, num.F32)
	l.Add("pair-swapped", "the gradients of a pair are exchanged", mutants.PromisesBits, neighbours(inside, adjacent, func(a, b, c, s float32) (y1, y2 float32) {
		y2, y1 = backward(mutants.Ordered(nil))(a, b, c, s)
		return y1, y2
	}))
	l.Of(rope.InterleavedBackwardDefinition, num.BF16)
	l.Add("bad-position-wraps", "a position is taken modulo the rows of the table", mutants.PromisesBits, neighbours(func(p, rows int) int { return ((p % rows) + rows) % rows }, adjacent, backward(mutants.Ordered(nil))))

	changedHead := func(change func(n *head)) mutants.Plain {
		n := usualHead(ordered)
		change(&n)
		return mutants.Plain{Body: n.body(ordered)}
	}
	asHalves := func(i, n int) (a, b int) { return i, i + (n+1)/2 }
	l.Of(rope.InterleavedNormForwardDefinition, num.F16)
	l.Add("halves", "pairs are columns of both halves, not neighbours", mutants.AnyOrder, changedHead(func(n *head) { n.pair = asHalves }))
	l.Add("turned-first", "gamma scales after the turn", mutants.AnyOrder, changedHead(func(n *head) {
		n.before, n.after = func(x, rstd, _ float32) float32 { return x * rstd }, func(y, gamma float32) float32 { return y * gamma }
	}))
	l.Add("sum-over-pairs", "the sum of squares is divided by the number of pairs", mutants.AnyOrder, changedHead(func(n *head) { n.count = func(cols int) float32 { return float32(cols+1) / 2 } }))
	l.Add("gamma-of-the-pair", "the first column's gamma scales both of its pair", mutants.AnyOrder, before(func(c *mutants.Call) {
		gamma := c.In("gamma").V
		for i := 1; i < len(gamma); i += 2 {
			gamma[i] = gamma[i-1]
		}
	}))
	l.Add("norm-rounded", "what is normalized is rounded to f16 before it is turned, as two kernels do", mutants.Stable, changedHead(func(n *head) {
		n.before = func(x, rstd, gamma float32) float32 { return num.Round(num.F16, x*rstd*gamma) }
	}))
	l.Add("last-of-odd", "the last of an odd number of columns is left out of the mean square", mutants.PromisesBits, changedHead(func(n *head) {
		n.square = func(a float32, i, cols int) float32 {
			if i == cols-1 && cols%2 == 1 {
				return 0
			}
			return a * a
		}
	}))
	l.Of(rope.InterleavedNormForwardDefinition, num.F32)
	l.Add("norm-left-out", "heads are turned as they are", mutants.AnyOrder, changedHead(func(n *head) { n.before = func(x, _, gamma float32) float32 { return x * gamma } }))
	l.Of(rope.InterleavedNormForwardDefinition, num.BF16)
	l.Add("not-turned", "heads are normalized alone", mutants.AnyOrder, changedHead(func(n *head) { n.turn = func(a, b, _, _ float32) (y1, y2 float32) { return a, b } }))
	changedHeadGradients := func(change func(n *headGradients)) mutants.Plain {
		n := usualHeadGradients(ordered)
		change(&n)
		return mutants.Plain{Body: n.body(ordered)}
	}
	l.Of(rope.InterleavedNormBackwardDefinition, num.F16)
	l.Add("halves", "pairs are columns of both halves, not neighbours", mutants.AnyOrder, changedHeadGradients(func(n *headGradients) { n.pair = asHalves }))
	l.Add("turned-forward", "gradients are turned by the angle, not back", mutants.AnyOrder, changedHeadGradients(func(n *headGradients) { n.turn = plain }))
	l.Add("not-turned-back", "gradients reach the norm as they are", mutants.AnyOrder, changedHeadGradients(func(n *headGradients) { n.turn = func(a, b, _, _ float32) (y1, y2 float32) { return a, b } }))
	l.Add("projection-left-out", "the gradient of rstd is left out", mutants.AnyOrder, changedHeadGradients(func(n *headGradients) { n.mean = func(float32) float32 { return 0 } }))
	l.Of(rope.InterleavedNormBackwardDefinition, num.F32)
	l.Add("mean-over-pairs", "the mean is taken over the pairs", mutants.AnyOrder, changedHeadGradients(func(n *headGradients) { n.count = func(cols int) float32 { return float32(cols+1) / 2 } }))
	l.Add("dgamma-of-dy", "dgamma is that of gradients before they are turned back", mutants.AnyOrder, mutants.Plain{Body: mutants.Answer, Edit: func(c *mutants.Call) {
		x, dy := c.In("x"), c.In("dy")
		for i := range x.Cols {
			sum := float32(0)
			for r := range x.Rows {
				sum += dy.Row(r)[i] * x.Row(r)[i] * c.In("rstd").V[r]
			}
			c.In("dgamma").V[i] = sum
		}
	}})
	l.Of(rope.InterleavedNormBackwardDefinition, num.BF16)
	l.From(mutants.ZerosPass)
	l.Add("zeros", "every gradient is zero", mutants.AnyOrder, mutants.Edited(mutants.Zeros))
	return l.All
}

func right() []mutants.Mutant {
	l := mutants.NewList(rope.Operations)
	l.AddAll(rope.ForwardDefinition, "no-fma", "both products are rounded", mutants.Stable, turn(inside, func(a, b, c, s float32) (y1, y2 float32) {
		return float32(a*c) - float32(b*s), float32(a*s) + float32(b*c)
	}))
	l.AddAll(rope.BackwardDefinition, "no-fma", "both products are rounded", mutants.Stable, turn(inside, func(a, b, c, s float32) (y1, y2 float32) {
		return float32(a*c) + float32(b*s), float32(b*c) - float32(a*s)
	}))
	l.Of(rope.ForwardDefinition, num.F32)
	l.Add("as-defined", "in plain Go", mutants.PromisesBits, turn(inside, forward(mutants.Ordered(nil))))
	l.Of(rope.BackwardDefinition, num.F16)
	l.Add("as-defined", "in plain Go", mutants.PromisesBits, turn(inside, backward(mutants.Ordered(nil))))
	l.Of(rope.InterleavedForwardDefinition, num.F32)
	l.Add("as-defined", "in plain Go", mutants.PromisesBits, neighbours(inside, adjacent, forward(mutants.Ordered(nil))))
	l.Of(rope.InterleavedBackwardDefinition, num.F16)
	l.Add("as-defined", "in plain Go", mutants.PromisesBits, neighbours(inside, adjacent, backward(mutants.Ordered(nil))))
	ordered := mutants.Ordered(mutants.Ascending)
	l.AddAll(rope.NormForwardDefinition, "ascending", "squares are added one after another", mutants.AnyOrder, mutants.Plain{Body: usual(ordered).body(ordered)})
	l.AddAll(rope.NormBackwardDefinition, "ascending", "terms are added one after another", mutants.AnyOrder, mutants.Plain{Body: usualGradients(ordered).body(ordered)})
	l.AddAll(rope.InterleavedNormForwardDefinition, "ascending", "squares are added one after another", mutants.AnyOrder, mutants.Plain{Body: usualHead(ordered).body(ordered)})
	l.AddAll(rope.InterleavedNormBackwardDefinition, "ascending", "terms are added one after another", mutants.AnyOrder, mutants.Plain{Body: usualHeadGradients(ordered).body(ordered)})
	return l.All
}

// peers returns plain kernels of the definitions, made of the given parts.
func peers(p mutants.Parts) map[*def.Definition]func(*mutants.Call) {
	return map[*def.Definition]func(*mutants.Call){
		rope.ForwardDefinition: turn(inside, forward(p)).Body, rope.BackwardDefinition: turn(inside, backward(p)).Body,
		rope.NormForwardDefinition: usual(p).body(p), rope.NormBackwardDefinition: usualGradients(p).body(p),
		rope.InterleavedForwardDefinition: neighbours(inside, adjacent, forward(p)).Body, rope.InterleavedBackwardDefinition: neighbours(inside, adjacent, backward(p)).Body,
		rope.InterleavedNormForwardDefinition: usualHead(p).body(p), rope.InterleavedNormBackwardDefinition: usualHeadGradients(p).body(p),
	}
}
