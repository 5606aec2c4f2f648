package fn

import "tokitai/def"

// polynomial returns Σ c[k]·x^k by Horner's rule, with one FMA per step.
func polynomial(x def.Value, c []float32) def.Value {
	v := constant(c[len(c)-1])
	for k := len(c) - 2; k >= 0; k-- {
		v = def.FMA(v, x, constant(c[k]))
	}
	return v
}

func constant(c float32) def.Value { return def.Const(float64(c)) }
