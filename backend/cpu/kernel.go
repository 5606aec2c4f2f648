package cpu

import (
	"context"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/lower"
	lowercpu "tokitai/lower/cpu"
	"tokitai/num"
	"tokitai/reference"
)

// preferred lists the lowerings that a call may choose, best first, by the kind of the
// definition.
var preferred = map[def.Kind][]*engine.Lowering{
	def.KindRowwise:     {newLowering("cpu.rowwise")},
	def.KindContraction: {newLowering("cpu.packed")},
	def.KindGather:      {newLowering("cpu.gather")},
	def.KindScatterAdd:  {newLowering("cpu.scatter")},
}

// newLowering returns lower/cpu's way of computing a kind of definition.
func newLowering(name string) *engine.Lowering {
	return &engine.Lowering{
		Name: name, Device: Kind,
		Class: func(d *def.Definition, c *lower.Call) int { return int(lowercpu.ClassOf(d, c.Cols)) },
		Compile: func(_ device.Device, d *def.Definition, dtypes []num.DType, class int) (engine.Kernel, error) {
			p, err := lowercpu.Compile(d, dtypes, lowercpu.Class(class))
			if err != nil {
				return nil, err
			}
			return kernel{p}, nil
		},
	}
}

// kernel runs a program of lower/cpu on the workers of the device.
type kernel struct{ program lowercpu.Program }

// Launch implements engine.Kernel. What has begun is finished, whatever becomes of the
// context. Only a panic, or a device that is closed meanwhile, leaves outputs partly
// written.
func (k kernel) Launch(l *engine.Launch) error {
	pool := l.Device.(*Device).Pool()
	job := k.program.Bind(&l.Call, pool.Workers())
	for {
		items, ok := job.Next()
		if !ok {
			job.Release()
			return nil
		}
		if err := pool.Run(context.Background(), items, job); err != nil {
			return err // the job's scratch memory is left to the collector
		}
	}
}

// String lists the program.
func (k kernel) String() string { return k.program.String() }

// onDemand has the interpreter of definitions itself.
var onDemand = []*engine.Lowering{{
	Name: "cpu.reference", Device: Kind,
	Compile: func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
		return engine.KernelFunc(func(l *engine.Launch) error {
			return reference.Run(d, l.Arrays(), reference.Options{Params: l.Params})
		}), nil
	},
}}
