// Package all lists the backends, for programs that open devices by name.
package all

import (
	"errors"
	"slices"

	"tokitai/backend/cpu"
	"tokitai/backend/cuda"
	"tokitai/backend/sim"
	"tokitai/device"
	"tokitai/engine"
)

// Backend is a backend that opens its devices by name. A name is a kind and perhaps a
// number, cuda:0; the number of a name without one is device.NoNumber.
type Backend interface {
	engine.Backend

	// Names returns the forms of names that Open accepts, for messages: "cuda:<index>".
	Names() []string

	// CheckNumber returns an error if no device's name can have the number.
	CheckNumber(number int) error

	// Open opens the device whose name has the number.
	Open(number int) (engine.Device, error)

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
	sim.Backend,
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

// Parse returns the backend that a name is for and the number in the name, without opening
// anything. For the name auto it returns the CPU's backend. The error is a
// *device.NoDeviceError.
func Parse(name string) (b Backend, number int, err error) {
	kind, number, err := device.ParseName(name)
	if err == nil && kind == Auto {
		if number != device.NoNumber {
			return nil, 0, refuse(name, Auto+" takes no number")
		}
		return cpu.Backend, device.NoNumber, nil
	}
	i := slices.IndexFunc(Backends, func(b Backend) bool { return b.Kind() == kind })
	switch {
	case err != nil:
		if e, ok := errors.AsType[*device.NoDeviceError](err); ok {
			e.Known = Names()
		}
		return nil, 0, err
	case i < 0:
		return nil, 0, refuse(name, "unknown kind")
	}
	b = Backends[i]
	if err := b.CheckNumber(number); err != nil {
		return nil, 0, refuse(name, err.Error())
	}
	return b, number, nil
}

func refuse(name, reason string) error {
	return &device.NoDeviceError{Name: name, Known: Names(), Reason: reason}
}

// Open opens a device by name: cpu, cuda:0 for the first of NVIDIA's GPUs, sim for a
// simulated one, or auto.
func Open(name string) (engine.Device, error) {
	b, number, err := Parse(name)
	switch {
	case err != nil:
		return nil, err
	case name == Auto:
		return openBest()
	}
	return b.Open(number)
}

func openBest() (engine.Device, error) {
	for _, b := range Backends {
		if !b.IsAccelerator() {
			continue
		}
		dev, err := b.Open(device.NoNumber)
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
	return cpu.Backend.Open(device.NoNumber)
}
