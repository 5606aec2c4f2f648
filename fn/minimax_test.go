package fn

import (
	"fmt"
	"math"
	"math/big"
	"slices"
)

// workPrec is the precision in bits with which coefficients are found. Every step is
// in math/big, so the result does not depend on the machine.
const workPrec = 200

func newBig(v float64) *big.Float { return new(big.Float).SetPrec(workPrec).SetFloat64(v) }

func bigZero() *big.Float { return new(big.Float).SetPrec(workPrec) }

// approximation asks for the polynomial q of the given degree, with binary32
// coefficients, that makes the largest weight(x)·|q(x) − target(x)| on [lo, hi] small.
type approximation struct {
	lo, hi         *big.Float
	degree         int
	target, weight func(x *big.Float) *big.Float
}

// grid is the points on which an approximation is fitted, with the target and the
// weight there: Chebyshev points, dense at the ends. None of them is 0, where targets
// such as (eˣ−1)/x are 0/0.
type grid struct{ x, target, weight []*big.Float }

const gridPoints = 600

func (a approximation) grid() grid {
	var g grid
	for i := range gridPoints {
		t := newBig(math.Round(math.Cos(math.Pi*(float64(i)+0.5)/gridPoints)*(1<<40)) / (1 << 40))
		half := bigZero().Sub(a.hi, a.lo)
		half.Mul(half, newBig(0.5))
		mid := bigZero().Add(a.hi, a.lo)
		mid.Mul(mid, newBig(0.5))
		x := bigZero().Add(mid, t.Mul(t, half))
		g.x = append(g.x, x)
		g.target = append(g.target, a.target(x))
		g.weight = append(g.weight, bigZero().Abs(a.weight(x)))
	}
	return g
}

// minimax32 finds the coefficients, lowest degree first, and the worst weighted error.
// The minimax polynomial with real coefficients comes from Remez' exchange; its lowest
// coefficient is rounded to binary32, the others are fitted again with that one fixed,
// and so on upward.
func (a approximation) minimax32() (coefficients []float32, worst float64) {
	whole := a.grid()
	rest := whole
	rounded := []*big.Float{}
	for degree := a.degree; degree >= 0; degree-- {
		c, _ := rest.exchange(degree)[0].Float32()
		coefficients = append(coefficients, c)
		rounded = append(rounded, newBig(float64(c)))
		rest = rest.without(newBig(float64(c)))
	}
	for i := range whole.x {
		e, _ := whole.err(i, rounded).Float64()
		worst = max(worst, math.Abs(e))
	}
	return coefficients, worst
}

// without is what is left to approximate once the constant coefficient is c: the
// target (target−c)/x with the weight weight·|x|.
func (g grid) without(c *big.Float) grid {
	rest := grid{x: g.x}
	for i, x := range g.x {
		t := bigZero().Sub(g.target[i], c)
		rest.target = append(rest.target, t.Quo(t, x))
		rest.weight = append(rest.weight, bigZero().Mul(g.weight[i], bigZero().Abs(x)))
	}
	return rest
}

// err is the weighted error of the polynomial q in grid point i.
func (g grid) err(i int, q []*big.Float) *big.Float {
	e := bigZero()
	for k := len(q) - 1; k >= 0; k-- {
		e.Mul(e, g.x[i]).Add(e, q[k])
	}
	return e.Sub(e, g.target[i]).Mul(e, g.weight[i])
}

// exchange gives the coefficients of the given degree that minimise the largest
// weighted error on the grid: Remez' algorithm, replacing all points of the reference
// at once.
func (g grid) exchange(degree int) []*big.Float {
	reference := make([]int, degree+2)
	for i := range reference {
		reference[i] = (2*i + 1) * gridPoints / (2 * len(reference))
	}
	for range 60 {
		q := g.solve(reference)
		next := g.extremes(q, len(reference))
		if slices.Equal(next, reference) {
			return q
		}
		reference = next
	}
	panic("the exchange does not settle")
}

// solve finds q and E with weight·(q − target) = ±E, signs alternating over the
// reference.
func (g grid) solve(reference []int) []*big.Float {
	n := len(reference)
	rows := make([][]*big.Float, n)
	for r, i := range reference {
		row := make([]*big.Float, n+1)
		term := g.weight[i]
		for k := range n - 1 {
			row[k] = bigZero().Set(term)
			term = bigZero().Mul(term, g.x[i])
		}
		row[n-1] = newBig(float64(1 - 2*(r%2)))
		row[n] = bigZero().Mul(g.weight[i], g.target[i])
		rows[r] = row
	}
	return eliminate(rows)[:n-1]
}

// eliminate solves a linear system, the right-hand side in the last column, by
// Gaussian elimination with partial pivoting.
func eliminate(rows [][]*big.Float) []*big.Float {
	n := len(rows)
	for c := range n {
		pivot := c
		for r := c + 1; r < n; r++ {
			if bigZero().Abs(rows[r][c]).Cmp(bigZero().Abs(rows[pivot][c])) > 0 {
				pivot = r
			}
		}
		rows[c], rows[pivot] = rows[pivot], rows[c]
		for r := range n {
			if r == c {
				continue
			}
			f := bigZero().Quo(rows[r][c], rows[c][c])
			for k := c; k <= n; k++ {
				rows[r][k].Sub(rows[r][k], bigZero().Mul(f, rows[c][k]))
			}
		}
	}
	x := make([]*big.Float, n)
	for r := range n {
		x[r] = bigZero().Quo(rows[r][n], rows[r][r])
	}
	return x
}

// extremes gives count grid points at which the error of q is largest in size and
// alternates in sign.
func (g grid) extremes(q []*big.Float, count int) []int {
	var points []int
	var sizes []*big.Float
	sign := 0
	for i := range g.x {
		e := g.err(i, q)
		if e.Sign() == 0 {
			continue
		}
		size := bigZero().Abs(e)
		if e.Sign() != sign {
			sign = e.Sign()
			points, sizes = append(points, i), append(sizes, size)
		} else if last := len(points) - 1; size.Cmp(sizes[last]) > 0 {
			points[last], sizes[last] = i, size
		}
	}
	if len(points) < count {
		panic(fmt.Sprintf("the error alternates %d times, want %d", len(points), count))
	}
	for len(points) > count {
		// Drop the smallest if it is at an end, else it and its smaller neighbour:
		// signs still alternate. With one too many, drop the smaller end.
		last := len(points) - 1
		from, to := 0, 1
		if sizes[last].Cmp(sizes[0]) < 0 {
			from, to = last, last+1
		}
		if len(points) > count+1 {
			for i := range last - 1 {
				if sizes[i+1].Cmp(sizes[from]) < 0 {
					from, to = i+1, i+3
				}
			}
			if to == from+2 && sizes[from-1].Cmp(sizes[from+1]) < 0 {
				from, to = from-1, to-1
			}
		}
		points, sizes = slices.Delete(points, from, to), slices.Delete(sizes, from, to)
	}
	return points
}

// expBig is eˣ for |x| < 1, within 2⁻¹⁹⁰: the Taylor series.
func expBig(x *big.Float) *big.Float {
	sum, term := newBig(1), newBig(1)
	for k := 1; k < 60; k++ {
		term.Mul(term, x).Quo(term, newBig(float64(k)))
		sum.Add(sum, term)
	}
	return sum
}

// logBig is log x for ½ < x < 2, within 2⁻¹⁹⁰: 2·artanh((x−1)/(x+1)).
func logBig(x *big.Float) *big.Float {
	z := bigZero().Quo(bigZero().Sub(x, newBig(1)), bigZero().Add(x, newBig(1)))
	z2 := bigZero().Mul(z, z)
	sum, power := bigZero(), bigZero().Set(z)
	for k := 1; k < 130; k += 2 {
		sum.Add(sum, bigZero().Quo(power, newBig(float64(k))))
		power.Mul(power, z2)
	}
	return sum.Mul(sum, newBig(2))
}

// evenSeries is 1 − x/(k(k+1)) + x²/(k(k+1)(k+2)(k+3)) − …, within 2⁻¹⁹⁰ for 0 ≤ x < 1:
// with x = r² it is cos r for k = 1, and (sin r)/r for k = 2.
func evenSeries(x *big.Float, k int) *big.Float {
	sum, term := newBig(1), newBig(1)
	for range 30 {
		term.Mul(term, x).Quo(term, newBig(float64(-k*(k+1))))
		sum.Add(sum, term)
		k += 2
	}
	return sum
}

// erfBig is erf x for |x| ≤ 4, within 2⁻¹⁵⁰: the power series, whose terms grow to 2²² and
// alternate.
func erfBig(x *big.Float) *big.Float {
	square := bigZero().Mul(x, x)
	sum, power := bigZero(), bigZero().Set(x)
	for k := range 150 {
		sum.Add(sum, bigZero().Quo(power, newBig(float64(2*k+1))))
		power.Mul(power, square).Quo(power, newBig(float64(-k-1)))
	}
	return sum.Mul(sum, newBig(2)).Quo(sum, bigZero().Sqrt(piBig()))
}

// piBig is π = 4·(4·atan(1/5) − atan(1/239)), within 2⁻¹⁹⁰.
func piBig() *big.Float {
	atan := func(n float64) *big.Float {
		sum, power := bigZero(), bigZero().Quo(newBig(1), newBig(n))
		for k := 1.0; k < 200; k += 4 {
			for _, sign := range []float64{1, -1} {
				sum.Add(sum, bigZero().Quo(power, newBig(sign*(k+1-sign))))
				power.Quo(power, newBig(n*n))
			}
		}
		return sum
	}
	pi := bigZero().Sub(bigZero().Mul(newBig(4), atan(5)), atan(239))
	return pi.Mul(pi, newBig(4))
}

// ln2Big is log 2 = 2·log √2, within 2⁻¹⁹⁰.
func ln2Big() *big.Float {
	l := logBig(bigZero().Sqrt(newBig(2)))
	return l.Mul(l, newBig(2))
}
