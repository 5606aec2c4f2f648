// Package cpu is the backend of the host's processor: the device of device/cpu joined to
// the programs of lower/cpu and of the packages below it, which generate machine code.
//
// A program that imports this backend alone has no code for GPUs in it. Start with New,
// or with Queue where one queue for the whole program will do.
package cpu

import (
	"sync"

	"tokitai/def"
	"tokitai/device"
	host "tokitai/device/cpu"
	"tokitai/engine"
	"tokitai/lower/cpu/machine"
)

// Kind is the kind of the device, and its name.
const Kind = host.Name

// Backend computes in the program's own process, with machine code that is generated there
// or with kernels that are part of the program.
var Backend backend

type backend struct{}

// Kind returns Kind.
func (backend) Kind() string { return Kind }

// Preferred returns the ways to compute a form of definition: machine code for the
// processor's instruction sets, and lower/cpu's.
func (backend) Preferred(d *def.Definition) []*engine.Lowering { return preferred()[d.Form.String()] }

// OnDemand returns the reference and, for contractions, the models of tensor cores.
func (backend) OnDemand(d *def.Definition) []*engine.Lowering {
	if d.Multiplies() {
		return productsOnDemand
	}
	return onDemand
}

// Names returns the one name of the device.
func (backend) Names() []string { return []string{Kind} }

// CheckID refuses every id: there is one host.
func (backend) CheckID(id string) error { return device.CheckNoID(Kind, id) }

// Open returns the host with default options.
func (backend) Open(string) (engine.Device, error) {
	d, err := New(Options{})
	if err != nil {
		return nil, err // not a nil *Device in an interface
	}
	return d, nil
}

// Find returns the device's name: it is always there.
func (backend) Find() []string { return []string{Kind} }

// IsAccelerator returns false.
func (backend) IsAccelerator() bool { return false }

// CheckReady returns nil: kernels need nothing from outside the program.
func (backend) CheckReady(engine.Device) error { return nil }

// Options configures New.
type Options = host.Options

// Device is the host as a device that computes.
type Device struct{ *host.Device }

// New returns the host as a device. Its workers start when first needed and end with
// Close.
func New(o Options) (*Device, error) {
	if err := machine.Check(); err != nil {
		return nil, err
	}
	inner, err := host.New(o)
	if err != nil {
		return nil, err
	}
	d := &Device{inner}
	inner.EmbedIn(d)
	return d, nil
}

// Open opens the host by its name, or as auto. It is what opens devices by name in a
// program that has no other backend.
func Open(name string) (engine.Device, error) {
	if name != Kind && name != "auto" {
		return nil, &device.NoDeviceError{Name: name, Known: []string{"auto", Kind}, Reason: "this program has no backend for it"}
	}
	return Backend.Open("")
}

// Backend returns Backend.
func (*Device) Backend() engine.Backend { return Backend }

// Compiler returns nil: what generates kernels is part of the program.
func (*Device) Compiler() (engine.Compiler, error) { return nil, nil }

var shared = sync.OnceValues(func() (*engine.Queue, error) {
	dev, err := New(Options{})
	if err != nil {
		return nil, err
	}
	return engine.NewQueue(dev)
})

// Queue returns the queue on the host that all callers of it share. Do not close it.
func Queue() *engine.Queue {
	q, err := shared()
	if err != nil {
		panic("cpu: the host refused a queue: " + err.Error())
	}
	return q
}
