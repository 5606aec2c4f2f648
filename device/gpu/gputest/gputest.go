// Package gputest opens the devices and compilers that tests of GPU code need. If one is
// missing, the test is skipped; if the environment variable TOKITAI_REQUIRE lists it
// (cuda, hip, nvrtc, clang, sim), the test fails. Tests that run on any GPU use the one that
// TOKITAI_DEVICE names.
package gputest

import (
	"os"
	"strconv"
	"testing"

	"tokitai/device"
	"tokitai/device/gpu"
	"tokitai/device/gpu/amdemu"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/cuda"
	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/hip"
	"tokitai/device/gpu/sim"
	"tokitai/internal/tool"
)

// KeepKernels calls run, the Run of a testing.M, while compiled kernels are kept for all tests of a
// package in one folder: the one that TOKITAI_CACHE names, or else a new one, never the user's own.
func KeepKernels(run func() int) (code int) {
	if os.Getenv("TOKITAI_CACHE") == "" {
		dir, err := os.MkdirTemp("", "tokitai-cache-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		os.Setenv("TOKITAI_CACHE", dir)
	}
	return run()
}

// NeedsCUDA opens the first NVIDIA GPU for the duration of the test.
func NeedsCUDA(t testing.TB) *gpu.Device { return needs(t, "cuda", "") }

// NeedsSim opens the simulator with a warp width for the duration of the test.
func NeedsSim(t testing.TB, width int) *gpu.Device {
	t.Helper()
	return needs(t, "sim", strconv.Itoa(width))
}

// NeedsAMDEmulator opens an emulated GPU of an architecture for the duration of the test.
func NeedsAMDEmulator(t testing.TB, architecture string) *gpu.Device {
	t.Helper()
	return needs(t, amdemu.Kind, architecture)
}

// Chosen returns the name of the device that tests run on: TOKITAI_DEVICE, else the first
// NVIDIA GPU if TOKITAI_REQUIRE lists cuda, the first of AMD's if it lists hip, else the
// simulator.
func Chosen() string {
	if name := os.Getenv("TOKITAI_DEVICE"); name != "" {
		return name
	}
	if tool.IsRequired("cuda") {
		return "cuda:0"
	}
	if tool.IsRequired("hip") {
		return "hip:0"
	}
	return "sim"
}

// Needs opens the chosen device for the duration of the test.
func Needs(t testing.TB) *gpu.Device {
	t.Helper()
	table, index := NeedsTable(t)
	return NeedsWith(t, table, index, gpu.Options{})
}

// NeedsWith opens a driver's device with options for the duration of the test.
func NeedsWith(t testing.TB, table *driver.Table, index int, o gpu.Options) *gpu.Device {
	t.Helper()
	d, err := gpu.Open(table, index, o)
	if err != nil {
		tool.Missing(t, table.Kind, err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// NeedsTable returns the driver and the index of the chosen device.
func NeedsTable(t testing.TB) (table *driver.Table, index int) {
	t.Helper()
	kind, id, err := device.ParseName(Chosen())
	if err != nil {
		t.Fatal(err)
	}
	return needsDriver(t, kind, id)
}

// needsDriver opens the driver of a kind of device, and returns the index there of the
// device with an id.
func needsDriver(t testing.TB, kind, id string) (table *driver.Table, index int) {
	t.Helper()
	var wrong, err error
	switch kind {
	case "cuda":
		index, wrong = device.ParseIndex(id)
		table, err = cuda.Table()
	case "hip":
		index, wrong = device.ParseIndex(id)
		table, err = hip.Table()
	case "sim":
		index, wrong = sim.ParseWidth(id)
		if _, err = compile.OpenHost(); err == nil && wrong == nil {
			table, err = sim.Table(index)
		}
	case amdemu.Kind:
		NeedsClang(t)
		if wrong = amdemu.CheckArchitecture(id); wrong == nil {
			table, err = amdemu.Table(id)
		}
	default:
		t.Fatalf("TOKITAI_DEVICE: got %s, want a GPU, the simulator or an emulated GPU", Chosen())
	}
	if wrong != nil {
		t.Fatalf("%s:%s: %v", kind, id, wrong)
	}
	if err != nil {
		tool.Missing(t, kind, err)
	}
	return table, index
}

func needs(t testing.TB, kind, id string) *gpu.Device {
	t.Helper()
	table, index := needsDriver(t, kind, id)
	return NeedsWith(t, table, index, gpu.Options{})
}

// NeedsNVRTC opens the compiler for NVIDIA GPUs.
func NeedsNVRTC(t testing.TB) *compile.NVRTC {
	t.Helper()
	c, err := compile.OpenNVRTC(0)
	if err != nil {
		tool.Missing(t, "nvrtc", err)
	}
	return c
}
