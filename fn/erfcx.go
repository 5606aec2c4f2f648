package fn

import "tokitai/def"

// ErfcxBounded returns erfcx(x) = exp(x²)·(1 − erf(x)) for 0 ≤ x ≤ 11, for arguments that are bounded
// already. With it, exp(−x²)·erfcx(x) is 1 − erf(x) without cancellation. Outside, the result is
// unspecified but deterministic.
func ErfcxBounded(x def.Value) def.Value { return ErfcxBoundedFunction.Of(x) }

// ErfcxBoundedFunction is [ErfcxBounded]. With t = 1/(x + 2) it is 2t·(1 + s·q(s)) for s = x·t, which
// runs from 0 to 0.85: over s, erfcx(x)·(x + 2)/2 is smooth.
var ErfcxBoundedFunction = &def.Function{
	Name: "erfcx_bounded", Math: def.MathErfcx,
	ULPs:    4,
	Domain:  def.Domain{Low: 0, High: erfcxLimit},
	Outside: "elsewhere unspecified but deterministic",
	Expand: func(x def.Value) def.Value {
		t := RecipBounded(x.Add(def.Two)).As("t")
		s := x.Mul(t).As("s")
		return t.Add(t).Mul(def.FMA(s, polynomial(s, erfcxCoefficients[:]), def.One))
	},
}

const erfcxLimit = 11
