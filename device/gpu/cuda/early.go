package cuda

import (
	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/driver/clib"
)

// launchConfig is CUlaunchConfig.
type launchConfig struct {
	grid, block [3]uint32
	shared      uint32
	stream      uintptr
	attributes  uintptr
	count       uint32
}

// launchAttribute is CUlaunchAttribute.
type launchAttribute struct {
	id    uint32
	_     uint32
	value [64]byte
}

// programmaticSerialization is the attribute of launches that may overlap the one before
// them in the stream.
const programmaticSerialization = 6

// earlyLaunches returns the table's LaunchEarly, nil if the driver has none.
func (l *library) earlyLaunches() func(driver.Function, [3]uint32, [3]uint32, uint32, driver.Stream, []byte) error {
	if l.api.cuLaunchKernelEx.IsMissing {
		return nil
	}
	return l.launchEarly
}

func (l *library) launchEarly(fn driver.Function, grid, block [3]uint32, shared uint32, s driver.Stream, params []byte) error {
	f := l.Frame()
	f.Structs.attribute = launchAttribute{id: programmaticSerialization, value: [64]byte{1}}
	f.Structs.config = launchConfig{grid: grid, block: block, shared: shared, stream: uintptr(s), attributes: clib.Address(&f.Structs.attribute), count: 1}
	f.Args[0], f.Args[1], f.Args[2], f.Args[3] = clib.Address(&f.Structs.config), uintptr(fn), f.List(params), 0
	err := l.Call(&l.api.cuLaunchKernelEx, f, 4)
	l.Done(f)
	return err
}
