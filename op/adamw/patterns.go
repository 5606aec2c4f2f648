package adamw

import (
	"math"

	"tokitai/internal/gen"
	"tokitai/op"
)

// filling is a pattern of all three modes.
type filling struct {
	name            string
	hyper           func(h *Hyper) // starting from DefaultHyper with lr 0.001
	t               int            // 10 if 0
	weight, m, v, g op.Element     // nil is as in training
	isGrid          bool
}

var fillings = []filling{
	{name: "first-step", t: 1, m: zeros, v: zeros},
	{name: "late-step", t: 100000},
	{name: "last-step", t: math.MaxInt32},
	{name: "zero-gradients", g: zeros},
	{name: "nothing", m: zeros, v: zeros, g: zeros},
	{name: "zero-over-zero", hyper: func(h *Hyper) { h.Eps = 0 }, m: zeros, v: zeros, g: zeros},
	{name: "no-eps", hyper: func(h *Hyper) { h.Eps = 0 }},
	{name: "large-eps", hyper: func(h *Hyper) { h.Eps = 1 }},
	{name: "huge-gradients", g: op.Scaled(10000)},
	{name: "overflowing-squares", g: func(g *gen.Generator, _, _ int) float32 { return g.Exponents(60, 72) }}, // infinities in f16
	{name: "eps-matters", m: op.Scaled(1e-9), v: op.AbsScaled(1e-17), g: zeros},                               // the root of v is less than eps
	{name: "eps-alone", m: op.Scaled(0x1p-8), v: op.AbsScaled(1e-30), g: zeros},
	{name: "tiny-gradients", v: zeros, m: zeros, g: op.Scaled(0x1p-22)},
	{name: "no-decay", hyper: func(h *Hyper) { h.WeightDecay = 0 }},
	{name: "large-decay", hyper: func(h *Hyper) { h.LR, h.WeightDecay = 0.1, 10 }}, // the weight cancels
	{name: "no-learning", hyper: func(h *Hyper) { h.LR = 0 }},
	{name: "sign-change", m: shared, g: minusNine, v: op.AbsScaled(0x1p-14)}, // m cancels
	{name: "gradients-outweigh-v", m: zeros, v: op.AbsScaled(0x1p-30), g: op.Wide},
	{name: "lost-updates", hyper: func(h *Hyper) { h.LR = 1e-6 }, weight: op.Around(4)},
	{name: "half-ulp-updates", hyper: func(h *Hyper) { h.LR, h.WeightDecay = 0x1p-11, 0 }, weight: op.Between(1, 2)},
	{name: "update-cancels-weight", hyper: func(h *Hyper) { h.LR, h.WeightDecay = 1, 0 }, t: 1, m: zeros, v: zeros, weight: plusMinus(1), g: shared},
	{name: "subnormal-state", m: subnormal, v: func(g *gen.Generator, _, _ int) float32 { return math.Float32frombits(uint32(g.Below(1 << 23))) }, g: zeros},
	{name: "subnormal-weights", weight: subnormal, hyper: func(h *Hyper) { h.LR = 1e-41 }},
	{name: "negative-v", v: op.Scaled(0x1p-14)},
	{name: "large-weights", weight: op.Scaled(1000)},
	{name: "no-betas", hyper: func(h *Hyper) { h.Beta1, h.Beta2 = 0, 0 }},
	{name: "no-betas-special", hyper: func(h *Hyper) { h.Beta1, h.Beta2 = 0, 0 }, m: special, v: special}, // 0 times NaN is NaN
	{name: "betas-near-one", hyper: func(h *Hyper) { h.Beta1, h.Beta2 = 1-0x1p-20, 1-0x1p-22 }},

	// With both betas, eps and decay 0 the new m is grad, v its square, and their ratio 1
	// or -1: the weight moves by lr, and nothing is rounded but its storage.
	{name: "ties-of-f16", hyper: exactly(0x1p-11), t: 1, weight: eighths, g: integer, isGrid: true},
	{name: "ties-of-bf16", hyper: exactly(0x1p-8), t: 1, weight: eighths, g: integer, isGrid: true},
	{name: "limit-of-f16", hyper: exactly(16), t: 1, weight: plusMinus(65504), g: integer, isGrid: true},
	{name: "weight-to-zero", hyper: exactly(1), t: 1, weight: plusMinus(1), g: integer, isGrid: true},
}

// words are numbers of the random words in mode stochastic: seed, tensor, step.
var words = []struct {
	name   string
	seed   uint64
	tensor int32
	t      int
}{
	{"seed-0-step-1", 0, 0, 1},
	{"low-seed", 0xffffffff, 0, 10},
	{"high-seed", 0xffffffff00000000, 0, 10},
	{"largest-seed", math.MaxUint64, 0, 10},
	{"tensor-7", 1, 7, 10},
	{"last-tensor", 1, math.MaxInt32, 10},
	{"words-of-last-step", 1, 1, math.MaxInt32},
}

var patterns = func() (list []op.Pattern) {
	for mode := range Mode(len(modeNames)) {
		for _, s := range fillings {
			list = append(list, s.pattern(mode, Random{Seed: 0x0123456789abcdef, Tensor: 3}))
		}
	}
	for _, w := range words {
		s := filling{name: w.name, t: w.t}
		list = append(list, s.pattern(Stochastic, Random{Seed: w.seed, Tensor: w.tensor}))
	}
	return list
}()

// pattern says what training has, where the filling does not.
func (s *filling) pattern(mode Mode, random Random) op.Pattern {
	h, t := DefaultHyper, s.t
	h.LR = 1e-3
	if s.hyper != nil {
		s.hyper(&h)
	}
	if t == 0 {
		t = 10
	}
	derived := h.numbers(t).list()
	params := derived[:]
	if mode == Stochastic {
		params = append(params, float64(int32(random.Seed)), float64(int32(random.Seed>>32)), float64(random.Tensor), float64(t))
	}
	values := data("", 1).Values
	for name, e := range map[string]op.Element{"weight": s.weight, "m": s.m, "v": s.v, "grad": s.g} {
		if e != nil {
			values[name] = e
		}
	}
	return op.Pattern{Name: s.name, Definition: mode.Definition(), Params: params, Values: values, IsGrid: s.isGrid}
}

var scalings = func() (list []op.Scaling) {
	for mode := range Mode(len(modeNames)) {
		d := mode.Definition()
		weights, negated := map[string]int{"weight": 1}, []string{"weight", "m", "grad"}
		if d.Operand("copy") >= 0 {
			weights["copy"], negated = 1, append(negated, "copy")
		}
		list = append(list,
			op.Scaling{
				Name: "scaled-gradients", Definition: d, Params: map[string]int{"eps": 1},
				Inputs: map[string]int{"grad": 1, "m": 1, "v": 2}, Outputs: map[string]int{"m": 1, "v": 2},
			},
			op.Scaling{Name: "scaled-weights", Definition: d, Params: map[string]int{"step_size": 1}, Inputs: map[string]int{"weight": 1}, Outputs: weights},
			op.Scaling{Name: "scaled-denominator", Definition: d, Params: map[string]int{"inverse_sqrt_bc2": 1, "eps": 1, "step_size": 1}},
			op.Scaling{Name: "negated", Definition: d, Negated: negated},
		)
	}
	return list
}()

// exactly is a step by lr that rounds nothing.
func exactly(lr float64) func(h *Hyper) { return func(h *Hyper) { *h = Hyper{LR: lr} } }

func zeros(*gen.Generator, int, int) float32 { return 0 }

func sign(n int) float32 { return float32(1 - 2*(n&1)) }

func plusMinus(x float32) op.Element {
	return func(g *gen.Generator, _, _ int) float32 { return x * sign(g.Below(2)) }
}

// integer is 1 to 8, of either sign.
func integer(g *gen.Generator, _, _ int) float32 { return sign(g.Below(2)) * float32(1+g.Below(8)) }

// eighths are in [1, 2), of either sign, and exact in every format.
func eighths(g *gen.Generator, _, _ int) float32 {
	return sign(g.Below(2)) * (1 + float32(g.Below(8))/8)
}

func special(g *gen.Generator, _, _ int) float32 { return g.Special() }

func subnormal(g *gen.Generator, _, _ int) float32 {
	return sign(g.Below(2)) * math.Float32frombits(uint32(g.Below(1<<23)))
}

// shared is one value for several operands.
func shared(_ *gen.Generator, r, c int) float32 {
	return 0x1p-8 * gen.Seeded(uint64(r)<<32|uint64(c)).Normal()
}

// minusNine leaves nearly nothing of m = shared: 0.9·m + 0.1·grad.
func minusNine(g *gen.Generator, r, c int) float32 {
	return -9 * shared(nil, r, c) * (1 + float32(g.Below(8))*0x1p-11)
}
