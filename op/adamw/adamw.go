package adamw

import (
	"fmt"
	"math"

	"tokitai/def"
	"tokitai/device"
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

func (m Mode) String() string {
	if m.check("") != nil {
		return fmt.Sprintf("Mode(%d)", uint8(m))
	}
	return modeNames[m]
}

// ParseMode is the inverse of String.
func ParseMode(s string) (Mode, error) {
	for i, n := range modeNames {
		if n == s {
			return Mode(i), nil
		}
	}
	return 0, &device.ArgumentError{Op: "adamw.step", Operand: "mode", Got: fmt.Sprintf("is %q", s), Want: wantMode}
}

const wantMode = "inplace, master or stochastic"

func (m Mode) check(op string) error {
	if int(m) >= len(modeNames) {
		return &device.ArgumentError{Op: op, Operand: "mode", Got: fmt.Sprintf("is %d", uint8(m)), Want: wantMode}
	}
	return nil
}

// Definition is the definition of a step in mode m, one of the three.
func (m Mode) Definition() *def.Definition {
	return [...]*def.Definition{InPlaceDefinition, MasterDefinition, StochasticDefinition}[m]
}

// The definitions of the three modes. Every operation rounds; what depends on the
// step alone is computed on the host (Hyper.numbers).
var (
	InPlaceDefinition = def.Must(def.Rowwise("adamw.step", func(b *def.Builder) {
		w := b.In("weight")
		b.Out("weight", update(b, w))
		b.Usually(lerp(InPlace))
		describe(b, "an update smaller than half the distance to the weight's neighbour is lost; with 16 bits this happens at every step",
			"weight, m, v and grad may not overlap", "")
	}))
	MasterDefinition = def.Must(def.Rowwise("adamw.step.master", func(b *def.Builder) {
		w := b.In("weight", def.Only(num.F32))
		next := update(b, w)
		b.Out("weight", next)
		b.Out("copy", next, def.Only(num.F16, num.BF16))
		b.Usually(lerp(Master))
		describe(b, "copy is the new weight, rounded once to 16 bits; the next step starts from weight, so no update is lost to it",
			"copy may be grad itself; any other overlap of weight, m, v, grad and copy is refused", "")
	}))
	StochasticDefinition = def.Must(def.Rowwise("adamw.step.stochastic", func(b *def.Builder) {
		w := b.In("weight", def.Only(num.F16, num.BF16))
		next := update(b, w)
		word := b.Random(b.IntParam("seed_low"), b.IntParam("seed_high"),
			b.IntParam("tensor", def.Between(0, math.MaxInt32)), b.IntParam("t", def.Between(1, math.MaxInt32)))
		b.Out("weight", next.StochasticRound(def.StorageOf("weight"), word.As("word")))
		b.Usually(lerp(Stochastic))
		describe(b, "the new weight is rounded to one of its two neighbours, with the probabilities that make it right on average (to 2^-32 of their distance), by Philox word (seed, tensor, t, element); beyond the largest finite value it is infinite from half an ulp on, and before that the largest finite value",
			"weight, m, v and grad may not overlap", "; tensor in 0..2^31-1")
	}))
)

// scaled returns the definition of a step whose gradient is multiplied by factor first, and the product rounded to binary32: what
// clips gradients of binary32 need not store the products.
func scaled(m Mode) *def.Definition {
	return def.Must(def.Rowwise(m.Definition().Name+".scaled", func(b *def.Builder) {
		rule := def.AnyFloat
		if m == Master {
			rule = def.Only(num.F32)
		}
		w := b.In("weight", rule)
		next := updateBy(b, w, func(grad def.Value) def.Value { return grad.Mul(b.Param("factor", def.AtLeast(0))).As("scaled") })
		b.Out("weight", next)
		if m == Master {
			b.Out("copy", next, def.Only(num.F16, num.BF16))
		}
		b.Formula("as " + m.Definition().Name + ", with factor*grad in place of grad")
	}))
}

// scaledDefinitions are those of InPlace and Master.
var scaledDefinitions = [...]*def.Definition{scaled(InPlace), scaled(Master)}

func update(b *def.Builder, w def.Value) def.Value {
	return updateBy(b, w, func(grad def.Value) def.Value { return grad })
}

// updateBy is update with what scale makes of the gradient.
func updateBy(b *def.Builder, w def.Value, scale func(grad def.Value) def.Value) def.Value {
	m, v, grad := b.In("m", def.Only(num.F32)), b.In("v", def.Only(num.F32)), b.In("grad")
	g := scale(grad)
	share, size := def.Between(0, 1), def.AtLeast(0)
	beta1, rest1 := b.Param("beta1", share), b.Param("one_minus_beta1", share)
	beta2, rest2 := b.Param("beta2", share), b.Param("one_minus_beta2", share)
	stepSize, inverse := b.Param("step_size", size), b.Param("inverse_sqrt_bc2", size)
	eps, decay := b.Param("eps", size), b.Param("decay", size)

	newM := beta1.Mul(m).Add(rest1.Mul(g)).As("new_m")
	newV := beta2.Mul(v).Add(rest2.Mul(g).Mul(g)).As("new_v")
	d := newV.Sqrt().Mul(inverse).Add(eps).As("d")
	b.Out("m", newM)
	b.Out("v", newV)
	return w.Sub(stepSize.Mul(newM.Div(d)).Add(decay.Mul(w))).As("new_weight")
}

// describe states the contract; rounding, sharing and further numbers are what the
// modes differ in.
func describe(b *def.Builder, rounding, sharing, numbers string) {
	b.Formula(
		"m      = beta1*m + (1-beta1)*grad",
		"v      = beta2*v + (1-beta2)*grad^2",
		"weight = weight - lr*((m/bc1) / (sqrt(v/bc2) + eps) + weight_decay*weight)",
		"bc1    = 1 - beta1^t,  bc2 = 1 - beta2^t",
	)
	b.Clauses(
		"any shape; rows may be strided",
		"lr, eps and weight_decay are finite and at least 0, beta1 and beta2 in [0, 1), t in 1..2^31-1; eps, lr/bc1 and lr*weight_decay are finite as binary32"+numbers,
		"a NaN in weight, m, v or grad makes the new weight NaN; one in m makes the new m NaN, one in v the new v, one in grad both",
		"m and v are f32 in every mode",
		rounding,
		"an infinite weight or grad makes the new weight NaN, an infinite m makes it and the new m infinite or NaN",
		"if the new v is +Inf and the new m finite, the step applies the decay alone; the new v is +Inf if v is and beta2 > 0 as binary32, or if ((1-beta2)*grad)*grad overflows; a new v below 0 makes the new weight NaN",
		"eps = 0 as binary32 and a new v of 0 divide by zero: the new weight is infinite or NaN",
		"subnormals are kept; a new weight too large for its format is infinite",
		"if grad, m and v are +0, weight_decay is 0 and eps > 0 as binary32, a finite weight is unchanged",
		sharing,
	)
}

// Hyper are the numbers of a step. Start from DefaultHyper and set LR: the zero value
// is legal, and moves nothing; eps 0, also as binary32, divides by zero where a
// gradient has always been 0.
type Hyper struct {
	LR, Beta1, Beta2, Eps, WeightDecay float64
}

// DefaultHyper has all the usual numbers but the learning rate: LR is 0, with which no
// weight moves, and must be set.
var DefaultHyper = Hyper{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.01}

// check refuses numbers that make no step, in the name of a call in a valid mode.
func (h Hyper) check(op string, mode Mode, t int) error {
	refuse := func(name string, got any, want string) error {
		return &device.ArgumentError{Op: op, Operand: name, Clause: mode.Definition().Name + ".C2", Got: fmt.Sprintf("is %v", got), Want: want}
	}
	const finite = "a finite number of at least 0"
	for _, p := range [...]struct {
		name  string
		value float64
		limit float64
		want  string
	}{
		{"lr", h.LR, math.Inf(1), finite},
		{"beta1", h.Beta1, 1, "a number in [0, 1)"},
		{"beta2", h.Beta2, 1, "a number in [0, 1)"},
		{"eps", h.Eps, math.Inf(1), finite},
		{"weight_decay", h.WeightDecay, math.Inf(1), finite},
	} {
		if !(p.value >= 0 && p.value < p.limit) {
			return refuse(p.name, p.value, p.want)
		}
	}
	if t < 1 || t > math.MaxInt32 {
		return refuse("t", t, "an integer from 1 to 2147483647")
	}
	used := h.numbers(t)
	for _, p := range [...]struct {
		name  string
		value float64
		used  float64
		text  string
	}{
		{"lr", h.LR, used.stepSize, "lr/bc1"},
		{"eps", h.Eps, used.eps, "eps"},
		{"weight_decay", h.WeightDecay, used.decay, "lr*weight_decay"},
	} {
		if float32(p.used) > math.MaxFloat32 {
			return refuse(p.name, p.value, p.text+" finite as binary32")
		}
	}
	return nil
}

// numbers are the parameters of the definitions, computed in binary64 and not yet rounded.
type numbers struct {
	beta1, rest1, beta2, rest2 float64
	stepSize, inverse          float64 // lr/bc1 and 1/sqrt(bc2)
	eps, decay                 float64
}

func (h Hyper) numbers(t int) numbers {
	return numbers{
		beta1: h.Beta1, rest1: 1 - h.Beta1, beta2: h.Beta2, rest2: 1 - h.Beta2,
		stepSize: h.LR / biasCorrection(h.Beta1, t), inverse: 1 / math.Sqrt(biasCorrection(h.Beta2, t)),
		eps: h.Eps, decay: h.LR * h.WeightDecay,
	}
}

// list returns the numbers in the order in which update declares the parameters.
func (n numbers) list() [8]float64 {
	return [...]float64{n.beta1, n.rest1, n.beta2, n.rest2, n.stepSize, n.inverse, n.eps, n.decay}
}

// State is one tensor's weights and moments. Copy is used in mode Master only.
type State struct {
	Weight, M, V, Copy *tensor.Tensor
}

// Random names the random words of mode Stochastic.
type Random struct {
	Seed   uint64
	Tensor int32 // the tensor's number within the model, at least 0
}

// Update is one step on one tensor.
type Update struct {
	Mode   Mode
	State  State
	Grad   *tensor.Tensor
	Hyper  Hyper
	T      int    // the number of the step, from 1
	Random Random // used in mode Stochastic only
}

// Step updates the weights and moments of one tensor in place.
func Step(q *engine.Queue, u Update, opts ...engine.CallOption) error {
	if err := u.Mode.check(InPlaceDefinition.Name); err != nil {
		return err
	}
	var memory callMemory
	c, err := u.call(&memory)
	if err != nil {
		return err
	}
	return engine.Call(q, u.Mode.Definition(), c.Tensors, c.Params, opts...) // c.Definition would take all of c to the heap
}

// StepScaled is Step with the gradient, which must be f32, times a factor of at least 0, in mode InPlace or
// Master. Weights and moments have the bits of a step by products that were stored as f32.
func StepScaled(q *engine.Queue, u Update, factor float64, opts ...engine.CallOption) error {
	op := InPlaceDefinition.Name
	if err := u.Mode.check(op); err != nil {
		return err
	}
	switch {
	case u.Mode == Stochastic:
		return &device.ArgumentError{Op: op, Operand: "mode", Got: "is " + u.Mode.String(), Want: "inplace or master, whose gradient may be scaled"}
	case u.Grad != nil && u.Grad.DType() != num.F32:
		return &device.ArgumentError{Op: op, Operand: "grad", Got: fmt.Sprintf("is %v", u.Grad.DType()), Want: "f32: products that were stored would be rounded to the format"}
	}
	var memory callMemory
	c, err := u.call(&memory)
	if err != nil {
		return err
	}
	return engine.Call(q, scaledDefinitions[u.Mode], c.Tensors, append([]float64{factor}, c.Params...), opts...)
}

// callMemory is room for a call of any mode.
type callMemory struct {
	tensors [5]*tensor.Tensor
	params  [12]float64
}

// call returns the update, in a valid mode, as a call in the given memory.
func (u Update) call(memory *callMemory) (engine.CallSpec, error) {
	d, s := u.Mode.Definition(), u.State
	if err := u.Hyper.check(d.Name, u.Mode, u.T); err != nil {
		return engine.CallSpec{}, err
	}
	if u.Mode != Master && s.Copy != nil {
		return engine.CallSpec{}, refuseCopy(d.Name, u.Mode)
	}
	if err := checkTensor(d.Name, float64(u.Random.Tensor)); err != nil {
		return engine.CallSpec{}, err
	}
	p := u.Hyper.numbers(u.T).list()
	return u.callWith(memory, &p), nil
}

// callWith returns an update that has been checked as a call, given the list of its numbers.
func (u *Update) callWith(memory *callMemory, p *[8]float64) engine.CallSpec {
	s := &u.State
	c := engine.CallSpec{Definition: u.Mode.Definition(), Tensors: append(memory.tensors[:0], s.Weight, s.M, s.V, u.Grad), Params: append(memory.params[:0], p[:]...)}
	switch u.Mode {
	case Master:
		c.Tensors = append(c.Tensors, s.Copy)
	case Stochastic:
		r := u.Random
		c.Params = append(c.Params, float64(int32(r.Seed)), float64(int32(r.Seed>>32)), float64(r.Tensor), float64(u.T))
	}
	return c
}

// checkTensor refuses a tensor's number that is none.
func checkTensor(op string, number float64) error {
	if number >= 0 {
		return nil
	}
	return &device.ArgumentError{Op: op, Operand: "tensor", Clause: StochasticDefinition.Name + ".C2", Got: fmt.Sprintf("is %v", number), Want: "a number of at least 0"}
}

func refuseCopy(op string, mode Mode) error {
	return &device.ArgumentError{Op: op, Operand: "copy", Got: "is given", Want: "none in mode " + mode.String()}
}
