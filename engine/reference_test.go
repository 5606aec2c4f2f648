package engine_test

import (
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/softmax"
	"tokitai/reference"
)

// TestCheckReference: whoever judges by the reference learns that it is wrong here.
func TestCheckReference(t *testing.T) {
	d := softmax.ForwardDefinition
	formats := []num.DType{num.F16, num.F16}
	for range 2 { // the second time from memory
		if err := engine.CheckReference(d, formats); err != nil {
			t.Error(err)
		}
	}
	defer setReference(func(d *def.Definition, operands []num.Array, o reference.Options) error {
		err := reference.Run(d, operands, o)
		last := operands[len(operands)-1]
		last.SetBits(0, 0, last.Bits(0, 0)^1)
		return err
	})()
	for range 2 { // a failure is not remembered as a pass
		if err := engine.CheckReference(d, formats); err == nil || !strings.Contains(err.Error(), "does not reproduce the known answer") {
			t.Errorf("got %v, want a reference that does not reproduce the known answer", err)
		}
	}
}
