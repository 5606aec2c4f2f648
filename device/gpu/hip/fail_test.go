package hip

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"tokitai/device"
	"tokitai/device/gpu"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/hip/standin"
)

// live does everything with a device that programs do, until the first error. Whatever
// happens, it closes what it has opened. It returns all errors.
func live(t *testing.T) error {
	table, err := newTable()
	if err != nil {
		return err
	}
	d, err := gpu.Open(table, 0, gpu.Options{})
	if err != nil {
		return err
	}
	return errors.Join(use(t, d), d.Close())
}

func use(t *testing.T, d *gpu.Device) error {
	var buffers [3]*gpu.Buffer
	var queues [2]*gpu.Queue
	for i := range buffers {
		b, err := d.Alloc(1 << 12)
		if err != nil {
			return err
		}
		buffers[i] = b.(*gpu.Buffer)
	}
	for i := range queues {
		var err error
		if queues[i], err = d.NewQueueWith(gpu.QueueOptions{}); err != nil {
			return err
		}
	}
	m, err := d.Load(compile.Source{Name: "kernel.hip", Text: "text", Headers: []compile.Header{{Name: "prelude.h", Text: "header"}}}, "kernel")
	if err != nil {
		return err
	}
	f, err := m.Entry("kernel")
	if err != nil {
		return err
	}
	one := [3]uint32{1, 1, 1}
	call := func(to, from *gpu.Buffer) *gpu.Call {
		return &gpu.Call{Uses: []gpu.Use{{Buffer: to, IsWrite: true}, {Buffer: from}}, Launches: []gpu.Launch{{Function: f, Grid: one, Block: one, Params: make([]byte, 16)}}}
	}
	timer, err := queues[0].NewTimer()
	if err != nil {
		return err
	}
	defer timer.Close()
	ctx := t.Context()
	bytes := make([]byte, 1<<12)
	for _, step := range []func() error{
		func() error { return buffers[0].CopyIn(0, bytes) },
		func() error { return queues[0].Fill(buffers[1], 0, 100, 7) },
		func() error { return queues[0].Copy(buffers[1], 100, buffers[0], 0, 100) },
		timer.Start,
		func() error { return queues[0].Run(call(buffers[1], buffers[0]), nil) },
		timer.Stop,
		func() error { return queues[1].Run(call(buffers[2], buffers[1]), nil) }, // after the other queue
		func() error { _, err := timer.Elapsed(ctx); return err },
		func() error {
			e, err := queues[1].Record()
			if err != nil {
				return err
			}
			return e.Wait(ctx)
		},
		func() error {
			s, err := queues[0].NewSequence(2, func(step int, to device.Queue) error {
				return to.(*gpu.Queue).Run(call(buffers[step+1], buffers[0]), nil)
			})
			if err != nil {
				return err
			}
			return errors.Join(s.Run(queues[1]), s.Close())
		},
		func() error { return buffers[2].CopyOut(0, bytes) },
		func() error { return queues[1].Wait(ctx) },
		func() error { return buffers[0].Close() },
		func() error { return m.Close() },
		func() error { return queues[0].Close() },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// uncalled lists the functions that a device's life does not need.
var uncalled = map[string]string{
	"hipGetErrorName":        "called after a failure; it cannot fail",
	"hipGetErrorString":      "called after a failure; it cannot fail",
	"hipGetDeviceProperties": "hipGetDevicePropertiesR0600 is there",
	"hipStreamQuery":         "queues are polled by events",
	"hipMemGetInfo":          "called when memory runs out",
}

// harmless lists the functions some of whose calls may fail without an error.
var harmless = map[string]string{
	"hipDeviceGetAttribute": "sizes of caches, clocks and places on the bus may be unknown",
	"hipSetDevice":          "closing a sequence returns no error",
}

// TestEachCallFails lets each function of the library fail, at its first call, its second,
// and so on, as long as it is called in the life of a device. The error names the call,
// nothing panics or hangs, and all that was created is destroyed.
func TestEachCallFails(t *testing.T) {
	library := standin.Plain(t)
	t.Setenv("TOKITAI_HIPRTC", library.Path())
	if err := live(t); err != nil {
		t.Fatal(err)
	}
	if left := library.Live(t); left != "" {
		t.Fatalf("nothing fails, but there are %s left", left)
	}
	for f := range reflect.TypeFor[api]().Fields() {
		for _, code := range []int{1, codeOutOfMemory, 719} {
			calls := 0
			for ; ; calls++ {
				fail := fmt.Sprintf("%s=%d@%d", f.Name, code, calls+1)
				t.Setenv("STANDIN_FAIL", fail)
				library.Failed(t)
				err := live(t)
				if !library.Failed(t) {
					break
				}
				left := library.Live(t)
				library.Forget(t)
				if problem := judge(f.Name, code, err, left); problem != "" {
					t.Errorf("%s: %s", fail, problem)
				}
			}
			if why, ok := uncalled[f.Name]; ok != (calls == 0) {
				t.Errorf("%s is called %d times (%s)", f.Name, calls, why)
			}
		}
	}
}

// judge says what is wrong with how a device's life ended in which a call returned a code.
func judge(call string, code int, err error, left string) string {
	isLost := lostCodes[int32(code)]
	switch {
	case left != "" && !isLost && call != "hipSetDevice": // memory can be freed on the current device only
		return left + " are left"
	case err == nil && harmless[call] != "":
	case err == nil && code == codeOutOfMemory: // after the cache was emptied, the call was made again
	case err == nil:
		return "no error"
	case !strings.Contains(err.Error(), call):
		return fmt.Sprintf("%q does not name the call", err)
	case isLost && !errors.Is(err, device.ErrLost) && !errors.Is(err, device.ErrNoDevice) && !strings.Contains(err.Error(), "hip:0: open: "):
		return fmt.Sprintf("%q is neither a lost device nor one that cannot be opened", err)
	}
	return ""
}

// TestCompilerMisbehaves: whatever the process of the compiler does, there is an error that
// says so, and this process goes on. (A compiler that hangs is killed: package compile has a
// test.)
func TestCompilerMisbehaves(t *testing.T) {
	library := standin.Plain(t)
	t.Setenv("TOKITAI_HIPRTC", library.Path())
	table, err := newTable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ variable, value, want string }{
		{"STANDIN_RTC", "abort", "the process of hipRTC"},
		{"STANDIN_RTC", "crash", "the process of hipRTC"},
		{"STANDIN_RTC", "exit", "did not answer"},
		{"STANDIN_RTC", "garbage", "13 bytes that are not a code object"},
		{"STANDIN_RTC", "empty", "0 bytes that are not a code object"},
		{"STANDIN_RTC", "reject", "kernel.hip:7: refused as asked"},
		{"STANDIN_FAIL", "hiprtcCreateProgram=2", "hiprtcCreateProgram: HIPRTC_ERROR_2"},
		{"STANDIN_FAIL", "hiprtcCompileProgram=11", "hiprtcCompileProgram: HIPRTC_ERROR_11"},
		{"STANDIN_FAIL", "hiprtcGetCodeSize=3", "hiprtcGetCodeSize: HIPRTC_ERROR_3"},
		{"STANDIN_FAIL", "hiprtcGetCode=3", "hiprtcGetCode: HIPRTC_ERROR_3"},
		{"STANDIN_FAIL", "hiprtcGetProgramLogSize=3", ""}, // a log is not needed
		{"STANDIN_FAIL", "hiprtcGetProgramLog=3", ""},
		{"STANDIN_FAIL", "hiprtcDestroyProgram=4", ""},
	} {
		t.Run(c.value, func(t *testing.T) {
			if _, err := table.Compiler(0); err != nil { // it is open when it begins to misbehave
				t.Fatal(err)
			}
			t.Setenv(c.variable, c.value)
			_, err := table.Compile(0, compile.Source{Name: "kernel.hip", Text: c.value}) // in no cache
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if err := live(t); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
