// Package hip is the backend of AMD's GPUs: kernels compiled by hipRTC or by clang when they
// are first needed, run through HIP. HIP's libraries are opened at run time.
package hip

import (
	"tokitai/backend/gpu"
	"tokitai/def"
	devicegpu "tokitai/device/gpu"
	"tokitai/device/gpu/hip"
	"tokitai/engine"
)

// Kind is the kind of the devices.
const Kind = hip.Kind

// Matrix cores are not used: no model of their arithmetic has been shown on hardware.
var family = &gpu.Family{Kind: Kind, CompilesParts: true}

var preferred = family.Preferred()

// Backend opens devices by HIP's numbers: hip:0 is the first.
var Backend = backend{gpu.Indexed{Kind: Kind, Table: hip.Table}}

type backend struct{ gpu.Indexed }

// Kind returns Kind.
func (backend) Kind() string { return Kind }

// Preferred returns lower/gpu's way to compute a definition.
func (backend) Preferred(d *def.Definition) []*engine.Lowering { return preferred.For(d) }

// OnDemand returns nothing: there are no other lowerings.
func (backend) OnDemand(*def.Definition) []*engine.Lowering { return nil }

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
