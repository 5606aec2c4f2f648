// Package all lists the backends, for programs that open devices by name.
package all

import (
	"errors"
	"slices"

	"tokitai/backend/amdemu"
	"tokitai/backend/cpu"
	"tokitai/backend/cuda"
	"tokitai/backend/hip"
	"tokitai/backend/sim"
	"tokitai/device"
	"tokitai/engine"
)

// Backend is a backend that opens its devices by name. A name is a kind and perhaps an id,
// cuda:0; the id of a name without one is empty.
type Backend interface {
	engine.Backend

	// Names returns the forms of names that Open accepts, for messages: "cuda:<index>".
	Names() []string

	// CheckID returns an error if no device's name can have the id.
	CheckID(id string) error

	// Open opens the device whose name has the id, which CheckID accepts.
	Open(id string) (engine.Device, error)

	// Find returns the names of the devices that this machine has, or may have.
	Find() []string

	// IsAccelerator reports whether the name auto may mean a device of this kind.
	IsAccelerator() bool

	// CheckReady returns an error if kernels cannot be compiled for a device or loaded.
	CheckReady(engine.Device) error
}

// Backends lists the backends. Adding one is a folder beside this one and a row here.
var Backends = []Backend{
	cpu.Backend,
	cuda.Backend,
	hip.Backend,
	sim.Backend,
	amdemu.Backend,
}

// Auto is the name of the best device that this machine has: the first accelerator for
// which kernels can be compiled, else the CPU.
const Auto = "auto"

// Names returns the forms of names that Open accepts, for messages.
func Names() []string {
	names := []string{Auto}
	for _, b := range Backends {
		names = append(names, b.Names()...)
	}
	return names
}

// Find returns the names of the devices that this machine has, or may have.
func Find() []string {
	var names []string
	for _, b := range Backends {
		names = append(names, b.Find()...)
	}
	return names
}

// Parse returns the backend that a name is for and the id in the name, without opening
// anything. For the name auto it returns the CPU's backend. The error is a
// *device.NoDeviceError.
func Parse(name string) (b Backend, id string, err error) {
	kind, id, err := device.ParseName(name)
	if err == nil && kind == Auto {
		if err := device.CheckNoID(Auto, id); err != nil {
			return nil, "", refuse(name, err.Error())
		}
		return cpu.Backend, "", nil
	}
	i := slices.IndexFunc(Backends, func(b Backend) bool { return b.Kind() == kind })
	switch {
	case err != nil:
		if e, ok := errors.AsType[*device.NoDeviceError](err); ok {
			e.Known = Names()
		}
		return nil, "", err
	case i < 0:
		return nil, "", refuse(name, "unknown kind")
	}
	b = Backends[i]
	if err := b.CheckID(id); err != nil {
		return nil, "", refuse(name, err.Error())
	}
	return b, id, nil
}

func refuse(name, reason string) error {
	return &device.NoDeviceError{Name: name, Known: Names(), Reason: reason}
}

// Open opens a device by name: cpu, cuda:0 for the first of NVIDIA's GPUs, hip:0 for the
// first of AMD's, sim for a simulated one, amdemu:gfx1100 for an emulated one of AMD's, or
// auto.
func Open(name string) (engine.Device, error) {
	b, id, err := Parse(name)
	switch {
	case err != nil:
		return nil, err
	case name == Auto:
		return openBest()
	}
	return b.Open(id)
}

func openBest() (engine.Device, error) {
	for _, b := range Backends {
		if !b.IsAccelerator() {
			continue
		}
		dev, err := b.Open("")
		switch {
		case errors.Is(err, device.ErrBadArgument): // a setting that is wrong for any device
			return nil, err
		case err != nil:
			continue
		case b.CheckReady(dev) == nil:
			return dev, nil
		}
		dev.Close()
	}
	return cpu.Backend.Open("")
}
