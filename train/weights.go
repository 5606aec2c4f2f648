package train

import (
	"slices"

	"tokitai/tensor/safetensors"
)

// ReadWeights reads the weights of a checkpoint and the settings that its run began with, without the moments of the optimizer.
func ReadWeights(path string) (c *Config, weights []safetensors.Entry, err error) {
	h, f, err := readCheckpoint(path)
	if err != nil {
		return nil, nil, err
	}
	weights = slices.DeleteFunc(f.Entries, func(e safetensors.Entry) bool { return isMoment(e.Name) })
	c = &h.Origin.Config
	if err := c.checkNetwork(); err != nil {
		return nil, nil, badInput("%s: %w", path, err)
	}
	return c, weights, nil
}
