package gpu

import (
	"errors"
	"fmt"

	"tokitai/device"
	"tokitai/device/gpu"
	"tokitai/device/gpu/driver"
)

// Indexed names devices by the driver's numbers: cuda:0 is the first.
type Indexed struct {
	Kind  string
	Table func() (*driver.Table, error) // opens the driver; the error is a *device.NoDeviceError
}

// Names returns the forms of names that Open accepts, for messages.
func (x Indexed) Names() []string { return []string{x.Kind + ":<index>"} }

// CheckID accepts every index: which devices there are, the driver knows.
func (x Indexed) CheckID(id string) error {
	_, err := device.ParseIndex(id)
	return err
}

// OpenDevice opens the device of an index, the first where the name has none.
func (x Indexed) OpenDevice(id string) (*gpu.Device, error) {
	index, err := device.ParseIndex(id)
	if err != nil {
		return nil, &device.NoDeviceError{Name: x.Kind + ":" + id, Reason: err.Error()}
	}
	table, err := x.Table()
	if err != nil {
		if e, ok := errors.AsType[*device.NoDeviceError](err); ok {
			e.Name = x.name(index)
		}
		return nil, err
	}
	return gpu.Open(table, index, gpu.Options{})
}

// Find returns the name of every GPU that the driver sees, and of the first where there
// is no driver.
func (x Indexed) Find() []string {
	n := 1
	if table, err := x.Table(); err == nil {
		if count, err := table.Count(); err == nil {
			n = max(n, count)
		}
	}
	var names []string
	for i := range n {
		names = append(names, x.name(i))
	}
	return names
}

func (x Indexed) name(index int) string { return fmt.Sprintf("%s:%d", x.Kind, index) }
