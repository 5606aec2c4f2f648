//go:build unix

package kernelprocess

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/op/gemm"
	"tokitai/tensor"
)

// Heads that are between each other's rows are copied to the process and back; in the
// memory of a process itself they are refused.
func TestInterleavedHeads(t *testing.T) {
	d := openDevice(t, Options{})
	call := func(dev device.Device, opts ...engine.CallOption) ([]byte, error) {
		g := rand.New(rand.NewPCG(1, 2))
		stack := func(rows, cols int) *tensor.Tensor {
			x, err := randomTensor(t, dev, g, rows, 4, cols).Permute(1, 0, 2)
			if err != nil {
				t.Fatal(err)
			}
			return x
		}
		a, b, c := stack(3, 5), stack(5, 2), stack(3, 2)
		if err := gemm.BatchedForwardAccumulate(cpu.Queue(), c, a, b, opts...); err != nil {
			return nil, err
		}
		return bytesOf(t, c), nil
	}
	want, err := call(cpu.Queue().Device())
	if err != nil {
		t.Fatal(err)
	}
	for _, dev := range []device.Device{cpu.Queue().Device(), d} {
		got, err := call(dev, Isolated(d))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("tensors on %s: got %x, %v, want %x", dev.Name(), got, err, want)
		}
	}
	if _, err := call(d.Resident(), Isolated(d)); !errors.Is(err, tensor.ErrBadArgument) || !strings.Contains(err.Error(), "rows at one distance from each other") {
		t.Errorf("in the memory of the process: %v", err)
	}
}
