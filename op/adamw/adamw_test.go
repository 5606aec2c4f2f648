package adamw

import (
	"errors"
	"math"
	"math/big"
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/optest"
	"tokitai/tensor"
)

var (
	inf  = float32(math.Inf(1))
	nan  = float32(math.NaN())
	zero = float32(math.Copysign(0, -1))
)

var modes = []Mode{InPlace, Master, Stochastic}

// simple makes every number of the first step a power of two: 1 − beta1 = bc1 = ½,
// 1 − beta2 = bc2 = ¼, so that m' = grad/2, v' = grad²/4, d = |grad|, and the weight
// moves by lr against the sign of the gradient.
var simple = Hyper{LR: 0.125, Beta1: 0.5, Beta2: 0.75}

func usual(lr float64) Hyper {
	h := DefaultHyper
	h.LR = lr
	return h
}

func subject(mode Mode, h Hyper, t int, r Random) optest.Subject {
	p := h.numbers(t).list()
	params := p[:]
	if mode == Stochastic {
		params = append(params, float64(int32(r.Seed)), float64(int32(r.Seed>>32)), float64(r.Tensor), float64(t))
	}
	d := mode.Definition()
	data := op.Data{Name: "usual", Definition: d, Values: Operations[0].Data[0].Values}
	return optest.Subject{Definition: d, Params: params, Data: []op.Data{data},
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			s := State{Weight: x[0], M: x[1], V: x[2]}
			if mode == Master {
				s.Copy = x[4]
			}
			return Step(q, Update{Mode: mode, State: s, Grad: x[3], Hyper: h, T: t, Random: r}, opts...)
		},
	}
}

func size(r, c int) map[string]int { return map[string]int{"R": r, "C": c} }

func TestDoc(t *testing.T) {
	optest.Doc(t, "doc.go", InPlaceDefinition, MasterDefinition, StochasticDefinition)
}

func TestMatchReference(t *testing.T) {
	for _, mode := range modes {
		optest.MatchReference(t, subject(mode, usual(1e-3), 10, Random{Seed: 0x8000000180000002, Tensor: 3}), size(5, 77), size(1, 1), size(2, 1025))
		optest.MatchReference(t, subject(mode, Hyper{LR: 1, Beta1: 0.5, Beta2: 0.25, WeightDecay: 0.5}, 1, Random{}), size(3, 7))
	}
}

func TestErrors(t *testing.T) {
	for _, mode := range modes {
		optest.Errors(t, subject(mode, usual(1e-3), 1, Random{}), size(3, 5))
	}
}

// state makes a state of f32 moments for a mode; the copy is f16.
func state(t testing.TB, mode Mode, d num.DType, weight, m, v []float32) State {
	t.Helper()
	s := State{Weight: optest.Vector(t, d, weight...), M: optest.Vector(t, num.F32, m...), V: optest.Vector(t, num.F32, v...)}
	if mode == Master {
		s.Copy = optest.Garbage(t, num.F16, len(weight))
	}
	return s
}

// formats of the weights in a mode.
func formats(mode Mode) []num.DType {
	return map[Mode][]num.DType{InPlace: num.FloatDTypes, Master: {num.F32}, Stochastic: {num.F16, num.BF16}}[mode]
}

// one takes a step of a single element from moments of its own.
// TestNumbersInOrder compares the list of numbers with the parameters that the definitions
// declare, by name.
func TestNumbersInOrder(t *testing.T) {
	n := Hyper{LR: 3, Beta1: 0.5, Beta2: 0.25, Eps: 7, WeightDecay: 11}.numbers(2)
	list := n.list()
	for _, mode := range []Mode{InPlace, Master, Stochastic} {
		d := mode.Definition()
		for name, want := range map[string]float64{
			"beta1": n.beta1, "one_minus_beta1": n.rest1, "beta2": n.beta2, "one_minus_beta2": n.rest2,
			"step_size": n.stepSize, "inverse_sqrt_bc2": n.inverse, "eps": n.eps, "decay": n.decay,
		} {
			if i := d.Param(name); i < 0 || i >= len(list) || list[i] != want {
				t.Errorf("%s: parameter %s is number %d, the list is %v, want %v there", d.Name, name, i, list, want)
			}
		}
	}
}

func one(t testing.TB, mode Mode, d num.DType, h Hyper, step int, weight, m, v, grad float32) State {
	t.Helper()
	s := state(t, mode, d, []float32{weight}, []float32{m}, []float32{v})
	optest.OK(t, Step(cpu.Queue(), Update{Mode: mode, State: s, Grad: optest.Vector(t, num.F32, grad), Hyper: h, T: step}))
	return s
}

func TestFirstStepByHand(t *testing.T) {
	for _, mode := range modes {
		for _, d := range formats(mode) {
			s := state(t, mode, d, []float32{1, -2, 0.5, 3}, make([]float32, 4), make([]float32, 4))
			grad := optest.Vector(t, num.F16, 4, -0.5, -64, 2)
			optest.OK(t, Step(cpu.Queue(), Update{Mode: mode, State: s, Grad: grad, Hyper: simple, T: 1}))
			optest.Want(t, "m", s.M, 2, -0.25, -32, 1)
			optest.Want(t, "v", s.V, 4, 0.0625, 1024, 1)
			optest.Want(t, "weight", s.Weight, 0.875, -1.875, 0.625, 2.875)
			if mode == Master {
				optest.Want(t, "copy", s.Copy, 0.875, -1.875, 0.625, 2.875)
			}

			// Decay alone: with grad 0 and eps the weight loses lr·λ = 1/16 of itself.
			h := Hyper{LR: 0.25, Beta1: 0.5, Beta2: 0.5, Eps: 1, WeightDecay: 0.25}
			optest.Want(t, "decayed weight", one(t, mode, d, h, 1, 2, 0, 0, 0).Weight, 1.875)

			// eps: v' = ¼·4 = 1, d = 1·2 + 2 = 4, m' = ½·2 = 1, step ¼/½·¼ = ⅛.
			h = Hyper{LR: 0.25, Beta1: 0.5, Beta2: 0.75, Eps: 2}
			optest.Want(t, "weight with eps", one(t, mode, d, h, 1, 1, 0, 0, 2).Weight, 0.875)
		}
	}
}

// The second step by hand: bc1 = ¾, bc2 = 7/16; 1/√bc2 and lr/bc1 are rounded once.
func TestSecondStepByHand(t *testing.T) {
	h := Hyper{LR: 0.75, Beta1: 0.5, Beta2: 0.75}
	s := one(t, InPlace, num.F32, h, 2, 0, 1, 3, 2)
	optest.Want(t, "m", s.M, 1.5)  // ½·1 + ½·2
	optest.Want(t, "v", s.V, 3.25) // ¾·3 + ¼·4
	d := num.Sqrt(3.25) * float32(1/math.Sqrt(0.4375))
	optest.Want(t, "weight", s.Weight, -(1.5 / d)) // lr/bc1 = 1
}

// plain is the definition in Go: the new weight before it is stored.
func plain(h Hyper, bc1, bc2 float64, weight float32, m, v *float32, grad float32) float32 {
	*m = float32(float32(h.Beta1)**m) + float32(float32(1-h.Beta1)*grad)
	*v = float32(float32(h.Beta2)**v) + float32(float32(float32(1-h.Beta2)*grad)*grad)
	d := float32(num.Sqrt(*v)*float32(1/math.Sqrt(bc2))) + float32(h.Eps)
	return weight - (float32(float32(h.LR/bc1)*(*m/d)) + float32(float32(h.LR*h.WeightDecay)*weight))
}

// exactBiasCorrection is 1 − betaᵗ, rounded once to binary64 from 600 bits.
func exactBiasCorrection(beta float64, t int) float64 {
	const precision = 600
	float := func(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }
	power, square := float(1), float(beta)
	for ; t > 0; t >>= 1 {
		if t&1 == 1 {
			power.Mul(power, square)
		}
		square.Mul(square, square)
	}
	if power.MantExp(nil) < -60 {
		return 1 // and an exact difference would be as long as the exponent
	}
	x, _ := power.Sub(float(1), power).Float64()
	return x
}

func TestPlainGo(t *testing.T) {
	g := gen.New("plain")
	const n, steps = 500, 20
	random := Random{Seed: 0xfedcba9876543210, Tensor: 7}
	for _, mode := range modes {
		for _, d := range formats(mode) {
			w, m, v := make([]float32, n), make([]float32, n), make([]float32, n)
			for i := range w {
				w[i] = num.Round(d, 0.02*g.Normal())
			}
			s := state(t, mode, d, w, m, v)
			for step := 1; step <= steps; step++ {
				grad := make([]float32, n)
				for i := range grad {
					grad[i] = num.Round(num.BF16, 0x1p-7*g.Normal())
				}
				h := usual(1e-3)
				bc1, bc2 := exactBiasCorrection(h.Beta1, step), exactBiasCorrection(h.Beta2, step)
				optest.OK(t, Step(cpu.Queue(), Update{Mode: mode, State: s, Grad: optest.Vector(t, num.BF16, grad...), Hyper: h, T: step, Random: random}))
				for i := range w {
					next := plain(h, bc1, bc2, w[i], &m[i], &v[i], grad[i])
					switch mode {
					case Stochastic:
						w[i] = num.StochasticRound(d, next, num.RandomWord(random.Seed, 7, uint32(step), uint64(i)))
					default:
						w[i] = num.Round(d, next)
					}
				}
				if t.Failed() {
					return
				}
			}
			optest.Want(t, mode.String()+" weight", s.Weight, w...)
			optest.Want(t, mode.String()+" m", s.M, m...)
			optest.Want(t, mode.String()+" v", s.V, v...)
			if mode == Master {
				optest.Want(t, "copy", s.Copy, w...)
			}
		}
	}
}

// AdamW(2^k·grad, 2^k·m, 4^k·v, 2^k·eps) moves the weight alike, and so does a
// weight and lr of 2^k with a decay of 2^-k times as much.
func TestScaling(t *testing.T) {
	g := gen.New("scaling")
	const n = 300
	w, m, v, grad := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range w {
		w[i], m[i], grad[i] = g.Normal(), g.Normal(), g.Normal()
		v[i] = g.Normal() * g.Normal()
		v[i] *= v[i]
	}
	scaled := func(x []float32, s float32) []float32 {
		y := slices.Clone(x)
		for i := range y {
			y[i] *= s
		}
		return y
	}
	run := func(h Hyper, w, m, v, grad []float32) State {
		s := state(t, InPlace, num.F32, w, m, v)
		optest.OK(t, Step(cpu.Queue(), Update{State: s, Grad: optest.Vector(t, num.F32, grad...), Hyper: h, T: 5}))
		return s
	}
	h := Hyper{LR: 0x1p-9, Beta1: 0.9, Beta2: 0.999, Eps: 0x1p-20, WeightDecay: 0x1p-5}
	want := run(h, w, m, v, grad)
	for _, k := range []float32{0x1p-10, 0x1p10} {
		other := h
		other.Eps *= float64(k)
		got := run(other, w, scaled(m, k), scaled(v, k*k), scaled(grad, k))
		optest.SameBits(t, "weight", got.Weight, want.Weight)
		optest.Want(t, "m", got.M, scaled(optest.Floats(t, want.M), k)...)
		optest.Want(t, "v", got.V, scaled(optest.Floats(t, want.V), k*k)...)

		other = h
		other.LR *= float64(k)
		other.WeightDecay /= float64(k)
		optest.Want(t, "scaled weight", run(other, scaled(w, k), m, v, grad).Weight, scaled(optest.Floats(t, want.Weight), k)...)
	}
}

func TestBiasCorrection(t *testing.T) {
	for _, beta := range []float64{0, 1e-300, 0.1, 0.5, 0.9, 0.95, 0.98, 0.99, 0.999, 0.9999, 0.99999, 0.999999} {
		for _, step := range []int{1, 2, 3, 4, 7, 10, 31, 100, 1000, 12345, 999999, 1 << 20, math.MaxInt32} {
			if got, want := biasCorrection(beta, step), exactBiasCorrection(beta, step); got != want {
				t.Errorf("1 - %v^%d is %x, want %x", beta, step, got, want)
			}
		}
	}
	g := gen.New("bias")
	for i := range 2000 {
		beta := 1 - math.Ldexp(1+float64(g.Below(1<<20))*0x1p-20, -1-i%50) // of every distance to 1, down to 2^-50
		step := 1 + g.Below(1<<g.Below(31))
		if got, want := biasCorrection(beta, step), exactBiasCorrection(beta, step); got != want {
			t.Errorf("1 - %v^%d is %x, want %x", beta, step, got, want)
		}
	}
	// In binary32, 1 − beta² of 0.999 would be off by 2e-5.
	narrow := float64(1 - float32(0.999)*float32(0.999))
	if wide := biasCorrection(0.999, 2); math.Abs(narrow-wide)/wide < 1e-5 {
		t.Errorf("binary32 gives %v, binary64 %v: the comparison shows nothing", narrow, wide)
	}
}

func TestClauses(t *testing.T) {
	for _, mode := range modes {
		d := mode.Definition()
		weightOf := func(t *testing.T, h Hyper, weight, m, v, grad float32) float32 {
			return optest.Floats(t, one(t, mode, formats(mode)[0], h, 1, weight, m, v, grad).Weight)[0]
		}
		isNaN := func(t *testing.T, what string, x float32) {
			if x == x {
				t.Errorf("%s: the new weight is %v, want NaN", what, x)
			}
		}
		h := Hyper{LR: 0.25, Beta1: 0.5, Beta2: 0.75, Eps: 0.5, WeightDecay: 0.5}
		rounding := map[Mode]func(t *testing.T){
			InPlace:    TestAncestor23_Stagnation,
			Master:     masterCopy,
			Stochastic: stochasticNeighbours,
		}[mode]
		t.Run(d.Name, func(t *testing.T) {
			optest.Clauses(t, d, map[string]func(t *testing.T){
				"C1_shapes": func(t *testing.T) {
					s := subject(mode, usual(1e-3), 1, Random{})
					optest.Shapes(t, s, size(6, 5))
				},
				"C2_numbers": func(t *testing.T) { refusedNumbers(t, mode) },
				"C3_nan": func(t *testing.T) {
					isNaN(t, "NaN weight", weightOf(t, h, nan, 1, 1, 1))
					isNaN(t, "NaN m", weightOf(t, h, 1, nan, 1, 1))
					isNaN(t, "NaN v", weightOf(t, h, 1, 1, nan, 1))
					isNaN(t, "NaN grad", weightOf(t, h, 1, 1, 1, nan))
					frozen := h
					frozen.LR = 0
					isNaN(t, "NaN grad and lr 0", weightOf(t, frozen, 1, 1, 1, nan))
					for name, c := range map[string]struct{ m, v, grad, wantM, wantV float32 }{
						"m":    {nan, 1, 2, nan, 1.75},
						"v":    {1, nan, 2, 1.5, nan},
						"grad": {1, 1, nan, nan, nan},
					} {
						s := one(t, mode, formats(mode)[0], h, 1, 1, c.m, c.v, c.grad)
						optest.Want(t, "m after a NaN in "+name, s.M, c.wantM)
						optest.Want(t, "v after a NaN in "+name, s.V, c.wantV)
					}
				},
				"C4_moments": func(t *testing.T) {
					for _, bad := range []num.DType{num.F16, num.BF16, num.I32} {
						s := state(t, mode, formats(mode)[0], []float32{1}, []float32{0}, []float32{0})
						s.M = optest.Garbage(t, bad, 1)
						optest.Refused(t, Step(cpu.Queue(), Update{Mode: mode, State: s, Grad: optest.Vector(t, num.F32, 1), Hyper: h, T: 1}), d.Name, "m", "")
					}
				},
				"C5_rounding": rounding,
				"C6_infinities": func(t *testing.T) {
					plainH := h
					plainH.WeightDecay = 0
					for _, h := range []Hyper{h, plainH} {
						for _, v := range []float32{inf, -inf} {
							isNaN(t, "infinite weight", weightOf(t, h, v, 1, 1, 1))
							isNaN(t, "infinite grad", weightOf(t, h, 1, 1, 1, v))
							if got := weightOf(t, h, 1, v, 1, 1); got != -v {
								t.Errorf("m = %v gives the weight %v, want %v", v, got, -v)
							}
						}
						isNaN(t, "infinite m and v", weightOf(t, h, 1, inf, inf, 1))
					}
				},
				"C7_v": func(t *testing.T) {
					// What is left is the decay: 1 − lr·λ = 0.875.
					if got := weightOf(t, h, 1, 1, inf, 1); got != 0.875 {
						t.Errorf("v = +Inf gives the weight %v, want 0.875", got)
					}
					// ¼·grad overflows when it is multiplied by grad again, from 2^65 on.
					if got := weightOf(t, h, 1, 0, 0, 0x1p65); got != 0.875 {
						t.Errorf("a ((1-beta2)*grad)*grad that overflows gives the weight %v, want 0.875", got)
					}
					// grad^2 alone does so from 2^64 on: at 2^64 the step is lr·sign(grad) = ¼.
					if got := weightOf(t, h, 1, 0, 0, 0x1p64); got != 0.625 {
						t.Errorf("a grad^2 alone that overflows gives the weight %v, want 0.625", got)
					}
					if got := weightOf(t, usual(0.1), 1, 0, 0, 2e19); !(got < 0.95) {
						t.Errorf("grad = 2e19 gives the weight %v, want about 0.9", got)
					}
					isNaN(t, "v = +Inf and beta2 that is 0 as binary32", weightOf(t, Hyper{LR: 0.25, Beta2: 1e-50, Eps: 0.5}, 1, 1, inf, 1))
					isNaN(t, "an infinite m and a new v of +Inf", weightOf(t, h, 1, inf, 0, 0x1p65))
					isNaN(t, "v below 0", weightOf(t, h, 1, 1, -1, 0))
				},
				"C8_division_by_zero": func(t *testing.T) {
					exact := h
					exact.Eps = 0
					isNaN(t, "0/0", weightOf(t, exact, 1, 0, 0, 0))
					tiny := h
					tiny.Eps = 1e-50 // 0 as binary32
					isNaN(t, "0/1e-50", weightOf(t, tiny, 1, 0, 0, 0))
					if got := weightOf(t, exact, 1, 1, 0, 0); got != -inf {
						t.Errorf("m = 1 and v = 0 give the weight %v, want -Inf", got)
					}
				},
				"C9_range": func(t *testing.T) {
					for _, f := range formats(mode) {
						least := num.Widen(f, 1)
						still := Hyper{Beta1: 0.5, Beta2: 0.5, Eps: 1}
						s := one(t, mode, f, still, 1, 3*least, 0, 0, 0)
						optest.Want(t, "a subnormal weight", s.Weight, 3*least)
						s = one(t, mode, f, still, 1, 1, 0x1p-148, 0x1p-148, 0)
						optest.Want(t, "a subnormal m", s.M, 0x1p-149)
						optest.Want(t, "a subnormal v", s.V, 0x1p-149)
						// With d = 1 and lr/bc1 = 1 the weight moves by −m' = −m/2: half an ulp
						// beyond the largest is infinite, less is not.
						step := Hyper{LR: 0.5, Beta1: 0.5, Beta2: 0.5, Eps: 1}
						large := num.MaxFinite(f)
						ulp := float32(num.ULP(f, large))
						optest.Want(t, "half an ulp beyond the largest", one(t, mode, f, step, 1, float32(large), -ulp, 0, 0).Weight, inf)
						optest.Want(t, "a quarter", one(t, mode, f, step, 1, float32(large), -ulp/2, 0, 0).Weight, float32(large))
					}
				},
				"C10_nothing_to_do": func(t *testing.T) {
					still := Hyper{LR: 0.25, Beta1: 0.9, Beta2: 0.999, Eps: 0x1p-149}
					for _, f := range formats(mode) {
						values := []float32{1, -1, 0, zero, num.Widen(f, 1), -num.Widen(f, 3), float32(num.MaxFinite(f)), 0.3333}
						s := state(t, mode, f, values, make([]float32, len(values)), make([]float32, len(values)))
						optest.OK(t, Step(cpu.Queue(), Update{Mode: mode, State: s, Grad: optest.Vector(t, num.F16, make([]float32, len(values))...), Hyper: still, T: 3, Random: Random{Seed: 5}}))
						optest.Want(t, "weight", s.Weight, values...)
					}
				},
				"C11_sharing": func(t *testing.T) {
					s := subject(mode, usual(1e-3), 1, Random{})
					optest.Errors(t, s, size(3, 5))
				},
			})
		})
	}
}

// masterCopy: the copy is one rounding away from the weight, which keeps all.
func masterCopy(t *testing.T) {
	for _, d := range []num.DType{num.F16, num.BF16} {
		s := state(t, Master, num.F32, []float32{1, 1 + 0x1p-9 + 0x1p-20, 65519, 0x1p-25}, make([]float32, 4), make([]float32, 4))
		s.Copy = optest.Garbage(t, d, 4)
		optest.OK(t, Step(cpu.Queue(), Update{Mode: Master, State: s, Grad: optest.Vector(t, d, 0, 0, 0, 0), Hyper: Hyper{Eps: 1}, T: 1}))
		optest.Want(t, "weight", s.Weight, 1, 1+0x1p-9+0x1p-20, 65519, 0x1p-25)
		optest.Want(t, "copy", s.Copy, 1, 1+0x1p-9+0x1p-20, 65519, 0x1p-25)
	}
	// In the place of the gradient.
	s := state(t, Master, num.F32, []float32{1}, []float32{0}, []float32{0})
	s.Copy = optest.Vector(t, num.F16, 4)
	optest.OK(t, Step(cpu.Queue(), Update{Mode: Master, State: s, Grad: s.Copy, Hyper: simple, T: 1}))
	optest.Want(t, "copy in the place of grad", s.Copy, 0.875)
}

// stochasticNeighbours: every result is a neighbour, and which one is decided by
// the word of its element.
func stochasticNeighbours(t *testing.T) {
	for _, d := range []num.DType{num.F16, num.BF16} {
		const n = 10000
		ulp := num.ULP(d, 0.5) // of the numbers just below 1
		h := simple
		h.LR = ulp / 4 // from 1 downward by a quarter of an ulp
		weight := slices.Repeat([]float32{1}, n)
		r := Random{Seed: 1 << 40, Tensor: 2}
		s := state(t, Stochastic, d, weight, make([]float32, n), make([]float32, n))
		optest.OK(t, Step(cpu.Queue(), Update{Mode: Stochastic, State: s, Grad: optest.Vector(t, num.F16, weight...), Hyper: h, T: 1, Random: r}))
		want, down := make([]float32, n), 0
		for i := range want {
			// |x| = 1 − ulp/4 lies ¾ of the way from 1 − ulp to 1.
			want[i] = 1
			if num.RandomWord(r.Seed, 2, 1, uint64(i)) >= 3<<30 {
				want[i] = 1 - float32(ulp)
				down++
			}
		}
		optest.Want(t, "weight", s.Weight, want...)
		// A quarter, within 5 standard deviations of √(n·¼·¾) = 43.
		if down < n/4-217 || down > n/4+217 {
			t.Errorf("%s: %d of %d weights went down, want about %d", d, down, n, n/4)
		}

		other := state(t, Stochastic, d, weight, make([]float32, n), make([]float32, n))
		optest.OK(t, Step(cpu.Queue(), Update{Mode: Stochastic, State: other, Grad: optest.Vector(t, num.F16, weight...), Hyper: h, T: 1, Random: Random{Seed: 1<<40 + 1, Tensor: 2}}))
		if slices.Equal(optest.Bits(t, other.Weight), optest.Bits(t, s.Weight)) {
			t.Errorf("%s: another seed gives the same weights", d)
		}
	}
	// Beyond the largest finite value the words decide nothing: all of many elements
	// are the largest below half an ulp, and infinite from there on.
	h := Hyper{LR: 0.5, Beta1: 0.5, Beta2: 0.5, Eps: 1} // the weight moves by -m'
	for _, d := range []num.DType{num.F16, num.BF16} {
		const n = 1000
		largest := float32(num.MaxFinite(d))
		half := float32(num.ULP(d, num.MaxFinite(d)) / 2)
		for _, sign := range []float32{1, -1} {
			for _, c := range []struct{ move, want float32 }{{half - half/64, largest}, {half, inf}, {half + half/64, inf}} {
				s := state(t, Stochastic, d, slices.Repeat([]float32{sign * largest}, n), slices.Repeat([]float32{-2 * sign * c.move}, n), make([]float32, n))
				optest.OK(t, Step(cpu.Queue(), Update{Mode: Stochastic, State: s, Grad: optest.Vector(t, d, make([]float32, n)...), Hyper: h, T: 1, Random: Random{Seed: 9}}))
				optest.Want(t, "the largest and a half ulp", s.Weight, slices.Repeat([]float32{sign * c.want}, n)...)
			}
		}
	}
	s := state(t, Stochastic, num.F16, []float32{1}, []float32{0}, []float32{0})
	for _, bad := range []int32{-1, math.MinInt32} {
		err := Step(cpu.Queue(), Update{Mode: Stochastic, State: s, Grad: optest.Vector(t, num.F16, 1), Hyper: h, T: 1, Random: Random{Tensor: bad}})
		optest.Refused(t, err, "adamw.step.stochastic", "tensor", "adamw.step.stochastic.C2")
	}
	optest.Want(t, "weight after refusals", s.Weight, 1)
}

func refusedNumbers(t *testing.T, mode Mode) {
	d := mode.Definition()
	type change struct {
		name string
		set  func(h *Hyper, t *int)
	}
	var changes []change
	for _, bad := range []float64{math.NaN(), -1, -1e-300, math.Inf(1), math.Inf(-1)} {
		changes = append(changes,
			change{"lr", func(h *Hyper, _ *int) { h.LR = bad }},
			change{"beta1", func(h *Hyper, _ *int) { h.Beta1 = bad }},
			change{"beta2", func(h *Hyper, _ *int) { h.Beta2 = bad }},
			change{"eps", func(h *Hyper, _ *int) { h.Eps = bad }},
			change{"weight_decay", func(h *Hyper, _ *int) { h.WeightDecay = bad }},
		)
	}
	for _, bad := range []float64{1, 1.5} {
		changes = append(changes,
			change{"beta1", func(h *Hyper, _ *int) { h.Beta1 = bad }},
			change{"beta2", func(h *Hyper, _ *int) { h.Beta2 = bad }},
		)
	}
	for _, bad := range []int{0, -1, math.MinInt, math.MaxInt32 + 1} {
		changes = append(changes, change{"t", func(_ *Hyper, t *int) { *t = bad }})
	}
	changes = append(changes, // finite, but not as binary32
		change{"lr", func(h *Hyper, _ *int) { h.LR = 1e39 }},
		change{"lr", func(h *Hyper, _ *int) { h.LR, h.Beta1 = 1e30, 1-0x1p-53 }},
		change{"eps", func(h *Hyper, _ *int) { h.Eps = 1e39 }},
		change{"weight_decay", func(h *Hyper, _ *int) { h.LR, h.WeightDecay = 1, 1e39 }},
		change{"weight_decay", func(h *Hyper, _ *int) { h.LR, h.WeightDecay = 1e20, 1e300 }},
	)
	for _, c := range changes {
		h, step := usual(1e-3), 1
		c.set(&h, &step)
		s := state(t, mode, formats(mode)[0], []float32{1}, []float32{2}, []float32{3})
		err := Step(cpu.Queue(), Update{Mode: mode, State: s, Grad: optest.Vector(t, num.F32, 1), Hyper: h, T: step})
		optest.Refused(t, err, d.Name, c.name, d.Name+".C2")
		optest.Want(t, "weight after a refusal", s.Weight, 1)
		optest.Want(t, "m after a refusal", s.M, 2)
		optest.Want(t, "v after a refusal", s.V, 3)
	}
	for _, good := range []Hyper{{}, {LR: 1e30, Eps: 1e-300}, {Beta1: 0, Beta2: 0}, {Beta1: 1 - 0x1p-53, Beta2: 1 - 0x1p-53}} {
		s := state(t, mode, formats(mode)[0], []float32{1}, []float32{2}, []float32{3})
		optest.OK(t, Step(cpu.Queue(), Update{Mode: mode, State: s, Grad: optest.Vector(t, num.F32, 1), Hyper: good, T: math.MaxInt32}))
	}
}

func TestModes(t *testing.T) {
	for _, m := range modes {
		if got, err := ParseMode(m.String()); got != m || err != nil {
			t.Errorf("ParseMode(%q) = %v, %v", m.String(), got, err)
		}
	}
	_, err := ParseMode("fast")
	optest.Refused(t, err, "adamw.step", "mode", "")
	if got := Mode(3).String(); got != "Mode(3)" {
		t.Errorf("got %q", got)
	}
	s := state(t, InPlace, num.F32, []float32{1}, []float32{0}, []float32{0})
	grad := optest.Vector(t, num.F32, 1)
	optest.Refused(t, Step(cpu.Queue(), Update{Mode: Mode(3), State: s, Grad: grad, Hyper: simple, T: 1}), "adamw.step", "mode", "")
	s.Copy = optest.Vector(t, num.F16, 1)
	optest.Refused(t, Step(cpu.Queue(), Update{State: s, Grad: grad, Hyper: simple, T: 1}), "adamw.step", "copy", "")
	optest.Want(t, "weight after refusals", s.Weight, 1)
}

// Weights of 16 bits do not feel updates below half an ulp: shown where they are
// rounded in place, and absent with a master copy and with stochastic rounding.
func TestAncestor23_Stagnation(t *testing.T) {
	const n, steps, lr = 4096, 100, 1e-4
	ones := slices.Repeat([]float32{1}, n)
	run := func(mode Mode, d num.DType) State {
		s := state(t, mode, d, ones, make([]float32, n), make([]float32, n))
		grad := optest.Vector(t, num.F16, ones...)
		for step := 1; step <= steps; step++ {
			optest.OK(t, Step(cpu.Queue(), Update{Mode: mode, State: s, Grad: grad, Hyper: Hyper{LR: lr, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}, T: step, Random: Random{Seed: 23}}))
		}
		return s
	}
	for _, d := range []num.DType{num.F16, num.BF16} {
		optest.Want(t, "stagnant weight", run(InPlace, d).Weight, ones...)
	}

	// A constant gradient moves the weight by lr a step, up to the rounding of some
	// operations near 1e-4 and of one near 1, at most 2^-24 each.
	master := run(Master, num.F32)
	const want = 1 - steps*lr
	for i, w := range optest.Floats(t, master.Weight) {
		if gap := math.Abs(float64(w) - want); gap > 2*steps*0x1p-24 {
			t.Fatalf("master weight %d is %v, want %v", i, w, want)
		}
	}
	optest.Want(t, "copy", master.Copy, optest.Floats(t, master.Weight)...)

	for _, d := range []num.DType{num.F16, num.BF16} {
		stochastic := optest.Floats(t, run(Stochastic, d).Weight)
		mean := 0.0
		for _, w := range stochastic {
			mean += float64(w) / n
		}
		// One rounding moves a weight by at most an ulp, with a variance of at most
		// ulp²/4: the mean of n after all steps has a deviation of ulp/2·√(steps/n).
		sigma := num.ULP(d, 0.5) / 2 * math.Sqrt(steps/float64(n))
		if math.Abs(mean-want) > 5*sigma {
			t.Errorf("%s: the mean of stochastic weights is %v, want %v within %v", d, mean, want, 5*sigma)
		}
	}
}

func BenchmarkAdamW(b *testing.B) {
	for _, c := range []struct {
		mode   Mode
		dtypes []num.DType
	}{
		{InPlace, []num.DType{num.F32, num.F32, num.F32, num.F32}},
		{InPlace, []num.DType{num.F16, num.F32, num.F32, num.F16}},
		{InPlace, []num.DType{num.BF16, num.F32, num.F32, num.BF16}},
		{Master, []num.DType{num.F32, num.F32, num.F32, num.F16, num.F16}},
		{Master, []num.DType{num.F32, num.F32, num.F32, num.BF16, num.BF16}},
		{Stochastic, []num.DType{num.F16, num.F32, num.F32, num.F16}},
		{Stochastic, []num.DType{num.BF16, num.F32, num.F32, num.BF16}},
	} {
		optest.Bench(b, optest.Timing{
			Name:    "mode=" + c.mode.String() + "/weight=" + c.dtypes[0].String() + "/grad=" + c.dtypes[3].String() + "/shape=256x1024",
			Subject: subject(c.mode, usual(1e-3), 10, Random{}), DTypes: c.dtypes, Sizes: size(256, 1024), Check: size(2, 1024),
		})
	}
}

func TestOperationStep(t *testing.T) {
	o := optest.Operation(Operations, "adamw.step")
	in := engine.Args{
		"weight": optest.Vector(t, num.F32, 1), "m": optest.Vector(t, num.F32, 0), "v": optest.Vector(t, num.F32, 0), "grad": optest.Vector(t, num.F16, 4),
	}
	given := func(more ...string) map[string]string {
		p := map[string]string{"lr": "0.125", "beta1": "0.5", "beta2": "0.75", "eps": "0", "weight_decay": "0", "t": "1"}
		for i := 0; i < len(more); i += 2 {
			p[more[i]] = more[i+1]
		}
		return p
	}
	run := func(in engine.Args, given map[string]string) (engine.Args, error) {
		v, err := o.NewValues(given)
		optest.OK(t, err)
		return o.Run(cpu.Queue(), in, v)
	}
	out, err := run(in, given("mode", "master", "copy", "bf16"))
	optest.OK(t, err)
	optest.Want(t, "weight", out["weight"], 0.875)
	optest.Want(t, "m", out["m"], 2)
	optest.Want(t, "v", out["v"], 4)
	optest.Want(t, "copy", out["copy"], 0.875)
	optest.Want(t, "the weight that was given", in["weight"], 1)
	if out["copy"].DType() != num.BF16 {
		t.Errorf("the copy is %s", out["copy"].DType())
	}
	without := engine.Args{"weight": in["weight"], "m": in["m"], "grad": in["grad"]}
	for name, c := range map[string]struct {
		in    engine.Args
		given map[string]string
	}{
		"mode": {in, given("mode", "fast")}, "t": {in, given("t", "0")}, "t text": {in, given("t", "one")}, "lr": {in, given("lr", "-1")},
		"copy": {in, given("mode", "master", "copy", "f8")}, "copy f32": {in, given("mode", "master", "copy", "f32")},
		"seed in place": {in, given("seed", "0")}, "tensor in place": {in, given("tensor", "1")}, "copy in place": {in, given("copy", "f16")},
		"seed with master": {in, given("mode", "master", "seed", "1")}, "negative tensor": {in, given("mode", "stochastic", "tensor", "-1")},
		"stochastic f32": {in, given("mode", "stochastic")}, "seed": {in, given("seed", "-1")}, "no v": {without, given()},
		"no lr": {in, map[string]string{"t": "1"}}, "extra": {engine.Args{"x": in["m"]}, given()},
	} {
		if _, err := run(c.in, c.given); !errors.Is(err, tensor.ErrBadArgument) {
			t.Errorf("%s: got error %v, want an ArgumentError", name, err)
		}
	}
	for _, c := range []struct{ name, value, want string }{
		{"t", "1.5", `adamw.step: t is "1.5", want an integer from 1 to 2147483647`},
		{"t", "0", `adamw.step: t is "0", want an integer from 1 to 2147483647`},
		{"lr", "1e400", `adamw.step: lr is "1e400", want a finite number`},
		{"lr", "much", `adamw.step: lr is "much", want a number`},
		{"seed", "7", `adamw.step: seed is "7", want none in mode inplace: it belongs to mode stochastic`},
		{"copy", "f16", `adamw.step: copy is "f16", want none in mode inplace: it belongs to mode master`},
	} {
		_, err := run(in, given(c.name, c.value))
		optest.Message(t, err, c.want)
	}
	_, err = run(in, map[string]string{"t": "1"})
	optest.Message(t, err, "adamw.step: lr is missing, want the learning rate")
	_, err = run(in, given("mode", "master", "lr", "-1"))
	optest.Message(t, err, "adamw.step: lr is -1, want a finite number of at least 0 (adamw.step.master.C2)")
}
