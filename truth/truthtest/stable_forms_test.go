package truthtest

import (
	"fmt"
	"math"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/gelu"
	"tokitai/op/layernorm"
	softmaxop "tokitai/op/softmax"
	"tokitai/truth"
)

func f32(f func(float64) float64) func(float32) float32 {
	return func(x float32) float32 { return float32(f(float64(x))) }
}

var (
	exp32  = f32(math.Exp)
	exp232 = f32(math.Exp2)
	tanh32 = f32(math.Tanh)
	sqrt32 = f32(math.Sqrt)
)

// form is a way to compute a row of an operation in binary32.
type form struct {
	name    string
	d       *def.Definition
	params  []float64
	data    func(g *gen.Generator, operand string) float32
	isWrong bool
	compute func(in map[string][]float32, out map[string][]float32)
}

func around(mean, spread float32) func(g *gen.Generator, operand string) float32 {
	return func(g *gen.Generator, operand string) float32 {
		if operand == "x" {
			return mean + spread*g.Normal()
		}
		return g.Normal()
	}
}

// normalise finishes LayerNorm from mean and variance.
func normalise(in, out map[string][]float32, mean, variance float32) {
	rstd := 1 / sqrt32(variance+1e-5)
	out["mean"][0], out["rstd"][0] = mean, rstd
	for c, x := range in["x"] {
		out["y"][c] = (x-mean)*rstd*in["gamma"][c] + in["beta"][c]
	}
}

func layerNorms() (list []form) {
	textbook := func(in, out map[string][]float32) {
		n, mean, variance := float32(len(in["x"])), float32(0), float32(0)
		for _, x := range in["x"] {
			mean += x
		}
		mean /= n
		for _, x := range in["x"] {
			variance += (x - mean) * (x - mean)
		}
		normalise(in, out, mean, variance/n)
	}
	welford := func(in, out map[string][]float32) {
		mean, m2 := float32(0), float32(0)
		for k, x := range in["x"] {
			d := x - mean
			mean += d / float32(k+1)
			m2 += d * (x - mean)
		}
		normalise(in, out, mean, m2/float32(len(in["x"])))
	}
	distributed := func(in, out map[string][]float32) {
		textbook(in, out)
		for c, x := range in["x"] {
			scale := out["rstd"][0] * in["gamma"][c]
			out["y"][c] = x*scale + (in["beta"][c] - out["mean"][0]*scale)
		}
	}
	squares := func(in, out map[string][]float32) {
		n, sum, square := float32(len(in["x"])), float32(0), float32(0)
		for _, x := range in["x"] {
			sum += x
			square += x * x
		}
		mean := sum / n
		normalise(in, out, mean, square/n-mean*mean)
	}
	for _, data := range []struct {
		name         string
		mean, spread float32
	}{{"mean 0", 0, 1}, {"mean 10", 10, 1}, {"mean -1000", -1000, 3}, {"narrow", 1, 0.001}} {
		add := func(name string, isWrong bool, f func(in, out map[string][]float32)) {
			list = append(list, form{name + ", " + data.name, layernorm.ForwardDefinition, []float64{1e-5}, around(data.mean, data.spread), isWrong, f})
		}
		add("textbook", false, textbook)
		add("Welford", false, welford)
		add("distributed rstd", false, distributed)
		if data.mean < -999 {
			add("E[x²]-mean²", true, squares)
		}
	}
	return list
}

func softmaxes() (list []form) {
	add := func(name string, f func(in, out map[string][]float32)) {
		for _, spread := range []float32{1, 8} {
			list = append(list, form{name, softmaxop.ForwardDefinition, nil, around(0, spread), false, f})
		}
	}
	add("exp2", func(in, out map[string][]float32) {
		const log2e = float32(math.Log2E)
		most, sum := float32(math.Inf(-1)), float32(0)
		for _, x := range in["x"] {
			most = max(most, x*log2e)
		}
		for c, x := range in["x"] {
			out["y"][c] = exp232(x*log2e - most)
			sum += out["y"][c]
		}
		for c := range out["y"] {
			out["y"][c] /= sum
		}
	})
	add("online", func(in, out map[string][]float32) {
		most, sum := float32(math.Inf(-1)), float32(0)
		for _, x := range in["x"] {
			if x > most {
				sum *= exp32(most - x)
				most = x
			}
			sum += exp32(x - most)
		}
		for c, x := range in["x"] {
			out["y"][c] = exp32(x-most) / sum
		}
	})
	return list
}

func otherForms() []form {
	list := append(layerNorms(), softmaxes()...)
	gelus := func(name string, spread float32, isWrong bool, f func(x, t float32) float32) {
		list = append(list, form{name, gelu.ForwardDefinition, nil, around(0, spread), isWrong, func(in, out map[string][]float32) {
			for c, x := range in["x"] {
				out["y"][c] = f(x, 1.5957691216*(x+0.044715*x*x*x))
			}
		}})
	}
	gelus("x/(1+exp(-t))", 2, false, func(x, t float32) float32 { return x / (1 + exp32(-t)) })
	gelus("x/(1+exp(-t)), far out", 8, false, func(x, t float32) float32 { return x / (1 + exp32(-t)) })
	gelus("x/2·(1+tanh(t/2))", 3, true, func(x, t float32) float32 { return 0.5 * x * (1 + tanh32(t/2)) })
	hyper := adamw.DefaultHyper
	hyper.LR = 1e-3
	params := adamwParams(hyper, 10)
	list = append(list, form{"lerp", adamw.InPlaceDefinition, params.values, func(g *gen.Generator, operand string) float32 {
		v := g.Normal()
		if operand == "v" {
			return v * v
		}
		return v
	}, false, func(in, out map[string][]float32) {
		p := params.named
		for c, g := range in["grad"] {
			m := in["m"][c] + p["one_minus_beta1"]*(g-in["m"][c])
			v := in["v"][c] + p["one_minus_beta2"]*(g*g-in["v"][c])
			w := in["weight"][c] * (1 - p["decay"])
			out["m"][c], out["v"][c] = m, v
			out["weight"][c] = w - p["step_size"]*m/(sqrt32(v)*p["inverse_sqrt_bc2"]+p["eps"])
		}
	}})
	return list
}

type adamwNumbers struct {
	values []float64
	named  map[string]float32
}

func adamwParams(h adamw.Hyper, t float64) adamwNumbers {
	bc1, bc2 := 1-math.Pow(h.Beta1, t), 1-math.Pow(h.Beta2, t)
	byName := map[string]float64{
		"beta1": h.Beta1, "one_minus_beta1": 1 - h.Beta1, "beta2": h.Beta2, "one_minus_beta2": 1 - h.Beta2,
		"step_size": h.LR / bc1, "inverse_sqrt_bc2": 1 / math.Sqrt(bc2), "eps": h.Eps, "decay": h.LR * h.WeightDecay,
	}
	z := adamwNumbers{named: map[string]float32{}}
	for _, p := range adamw.InPlaceDefinition.Params {
		z.values = append(z.values, byName[p.Name])
		z.named[p.Name] = float32(byName[p.Name])
	}
	return z
}

// TestStableForms checks that the promise admits right kernels in other forms, and no wrong ones.
func TestStableForms(t *testing.T) {
	for _, f := range otherForms() {
		rejected, elements := 0, 0
		for _, dtype := range []num.DType{num.F32, num.F16, num.BF16} {
			for trial := range testlevel.Pick(8, 80, 800) {
				n := []int{1, 2, 3, 4, 5, 7, 64, 1000}[trial%8]
				g := gen.New(fmt.Sprint(f.name, trial))
				operands := make([]num.Array, len(f.d.Operands))
				in, out := map[string][]float32{}, map[string][]float32{}
				for i, dt := range f.d.DTypes(dtype) {
					o := &f.d.Operands[i]
					operands[i] = o.NewArray(dt, map[string]int{"R": 1, "C": n})
					a := operands[i]
					if o.IsIn {
						in[o.Name] = make([]float32, a.Cols)
						for c := range a.Cols {
							a.Set(0, c, f.data(g, o.Name))
							in[o.Name][c] = a.At(0, c)
						}
					}
					if o.IsOut {
						out[o.Name] = make([]float32, a.Cols)
					}
				}
				f.compute(in, out)
				s := stable(t, f.d, truth.StableOptions{Params: f.params}, operands...)
				for i := range f.d.Operands {
					if !f.d.Operands[i].IsOut {
						continue
					}
					for c, v := range out[f.d.Operands[i].Name] {
						bits := num.Narrow(operands[i].DType, v)
						elements++
						if s.Known(i, 0, c) && !s.Admits(i, 0, c, s.MostHeight(), bits) {
							if rejected++; !f.isWrong && rejected < 3 {
								t.Errorf("%s, %v, %d columns: %s[%d] is %v, %v from %v, want at most %v", f.name, dtype, n, f.d.Operands[i].Name, c,
									v, math.Abs(float64(v)-s.At(i, 0, c).Mid), s.At(i, 0, c), s.Error(i, 0, c, s.MostHeight()))
							}
						}
					}
				}
			}
		}
		if f.isWrong && rejected == 0 {
			t.Errorf("%s is admitted", f.name)
		}
		t.Logf("%s: %d of %d rejected", f.name, rejected, elements)
	}
}
