package ondevice

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	backends "tokitai/backend/all"
	"tokitai/backend/cpu"
	backendgpu "tokitai/backend/gpu"
	"tokitai/backend/gputest"
	"tokitai/device"
	"tokitai/device/gpu"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/sim"
	"tokitai/engine"
	lowergpu "tokitai/lower/gpu"
	"tokitai/num"
	"tokitai/tensor"
)

// kernelText is two kernels: one stores to its own memory, the other to any address.
const kernelText = `struct Params { unsigned* to; i64 wild; };
KERNEL(tame, 32)(const Params p) { p.to[threadIdx.x] = threadIdx.x; }
KERNEL(wild, 32)(const Params p) { *(volatile unsigned*)p.wild = threadIdx.x; }
`

// program returns a text in the dialect of kernels, made complete for a kind of device.
func program(kind, name, text string) compile.Source {
	s := compile.Source{Name: name, Headers: []compile.Header{{Name: "prelude.h", Text: lowergpu.Prelude}}}
	if kind == "sim" {
		s.Text = "#include \"sim.cc\"\n"
		s.Headers = slices.Concat(s.Headers, sim.Units, sim.Headers)
	}
	s.Text += fmt.Sprintf("#include \"prelude.h\"\n#line 1 %q\n%s", name, text)
	return s
}

// unmapped is an address that no allocation has.
const unmapped = 1 << 12

// kernels holds the two kernels, loaded, with a buffer for the first.
type kernels struct {
	module     *gpu.Module
	tame, wild *gpu.Function
	buffer     *gpu.Buffer
	params     []byte
}

func loadKernels(dev *backendgpu.Device) (*kernels, error) {
	m, err := dev.Load(program(dev.Kind(), "kernels.cu", kernelText), "tame", "wild")
	if err != nil {
		return nil, err
	}
	k := &kernels{module: m}
	var err2 error
	k.tame, err = m.Entry("tame")
	k.wild, err2 = m.Entry("wild")
	buffer, err3 := dev.Alloc(32 * 4)
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, err
	}
	k.buffer = buffer.(*gpu.Buffer)
	k.params = binary.LittleEndian.AppendUint64(nil, k.buffer.Pointer())
	k.params = binary.LittleEndian.AppendUint64(k.params, unmapped)
	return k, nil
}

// run launches one of the kernels.
func (k *kernels) run(q *gpu.Queue, f *gpu.Function) error {
	return q.Run(&gpu.Call{
		Uses:     []gpu.Use{{Buffer: k.buffer, IsWrite: true}},
		Launches: []gpu.Launch{{Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}, Params: k.params}},
	}, nil)
}

// TestIllegalAccess lets a kernel store to an unmapped address. That loses the device for
// its process, so it runs in another one.
func TestIllegalAccess(t *testing.T) {
	if isSimulated() {
		t.Skip("needs a GPU: in the simulator such a store would end this process, and emulated GPUs are not lost by it")
	}
	dev := gputest.Needs(t)
	for _, c := range []struct {
		mode     string
		settings []string
	}{{"async", []string{"TOKITAI_SYNC=0"}}, {"sync device", []string{"TOKITAI_SYNC=1"}}, {"sync queue", []string{"TOKITAI_SYNC=0"}}} {
		t.Run(c.mode, func(t *testing.T) {
			out, err := child(t, "fault", []string{gputest.Chosen(), c.mode}, c.settings...).CombinedOutput()
			switch {
			case err != nil && dev.Kind() == "hip" && bytes.Contains(out, []byte("Memory access fault by GPU")):
				t.Log("AMD's runtime ended the process, as it does unless it is told otherwise")
			case err != nil:
				t.Errorf("%v", err)
			}
			t.Logf("%s", out)
		})
	}
	must(t, checkSoftmax(dev)) // other processes go on
}

func init() { roles["fault"] = fault }

// fault loses the device and checks what follows.
func fault(args []string, _ io.Reader, out io.Writer) error {
	name, mode := args[0], args[1]
	opened, err := backends.Open(name)
	if err != nil {
		return err
	}
	dev := opened.(*backendgpu.Device)
	k, err := loadKernels(dev)
	if err != nil {
		return err
	}
	q, err := dev.NewQueueWith(gpu.QueueOptions{Sync: mode == "sync queue"})
	if err != nil {
		return err
	}
	other, err := dev.NewQueueWith(gpu.QueueOptions{})
	if err != nil {
		return err
	}
	timer, err := q.NewTimer()
	if err != nil {
		return err
	}
	calls, err := engine.NewQueue(dev)
	if err != nil {
		return err
	}
	c, err := softmaxCall()
	if err != nil {
		return err
	}
	hash, err := c.hashOn(calls) // with a plan
	if err != nil {
		return err
	}
	tensors, err := c.tensors(dev, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(k.run(q, k.tame), q.Wait(context.Background())); err != nil {
		return err
	}
	if mode == "sync queue" { // the other queues' work is waited for otherwise
		if err := dev.Trim(); err != nil {
			return err
		}
	}

	err = errors.Join(k.run(q, k.tame), k.run(q, k.wild))
	if mode == "async" && err == nil {
		err = errors.Join(k.run(other, k.tame), q.Wait(context.Background()))
	}
	fmt.Fprintln(out, err)
	fault, ok := errors.AsType[*gpu.FaultError](err)
	switch {
	case !errors.Is(err, device.ErrLost) || !ok:
		return fmt.Errorf("the fault gave %v, want a lost device with the calls that may be at fault", err)
	case !slices.Contains(fault.Calls, "wild"):
		return fmt.Errorf("the fault lists %v, want wild among them", fault.Calls)
	case mode != "async" && (!fault.IsExact() || fault.Calls[0] != "wild"):
		return fmt.Errorf("the fault lists %v, want wild alone", fault.Calls)
	case mode == "async" && slices.Index(fault.Calls, "tame") > slices.Index(fault.Calls, "wild"):
		return fmt.Errorf("the fault lists %v, want the oldest first", fault.Calls)
	}

	// Everything says so from now on.
	later := map[string]error{
		"launch": k.run(q, k.tame), "launch on another queue": k.run(other, k.tame), "wait": q.Wait(context.Background()),
		"copy in": k.buffer.CopyIn(0, []byte{1}), "copy out": k.buffer.CopyOut(0, make([]byte, 1)), "fill": q.Fill(k.buffer, 0, 1, 1),
		"copy": q.Copy(k.buffer, 0, k.buffer, 4, 4), "trim": dev.Trim(), "timer": timer.Start(), "unload": k.module.Close(),
		"call": engine.Call(calls, c.d, tensors, c.params), "wait for calls": calls.Wait(),
	}
	_, later["alloc"] = dev.Alloc(1)
	_, later["new queue"] = dev.NewQueue()
	_, later["load"] = dev.Load(program("cuda", "kernels.cu", kernelText), "tame")
	_, later["record"] = q.Record()
	_, later["new timer"] = q.NewTimer()
	_, later["tensor"] = tensor.New(dev, num.F16, 1)
	_, later["bytes"] = tensors[0].Bytes()
	_, later["queue for calls"] = engine.NewQueue(dev)
	later["close queue"], later["close"] = other.Close(), dev.Close()
	_, later["alloc after close"] = dev.Alloc(1)
	for what, err := range later {
		if !errors.Is(err, device.ErrLost) {
			return fmt.Errorf("%s on a lost device: %v", what, err)
		}
	}
	if err := errors.Join(dev.Close(), tensors[0].Close(), k.buffer.Close()); err != nil {
		return fmt.Errorf("closing again: %w", err)
	}

	// The process goes on.
	again, err := c.hashOn(cpu.Queue())
	if err != nil || again != hash {
		return fmt.Errorf("the CPU afterwards: hash %x, the device had %x, error %v", again[:8], hash[:8], err)
	}
	reopened, err := backends.Open(name)
	if err == nil {
		err = errors.Join(checkSoftmax(reopened), reopened.Close())
	}
	fmt.Fprintln(out, "opened again:", err)
	return nil
}
