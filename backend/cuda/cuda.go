// Package cuda is the backend of NVIDIA's GPUs: kernels compiled by NVRTC when they are
// first needed, run through the driver. Both libraries are opened at run time.
package cuda

import (
	"tokitai/backend/gpu"
	"tokitai/def"
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
var Backend = backend{gpu.Indexed{Kind: Kind, Table: cuda.Table}}

type backend struct{ gpu.Indexed }

// Kind returns Kind.
func (backend) Kind() string { return Kind }

// Preferred returns lower/gpu's way to compute a definition.
func (backend) Preferred(d *def.Definition) []*engine.Lowering { return preferred.For(d) }

// OnDemand returns NVIDIA's own library for contractions without groups.
func (backend) OnDemand(d *def.Definition) []*engine.Lowering {
	if _, ok := d.Form.(*def.Product); ok && d.Groups().Offsets == "" {
		return onDemand
	}
	return nil
}

var onDemand = []*engine.Lowering{cublasLt}

// Open opens the device of an index, the first where the name has none.
func (b backend) Open(id string) (engine.Device, error) {
	dev, err := b.OpenDevice(id)
	if err != nil {
		return nil, err
	}
	return New(dev), nil
}

// IsAccelerator returns true.
func (backend) IsAccelerator() bool { return true }

// CheckReady compiles and loads an empty kernel.
func (backend) CheckReady(dev engine.Device) error { return gpu.CheckReady(dev) }

// New returns an opened GPU as a device that computes. Nothing may have used it yet.
func New(dev *devicegpu.Device) *gpu.Device { return gpu.New(dev, Backend, family) }
