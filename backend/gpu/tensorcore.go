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
	"tokitai/promise"
)

// Why the lowerings for tensor cores do not compute a call.
var (
	errNotHopper     = errors.New("the device's architecture has none of Hopper's instructions")
	errNoMaps        = errors.New("the device's driver has no tensor maps")
	errFormat        = errors.New("the operands are in a format of another lowering")
	errNoTensorCores = errors.New("the device has no tensor cores with mma.sync")
	errNoModel       = errors.New("the accumulation rule of the device's tensor cores is not known: 'tokitai verify mma' finds it")
	errModel         = errors.New("the accumulation rule of the device's tensor cores is known: another lowering promises its bits")
	errScales        = errors.New("tensor cores scale sums of FP8 and i8 alone")
)

// hopper returns the lowering for Hopper's tensor cores.
func (f *Family) hopper() *engine.Lowering {
	l := f.onHopper("hopper")
	l.Promise.Accum, l.Grain, l.Factors = def.MMA(16, 25), 8, []num.DType{num.F16, num.BF16}
	l.Yields = lowergpu.YieldsToMMA
	return l
}

// hopperFP8 returns the lowering for operands in FP8.
func (f *Family) hopperFP8() *engine.Lowering {
	l := f.onHopper("hopper-fp8")
	l.Promise.Accum, l.Factors = def.MMA(32, 13).Narrow(13), num.FP8DTypes
	return l
}

// hopperInt8 returns the lowering for operands in i8, whose sums are exact.
func (f *Family) hopperInt8() *engine.Lowering {
	l := f.onHopper("hopper-int8")
	l.Factors = []num.DType{num.I8}
	l.Yields = lowergpu.YieldsToMMA
	return l
}

// onHopper returns a lowering whose kernels are kernels/hopper.cu.
func (f *Family) onHopper(name string) *engine.Lowering {
	l := f.lower(name, func(d *def.Definition, dtypes []num.DType, _ lowergpu.Variant) (*lowergpu.Kernel, error) {
		return lowergpu.CompileHopper(d, dtypes)
	})
	l.Compile = answering("wgmma", l.Compile)
	l.Suits = func(dev device.Device, d *def.Definition, c *lower.Call) error {
		if err := f.hasHopper(dev); err != nil {
			return err
		}
		switch {
		case !slices.Contains(l.Factors, c.Operands[0].DType):
			return errFormat
		case c.Operands[0].DType.Size() == 1: // wherever they lie: the bits of FP8 do not depend on that
			return lowergpu.TakesBytes(d)
		case d.HasScales():
			return errScales
		}
		return lowergpu.SuitsHopper(d, c)
	}
	return l
}

// hasHopper returns an error for a device without Hopper's instructions or tensor maps.
func (f *Family) hasHopper(dev device.Device) error {
	g, ok := dev.(*Device)
	switch {
	case !ok || g.Architecture() != f.Hopper:
		return errNotHopper
	case !g.HasTensorMaps():
		return errNoMaps
	}
	return nil
}

// streamHopper returns the lowering of streams for Hopper's tensor cores.
func (f *Family) streamHopper() *engine.Lowering {
	l := f.onStreamHopper(lowergpu.CompileWeighHopper)
	l.Yields = lowergpu.HasFewQueries
	return l
}

// onStreamHopper returns a lowering of streams, or of their gradients, whose kernels use wgmma.
func (f *Family) onStreamHopper(compile func(*def.Definition, []num.DType) (*lowergpu.Kernel, error)) *engine.Lowering {
	l := f.lower("hopper", func(d *def.Definition, dtypes []num.DType, _ lowergpu.Variant) (*lowergpu.Kernel, error) {
		return compile(d, dtypes)
	})
	l.Compile = answering("mma.sync", answering("wgmma", l.Compile)) // it has both
	l.Promise.Accum, l.Factors = def.MMA(16, 25), []num.DType{num.F16, num.BF16}
	l.Suits = func(dev device.Device, d *def.Definition, c *lower.Call) error {
		if err := f.hasHopper(dev); err != nil {
			return err
		}
		if !slices.Contains(l.Factors, c.Operands[0].DType) {
			return errFormat
		}
		return lowergpu.SuitsWeighHopper(d, c)
	}
	return l
}

// mma returns the lowering for the tensor cores of all architectures whose model is known.
func (f *Family) mma() *engine.Lowering {
	l := f.onMMA("mma", true, lowergpu.CompileMMA)
	l.Class = func(d *def.Definition, c *lower.Call) int { return int(lowergpu.MMAVariant(d, c)) }
	return byModel(l)
}

// mmaInt8 returns the lowering for operands in i8, whose sums are exact.
func (f *Family) mmaInt8() *engine.Lowering {
	l := f.lower("mma-int8", lowergpu.CompileMMA)
	l.Factors = []num.DType{num.I8}
	l.Class = func(d *def.Definition, c *lower.Call) int { return int(lowergpu.MMAVariant(d, c)) }
	l.Suits = func(dev device.Device, d *def.Definition, c *lower.Call) error {
		g, ok := dev.(*Device)
		switch {
		case !ok || !lowergpu.HasMMA(g.Architecture()):
			return errNoTensorCores
		case !slices.Contains(l.Factors, c.Operands[0].DType):
			return errFormat
		}
		return lowergpu.TakesBytes(d)
	}
	return l
}

// streamMMA returns the same as mma for streams, or for gradients of streams.
func (f *Family) streamMMA(compile func(*def.Definition, []num.DType, lowergpu.Variant) (*lowergpu.Kernel, error)) *engine.Lowering {
	l := f.onMMA("mma", true, compile)
	l.Class = func(d *def.Definition, c *lower.Call) int { return int(lowergpu.WeighMMAVariant(d, c)) }
	suits := l.Suits
	l.Suits = func(dev device.Device, d *def.Definition, c *lower.Call) error {
		if err := suits(dev, d, c); err != nil {
			return err
		}
		return lowergpu.SuitsWeighMMA(d, c)
	}
	return byModel(l)
}

// byModel returns a lowering that promises the bits of the model of its architecture.
func byModel(l *engine.Lowering) *engine.Lowering {
	l.Compile = answering("mma.sync", l.Compile)
	l.Promise.Accum = def.MMA(16, 25)
	l.Promise.AccumFor = func(architecture string, dtypes []num.DType, _, _ int) def.Accum {
		m, _ := lowergpu.TensorCoreAccum(architecture)
		return m
	}
	return l
}

// mmaBounded returns the lowering for the tensor cores of architectures whose model is not
// known. It promises no bits, but results that tensor cores may give which keep at least as
// much of each sum as the first ones did.
func (f *Family) mmaBounded() *engine.Lowering {
	l := f.onMMA("mma-bounded", false, lowergpu.CompileMMA)
	l.Class = func(d *def.Definition, c *lower.Call) int { return int(lowergpu.MMAVariant(d, c)) }
	l.Promise.Accum, l.Promise.Name = def.MMA(4, 23), promise.Ordered
	return l
}

// onMMA returns a lowering whose kernels use mma.sync, for architectures whose model is known, or
// for the others.
func (f *Family) onMMA(name string, isKnown bool, compile func(*def.Definition, []num.DType, lowergpu.Variant) (*lowergpu.Kernel, error)) *engine.Lowering {
	l := f.lower(name, compile)
	l.Factors = []num.DType{num.F16, num.BF16}
	l.Suits = func(dev device.Device, d *def.Definition, c *lower.Call) error {
		g, ok := dev.(*Device)
		if !ok {
			return errNoTensorCores
		}
		switch _, has := lowergpu.TensorCoreAccum(g.Architecture()); {
		case !has && !lowergpu.HasMMA(g.Architecture()):
			return errNoTensorCores
		case has && !isKnown:
			return errModel
		case !has && isKnown:
			return errNoModel
		case !slices.Contains(l.Factors, c.Operands[0].DType):
			return errFormat
		}
		return nil
	}
	return l
}

// answering returns compile for devices on which the matrix instruction of a family reproduces
// the known answers. Elsewhere it returns an error: the lowering is inadmissible there.
func answering(family string, compile func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error)) func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) {
	return func(dev device.Device, d *def.Definition, dtypes []num.DType, class int) (engine.Kernel, error) {
		if g, ok := dev.(*Device); ok {
			if err := g.checkAnswers(family, dtypes[0]); err != nil {
				return nil, err
			}
		}
		return compile(dev, d, dtypes, class)
	}
}
