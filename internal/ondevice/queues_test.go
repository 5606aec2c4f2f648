package ondevice

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	backends "tokitai/backend/all"
	"tokitai/backend/cpu"
	backendgpu "tokitai/backend/gpu"
	"tokitai/backend/gputest"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/gelu"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

// TestSharedTensors has goroutines hand calls to several queues, none of which waits:
// each goroutine's calls read and write its own tensors in turn, whatever the queue, and
// read tensors that all share. The results are those of the same calls one after the
// other on the CPU.
func TestSharedTensors(t *testing.T) {
	dev := gputest.Needs(t)
	host := cpu.Queue()
	const queues, own = 4, 5
	goroutines, steps := choose(2, 8), choose(30, 400)
	rows, cols := choose(3, 64), choose(100, 2000)
	var list []*engine.Queue
	for range queues {
		list = append(list, newQueue(t, dev))
	}
	shared := make(map[*engine.Queue]*tensor.Tensor)
	g, values := gen.New("shared"), make([]float32, rows*cols)
	for i := range values {
		values[i] = g.Normal()
	}
	for _, q := range []*engine.Queue{list[0], host} {
		shared[q] = got[*tensor.Tensor](t)(tensor.FromFloat32(q.Device(), num.F16, values, rows, cols))
	}
	var workers sync.WaitGroup
	for n := range goroutines {
		workers.Go(func() {
			if err := sharedSteps(gen.Seeded(uint64(n)), list, host, shared[list[0]], shared[host], own, steps); err != nil {
				t.Errorf("goroutine %d: %v", n, err)
			}
		})
	}
	workers.Wait()
}

// sharedSteps runs random steps on the device, on any of the queues, and on the host.
func sharedSteps(g *gen.Generator, queues []*engine.Queue, host *engine.Queue, input, hostInput *tensor.Tensor, own, steps int) error {
	a, b := []*tensor.Tensor{input}, []*tensor.Tensor{hostInput}
	for range own {
		x, err := tensor.New(input.Device(), num.F16, input.Shape()...)
		y, err2 := tensor.New(hostInput.Device(), num.F16, input.Shape()...)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		a, b = append(a, x), append(b, y)
		defer x.Close()
		defer y.Close()
	}
	run := [...]func(*engine.Queue, *tensor.Tensor, *tensor.Tensor, ...engine.CallOption) error{softmax.Forward, gelu.Forward}
	for range steps {
		q, f := queues[g.Below(len(queues))], run[g.Below(len(run))]
		from, to := g.Below(len(a)), 1+g.Below(len(a)-1)
		if err := errors.Join(f(q, a[to], a[from]), f(host, b[to], b[from])); err != nil {
			return err
		}
	}
	for i := range a {
		x, err := a[i].Bytes()
		y, err2 := b[i].Bytes()
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if !bytes.Equal(x, y) {
			return fmt.Errorf("tensor %d has not the CPU's bits", i)
		}
	}
	return nil
}

// TestSeveralDevices opens every device of the chosen kind at once, and the chosen one
// twice: each computes the same, and none takes tensors of another.
func TestSeveralDevices(t *testing.T) {
	table, _ := gputest.NeedsTable(t)
	names := []string{gputest.Chosen(), gputest.Chosen()}
	switch table.Kind {
	case "sim":
		names = append(names, "sim:32", "sim:64")
	case "amdemu":
		names = append(names, "amdemu:gfx1100", "amdemu:gfx942")
	default:
		for i := range got[int](t)(table.Count()) {
			names = append(names, fmt.Sprintf("%s:%d", table.Kind, i))
		}
	}
	var devices []*backendgpu.Device
	for _, name := range names {
		d, err := backends.Open(name)
		must(t, err)
		t.Cleanup(func() { d.Close() })
		devices = append(devices, d.(*backendgpu.Device))
	}
	var all sync.WaitGroup
	for _, d := range devices {
		all.Go(func() {
			if err := checkSoftmax(d); err != nil {
				t.Errorf("%s: %v", d.Name(), err)
			}
		})
	}
	all.Wait()
	for i, d := range devices {
		q := newQueue(t, d)
		y := got[*tensor.Tensor](t)(tensor.New(d, num.F16, 2, 3))
		for k, other := range append([]device.Device{cpu.Queue().Device()}, asDevices(devices)...) {
			if k-1 == i {
				continue
			}
			x := got[*tensor.Tensor](t)(tensor.New(other, num.F16, 2, 3))
			if err := softmax.Forward(q, y, x); !errors.Is(err, tensor.ErrBadArgument) {
				t.Errorf("a tensor of %s on %s: %v", other.Name(), d.Name(), err)
			}
			must(t, y.CopyFrom(x)) // from anywhere
		}
	}
	t.Logf("%d devices", len(devices))
}

func asDevices(list []*backendgpu.Device) []device.Device {
	var all []device.Device
	for _, d := range list {
		all = append(all, d)
	}
	return all
}
