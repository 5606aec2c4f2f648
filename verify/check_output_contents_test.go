package verify_test

import (
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/softmax"
)

// TestRepeatFindsTrustInOutputs checks kernels that write nothing if the output seems to be right
// already.
func TestRepeatFindsTrustInOutputs(t *testing.T) {
	t.Parallel()
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
	normalized := bitwise(func(d *def.Definition, l *engine.Launch) error { // whatever the inputs are
		y, sum := l.Operands[1].Array, float32(0)
		for c := range y.Cols {
			sum += y.At(0, c)
		}
		if sum < 0.99 || sum > 1.01 || sum != sum {
			store(d, l, answer(d, l), nil)
		}
		return nil
	})
	expectRejected(t, target(softmax.ForwardDefinition, num.F16, normalized), "repeat:normal/R=5,C=13", "the results of other inputs are", evidence.Invariance)
}
