package adamw

import (
	"fmt"
	"math"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// Mode says how weights are stored.
type Mode uint8

const (
	// InPlace rounds the new weight to its own format. With 16 bits an update below
	// half a unit in the last place is lost, and training stagnates.
	InPlace Mode = iota
	// Master keeps f32 weights and writes a 16-bit copy.
	Master
	// Stochastic rounds 16-bit weights up or down at random, so that small updates
	// count on average.
	Stochastic
)

var modeNames = [...]string{"inplace", "master", "stochastic"}

func (m Mode) String() string { return modeNames[m] }

// ParseMode is the inverse of String.
func ParseMode(s string) (Mode, error) {
	for i, n := range modeNames {
		if n == s {
			return Mode(i), nil
		}
	}
	return 0, fmt.Errorf("adamw mode %q: want inplace, master or stochastic", s)
}

// Definition is the definition of a step in mode m.
func (m Mode) Definition() *def.Definition {
	return [...]*def.Definition{InPlaceDefinition, MasterDefinition, StochasticDefinition}[m]
}

// The definitions of the three modes. Every operation rounds; what depends on the
// step alone is computed on the host (Hyper.params).
var (
	InPlaceDefinition = def.Must(def.Rowwise("adamw.step", func(b *def.Builder) {
		w := b.In("weight")
		b.Out("weight", update(b, w))
		describe(b)
	}))
	MasterDefinition = def.Must(def.Rowwise("adamw.step.master", func(b *def.Builder) {
		w := b.In("weight", def.Only(num.F32))
		next := update(b, w)
		b.Out("weight", next)
		b.Out("copy", next, def.Only(num.F16, num.BF16))
		describe(b, "copy is the new weight, rounded once")
	}))
	StochasticDefinition = def.Must(def.Rowwise("adamw.step.stochastic", func(b *def.Builder) {
		w := b.In("weight", def.Only(num.F16, num.BF16))
		next := update(b, w)
		word := b.Random(b.IntParam("seed_low"), b.IntParam("seed_high"), b.IntParam("tensor"), b.IntParam("t"))
		b.Out("weight", next.StochasticRound(def.StorageOf("weight"), word.As("word")))
		describe(b, "the new weight is one of its two neighbours, up with the probability of its distance, by Philox word (seed, tensor, t, element)")
	}))
)

func update(b *def.Builder, w def.Value) def.Value {
	m, v, g := b.In("m", def.Only(num.F32)), b.In("v", def.Only(num.F32)), b.In("grad")
	beta1, rest1 := b.Param("beta1"), b.Param("one_minus_beta1")
	beta2, rest2 := b.Param("beta2"), b.Param("one_minus_beta2")
	stepSize, inverse := b.Param("step_size"), b.Param("inverse_sqrt_bc2")
	eps, decay := b.Param("eps"), b.Param("decay")

	newM := beta1.Mul(m).Add(rest1.Mul(g)).As("new_m")
	newV := beta2.Mul(v).Add(rest2.Mul(g).Mul(g)).As("new_v")
	d := newV.Sqrt().Mul(inverse).Add(eps).As("d")
	b.Out("m", newM)
	b.Out("v", newV)
	return w.Sub(stepSize.Mul(newM.Div(d)).Add(decay.Mul(w))).As("new_weight")
}

func describe(b *def.Builder, more ...string) {
	b.Formula(
		"m      = beta1*m + (1-beta1)*grad",
		"v      = beta2*v + (1-beta2)*grad^2",
		"weight = weight - lr*((m/bc1) / (sqrt(v/bc2) + eps) + weight_decay*weight)",
		"bc1    = 1 - beta1^t,  bc2 = 1 - beta2^t",
	)
	b.Clauses(append([]string{
		"any shape",
		"lr, eps and weight_decay are finite and at least 0, beta1 and beta2 in [0, 1), t at least 1",
		"a NaN in weight, m, v or grad makes the new weight NaN",
		"m and v are f32 in every mode",
	}, more...)...)
}

// Hyper are the numbers of a step.
type Hyper struct {
	LR, Beta1, Beta2, Eps, WeightDecay float64
}

// DefaultHyper has no learning rate.
var DefaultHyper = Hyper{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.01}

func (h Hyper) check(op string, t int) error {
	refuse := func(name string, got any, want string) error {
		return &tensor.BadArgument{Op: op, Operand: name, Clause: op + ".C2", Got: fmt.Sprintf("is %v", got), Want: want}
	}
	for _, p := range [...]struct {
		name  string
		value float64
		limit float64
		want  string
	}{
		{"lr", h.LR, math.Inf(1), "a finite number of at least 0"},
		{"beta1", h.Beta1, 1, "a number in [0, 1)"},
		{"beta2", h.Beta2, 1, "a number in [0, 1)"},
		{"eps", h.Eps, math.Inf(1), "a finite number of at least 0"},
		{"weight_decay", h.WeightDecay, math.Inf(1), "a finite number of at least 0"},
	} {
		if !(p.value >= 0 && p.value < p.limit) {
			return refuse(p.name, p.value, p.want)
		}
	}
	if t < 1 || t > math.MaxInt32 {
		return refuse("t", t, "1 to 2147483647")
	}
	return nil
}

// params are what the definitions take: computed in binary64, rounded later.
func (h Hyper) params(t int) [8]float64 {
	return [8]float64{
		h.Beta1, 1 - h.Beta1, h.Beta2, 1 - h.Beta2,
		h.LR / biasCorrection(h.Beta1, t), 1 / math.Sqrt(biasCorrection(h.Beta2, t)),
		h.Eps, h.LR * h.WeightDecay,
	}
}

// State is one tensor's weights and moments. Copy is used in mode Master only.
type State struct {
	Weight, M, V, Copy *tensor.Tensor
}

// Random names the random words of mode Stochastic.
type Random struct {
	Seed   uint64
	Tensor int32 // the tensor's number within the model
}

// Step updates one tensor in place; t counts steps from 1.
func Step(q *engine.Queue, mode Mode, s State, grad *tensor.Tensor, h Hyper, t int, r Random, opts ...engine.Option) error {
	if err := h.check(mode.Definition().Name, t); err != nil {
		return err
	}
	p := h.params(t)
	return step(q, mode, s, grad, p[:], t, r, opts...)
}

func step(q *engine.Queue, mode Mode, s State, grad *tensor.Tensor, p []float64, t int, r Random, opts ...engine.Option) error {
	d := mode.Definition()
	switch mode {
	case Master:
		return engine.Call(q, d, []*tensor.Tensor{s.Weight, s.M, s.V, grad, s.Copy}, p, opts...)
	case Stochastic:
		all := [12]float64{8: float64(int32(r.Seed)), 9: float64(int32(r.Seed >> 32)), 10: float64(r.Tensor), 11: float64(t)}
		copy(all[:], p)
		return engine.Call(q, d, []*tensor.Tensor{s.Weight, s.M, s.V, grad}, all[:], opts...)
	}
	return engine.Call(q, d, []*tensor.Tensor{s.Weight, s.M, s.V, grad}, p, opts...)
}
