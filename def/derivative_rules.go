package def

import (
	"fmt"
	"math"
)

// pass adds g, the gradient of n, to the gradients of its arguments.
func (x *differentiator) pass(n *Node, g Value) {
	a := func(i int) Value { return x.value(n.Args[i]) }
	to := func(i int, v Value) { x.put(n.Args[i], n.Extent, v) }
	// Reductions read elements: there is nothing to sum.
	each := func(v Value) { x.put(n.Args[0], PerElement, v) }

	switch n.Op {
	case OpAdd:
		to(0, g)
		to(1, g)
	case OpSub:
		to(0, g)
		to(1, x.neg(g))
	case OpMul, OpFMA:
		if n.Args[0] == n.Args[1] {
			to(0, x.mul(Two, x.mul(g, a(0))))
		} else {
			to(0, x.mul(g, a(1)))
			to(1, x.mul(g, a(0)))
		}
		if n.Op == OpFMA {
			to(2, g)
		}
	case OpDiv:
		q := x.value(n)
		to(0, x.div(g, a(1)))
		if isConst(a(0), 1) {
			to(1, x.neg(x.mul(x.mul(g, q), q)))
		} else {
			to(1, x.neg(x.div(x.mul(g, q), a(1))))
		}
	case OpSqrt:
		to(0, x.slope(MathSqrt, nil, g, a(0), x.value(n)))
	case OpNeg:
		to(0, x.neg(g))
	case OpAbs:
		to(0, x.choose(x.share(a(0).Less(x.number(Zero))), x.neg(g), g))
	case OpMin:
		isSecond := x.share(a(1).Less(a(0)))
		to(0, x.choose(isSecond, Value{}, g))
		to(1, x.choose(isSecond, g, Value{}))
	case OpMax:
		isSecond := x.share(a(0).Less(a(1)))
		to(0, x.choose(isSecond, Value{}, g))
		to(1, x.choose(isSecond, g, Value{}))
	case OpScale:
		to(0, x.share(g.Scale(a(1))))
	case OpRound, OpSRound:
		to(0, g)
	case OpSelect:
		to(1, x.choose(a(0), g, Value{}))
		to(2, x.choose(a(0), Value{}, g))
	case OpRowSum, OpColSum, OpTotalSum:
		each(g)
	case OpRowMax:
		each(x.where(x.share(RowArgMax(a(0))), g))
	case OpRowMin:
		each(x.where(x.share(RowArgMin(a(0))), g))
	case OpAt:
		each(x.where(a(1), g))
	case OpCall:
		if x.reaches[n.Args[0]] {
			to(0, x.slope(n.Func.Math, n.Func, g, a(0), x.value(n)))
		}
	case OpPacked:
		each := func(v Value) { x.put(n.Args[1], PerElement, v) }
		each(x.share(Unpacked(a(0), g)))
	case OpPartner:
		to(0, x.share(g.Partner()))
	case OpRint: // locally constant
	default:
		x.fail(fmt.Errorf("%s: node %s has no derivative", n.brief(), n.Op))
	}
}

var (
	naturalLogOf2 = Number("log(2)")
	binaryLogOfE  = Number("1/log(2)")
	erfSlopeAt0   = Number("2/sqrt(pi)")
)

// slope returns g times the derivative of a function at a, where its value is y.
func (x *differentiator) slope(m Math, f *Function, g, a, y Value) Value {
	switch m {
	case MathExp:
		return x.mul(g, y)
	case MathExpm1:
		return x.mul(g, x.add(y, One))
	case MathLog:
		return x.div(g, a)
	case MathTanh:
		return x.mul(g, x.mul(x.sub(One, y), x.add(One, y)))
	case MathRecip:
		return x.neg(x.mul(x.mul(g, y), y))
	case MathSqrt:
		return x.mul(Half, x.div(g, y))
	case MathRsqrt:
		return x.neg(x.mul(Half, x.div(x.mul(g, y), a)))
	case MathSigmoid:
		return x.mul(g, x.mul(y, x.sub(One, y)))
	case MathExp2:
		return x.mul(g, x.mul(naturalLogOf2, y))
	case MathLog2:
		return x.div(x.mul(binaryLogOfE, g), a)
	case MathLog1p:
		return x.div(g, x.add(One, a))
	case MathSin:
		return x.mul(g, x.call(MathCos, f, f.Domain, a))
	case MathCos:
		return x.neg(x.mul(g, x.call(MathSin, f, f.Domain, a)))
	case MathErf:
		return x.mul(g, x.mul(erfSlopeAt0, x.call(MathExp, f, AtMost(0), x.neg(x.mul(a, a)))))
	case MathErfcx:
		return x.mul(g, x.sub(x.mul(Two, x.mul(a, y)), erfSlopeAt0))
	}
	x.fail(fmt.Errorf("function %s: the derivative of %s is unknown", f.Name, m))
	return Value{}
}

// call returns the value at a of a function of mathematics m, which the derivative of f needs.
func (x *differentiator) call(m Math, f *Function, within Domain, a Value) Value {
	for _, other := range x.functions {
		if other != nil && other.Math == m && (other.Domain == within || other.Domain.Contains(within.ends())) {
			return x.share(other.Of(a))
		}
	}
	x.fail(fmt.Errorf("function %s: its derivative needs a function with the mathematics of %s for %s, and none is known", f.Name, m, within))
	return Value{}
}

// ends returns the least and the largest argument of the domain.
func (d Domain) ends() (lo, hi float64) {
	switch {
	case d == EveryX:
		return math.Inf(-1), math.Inf(1)
	case d.OfAbs:
		return -d.High, d.High
	}
	return d.Low, d.High
}
