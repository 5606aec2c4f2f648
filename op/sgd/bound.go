package sgd

import (
	"math"

	"tokitai/bound"
	"tokitai/def"
)

const u = bound.U

// The product and the sum of g lose 2u of G and 2^-150; 1-dampening, its product with g and
// the sum of the buffer lose 3u more of k*G, the product by momentum and that sum 2u; two
// products underflow. Nesterov's step adds a product and a sum. Tenths are left for terms
// of u^2.
func boundsOf(d *def.Definition, isNesterov bool) []bound.Form {
	texts := []string{
		"bound = 1.1*lr*bound(step) + 1.1*u*lr*S + 1.1*u*|weight'| + 2^-149,  bound(step) = bound(buffer),  S = B",
		"G = |grad| + |weight_decay*weight|,  k = |1-dampening|,  B = |momentum*buffer| + k*G,  primes mark new values",
	}
	if isNesterov {
		texts[0] = "bound = 1.1*lr*bound(step) + 1.1*u*lr*S + 1.1*u*|weight'| + 2^-149,  bound(step) = 3.3*u*G + 1.1*momentum*bound(buffer) + 2.2*u*momentum*B + 2^-148,  S = G + momentum*B"
	}
	list := []bound.Form{
		{
			Output: "weight", Text: texts,
			At: func(call *bound.Call) func(r, c int) float64 {
				at, lr, momentum := stepsOf(call), call.Param("lr"), call.Param("momentum")
				return func(r, c int) float64 {
					s := at(r, c)
					size, off := s.size, s.bufferError()
					if isNesterov {
						size, off = s.g+momentum*s.size, 3.3*u*s.g+1.1*momentum*s.bufferError()+2.2*u*momentum*s.size+0x1p-148
					}
					return 1.1*lr*off + 1.1*u*lr*size + 1.1*u*math.Abs(s.of("weight", isNesterov)) + 0x1p-149
				}
			},
		},
		{
			Output: "buffer", Text: []string{"bound = u*(2.1*|momentum*buffer| + 5.2*k*G) + (1 + k)*2^-149, with k and G as in weight"},
			At: func(call *bound.Call) func(r, c int) float64 {
				at := stepsOf(call)
				return func(r, c int) float64 { return at(r, c).bufferError() }
			},
		},
	}
	if d.Operand("copy") >= 0 {
		list = append(list, bound.Form{Output: "copy", Text: []string{"bound as of weight"}, At: list[0].At})
	}
	return list
}

// step is one element's step over the real numbers, with the sizes of its terms.
type step struct {
	w, gradient, buffer float64 // weight, g and the new buffer
	lr, momentum        float64
	old, keep, g, size  float64 // |momentum*buffer|, |1-dampening|, the terms of g and of the new buffer
}

func stepsOf(call *bound.Call) func(r, c int) step {
	w, buffer, grad := call.Matrix("weight"), call.Matrix("buffer"), call.Matrix("grad")
	lr, momentum, keep, decay := call.Param("lr"), call.Param("momentum"), 1-call.Param("dampening"), call.Param("weight_decay")
	return func(r, c int) step {
		s := step{w: w.At(r, c), lr: lr, momentum: momentum, keep: math.Abs(keep), old: math.Abs(momentum * buffer.At(r, c))}
		s.gradient = grad.At(r, c) + decay*s.w
		s.buffer = momentum*buffer.At(r, c) + keep*s.gradient
		s.g = math.Abs(grad.At(r, c)) + math.Abs(decay*s.w)
		s.size = s.old + s.keep*s.g
		return s
	}
}

func (s step) bufferError() float64 { return u*(2.1*s.old+5.2*s.keep*s.g) + (1+s.keep)*0x1p-149 }

// of returns the new value of an output.
func (s step) of(output string, isNesterov bool) float64 {
	switch {
	case output == "buffer":
		return s.buffer
	case isNesterov:
		return s.w - s.lr*(s.gradient+s.momentum*s.buffer)
	}
	return s.w - s.lr*s.buffer
}
