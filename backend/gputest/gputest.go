// Package gputest opens the GPUs that tests need, as devices that compute. It is the
// package of the same name below device/gpu with a backend joined to each device.
package gputest

import (
	"testing"

	"tokitai/backend/amdemu"
	"tokitai/backend/cuda"
	"tokitai/backend/gpu"
	"tokitai/backend/hip"
	"tokitai/backend/sim"
	devicegpu "tokitai/device/gpu"
	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/gputest"
)

// Join returns an opened GPU as a device of the backend for its kind.
func Join(dev *devicegpu.Device) *gpu.Device {
	switch dev.Kind() {
	case hip.Kind:
		return hip.New(dev)
	case sim.Kind:
		return sim.New(dev)
	case amdemu.Kind:
		return amdemu.New(dev)
	}
	return cuda.New(dev)
}

// Needs opens the chosen device, until the test ends.
func Needs(t testing.TB) *gpu.Device {
	t.Helper()
	return Join(gputest.Needs(t))
}

// NeedsWith opens a driver's device with options, until the test ends.
func NeedsWith(t testing.TB, table *driver.Table, index int, o devicegpu.Options) *gpu.Device {
	t.Helper()
	return Join(gputest.NeedsWith(t, table, index, o))
}

// NeedsCUDA opens the first GPU of NVIDIA's, until the test ends.
func NeedsCUDA(t testing.TB) *gpu.Device {
	t.Helper()
	return Join(gputest.NeedsCUDA(t))
}

// NeedsSim opens the simulator with a warp width, until the test ends.
func NeedsSim(t testing.TB, width int) *gpu.Device {
	t.Helper()
	return Join(gputest.NeedsSim(t, width))
}

// KeepKernels calls run while compiled kernels are kept for all tests of a package.
func KeepKernels(run func() int) (code int) { return gputest.KeepKernels(run) }

// NeedsTable returns the driver of the chosen device, and its index there.
func NeedsTable(t testing.TB) (table *driver.Table, index int) {
	t.Helper()
	return gputest.NeedsTable(t)
}

// Chosen returns the name of the device that tests run on.
func Chosen() string { return gputest.Chosen() }
