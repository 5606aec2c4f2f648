package gpu

import (
	"errors"
	"slices"

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
	errFormat    = errors.New("the operands are in a format of another lowering")
	errNoModel   = errors.New("the accumulation rule of the device's tensor cores is not known, or it has none for mma.sync")
	errScales    = errors.New("the sums are scaled, which mma.sync's kernel does not do")
)

// hopper returns the lowering for Hopper's tensor cores.
func (f *Family) hopper() *engine.Lowering {
	l := f.onHopper("hopper")
	l.Model, l.Grain, l.Factors = def.MMA(16, 25), 8, []num.DType{num.F16, num.BF16}
	return l
}

// hopperFP8 returns the lowering for operands in FP8.
func (f *Family) hopperFP8() *engine.Lowering {
	l := f.onHopper("hopper-fp8")
	l.Model, l.Grain, l.Factors = def.MMA(32, 13).Narrow(13), 16, num.FP8DTypes
	suits := l.Suits
	l.Suits = func(dev device.Device, d *def.Definition, c *lower.Call) error {
		if err := lowergpu.TakesFP8(d); err != nil {
			return err
		}
		return suits(dev, d, c)
	}
	return l
}

// onHopper returns a lowering whose kernels are kernels/hopper.cu.
func (f *Family) onHopper(name string) *engine.Lowering {
	l := f.lower(name, func(d *def.Definition, dtypes []num.DType, _ lowergpu.Variant) (*lowergpu.Kernel, error) {
		return lowergpu.CompileHopper(d, dtypes)
	})
	l.Suits = func(dev device.Device, d *def.Definition, c *lower.Call) error {
		g, ok := dev.(*Device)
		switch {
		case !ok || g.Architecture() != f.Hopper:
			return errNotHopper
		case !g.HasTensorMaps():
			return errNoMaps
		case !slices.Contains(l.Factors, c.Operands[0].DType):
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
	l.Model, l.Factors = def.MMA(16, 25), []num.DType{num.F16, num.BF16}
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
		if !slices.Contains(l.Factors, c.Operands[0].DType) {
			return errFormat
		}
		if d.HasScales() {
			return errScales
		}
		return nil
	}
	return l
}
