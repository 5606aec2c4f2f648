//go:build unix

package kernelprocess

import (
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/layernorm"
	"tokitai/op/optest"
)

// TestNoRows calls definitions with a batch of no rows in a process, with tensors of this one.
func TestNoRows(t *testing.T) {
	d := openDevice(t, Options{})
	q := cpu.Queue().With(Isolated(d))
	for _, d := range []*def.Definition{gelu.ForwardDefinition, layernorm.BackwardDefinition, embedding.BackwardDefinition} {
		if _, err := optest.WithoutRows(q, d); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
}
