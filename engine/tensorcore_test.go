package engine_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/reference"
)

// TestTensorCoreSelfTests: kernels that are wrong about a model of tensor cores only where
// numbers are unusual are found by the kinds of data that the models were found with.
func TestTensorCoreSelfTests(t *testing.T) {
	accum := def.MMA(16, 25)
	isSubnormal := func(x float32) bool { return x != 0 && x > -0x1p-126 && x < 0x1p-126 }
	for _, test := range []struct {
		what   string
		dtype  num.DType
		damage func(x float32) float32
		want   string // of the self-test; "" is admitted
	}{
		{"nothing", num.BF16, func(x float32) float32 { return x }, ""},
		{"a subnormal sum is flushed", num.BF16, func(x float32) float32 {
			if isSubnormal(x) {
				return 0
			}
			return x
		}, "self-test tensor-cores-"},
		{"a zero keeps its sign", num.F16, func(x float32) float32 {
			if x == 0 {
				return float32(math.Copysign(0, -1))
			}
			return x
		}, "self-test tensor-cores-"},
	} {
		core := lowering("cpu.core", func(d *def.Definition, l *engine.Launch) error {
			if err := reference.Run(d, l.Arrays(), reference.Options{Accum: accum}); err != nil {
				return err
			}
			c := l.Arrays()[2]
			for r := range c.Rows {
				for col := range c.Cols {
					if x := c.At(r, col); x == x {
						c.Set(r, col, test.damage(x))
					}
				}
			}
			return nil
		})
		core.Promise.Accum = accum
		_, err := engine.Admit(newQueue(t), gemm.ForwardAccumulateDefinition, []num.DType{test.dtype, test.dtype, num.F32}, engine.Using(core))
		if test.want == "" && err != nil || test.want != "" && (!errors.Is(err, engine.ErrInadmissible) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want %q", test.what, err, test.want)
		}
	}
}
