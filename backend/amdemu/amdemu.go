// Package amdemu is the backend of AMD's GPUs as device/gpu/amdemu emulates them: kernels
// compiled by clang for an architecture, and run instruction by instruction on the processor.
package amdemu

import (
	"tokitai/backend/gpu"
	"tokitai/def"
	"tokitai/device"
	devicegpu "tokitai/device/gpu"
	"tokitai/device/gpu/amdemu"
	"tokitai/device/gpu/compile"
	"tokitai/engine"
	lowergpu "tokitai/lower/gpu"
)

// Kind is the kind of the devices.
const Kind = amdemu.Kind

var family = &gpu.Family{Kind: Kind}

var preferred = family.Preferred()

// Backend opens devices by their architectures: amdemu:gfx1100.
var Backend backend

type backend struct{}

// Kind returns Kind.
func (backend) Kind() string { return Kind }

// Preferred returns lower/gpu's way to compute a definition.
func (backend) Preferred(d *def.Definition) []*engine.Lowering { return preferred.For(d) }

// OnDemand returns nothing: there are no other lowerings.
func (backend) OnDemand(*def.Definition) []*engine.Lowering { return nil }

// Names returns the forms of names that Open accepts, for messages.
func (backend) Names() []string { return []string{Kind + ":<architecture>"} }

// CheckID refuses an architecture that is not emulated.
func (backend) CheckID(id string) error { return amdemu.CheckArchitecture(id) }

// Open opens a device of an architecture, gfx1100 where the name has none.
func (backend) Open(id string) (engine.Device, error) {
	if err := amdemu.CheckArchitecture(id); err != nil {
		return nil, &device.NoDeviceError{Name: Kind + ":" + id, Reason: err.Error()}
	}
	table, err := amdemu.Table(id)
	if err != nil {
		return nil, err
	}
	dev, err := devicegpu.Open(table, 0, devicegpu.Options{})
	if err != nil {
		return nil, err
	}
	return New(dev), nil
}

// Find returns the names of all devices.
func (backend) Find() []string {
	var names []string
	for _, architecture := range amdemu.Architectures {
		names = append(names, Kind+":"+architecture)
	}
	return names
}

// IsAccelerator returns false: emulating is far slower than computing on the CPU.
func (backend) IsAccelerator() bool { return false }

// CheckReady compiles and loads an empty kernel.
func (backend) CheckReady(dev engine.Device) error { return gpu.CheckReady(dev) }

// Program returns the complete text of a program, as devices compile it.
func Program(s lowergpu.Source) compile.Source { return family.Program(s, s.Name+".cu") }

// New returns an opened device as one that computes. Nothing may have used it yet.
func New(dev *devicegpu.Device) *gpu.Device { return gpu.New(dev, Backend, family) }
