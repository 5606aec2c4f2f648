package sgd

import (
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// The definitions: with momentum or with Nesterov's, of weights that are rounded to their own
// format or of f32 weights with a 16-bit copy.
var (
	StepDefinition           = define("sgd.step", false, false)
	MasterDefinition         = define("sgd.step.master", false, true)
	NesterovDefinition       = define("sgd.nesterov", true, false)
	NesterovMasterDefinition = define("sgd.nesterov.master", true, true)
)

func define(name string, isNesterov, isMaster bool) *def.Definition {
	return def.Must(def.Rowwise(name, func(b *def.Builder) {
		formats := []def.Rule{}
		if isMaster {
			formats = append(formats, def.Only(num.F32))
		}
		w, buffer, grad := b.In("weight", formats...), b.In("buffer", def.Only(num.F32)), b.In("grad")
		lr, momentum := b.Param("lr", def.AtLeast(0)), b.Param("momentum", def.AtLeast(0), def.Default(0))
		dampening, decay := b.Param("dampening", def.Finite(), def.Default(0)), b.Param("weight_decay", def.AtLeast(0), def.Default(0))

		g := grad.Add(decay.Mul(w)).As("g")
		next := momentum.Mul(buffer).Add(def.One.Sub(dampening).Mul(g)).As("new_buffer")
		step := next
		if isNesterov {
			step = g.Add(momentum.Mul(next)).As("step")
		}
		newWeight := w.Sub(lr.Mul(step)).As("new_weight")
		b.Out("weight", newWeight)
		b.Out("buffer", next)

		rounding := "an update smaller than half the distance to the weight's neighbour is lost; with 16 bits this happens at every step"
		sharing := "weight, buffer and grad may not overlap"
		if isMaster {
			b.Out("copy", newWeight, def.Only(num.F16, num.BF16))
			rounding = "copy is the new weight, rounded once to 16 bits; the next step starts from weight, so no update is lost to it"
			sharing = "copy may be grad itself; any other overlap of weight, buffer, grad and copy is refused"
		}
		weight := "weight = weight - lr*buffer"
		if isNesterov {
			weight = "weight = weight - lr*(g + momentum*buffer)"
		}
		b.Formula("g      = grad + weight_decay*weight", "buffer = momentum*buffer + (1-dampening)*g", weight)
		b.Clauses(
			"any shape; rows may be strided",
			"lr, momentum and weight_decay are finite and at least 0, dampening is finite",
			"a NaN in weight, buffer or grad makes the new weight and the new buffer NaN",
			"buffer is f32 whatever the weight is",
			rounding,
			"an infinite weight, buffer or grad makes the new weight and the new buffer infinite or NaN; so does 0 times an infinity, where a parameter is 0",
			"subnormals are kept; results too large for their formats are infinite",
			"if grad and buffer are +0 and weight_decay is 0, a finite weight is unchanged",
			sharing,
		)
	}))
}

// Hyper are the numbers of a step, as torch.optim.SGD has them.
type Hyper struct {
	LR, Momentum, Dampening, WeightDecay float64
}

// Update is one step on one tensor. Before the first step the buffer is zero; PyTorch does not
// dampen that step, so Dampening is 0 in it.
type Update struct {
	Weight, Buffer, Grad *tensor.Tensor
	Copy                 *tensor.Tensor // of a master alone
	IsMaster             bool           // the weight is f32, and Copy is written
	IsNesterov           bool
	Hyper                Hyper
}

// Definition returns the definition of the step.
func (u *Update) Definition() *def.Definition {
	switch {
	case u.IsNesterov && u.IsMaster:
		return NesterovMasterDefinition
	case u.IsNesterov:
		return NesterovDefinition
	case u.IsMaster:
		return MasterDefinition
	}
	return StepDefinition
}

// Step updates the weights and the buffer of one tensor in place.
func Step(q *engine.Queue, u Update, opts ...engine.CallOption) error {
	tensors := append(make([]*tensor.Tensor, 0, 4), u.Weight, u.Buffer, u.Grad)
	switch {
	case u.IsMaster:
		tensors = append(tensors, u.Copy)
	case u.Copy != nil:
		return &device.ArgumentError{Op: u.Definition().Name, Operand: "copy", Got: "is given", Want: "none, or a step with IsMaster"}
	}
	h := u.Hyper
	return engine.Call(q, u.Definition(), tensors, []float64{h.LR, h.Momentum, h.Dampening, h.WeightDecay}, opts...)
}
