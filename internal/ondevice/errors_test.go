package ondevice

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	backends "tokitai/backend/all"
	"tokitai/backend/cpu"
	"tokitai/backend/gputest"
	"tokitai/device"
	"tokitai/device/gpu"
	"tokitai/device/gpu/compile"
	"tokitai/engine"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

// TestMissing opens devices, and computes on them, in processes that lack a library, a
// compiler or a GPU. Each error has the right type and says what is missing.
func TestMissing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux, which alone has GPUs here")
	}
	const nowhere = "/nonexistent/file"
	for _, c := range []struct {
		kind     string // of the chosen device, or "" for any
		device   string
		settings []string
		is       string
		words    []string
	}{
		{"", "cuda:0", []string{"TOKITAI_CUDA=" + nowhere}, "no device", []string{"the CUDA driver", nowhere, "TOKITAI_CUDA"}},
		{"", "hip:0", []string{"TOKITAI_HIP=" + nowhere}, "no device", []string{"AMD's library", nowhere, "TOKITAI_HIP"}},
		{"", "sim:16", nil, "no device", []string{"32 or 64"}},
		{"sim", "sim", []string{"TOKITAI_CXX=" + nowhere}, "inadmissible", []string{nowhere, "TOKITAI_CXX"}},
		{"", "amdemu:gfx906", nil, "no device", []string{"gfx906", "want one of gfx1100"}},
		{"amdemu", "amdemu", []string{"TOKITAI_CLANG=" + nowhere}, "inadmissible", []string{nowhere, "TOKITAI_CLANG"}},
		{"cuda", "cuda:0", []string{"TOKITAI_NVRTC=" + nowhere}, "inadmissible", []string{"NVRTC", nowhere, "TOKITAI_NVRTC"}},
		{"cuda", "cuda:0", []string{"CUDA_VISIBLE_DEVICES="}, "no device", []string{"cuda:0"}},
		{"hip", "hip:0", []string{"TOKITAI_HIPRTC=" + nowhere}, "inadmissible", []string{"hipRTC", nowhere, "TOKITAI_HIPRTC"}},
		{"hip", "hip:0", []string{"HIP_VISIBLE_DEVICES=-1"}, "no device", []string{"hip:0"}},
		{"hip", "hip:65000", nil, "no device", []string{"hip:65000", "hip:0"}},
		{"cuda", "cuda:65000", nil, "no device", []string{"cuda:65000", "cuda:0"}},
	} {
		t.Run(strings.Join(append([]string{c.device}, c.settings...), " "), func(t *testing.T) {
			if c.kind != "" && !strings.HasPrefix(gputest.Chosen(), c.kind) {
				t.Skipf("needs %s: the device is %s", c.kind, gputest.Chosen())
			}
			if c.kind != "" {
				gputest.Needs(t)
			}
			out, err := child(t, "open", []string{c.device}, c.settings...).Output()
			must(t, err)
			is, text, _ := strings.Cut(string(out), ": ")
			if is != c.is {
				t.Errorf("got %s, want %s", out, c.is)
			}
			for _, word := range c.words {
				if !strings.Contains(text, word) {
					t.Errorf("%q does not say %q", text, word)
				}
			}
			t.Logf("%s", out)
		})
	}
}

func init() { roles["open"] = open }

// open tries to compute on a device, and prints what kind of error it gets and its text.
func open(args []string, _ io.Reader, out io.Writer) error {
	dev, err := backends.Open(args[0])
	if err == nil {
		err = checkSoftmax(dev)
	}
	is := "other"
	switch {
	case errors.Is(err, device.ErrNoDevice):
		is = "no device"
	case errors.Is(err, engine.ErrInadmissible):
		is = "inadmissible"
	}
	_, err = fmt.Fprintf(out, "%s: %v", is, err)
	return err
}

// TestRefusedKernels: a source that does not compile, an entry that is not there, more
// shared memory than there is.
func TestRefusedKernels(t *testing.T) {
	testlevel.Need(t, testlevel.Quick, "it compiles kernels of its own")
	dev := gputest.Needs(t)
	_, err := dev.Load(program(dev.Kind(), "bad.cu", "KERNEL(bad, 32)(const int p) {\n    int a = missing;\n}\n"), "bad")
	e, ok := errors.AsType[*compile.Error](err)
	if !ok || e.File != "bad.cu" || e.Line != 2 || !strings.Contains(e.Message, "missing") || !strings.Contains(err.Error(), "bad.cu:2: ") ||
		strings.Contains(err.Error(), "\n") || len(e.Log) < len(e.Message) {
		t.Errorf("a source that does not compile: %v", err)
	}
	if dev.Kind() == "cuda" {
		text := "KERNEL(greedy, 32)(unsigned* p) {\n    SHARED(unsigned, s, 1 << 18);\n    s[threadIdx.x * p[1]] = 1;\n    BARRIER();\n    p[0] = s[p[2]];\n}\n"
		_, err := dev.Load(program(dev.Kind(), "greedy.cu", text), "greedy")
		if e, ok := errors.AsType[*compile.Error](err); !ok || !strings.Contains(e.Message, "shared") {
			t.Errorf("more static shared memory than there is: %v", err)
		}
	}
	if _, err := dev.Load(program(dev.Kind(), "kernels.cu", kernelText), "absent"); err == nil || !strings.Contains(err.Error(), `no kernel "absent"`) {
		t.Errorf("an entry that is not there: %v", err)
	}

	k := got[*kernels](t)(loadKernels(dev))
	q := got[*gpu.Queue](t)(dev.NewQueueWith(gpu.QueueOptions{}))
	most := uint32(dev.Limits().SharedBytes)
	launch := func(shared uint32) error {
		return q.Launch(k.tame, [3]uint32{1, 1, 1}, [3]uint32{32, 1, 1}, shared, k.params)
	}
	if err := launch(most + 1); !errors.Is(err, device.ErrBadArgument) || !strings.Contains(err.Error(), fmt.Sprintf("at most %d", most)) {
		t.Errorf("more dynamic shared memory than there is: %v", err)
	}
	must(t, errors.Join(launch(most), q.Wait(t.Context())))
	if err := q.Launch(k.tame, [3]uint32{1, 1, 1}, [3]uint32{2048, 1, 1}, 0, k.params); !errors.Is(err, device.ErrBadArgument) {
		t.Errorf("more threads than a block can have: %v", err)
	}
	must(t, errors.Join(k.run(q, k.tame), q.Wait(t.Context())))
}

// TestForeignAndClosed: what belongs to another device, or is closed, is refused with
// nothing written; closing twice is no error.
func TestForeignAndClosed(t *testing.T) {
	testlevel.Need(t, testlevel.Quick, "it compiles kernels of its own")
	dev, foreign := gputest.Needs(t), gputest.Needs(t)
	k, theirs := got[*kernels](t)(loadKernels(dev)), got[*kernels](t)(loadKernels(foreign))
	q := got[*gpu.Queue](t)(dev.NewQueueWith(gpu.QueueOptions{}))
	for what, err := range map[string]error{
		"a buffer of another handle":   q.Run(&gpu.Call{Uses: []gpu.Use{{Buffer: theirs.buffer}}}, nil),
		"a function of another handle": theirs.run(q, k.tame),
		"a fill of another's buffer":   q.Fill(theirs.buffer, 0, 1, 1),
		"a part beyond the end":        q.Fill(k.buffer, 120, 16, 1),
	} {
		if !errors.Is(err, device.ErrBadArgument) {
			t.Errorf("%s: %v", what, err)
		}
	}

	calls := newQueue(t, dev)
	x := got[*tensor.Tensor](t)(tensor.New(dev, num.F16, 2, 8))
	y := got[*tensor.Tensor](t)(tensor.New(dev, num.F16, 2, 8))
	for what, other := range map[string]device.Device{"the CPU": cpu.Queue().Device(), "another handle": foreign} {
		z := got[*tensor.Tensor](t)(tensor.New(other, num.F16, 2, 8))
		if err := softmax.Forward(calls, y, z); !errors.Is(err, tensor.ErrBadArgument) || !strings.Contains(err.Error(), "x is on ") || !strings.Contains(err.Error(), other.Name()) {
			t.Errorf("a tensor of %s: %v", what, err)
		}
	}
	must(t, softmax.Forward(calls, y, x))
	must(t, errors.Join(x.Close(), x.Close()))
	if err := softmax.Forward(calls, y, x); !errors.Is(err, tensor.ErrBadArgument) {
		t.Errorf("a closed tensor: %v", err)
	}
	if _, err := x.Bytes(); !errors.Is(err, tensor.ErrBadArgument) {
		t.Errorf("bytes of a closed tensor: %v", err)
	}
	must(t, errors.Join(k.buffer.Close(), k.buffer.Close()))
	for what, err := range map[string]error{
		"launch": k.run(q, k.tame), "copy in": k.buffer.CopyIn(0, []byte{1}), "copy out": k.buffer.CopyOut(0, make([]byte, 1)), "fill": q.Fill(k.buffer, 0, 1, 1),
	} {
		if !errors.Is(err, device.ErrClosed) {
			t.Errorf("%s with a closed buffer: %v", what, err)
		}
	}
	must(t, errors.Join(k.module.Close(), k.module.Close()))
	if err := q.Launch(k.tame, [3]uint32{1, 1, 1}, [3]uint32{1, 1, 1}, 0, nil); !errors.Is(err, device.ErrClosed) {
		t.Errorf("a kernel of a closed module: %v", err)
	}

	must(t, errors.Join(q.Close(), q.Close(), calls.Close(), calls.Close()))
	_, recordErr := q.Record()
	for what, err := range map[string]error{"wait": q.Wait(t.Context()), "run": q.Run(nil, nil), "record": recordErr, "call": softmax.Forward(calls, y, y)} {
		if !errors.Is(err, device.ErrClosed) {
			t.Errorf("%s on a closed queue: %v", what, err)
		}
	}
	must(t, errors.Join(dev.Close(), dev.Close()))
	_, allocErr := dev.Alloc(1)
	_, queueErr := dev.NewQueue()
	_, loadErr := dev.Load(program(dev.Kind(), "kernels.cu", kernelText), "tame")
	_, newErr := tensor.New(dev, num.F16, 1)
	for what, err := range map[string]error{"alloc": allocErr, "new queue": queueErr, "load": loadErr, "tensor": newErr, "trim": dev.Trim()} {
		if !errors.Is(err, device.ErrClosed) {
			t.Errorf("%s on a closed device: %v", what, err)
		}
	}
	if _, err := y.Bytes(); !errors.Is(err, tensor.ErrBadArgument) {
		t.Errorf("bytes of a tensor of a closed device: %v", err)
	}
	must(t, checkSoftmax(foreign)) // the other handle goes on
}
