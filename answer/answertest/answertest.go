// Package answertest makes models for tests: small ones with random weights.
package answertest

import (
	"tokitai/answer"
	"tokitai/backend/cpu"
	"tokitai/model"
	"tokitai/tensor"
)

// Config is a decoder of bytes with groups of heads.
var Config = model.Config{
	Vocabulary: 257, Block: 96, Layers: 2, Width: 32, Heads: 4, KVHeads: 2, Hidden: 48,
	Norm: "rms", Positions: "rope", FeedForward: "swiglu", RopeBase: 10000, Eps: 1e-5,
}

// Model returns a model on the CPU with random weights. They are larger than those that training
// starts with, so that different prompts get different answers.
func Model(c model.Config, seed uint64) (*answer.Model, error) {
	d, err := model.NewDecoder(c, 1, false)
	if err != nil {
		return nil, err
	}
	weights := map[string]*tensor.Tensor{}
	for _, w := range append(d.Program.Of(model.Weight), d.Program.Of(model.Fixed)...) {
		values := c.Initial(w, seed)
		for i := range values { // biases that choose other experts than scores do
			if w.Kind == model.Fixed {
				values[i] = 0.1 * float32(i%3)
			}
		}
		if len(w.Shape) > 1 {
			for i := range values {
				values[i] *= 12
			}
		}
		if weights[w.Name], err = tensor.FromFloat32(cpu.Queue().Device(), w.DType, values, w.Shape...); err != nil {
			return nil, err
		}
	}
	return answer.NewModel("tiny", c, weights)
}
