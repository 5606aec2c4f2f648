package fn

import (
	"math"

	"tokitai/def"
)

// Erf returns the error function of x, for every x: odd, zeros keep their sign, ±1 at the
// infinities.
func Erf(x def.Value) def.Value { return ErfFunction.Of(x) }

// ErfFunction is [Erf]. With a = |x| it is x + x·p(x²) for a < 1, and
// 1 − exp(a·q(a) − a) beyond: log(1 − erf a) is smooth, and the exponential, below 0.16
// there, may be off by several ulp of itself. From erfOne on the result rounds to 1.
var ErfFunction = &def.Function{
	Name: "erf", Math: def.MathErf,
	ULPs:   1.1,
	Domain: def.EveryX,
	Expand: func(x def.Value) def.Value {
		square := x.Mul(x).As("square")
		small := def.FMA(x, polynomial(square, erfCoefficients[:]), x).As("small")

		a := x.Abs().As("a")
		c := def.Select(def.Const(erfOne).Less(a), def.Const(erfOne), a).As("ac")
		e := ExpBounded(def.FMA(c, polynomial(c, erfcCoefficients[:]), c.Neg())).As("e")
		sign := x.Bits().IAnd(def.IntConst(math.MinInt32))
		large := def.One.Sub(e).Bits().IOr(sign).Float().As("large")
		return def.Select(a.Less(def.One), small, large)
	},
}

const erfOne = 4
