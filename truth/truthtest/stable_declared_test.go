package truthtest

import (
	"math"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/num"
	"tokitai/op/gelu"
	"tokitai/op/layernorm"
	softmaxop "tokitai/op/softmax"
	"tokitai/promise"
	"tokitai/truth"
)

// approximate returns a function of binary32 whose results are off by a share of the true
// value, alternately up and down, and then rounded.
func approximate(f func(float64) float64, share float64) func(float32) float32 {
	sign := 1.0
	return func(x float32) float32 {
		sign = -sign
		return float32(f(float64(x)) * (1 + sign*share))
	}
}

// TestStableDeclaredForms checks that kernels in other forms, whose functions have the declared
// errors, are admitted, and would not be without the declaration.
func TestStableDeclaredForms(t *testing.T) {
	const slope, cubic = 0.7978845608028654, 0.7978845608028654 * 0.044715
	const columns = 101
	geluBy := func(sigmoid func(t float32) float32) func(x, y []float32) {
		return func(x, y []float32) {
			for i, v := range x {
				y[i] = v * sigmoid(2*v*float32(math.FMA(cubic, float64(v*v), slope)))
			}
		}
	}
	geluByTanh := func(share float64) func(x, y []float32) {
		tanh := approximate(math.Tanh, share)
		return geluBy(func(t float32) float32 { return 0.5 * (1 + max(-1, min(1, tanh(t/2)))) })
	}
	geluBackwardByTanh := func(share float64) func(x, dx []float32) {
		tanh := approximate(math.Tanh, share)
		return func(x, dx []float32) {
			for i, v := range x {
				th := max(-1, min(1, tanh(v*float32(math.FMA(cubic, float64(v*v), slope)))))
				dx[i] = 0.5*(1+th) + 0.5*v*(1-th*th)*float32(math.FMA(3*cubic, float64(v*v), slope))
			}
		}
	}
	softmaxBy := func(exp, recip func(float32) float32) func(x, y []float32) {
		return func(x, y []float32) {
			most, sum := x[0], 0.0
			for _, v := range x {
				most = max(most, v)
			}
			for i, v := range x {
				y[i] = exp(v - most)
				sum += float64(y[i])
			}
			scale := recip(float32(sum))
			for i := range y {
				y[i] *= scale
			}
		}
	}
	exactly := func(x float32) float32 { return 1 / x }
	layernormBy := func(rsqrt func(float32) float32) func(x, y []float32) {
		return func(x, y []float32) {
			var sum, squares float64
			for _, v := range x {
				sum += float64(v)
			}
			mean := float32(sum / columns)
			for _, v := range x {
				squares += float64(v-mean) * float64(v-mean)
			}
			scale := rsqrt(float32(squares/columns) + 1e-5)
			for i, v := range x {
				y[i] = (v - mean) * scale
			}
		}
	}
	exp2 := approximate(math.Exp2, 100*0x1p-23)
	inverseRoot := func(x float64) float64 { return 1 / math.Sqrt(x) }
	for _, c := range []struct {
		name     string
		d        *def.Definition
		declared string
		kernel   func(x, y []float32)
	}{
		{"gelu by tanh", gelu.ForwardDefinition, "tanh=0.5ulp", geluByTanh(0)},
		{"gelu by an approximate tanh", gelu.ForwardDefinition, "tanh=2^-11+0.5ulp", geluByTanh(0x1p-11)},
		{"gelu's gradient by tanh", gelu.BackwardDefinition, "tanh=0.5ulp", geluBackwardByTanh(0)},
		{"gelu's gradient by an approximate tanh", gelu.BackwardDefinition, "tanh=2^-11+0.5ulp", geluBackwardByTanh(0x1p-11)},
		{"gelu by an approximate sigmoid", gelu.ForwardDefinition, "sigmoid=2^-14+0.5ulp",
			geluBy(approximate(func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, 0x1p-14))},
		{"softmax by exp2", softmaxop.ForwardDefinition, "exp2=100.5ulp",
			softmaxBy(func(x float32) float32 { return exp2(x * math.Log2E) }, exactly)},
		{"softmax by an approximate reciprocal", softmaxop.ForwardDefinition, "recip=2^-18+0.5ulp",
			softmaxBy(func(x float32) float32 { return float32(math.Exp(float64(x))) }, approximate(func(x float64) float64 { return 1 / x }, 0x1p-18))},
		{"softmax by exp with |x|", softmaxop.ForwardDefinition, "exp=2ulp+40|x|",
			softmaxBy(func(x float32) float32 { return approximate(math.Exp, 40*float64(-x)*0x1p-24)(x) }, exactly)},
		{"layernorm by rsqrt", layernorm.ForwardDefinition, "rsqrt=2^-19+0.5ulp", layernormBy(approximate(inverseRoot, 0x1p-19))},
	} {
		operands := make([]num.Array, len(c.d.Operands))
		for i, o := range c.d.Operands {
			cols := 1
			if o.Extent&def.PerColumn != 0 {
				cols = columns
			}
			operands[i] = num.NewArray(num.F32, 1, cols)
			for col := range cols {
				switch o.Name {
				case "x":
					operands[i].Set(0, col, float32(col-50)*0.1337)
				case "gamma", "dy":
					operands[i].Set(0, col, 1)
				}
			}
		}
		x, y := make([]float32, columns), make([]float32, columns)
		for i := range x {
			x[i] = operands[c.d.Operand("x")].At(0, i)
		}
		c.kernel(x, y)
		output := max(c.d.Operand("y"), c.d.Operand("dx"))
		params := make([]float64, len(c.d.Params))
		for i, p := range c.d.Params {
			params[i] = *p.Default
		}
		declares, _, err := promise.ParseDeclaration(c.declared)
		if err != nil {
			t.Fatal(err)
		}
		if err := declares.Check(c.d, nil); err != nil {
			t.Fatal(err)
		}
		outside := func(o truth.StableOptions) (n int) {
			o.Params, o.Order = params, def.Order{Kind: def.Height, Width: 1}
			s, err := truth.EncloseStable(c.d, operands, o)
			if err != nil {
				t.Fatal(err)
			}
			for col, v := range y {
				if !s.Admits(output, 0, col, s.MostHeight(), math.Float32bits(v)) {
					n++
				}
			}
			return n
		}
		if n := outside(truth.StableOptions{Declares: declares, Errors: declares.Error}); n > 0 {
			t.Errorf("%s: %d of %d outputs are not admitted with %s", c.name, n, columns, c.declared)
		}
		if n := outside(truth.StableOptions{}); n == 0 {
			t.Errorf("%s: every output is admitted without %s", c.name, c.declared)
		}
	}
}

// TestStableAbsolute checks that the absolute error of a function counts once.
func TestStableAbsolute(t *testing.T) {
	d := rowwise("exponential", func(b *def.Builder) { b.Out("y", fn.Exp(b.In("x")), def.Like("x")) })
	operands := []num.Array{num.NewArray(num.F32, 1, 1), num.NewArray(num.F32, 1, 1)}
	operands[0].Set(0, 0, -3)
	width := func(e promise.Error) float64 {
		declares := promise.Declaration{Functions: map[string]promise.Error{"exp": e}}
		s, err := truth.EncloseStable(d, operands, truth.StableOptions{Declares: declares, Errors: declares.Error})
		if err != nil {
			t.Fatal(err)
		}
		lo, hi := s.Between(1, 0, 0, 0)
		return float64(math.Float32frombits(hi)) - float64(math.Float32frombits(lo))
	}
	more := width(promise.Error{ULPs: 0.5, Absolute: 0x1p-10}) - width(promise.Error{ULPs: 0.5})
	if ulp := 0x1p-28; math.Abs(more-2*0x1p-10) > 2*ulp { // two rounded ends
		t.Errorf("an absolute error of 2^-10 widens the set by %v, want 2^-9", more)
	}
}
