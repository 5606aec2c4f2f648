package gputest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"tokitai/device"
	"tokitai/device/gpu"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/cuda"
	"tokitai/device/gpu/driver"
	"tokitai/internal/dl"
)

// TestMain keeps the user's own cache out of the tests.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tokitai-cache-")
	if err != nil {
		panic(err)
	}
	os.Setenv("TOKITAI_CACHE", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// saxpy is one kernel, y = a·x + y.
const saxpyCUDA = `struct Params { float* y; const float* x; long long n; float a; int wild; };
extern "C" __global__ void __launch_bounds__(256) saxpy(const Params p) {
	for (long long i = blockIdx.x * 256ll + threadIdx.x; i < p.n; i += gridDim.x * 256ll)
		p.y[i] = p.a * p.x[i] + p.y[i];
}
extern "C" __global__ void __launch_bounds__(256) spin(const Params p) {
	long long start = clock64();
	while (clock64() - start < p.n) {}
}
`

// saxpyHIP is the same for AMD GPUs, without the names that the prelude or hipRTC defines.
const saxpyHIP = `struct Params { float* y; const float* x; long long n; float a; int wild; };
extern "C" __attribute__((global)) void saxpy(const Params p) {
	const long long threads = __builtin_amdgcn_grid_size_x();
	for (long long i = __builtin_amdgcn_workgroup_id_x() * 256ll + __builtin_amdgcn_workitem_id_x(); i < p.n; i += threads)
		p.y[i] = p.a * p.x[i] + p.y[i];
}
`

// saxpySim is the same without a simulator's runtime: the entry point is written out, and
// fails where the parameter wild is not 0.
const saxpySim = `#include <cstdio>
#include <cstring>
struct Params { float* y; const float* x; long long n; float a; int wild; };
extern "C" void saxpy(const Params p) { for (long long i = 0; i < p.n; i++) p.y[i] = p.a * p.x[i] + p.y[i]; }
extern "C" int tokitai_sim_launch(const char* entry, const unsigned grid[3], const unsigned block[3], unsigned shared,
	const void* params, unsigned long bytes, unsigned warp, char* message, unsigned long message_bytes) {
	Params p;
	if (strcmp(entry, "saxpy")) { snprintf(message, message_bytes, "no kernel %s", entry); return 1; }
	if (block[0] == 0 || bytes != sizeof p) { snprintf(message, message_bytes, "%u threads, %lu bytes", block[0], bytes); return 1; }
	memcpy(&p, params, sizeof p);
	if (p.wild) { snprintf(message, message_bytes, "saxpy.cu:5: grid %u, block %u, shared %u, warp %u", grid[0], block[1], shared, warp); return 1; }
	saxpy(p);
	return 0;
}
`

func params(y, x uint64, n int, a float32, wild uint32) []byte {
	b := binary.LittleEndian.AppendUint64(nil, y)
	b = binary.LittleEndian.AppendUint64(b, x)
	b = binary.LittleEndian.AppendUint64(b, uint64(n))
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(a))
	return binary.LittleEndian.AppendUint32(b, wild)
}

func floats(values []float32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func buffer(t testing.TB, d *gpu.Device, bytes int64) *gpu.Buffer {
	t.Helper()
	b, err := d.Alloc(bytes)
	must(t, err)
	return b.(*gpu.Buffer)
}

func function(t testing.TB, d *gpu.Device, name, text, entry string) *gpu.Function {
	t.Helper()
	m, err := d.Load(compile.Source{Name: name, Text: text}, entry)
	must(t, err)
	f, err := m.Entry(entry)
	must(t, err)
	return f
}

// runSaxpy runs a kernel on two queues in turn and compares every bit.
func runSaxpy(t *testing.T, d *gpu.Device, f *gpu.Function) {
	t.Helper()
	const n, rounds = 100_003, 10
	xs, ys, want := make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range n {
		xs[i], ys[i] = float32(i)/3, float32(n-i)/7
		want[i] = ys[i]
		for range rounds {
			want[i] = float32(1.5*xs[i]) + want[i]
		}
	}
	x, y := buffer(t, d, 4*n), buffer(t, d, 4*n)
	got := make([]byte, 4*n)
	must(t, y.CopyOut(0, got))
	if !bytes.Equal(got, make([]byte, 4*n)) {
		t.Error("a new buffer is not zero")
	}
	must(t, errors.Join(x.CopyIn(0, floats(xs)), y.CopyIn(0, floats(ys))))
	var queues [2]*gpu.Queue
	for i := range queues {
		q, err := d.NewQueueWith(gpu.QueueOptions{})
		must(t, err)
		queues[i] = q
	}
	for i := range rounds {
		must(t, queues[i%2].Run(&gpu.Call{Uses: []gpu.Use{{Buffer: y, IsWrite: true}, {Buffer: x}},
			Launches: []gpu.Launch{{Function: f, Grid: [3]uint32{40, 1, 1}, Block: [3]uint32{256, 1, 1}, Params: params(y.Pointer(), x.Pointer(), n, 1.5, 0)}}}, nil))
	}
	must(t, y.CopyOut(0, got))
	if !bytes.Equal(got, floats(want)) {
		t.Error("the result differs from the host's")
	}
	must(t, errors.Join(queues[0].Wait(t.Context()), queues[0].Close(), queues[1].Close()))
}

func TestSim(t *testing.T) {
	for _, width := range []int{32, 64} {
		d := NeedsSim(t, width)
		if kind, _, err := device.ParseName(d.Name()); err != nil || kind != "sim" || d.Index() != width || d.Limits().WarpWidth != width {
			t.Errorf("%s: kind %s, index %d, %v", d.Name(), kind, d.Index(), err)
		}
		f := function(t, d, "saxpy.cc", saxpySim, "saxpy")
		runSaxpy(t, d, f)
		q, err := d.NewQueueWith(gpu.QueueOptions{})
		must(t, err)
		err = q.Launch(f, [3]uint32{3, 1, 1}, [3]uint32{1, 4, 1}, 99, params(0, 0, 0, 0, 1))
		fault, ok := errors.AsType[*driver.LaunchError](err)
		want := "saxpy.cu:5: grid 3, block 4, shared 99, warp " + map[int]string{32: "32", 64: "64"}[width]
		if !ok || fault.Entry != "saxpy" || fault.Message != want {
			t.Errorf("got %v, want %q", err, want)
		}
		runSaxpy(t, d, f) // the device goes on
		if _, err := d.Load(compile.Source{Name: "saxpy.cc", Text: saxpySim}, "absent"); err == nil || !strings.Contains(err.Error(), `no kernel "absent"`) {
			t.Errorf("a kernel that is not there: %v", err)
		}
		_, err = d.Load(compile.Source{Name: "bad.cc", Text: "int a = b;"}, "a")
		if e, ok := errors.AsType[*compile.Error](err); !ok || e.Line != 1 || !strings.Contains(err.Error(), "bad.cc:1: ") {
			t.Errorf("a source that does not compile: %v", err)
		}
		if _, err := d.Alloc(1 << 50); !errors.Is(err, device.ErrOutOfMemory) {
			t.Errorf("a petabyte: %v", err)
		}
		must(t, d.Close())
	}
}

// Two versions of a program, loaded one after the other and side by side, are two.
func TestSimReload(t *testing.T) {
	d := NeedsSim(t, 32)
	b := buffer(t, d, 4)
	q, err := d.NewQueueWith(gpu.QueueOptions{})
	must(t, err)
	for _, value := range []string{"1", "2", "3"} {
		text := strings.Replace(saxpySim, "p.a * p.x[i] + p.y[i]", value, 1) + "template<int N> struct S { static inline int v = N; }; int used() { return S<1>::v; }\n"
		m, err := d.Load(compile.Source{Name: "v.cc", Text: text}, "saxpy")
		must(t, err)
		f, err := m.Entry("saxpy")
		must(t, err)
		must(t, q.Run(&gpu.Call{Uses: []gpu.Use{{Buffer: b, IsWrite: true}},
			Launches: []gpu.Launch{{Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Params: params(b.Pointer(), 0, 1, 0, 0)}}}, nil))
		got := make([]byte, 4)
		must(t, b.CopyOut(0, got))
		if !bytes.Equal(got, floats([]float32{float32(value[0] - '0')})) {
			t.Errorf("version %s gave % x", value, got)
		}
		if value != "2" {
			must(t, m.Close())
		}
	}
}

func TestCUDA(t *testing.T) {
	d := NeedsCUDA(t)
	t.Logf("%s: %+v, %s", d.Name(), d.Limits(), d.Describe().Driver)
	f := function(t, d, "saxpy.cu", saxpyCUDA, "saxpy")
	runSaxpy(t, d, f)
	runTransfers(t, d)
}

// TestAMD runs on hardware, if there is some, and on an emulated GPU.
func TestAMD(t *testing.T) {
	for _, name := range [][2]string{{"hip", "0"}, {"amdemu", "gfx942"}} {
		t.Run(name[0], func(t *testing.T) {
			d := needs(t, name[0], name[1])
			t.Logf("%s: %+v, %s", d.Name(), d.Limits(), d.Describe().Driver)
			runSaxpy(t, d, function(t, d, "saxpy.hip", saxpyHIP, "saxpy"))
			runTransfers(t, d)
			if _, err := d.Load(compile.Source{Name: "saxpy.hip", Text: saxpyHIP}, "absent"); err == nil || !strings.Contains(err.Error(), `no kernel "absent"`) {
				t.Errorf("a kernel that is not there: %v", err)
			}
			_, err := d.Load(compile.Source{Name: "bad.hip", Text: "int a = b;"}, "a")
			if e, ok := errors.AsType[*compile.Error](err); !ok || e.Line != 1 || !strings.Contains(err.Error(), "bad.hip:1: ") {
				t.Errorf("a source that does not compile: %v", err)
			}
			if _, err := d.Alloc(1 << 50); !errors.Is(err, device.ErrOutOfMemory) {
				t.Errorf("a petabyte: %v", err)
			}
			must(t, d.Close())
		})
	}
}

// runTransfers copies more than fits into one piece.
func runTransfers(t *testing.T, d *gpu.Device) {
	t.Helper()
	b := buffer(t, d, 33<<20+5)
	data := bytes.Repeat([]byte("0123456789abcdef+"), 33<<20/17)
	got := make([]byte, len(data))
	must(t, errors.Join(b.CopyIn(5, data), b.CopyOut(5, got)))
	if !bytes.Equal(got, data) {
		t.Error("what came out is not what went in")
	}
}

// A wait gives up with its context while the kernel runs on.
func TestCUDAWait(t *testing.T) {
	d := NeedsCUDA(t)
	f := function(t, d, "saxpy.cu", saxpyCUDA, "spin")
	q, err := d.NewQueueWith(gpu.QueueOptions{})
	must(t, err)
	must(t, q.Launch(f, [3]uint32{1, 1, 1}, [3]uint32{1, 1, 1}, 0, params(0, 0, 1<<29, 0, 0)))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if err := q.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's own error", err)
	}
	must(t, q.Wait(context.Background()))
}

func TestCUDATimer(t *testing.T) {
	d := NeedsCUDA(t)
	const size = 256 << 20
	a, b := buffer(t, d, size), buffer(t, d, size)
	q, err := d.NewQueueWith(gpu.QueueOptions{})
	must(t, err)
	timer, err := q.NewTimer()
	must(t, err)
	must(t, errors.Join(q.Fill(b, 0, size, 1), timer.Start(), q.Copy(b, 0, a, 0, size), timer.Stop()))
	took, err := timer.Elapsed(t.Context())
	if err != nil || took <= 0 {
		t.Fatalf("%v, %v", took, err)
	}
	t.Logf("a copy of %d MiB takes %v, %.0f GB/s read and written", size>>20, took, 2*size/took.Seconds()/1e9)
}

// Without the driver's library the program runs and says what is missing.
func TestNoDriver(t *testing.T) {
	if _, err := dl.Open(dl.Request{What: "it", Files: []string{"libcuda.so.1"}}); err == nil {
		t.Skip("this machine has the driver")
	}
	_, err := cuda.Table()
	missing, ok := errors.AsType[*device.NoDeviceError](err)
	if !ok || missing.Name != "cuda" {
		t.Fatalf("got %v, want a NoDeviceError", err)
	}
	for _, want := range []string{"libcuda.so.1", "NVIDIA's driver", "TOKITAI_CUDA"} {
		if !strings.Contains(err.Error(), want) && !errors.Is(err, dl.ErrUnsupported) && !strings.Contains(err.Error(), "this build") {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

func BenchmarkSimLaunch(b *testing.B) {
	d := NeedsSim(b, 32)
	f := function(b, d, "saxpy.cc", saxpySim, "saxpy")
	q, err := d.NewQueueWith(gpu.QueueOptions{})
	must(b, err)
	p := params(0, 0, 0, 0, 0)
	b.ReportAllocs()
	for b.Loop() {
		must(b, q.Launch(f, [3]uint32{1, 1, 1}, [3]uint32{1, 1, 1}, 0, p))
	}
}

func BenchmarkCUDALaunch(b *testing.B) {
	d := NeedsCUDA(b)
	f := function(b, d, "saxpy.cu", saxpyCUDA, "saxpy")
	q, err := d.NewQueueWith(gpu.QueueOptions{})
	must(b, err)
	p := params(0, 0, 0, 0, 0)
	b.ReportAllocs()
	for b.Loop() {
		must(b, q.Launch(f, [3]uint32{1, 1, 1}, [3]uint32{32, 1, 1}, 0, p))
	}
	must(b, q.Wait(context.Background()))
}
