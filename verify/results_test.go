package verify_test

import (
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/softmax"
)

// TestRepeatFindsTrustInOutputs: kernels that write nothing where the output seems right already.
func TestRepeatFindsTrustInOutputs(t *testing.T) {
	for want, looked := range map[string]func(a num.Array) int{
		"the first row is right already":                   func(a num.Array) int { return a.Cols },
		"everything but the last element is right already": func(a num.Array) int { return a.Rows*a.Cols - 1 },
	} {
		l := bitwise(func(d *def.Definition, l *engine.Launch) error {
			out := answer(d, l)
			y, right := l.Operands[1].Array, out[1]
			for at := range looked(y) {
				if r, c := at/y.Cols, at%y.Cols; y.Bits(r, c) != right.Bits(r, c) {
					store(d, l, out, nil)
					break
				}
			}
			return nil
		})
		expectRejected(t, target(softmax.ForwardDefinition, num.F16, l), "repeat:normal/R=5,C=13", want, evidence.Invariance)
	}
}
