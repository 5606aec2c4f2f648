// Package sim is the backend of the simulated GPU: the kernels of lower/gpu compiled by
// the host's own compiler and run on the processor, with warps of 32 or 64.
package sim

import (
	"tokitai/backend/gpu"
	"tokitai/def"
	"tokitai/device"
	devicegpu "tokitai/device/gpu"
	"tokitai/device/gpu/sim"
	"tokitai/engine"
)

// Kind is the kind of the devices.
const Kind = "sim"

// The host's compiler takes most of its time for what every part of a source would
// include.
var family = &gpu.Family{
	Kind:    Kind,
	Hopper:  "sim32",
	Headers: sim.Headers,
	Units:   sim.Units,

	TensorCoreUnits: sim.TensorCoreUnits,
}

// Simulated tensor cores are slower than chains of FMA, so that only a name chooses them.
var preferred, onDemand = divide(family.Preferred())

func divide(all gpu.Lowerings) (preferred, onDemand gpu.Lowerings) {
	preferred, onDemand = gpu.Lowerings{}, gpu.Lowerings{}
	for form, list := range all {
		last := len(list) - 1
		preferred[form], onDemand[form] = list[last:], list[:last]
	}
	return preferred, onDemand
}

// Backend opens the simulator with the warp width that is the id of its name.
var Backend backend

type backend struct{}

// Kind returns Kind.
func (backend) Kind() string { return Kind }

// Preferred returns lower/gpu's way to compute a definition.
func (backend) Preferred(d *def.Definition) []*engine.Lowering { return preferred.For(d) }

// OnDemand returns lower/gpu's ways for tensor cores.
func (backend) OnDemand(d *def.Definition) []*engine.Lowering { return onDemand.For(d) }

// Names returns the names of the two devices.
func (backend) Names() []string { return []string{"sim", "sim:64"} }

// CheckID refuses what is no warp width.
func (backend) CheckID(id string) error {
	_, err := sim.ParseWidth(id)
	return err
}

// Open opens the simulator with a warp width, 32 where the name has none.
func (backend) Open(id string) (engine.Device, error) {
	width, err := sim.ParseWidth(id)
	if err != nil {
		return nil, &device.NoDeviceError{Name: Kind + ":" + id, Reason: err.Error()}
	}
	table, err := sim.Table(width)
	if err != nil {
		return nil, err
	}
	dev, err := devicegpu.Open(table, width, devicegpu.Options{})
	if err != nil {
		return nil, err
	}
	return New(dev), nil
}

// Find returns the names of both devices.
func (b backend) Find() []string { return b.Names() }

// IsAccelerator returns false: simulating is slower than computing on the CPU.
func (backend) IsAccelerator() bool { return false }

// CheckReady compiles and loads an empty kernel.
func (backend) CheckReady(dev engine.Device) error { return gpu.CheckReady(dev) }

// New returns an opened simulator as a device that computes. Nothing may have used it yet.
func New(dev *devicegpu.Device) *gpu.Device { return gpu.New(dev, Backend, family) }
