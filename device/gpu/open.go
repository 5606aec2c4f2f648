package gpu

import (
	"errors"
	"fmt"

	"tokitai/device"
	"tokitai/device/gpu/cuda"
	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/sim"
)

// OpenNamed opens a device, given the kind and number that device.ParseName returned:
// "cuda" and the index, or "sim" and the warp width. If there is no such device, the
// error is a NoDeviceError that says what is missing.
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

// CountCUDA returns the number of NVIDIA GPUs that the driver sees. It returns an error
// if there is no driver.
func CountCUDA() (int, error) {
	table, err := cuda.Table()
	if err != nil {
		return 0, err
	}
	return table.Count()
}
