// Package answertest makes models for tests: small ones with random weights.
package answertest

import (
	"encoding/json"
	"os"
	"path/filepath"

	"tokitai/answer"
	"tokitai/backend/cpu"
	"tokitai/chat"
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

// ChatModel returns the model of Config with a chat template, whose text is given.
func ChatModel(template string) (*answer.Model, error) {
	m, err := Model(Config, 1)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	config, err := json.Marshal(map[string]string{"chat_template": template})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(folder, "tokenizer_config.json"), config, 0o666); err != nil {
		return nil, err
	}
	m.Template, err = chat.Open(folder)
	return m, err
}
