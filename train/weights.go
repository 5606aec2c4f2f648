package train

import (
	"slices"
	"strings"

	"tokitai/model"
	"tokitai/tensor/safetensors"
)

// ReadWeights reads the weights of a checkpoint, without the moments of the optimizer.
func ReadWeights(path string) (c *model.Config, weights []safetensors.Entry, err error) {
	h, f, err := readCheckpoint(path)
	if err != nil {
		return nil, nil, err
	}
	weights = slices.DeleteFunc(f.Entries, func(e safetensors.Entry) bool {
		return strings.HasPrefix(e.Name, prefixM) || strings.HasPrefix(e.Name, prefixV)
	})
	if err := h.Origin.Config.Config.Check(); err != nil {
		return nil, nil, badInput("%s: %w", path, err)
	}
	return &h.Origin.Config.Config, weights, nil
}
