package engine_test

import (
	"testing"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/promise"
)

// A kernel in a usual form of its definition is admitted, and is not if the definition does not
// name the form: x - c*x has the rounding error of c*x, which x*(1-c) does not have.
func TestUsualFormsAreAdmitted(t *testing.T) {
	const rest = 0x1p-12
	form := def.Must(def.Rowwise("test.decay.subtracted", func(b *def.Builder) {
		x := b.In("x")
		b.Out("y", x.Sub(def.Const(1-rest).Mul(x)), def.Like("x"))
	}))
	own := func(forms ...*def.Definition) *def.Definition {
		return def.Must(def.Rowwise("test.decay", func(b *def.Builder) {
			b.Out("y", b.In("x").Mul(def.Const(rest)), def.Like("x"))
			b.Usually(forms...)
		}))
	}
	l := lowering("cpu.subtracting", nil)
	l.Promise.Name = promise.Stable
	l.Compile = func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) {
		return engine.KernelFunc(func(launch *engine.Launch) error {
			x, y := launch.Operands[0].Array, launch.Operands[1].Array
			for r := range x.Rows {
				for c := range x.Cols {
					y.Set(r, c, x.At(r, c)-float32(x.At(r, c)*(1-rest)))
				}
			}
			return nil
		}), nil
	}
	dtypes := []num.DType{num.F32, num.F32}
	wantReason(t, "named", private.RunSelfTest(newQueue(t), l, own(form), dtypes, "C=257"), "")
	wantReason(t, "not named", private.RunSelfTest(newQueue(t), l, own(), dtypes, "C=257"), "y[0,")
	if a, b := own(form).Hash(), own().Hash(); a != b {
		t.Errorf("the hash is %s with a form, and %s without", a, b)
	}
}
