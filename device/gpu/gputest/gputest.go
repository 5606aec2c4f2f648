// Package gputest says what tests of GPU code need: a skip that can be seen where it is
// missing, and a failure where the environment variable TOKITAI_REQUIRE lists it (cuda,
// nvrtc, sim, separated by commas), so that a green run cannot mean that nothing ran.
package gputest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"tokitai/device/gpu"
	"tokitai/device/gpu/compile"
)

// missing skips a test, or fails it where what it needs is required.
func missing(t testing.TB, what string, err error) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("TOKITAI_REQUIRE"), ","), what) {
		t.Fatalf("TOKITAI_REQUIRE lists %s: %v", what, err)
	}
	t.Skipf("needs %s: %v", what, err)
}

// NeedsCUDA opens the first GPU of NVIDIA's, until the test ends.
func NeedsCUDA(t testing.TB) *gpu.Device { return needs(t, "cuda", 0) }

// NeedsSim opens the simulator with a warp width, until the test ends.
func NeedsSim(t testing.TB, width int) *gpu.Device {
	t.Helper()
	if _, err := compile.OpenHost(); err != nil {
		missing(t, "sim", err)
	}
	return needs(t, "sim", width)
}

func needs(t testing.TB, kind string, index int) *gpu.Device {
	t.Helper()
	d, err := gpu.OpenNamed(kind, index)
	if err != nil {
		missing(t, kind, err)
	}
	t.Cleanup(func() { d.Close() })
	return d
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
