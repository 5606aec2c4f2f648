// Package gputest says what tests of GPU code need: a skip that can be seen where it is
// missing, and a failure where the environment variable TOKITAI_REQUIRE lists it (cuda,
// nvrtc, sim, separated by commas), so that a green run cannot mean that nothing ran.
// Tests that any GPU can run take the one that TOKITAI_DEVICE names.
package gputest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"tokitai/device"
	"tokitai/device/gpu"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/cuda"
	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/sim"
)

func isRequired(what string) bool {
	return slices.Contains(strings.Split(os.Getenv("TOKITAI_REQUIRE"), ","), what)
}

// missing skips a test, or fails it where what it needs is required.
func missing(t testing.TB, what string, err error) {
	t.Helper()
	if isRequired(what) {
		t.Fatalf("TOKITAI_REQUIRE lists %s: %v", what, err)
	}
	t.Skipf("needs %s: %v", what, err)
}

// NeedsCUDA opens the first GPU of NVIDIA's, until the test ends.
func NeedsCUDA(t testing.TB) *gpu.Device { return needs(t, "cuda", 0) }

// NeedsSim opens the simulator with a warp width, until the test ends.
func NeedsSim(t testing.TB, width int) *gpu.Device {
	t.Helper()
	return needs(t, "sim", width)
}

// Chosen is the name of the device that tests run on: what TOKITAI_DEVICE says, else the
// first GPU of NVIDIA's where that is required, else the simulator.
func Chosen() string {
	if name := os.Getenv("TOKITAI_DEVICE"); name != "" {
		return name
	}
	if isRequired("cuda") {
		return "cuda:0"
	}
	return "sim"
}

// Needs opens the chosen device, until the test ends.
func Needs(t testing.TB) *gpu.Device {
	t.Helper()
	table, index := NeedsTable(t)
	return NeedsWith(t, table, index, gpu.Options{})
}

// NeedsWith opens a driver's device with options, until the test ends.
func NeedsWith(t testing.TB, table *driver.Table, index int, o gpu.Options) *gpu.Device {
	t.Helper()
	d, err := gpu.Open(table, index, o)
	if err != nil {
		missing(t, table.Kind, err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// NeedsTable is the driver of the chosen device, and its index there.
func NeedsTable(t testing.TB) (table *driver.Table, index int) {
	t.Helper()
	kind, index, err := device.ParseName(Chosen())
	if err != nil {
		t.Fatal(err)
	}
	if kind == "sim" && index < 0 {
		index = sim.Width
	}
	return needsDriver(t, kind, max(index, 0)), max(index, 0)
}

// needsDriver opens a driver.
func needsDriver(t testing.TB, kind string, index int) (table *driver.Table) {
	t.Helper()
	var err error
	switch kind {
	case "cuda":
		table, err = cuda.Table()
	case "sim":
		if _, err = compile.OpenHost(); err == nil {
			table, err = sim.Table(index)
		}
	default:
		t.Fatalf("TOKITAI_DEVICE is %s, want a GPU or the simulator", Chosen())
	}
	if err != nil {
		missing(t, kind, err)
	}
	return table
}

func needs(t testing.TB, kind string, index int) *gpu.Device {
	t.Helper()
	return NeedsWith(t, needsDriver(t, kind, index), index, gpu.Options{})
}

// NeedsNVRTC opens the compiler for NVIDIA's GPUs.
func NeedsNVRTC(t testing.TB) *compile.NVRTC {
	t.Helper()
	c, err := compile.OpenNVRTC(0)
	if err != nil {
		missing(t, "nvrtc", err)
	}
	return c
}
