package truth

import (
	"math"

	"tokitai/def"
	"tokitai/num/ball"
)

// slope is the slope of a node with respect to one of its arguments: a number D such that, if only
// this argument differs from its exact value, the node differs from its own by D times as much. It
// encloses the D for all values in the box. Most slopes are derivatives over the box; those of
// products and quotients are tighter (findSlopes).
type slope struct {
	sign int         // 1 or -1: the slope is that
	by   []ball.Ball // otherwise the slopes, one per column or a single one; nil if the node does not depend on the argument
}

var (
	oneBall  = ball.Ball{Mid: 1}
	signBall = ball.Ball{Mid: 0, Rad: 1}     // [-1, 1]
	halfBall = ball.Ball{Mid: 0.5, Rad: 0.5} // [0, 1]
)

// findSlopes computes the slopes of a node that varies, for the current row. Where it has none, or
// they are too large to be useful, the node is cut off from its arguments: the whole difference
// from its exact value counts as its own error.
func (p *perturbation) findSlopes(n *def.Node) {
	z := p.slopes[n.ID]
	if p.call.isStored(n) {
		for j := range p.errors[n.ID] {
			p.cut(n, j)
		}
		return
	}
	switch n.Op {
	case def.OpAdd, def.OpSub, def.OpNeg, def.OpRound, def.OpSRound:
		return // signs, which are set once
	case def.OpMul, def.OpFMA:
		// ab - a'b' = (b+b')/2·(a-a') + (a+a')/2·(b-b')
		for k := range 2 {
			if p.varies[n.Args[k].ID] {
				z[k].by = p.mean(n.Args[1-k])
			}
		}
		return
	}
	if p.noise[n.ID].isNone() {
		clear(p.errors[n.ID])
	}
	box, centre := p.box.values[n.ID].x, p.centre.values[n.ID].x
	arg := func(k int) []ball.Ball { return p.box.values[n.Args[k].ID].x }
	exact := func(k int) []ball.Ball { return p.centre.values[n.Args[k].ID].x }
	switch n.Op {
	case def.OpDiv:
		// a/b - a'/b' = (a-a')/b - (a'/b')/b·(b-b')
		for j := range box {
			d := at(arg(1), j).Recip()
			assign(z[0].by, j, d)
			assign(z[1].by, j, centre[j].Mul(d).Neg())
		}
		p.cutWhereSteep(n, z[1].by, arg(1), exact(1))
	case def.OpSqrt:
		// √a - √a' = (a-a')/(√a+√a')
		zip(z[0].by, box, centre, func(a, b ball.Ball) ball.Ball { return a.Add(b).Recip() })
		p.cutWhereSteep(n, z[0].by, arg(0), exact(0))
	case def.OpCall:
		if n.Func.Math == def.MathExp {
			if z[0].by != nil {
				z[0].by = box // never steep
			}
			return
		}
		p.functionSlopes(z[0].by, n.Func.Math, arg(0), box, centre)
		p.cutWhereSteep(n, z[0].by, arg(0), exact(0))
	case def.OpAbs:
		apply(z[0].by, arg(0), func(a ball.Ball) ball.Ball {
			switch {
			case a.Mid >= a.Rad:
				return oneBall
			case -a.Mid >= a.Rad:
				return oneBall.Neg()
			}
			return signBall
		})
	case def.OpMin, def.OpMax:
		a, b := arg(0), arg(1)
		for j := range box {
			first, second := halfBall, halfBall
			switch less := at(a, j).LessEq(at(b, j)); {
			case less == ball.Maybe:
			case (less == ball.Yes) == (n.Op == def.OpMin):
				first, second = oneBall, ball.Ball{}
			default:
				first, second = ball.Ball{}, oneBall
			}
			assign(z[0].by, j, first)
			assign(z[1].by, j, second)
		}
	case def.OpSelect:
		claim := p.box.values[n.Args[0].ID].claim
		for j := range box {
			first, second := ball.Ball{}, ball.Ball{}
			switch at(claim, j) {
			case ball.Yes:
				first = oneBall
			case ball.No:
				second = oneBall
			default:
				p.cut(n, j)
			}
			assign(z[1].by, j, first)
			assign(z[2].by, j, second)
		}
	case def.OpUnpacked:
		isOpen := false // which slots the elements have
		for j := range box {
			if isOpen = isOpen || at(p.box.values[n.Args[0].ID].claim, j) == ball.Maybe; isOpen {
				p.cut(n, j)
			}
		}
	case def.OpScale:
		by := arg(1)
		for j := range box {
			lo, hi := at(by, j).Bounds()
			if d := scale(oneBall, at(by, j)); math.RoundToEven(lo) == math.RoundToEven(hi) && d.Known() {
				assign(z[0].by, j, d)
			} else {
				assign(z[0].by, j, ball.Ball{})
				p.cut(n, j)
			}
		}
	case def.OpRint, def.OpIToF:
		for j := range box {
			p.cut(n, j)
		}
	}
}

func assign(to []ball.Ball, j int, v ball.Ball) {
	if to != nil {
		to[j] = v
	}
}

// mean returns half the sum of the exact and the perturbed values of a node.
func (p *perturbation) mean(n *def.Node) []ball.Ball {
	centre := p.centre.values[n.ID].x
	if !p.varies[n.ID] {
		return centre
	}
	row := 0
	if isPerRow(n) {
		row = p.box.row
	}
	if p.means[n.ID] == nil {
		p.means[n.ID], p.meanOf[n.ID] = p.balls(len(centre)), -1
	}
	m := p.means[n.ID]
	if p.meanOf[n.ID] == row {
		return m
	}
	p.meanOf[n.ID] = row
	ball.SetMeans(m, p.box.values[n.ID].x, centre)
	return m
}

// cut counts the whole difference of a value from its exact value as its own error, and none of it
// as caused by its arguments.
func (p *perturbation) cut(n *def.Node, j int) {
	p.errors[n.ID][j] = Radius(p.box.values[n.ID].x[j], p.centre.values[n.ID].x[j])
	for k := range p.slopes[n.ID] {
		if by := p.slopes[n.ID][k].by; by != nil {
			by[j] = ball.Ball{}
		}
	}
}

// cutWhereSteep cuts values whose slope is unknown, or bounds their difference far worse than
// their enclosure does, as near a pole or a root of 0.
func (p *perturbation) cutWhereSteep(n *def.Node, by, arg, exact []ball.Ball) {
	for j, d := range by {
		switch {
		case d.Known() && d.Rad <= 0.25*math.Abs(d.Mid):
		case d.Known() && float64((math.Abs(d.Mid)+d.Rad)*Radius(at(arg, j), at(exact, j))) <= 2*Radius(p.box.values[n.ID].x[j], p.centre.values[n.ID].x[j]):
		default:
			p.cut(n, j)
		}
	}
}

// functionSlopes computes the slopes of a function. box and centre are the function's values,
// perturbed and exact.
func (p *perturbation) functionSlopes(out []ball.Ball, m def.Math, arg, box, centre []ball.Ball) {
	switch m {
	case def.MathExp2:
		ln2 := ball.FromFloat64(2).Log()
		apply(out, box, ln2.Mul)
	case def.MathExpm1:
		apply(out, arg, ball.Ball.Exp)
	case def.MathLog:
		apply(out, arg, ball.Ball.Recip)
	case def.MathLog2:
		ln2 := ball.FromFloat64(2).Log()
		apply(out, arg, func(x ball.Ball) ball.Ball { return x.Mul(ln2).Recip() })
	case def.MathLog1p:
		apply(out, arg, func(x ball.Ball) ball.Ball { return oneBall.Add(x).Recip() })
	case def.MathTanh:
		// 1 - tanh² t = 4·σ(2t)·σ(-2t)
		apply(out, arg, func(x ball.Ball) ball.Ball {
			x = x.Scale2(1)
			return x.Sigmoid().Mul(x.Neg().Sigmoid()).Scale2(2)
		})
	case def.MathSigmoid:
		apply(out, arg, func(x ball.Ball) ball.Ball { return x.Sigmoid().Mul(x.Neg().Sigmoid()) })
	case def.MathRecip:
		// 1/a - 1/a' = -(1/a)·(1/a')·(a-a')
		zip(out, box, centre, func(r, s ball.Ball) ball.Ball { return r.Mul(s).Neg() })
	case def.MathSqrt:
		zip(out, box, centre, func(a, b ball.Ball) ball.Ball { return a.Add(b).Recip() })
	case def.MathRsqrt:
		// With r = 1/√a: r - r' = -(r·r')²/(r+r')·(a-a')
		zip(out, box, centre, func(r, s ball.Ball) ball.Ball { return r.Mul(s).Sqr().Div(r.Add(s)).Neg() })
	case def.MathSin:
		apply(out, arg, ball.Ball.Cos)
	case def.MathCos:
		apply(out, arg, func(x ball.Ball) ball.Ball { return x.Sin().Neg() })
	case def.MathErf:
		slope := ball.Ball{}.Pi().Rsqrt().Scale2(1)
		apply(out, arg, func(x ball.Ball) ball.Ball { return slope.Mul(x.Sqr().Neg().Exp()) })
	case def.MathErfcx:
		slope := ball.Ball{}.Pi().Rsqrt().Scale2(1)
		zip(out, arg, box, func(x, y ball.Ball) ball.Ball { return x.Mul(y).Scale2(1).Sub(slope) })
	default:
		for j := range out {
			out[j] = p.box.unknown()
		}
	}
}
