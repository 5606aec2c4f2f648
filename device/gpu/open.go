package gpu

import (
	"errors"
	"fmt"

	"tokitai/device"
	"tokitai/device/gpu/cuda"
	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/sim"
)

// OpenNamed opens a device by what device.ParseName finds in its name: kind "cuda" and
// the index, or kind "sim" and the warp width. What is missing is told by a
// NoDeviceError.
func OpenNamed(kind string, index int) (*Device, error) {
	var table *driver.Table
	var err error
	switch kind {
	case "cuda":
		table, err = cuda.Table()
	case "sim":
		table, err = sim.Table(index)
	default:
		err = &device.NoDeviceError{Name: kind, Known: []string{"cuda:<index>", "sim", "sim:64"}, Reason: fmt.Sprintf("this build has no driver for %s", kind)}
	}
	if err != nil {
		if e, ok := errors.AsType[*device.NoDeviceError](err); ok && kind == "cuda" {
			e.Name = fmt.Sprintf("cuda:%d", index)
		}
		return nil, err
	}
	return Open(table, index, Options{})
}

// CountCUDA is the number of NVIDIA's GPUs that the driver sees, or why it sees none.
func CountCUDA() (int, error) {
	table, err := cuda.Table()
	if err != nil {
		return 0, err
	}
	return table.Count()
}
