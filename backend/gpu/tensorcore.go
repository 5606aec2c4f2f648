package gpu

import (
	"errors"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/lower"
	lowergpu "tokitai/lower/gpu"
	"tokitai/num"
)

// Why the lowerings for tensor cores do not compute a call.
var (
	errNotHopper = errors.New("the device's architecture has none of Hopper's instructions")
	errNoMaps    = errors.New("the device's driver has no tensor maps")
	errFormat    = errors.New("tensor cores multiply f16 and bf16")
	errNoModel   = errors.New("the accumulation rule of the device's tensor cores is not known, or it has none for mma.sync")
)

// hopper returns the lowering for Hopper's tensor cores.
func (f *Family) hopper() *engine.Lowering {
	l := f.lower("hopper", func(d *def.Definition, dtypes []num.DType, _ lowergpu.Variant) (*lowergpu.Kernel, error) {
		return lowergpu.CompileHopper(d, dtypes)
	})
	l.Model, l.Grain = def.MMA(16, 25), 8
	l.Suits = func(dev device.Device, d *def.Definition, c *lower.Call) error {
		g, ok := dev.(*Device)
		switch {
		case !ok || g.Architecture() != f.Hopper:
			return errNotHopper
		case !g.HasTensorMaps():
			return errNoMaps
		case !isTensorCoreFormat(c.Operands[0].DType):
			return errFormat
		}
		return lowergpu.SuitsHopper(c)
	}
	return l
}

// mma returns the lowering for the tensor cores of all architectures whose model is known.
func (f *Family) mma() *engine.Lowering {
	l := f.lower("mma", func(d *def.Definition, dtypes []num.DType, _ lowergpu.Variant) (*lowergpu.Kernel, error) {
		return lowergpu.CompileMMA(d, dtypes)
	})
	l.Model = def.MMA(16, 25)
	l.ModelFor = func(architecture string, dtypes []num.DType, _, _ int) def.Model {
		m, _ := lowergpu.TensorCoreModel(architecture)
		return m
	}
	l.Suits = func(dev device.Device, d *def.Definition, c *lower.Call) error {
		g, ok := dev.(*Device)
		if !ok {
			return errNoModel
		}
		if _, ok := lowergpu.TensorCoreModel(g.Architecture()); !ok {
			return errNoModel
		}
		if !isTensorCoreFormat(c.Operands[0].DType) {
			return errFormat
		}
		return nil
	}
	return l
}

func isTensorCoreFormat(d num.DType) bool { return d == num.F16 || d == num.BF16 }
