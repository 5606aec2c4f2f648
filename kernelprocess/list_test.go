//go:build unix

package kernelprocess

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

// TestList makes several calls together, each of which reads what the one before wrote, in memory
// of every kind. Calls on the process's own memory go in one request; results that are fetched
// are fetched before they are read.
func TestList(t *testing.T) {
	const n, rows, cols = 6, 8, 64 // more would all be the same
	d := openDevice(t, Options{})
	here := cpu.Queue().Device()
	run := func(q *engine.Queue, on ...device.Device) []byte {
		x := randomTensor(t, on[0], rand.New(rand.NewPCG(1, 2)), rows, cols)
		var calls []engine.CallSpec
		var all []*tensor.Tensor
		for i := range n {
			y, err := tensor.New(on[i%len(on)], x.DType(), rows, cols)
			if err != nil {
				t.Fatal(err)
			}
			calls = append(calls, engine.CallSpec{Definition: softmax.ForwardDefinition, Tensors: []*tensor.Tensor{x, y}})
			x, all = y, append(all, y)
		}
		if err := engine.CallAll(q, calls); err != nil {
			t.Fatal(err)
		}
		var raw []byte
		for _, y := range all {
			raw = append(raw, bytesOf(t, y)...)
		}
		return raw
	}
	want := run(cpu.Queue(), here)
	q := cpu.Queue().With(Isolated(d))
	for name, c := range map[string]struct {
		on       []device.Device
		requests int64 // of calls alone
	}{
		"ordinary":            {[]device.Device{here}, n},
		"shared":              {[]device.Device{d}, 1},
		"in the process":      {[]device.Device{d.Resident()}, 1},
		"shared and ordinary": {[]device.Device{d, here}, n},
	} {
		t.Run(name, func(t *testing.T) {
			before := d.Stats()
			if got := run(q, c.on...); !bytes.Equal(got, want) {
				t.Error("calls together in a process give other bits than here")
			}
			transfers := int64(0)
			if c.on[0] == device.Device(d.Resident()) {
				transfers = 1 + 1 + n + n // to allocate, to write the first and to read the others
			}
			if made := d.Stats().Requests - before.Requests - transfers; made > c.requests+2 { // with arenas
				t.Errorf("%d requests, want about %d", made, c.requests)
			}
		})
	}
}
