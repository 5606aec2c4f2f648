package optest

import (
	"errors"
	"runtime"
	"testing"

	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// Distant is a view of 33 rows whose last one begins 2³¹ elements behind the
// first. The rows between share a block that is never touched, so that little of
// it becomes memory; a host that has not even the addresses skips the test.
func Distant(t testing.TB, d num.DType, cols int) *tensor.Tensor {
	t.Helper()
	if hasRaceDetector {
		t.Skip("the race detector would make the whole block memory")
	}
	const rows, stride = 33, 1<<26 + 4
	whole, err := tensor.New(engine.CPU().Device(), d, rows, stride)
	if errors.Is(err, device.ErrOutOfMemory) {
		t.Skip(err)
	}
	OK(t, err)
	t.Cleanup(func() {
		whole.Close()
		runtime.GC() // or the collector would let garbage grow to as much
	})
	x, err := whole.Slice(0, rows, 0, cols)
	OK(t, err)
	if last := int64((rows - 1) * stride); last <= 1<<31 {
		t.Fatalf("the last row begins at element %d", last)
	}
	return x
}
