// Package cuda is the backend of NVIDIA's GPUs: kernels compiled by NVRTC when they are
// first needed, run through the driver. Both libraries are opened at run time.
package cuda

import (
	"errors"
	"fmt"

	"tokitai/backend/gpu"
	"tokitai/def"
	"tokitai/device"
	devicegpu "tokitai/device/gpu"
	"tokitai/device/gpu/cuda"
	"tokitai/engine"
)

// Kind is the kind of the devices.
const Kind = "cuda"

// NVRTC takes seconds for the kernels of some definitions, one after the other.
var family = &gpu.Family{Kind: Kind, Hopper: "sm_90a", CompilesParts: true}

var preferred = family.Preferred()

// Backend opens devices by the driver's numbers: cuda:0 is the first.
var Backend backend

type backend struct{}

// Kind returns Kind.
func (backend) Kind() string { return Kind }

// Preferred returns lower/gpu's way to compute a kind of definition.
func (backend) Preferred(k def.Kind) []*engine.Lowering { return preferred[k] }

// OnDemand returns NVIDIA's own library for contractions.
func (backend) OnDemand(k def.Kind) []*engine.Lowering {
	if k == def.KindContraction {
		return onDemand
	}
	return nil
}

var onDemand = []*engine.Lowering{cublasLt}

// Names returns the form of the devices' names.
func (backend) Names() []string { return []string{"cuda:<index>"} }

// CheckID accepts every index: which devices there are, the driver knows.
func (backend) CheckID(id string) error {
	_, err := device.ParseIndex(id)
	return err
}

// Open opens the device of an index, the first where the name has none.
func (backend) Open(id string) (engine.Device, error) {
	index, err := device.ParseIndex(id)
	if err != nil {
		return nil, &device.NoDeviceError{Name: Kind + ":" + id, Reason: err.Error()}
	}
	table, err := cuda.Table()
	if err != nil {
		if e, ok := errors.AsType[*device.NoDeviceError](err); ok {
			e.Name = name(index)
		}
		return nil, err
	}
	dev, err := devicegpu.Open(table, index, devicegpu.Options{})
	if err != nil {
		return nil, err
	}
	return New(dev), nil
}

// Find returns the name of every GPU that the driver sees, and of the first where there
// is no driver.
func (backend) Find() []string {
	n := 1
	if table, err := cuda.Table(); err == nil {
		if count, err := table.Count(); err == nil {
			n = max(n, count)
		}
	}
	var names []string
	for i := range n {
		names = append(names, name(i))
	}
	return names
}

// IsAccelerator returns true.
func (backend) IsAccelerator() bool { return true }

// CheckReady compiles and loads an empty kernel.
func (backend) CheckReady(dev engine.Device) error { return gpu.CheckReady(dev) }

// New returns an opened GPU as a device that computes. Nothing may have used it yet.
func New(dev *devicegpu.Device) *gpu.Device { return gpu.New(dev, Backend, family) }

func name(index int) string { return fmt.Sprintf("%s:%d", Kind, index) }
