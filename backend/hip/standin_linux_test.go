package hip_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"tokitai"
	"tokitai/backend/gpu"
	"tokitai/device"
	devicegpu "tokitai/device/gpu"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/gputest"
	"tokitai/device/gpu/hip/standin"
	"tokitai/internal/alone"
	"tokitai/internal/testlevel"
	"tokitai/kernelprocess"
	lowergpu "tokitai/lower/gpu"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/softmax"
)

// TestMain keeps the user's own cache out of the tests.
func TestMain(m *testing.M) {
	standin.Main()
	kernelprocess.Main()
	dir, err := os.MkdirTemp("", "tokitai-cache-")
	if err != nil {
		panic(err)
	}
	os.Setenv("TOKITAI_CACHE", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// operands are tensors of one device.
type operands struct{ x, y, z *tokitai.Tensor }

func newOperands(t *testing.T, q *tokitai.Queue) operands {
	t.Helper()
	const n = 37
	values := make([]float32, n*n)
	for i := range values {
		values[i] = float32(i%29)/3 - 4
	}
	x, err := tokitai.FromFloat32(q, tokitai.F16, values, n, n)
	must(t, err)
	y, err := tokitai.New(q, tokitai.F16, n, n)
	must(t, err)
	z, err := tokitai.New(q, tokitai.F16, n, n)
	must(t, err)
	return operands{x, y, z}
}

// compute calls operations, one on the result of another. The first is the one whose kernels
// are admitted fastest.
func (o operands) compute(q *tokitai.Queue) error {
	if err := gelu.Forward(q, o.y, o.x); err != nil || testlevel.Current() == testlevel.Smoke {
		return err
	}
	if err := softmax.Forward(q, o.y, o.y); err != nil {
		return err
	}
	return gemm.Forward(q, o.z, o.y, o.x)
}

func (o operands) bytes(t *testing.T) []byte {
	t.Helper()
	var all []byte
	for _, x := range []*tokitai.Tensor{o.y, o.z} {
		b, err := x.Bytes()
		must(t, err)
		all = append(all, b...)
	}
	return all
}

// TestStandIn computes on hip:0 and others, which another process emulates: every call of the
// driver goes through a library that is opened as AMD's is, and every kernel is admitted.
func TestStandIn(t *testing.T) {
	if !alone.Process(t) { // a process opens one library of HIP's
		return
	}
	clang := gputest.NeedsClang(t)
	server := standin.Forward(t, "gfx1101", "gfx1102", "gfx942")
	want := newOperands(t, tokitai.CPU())
	must(t, want.compute(tokitai.CPU()))

	devices := []struct{ name, architecture, compiler string }{
		{"hip:0", "gfx1101", "hipRTC 6"}, {"hip:1", "gfx1102", "clang version"}, {"hip:2", "gfx942", "hipRTC 6"}, // what hipRTC is not proven for, clang compiles
	}
	for _, c := range devices[:testlevel.Pick(1, len(devices))] {
		t.Run(c.name, func(t *testing.T) {
			q, err := tokitai.Open(c.name)
			must(t, err)
			dev := q.Device().(*gpu.Device)
			if d := dev.Describe(); d.Name != "emulated "+c.architecture || d.Architecture != c.architecture || d.Driver != "HIP 6.4.43484" {
				t.Errorf("described as %+v", d)
			}
			compiler, err := dev.Compiler()
			must(t, err)
			if name := fmt.Sprint(compiler); !strings.Contains(name, c.compiler) {
				t.Errorf("compiled by %s, want %s", name, c.compiler)
			}
			got := newOperands(t, q)
			must(t, got.compute(q))
			if !bytes.Equal(got.bytes(t), want.bytes(t)) {
				t.Error("calls give other bits than on the CPU")
			}
			recorded := newOperands(t, q)
			r, err := q.Record(func(q *tokitai.Queue) error { return recorded.compute(q) })
			must(t, err)
			must(t, errors.Join(r.Run(q), r.Run(q)))
			if !bytes.Equal(recorded.bytes(t), want.bytes(t)) {
				t.Error("a recording gives other bits than calls")
			}
			if _, err := tokitai.New(q, tokitai.F32, 1<<20, 1<<20); !errors.Is(err, device.ErrOutOfMemory) {
				t.Errorf("4 TiB: got %v, want ErrOutOfMemory", err)
			}
			must(t, errors.Join(r.Close(), q.Close()))
		})
	}

	q, err := tokitai.Open("hip:0")
	must(t, err)
	foreign, err := clang.Compile("gfx942", wild)
	must(t, err)
	if _, err := q.Device().(*gpu.Device).LoadProgram("wild.hip", foreign, "wild"); err == nil || !strings.Contains(err.Error(), "compiled for gfx942") {
		t.Errorf("a program for gfx942 on gfx1101: got %v", err)
	}
	if err := storeWildly(t, q.Device().(*gpu.Device)); !errors.Is(err, device.ErrLost) || !strings.Contains(err.Error(), "hipErrorLaunchFailure") {
		t.Errorf("a kernel that stores to address 4096: got %v, want ErrLost", err)
	}
	if err := q.Close(); !errors.Is(err, device.ErrLost) {
		t.Errorf("closing it: got %v, want ErrLost", err)
	}

	q, err = tokitai.Open("hip:0") // the device itself has survived
	must(t, err)
	o := newOperands(t, q)
	must(t, o.compute(q))
	pool, err := kernelprocess.NewPool(kernelprocess.Options{})
	must(t, err)
	defer pool.Close()
	process, err := pool.Open("hip:0", "")
	must(t, err)
	onCPU := newOperands(t, tokitai.CPU())
	must(t, errors.Join(gelu.Forward(q, o.y, o.x, kernelprocess.Isolated(process)), gelu.Forward(q, o.z, o.y), gelu.Forward(tokitai.CPU(), onCPU.y, onCPU.x), gelu.Forward(tokitai.CPU(), onCPU.z, onCPU.y)))
	if !bytes.Equal(o.bytes(t), onCPU.bytes(t)) {
		t.Error("a kernel process gives other bits than the CPU")
	}

	server.Kill()
	err = o.compute(q)
	if err == nil {
		err = q.Wait()
	}
	if !errors.Is(err, device.ErrLost) {
		t.Errorf("after the device's process has ended: got %v, want ErrLost", err)
	}
	if _, err := o.y.Bytes(); !errors.Is(err, device.ErrLost) {
		t.Errorf("reading from it: got %v, want ErrLost", err)
	}
}

// wild is a kernel that stores where there is no memory.
var wild = compile.Source{
	Name:    "wild.hip",
	Text:    "#include \"prelude.h\"\nstruct Params { i64 at; };\nKERNEL(wild, 32)(const Params p) { *(volatile unsigned*)p.at = threadIdx.x; }\n",
	Headers: []compile.Header{{Name: "prelude.h", Text: lowergpu.Prelude}},
}

func storeWildly(t *testing.T, dev *gpu.Device) error {
	t.Helper()
	m, err := dev.Load(wild, "wild")
	must(t, err)
	f, err := m.Entry("wild")
	must(t, err)
	q, err := dev.NewQueueWith(devicegpu.QueueOptions{})
	must(t, err)
	if err := q.Launch(f, [3]uint32{1, 1, 1}, [3]uint32{32, 1, 1}, 0, binary.LittleEndian.AppendUint64(nil, 4096)); err != nil {
		return err
	}
	return q.Wait(t.Context())
}

// underROCm is set in a process that runs with AMD's libraries.
const underROCm = "TOKITAI_TEST_UNDER_ROCM"

// TestROCm runs TestCompiledByROCm with each version of AMD's libraries that there is.
func TestROCm(t *testing.T) {
	folders := standin.NeedsROCm(t)
	testlevel.Need(t, testlevel.Quick, "compiles for minutes")
	standin.Forward(t, "gfx1101", "gfx942")
	for _, r := range folders {
		t.Run(r.Name(), func(t *testing.T) {
			command := r.Command(t, "-test.run=^TestCompiledByROCm$", "-test.v", "-test.timeout=0")
			command.Env = append(os.Environ(), underROCm+"=1", "TOKITAI_HIPRTC="+r.Compiler(t))
			out, err := command.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestCompiledByROCm ") {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}

// TestCompiledByROCm computes on emulated devices with kernels that AMD's own compiler makes.
func TestCompiledByROCm(t *testing.T) {
	if os.Getenv(underROCm) == "" {
		t.Skip("is run by TestROCm")
	}
	want := newOperands(t, tokitai.CPU())
	must(t, want.compute(tokitai.CPU()))
	for _, name := range []string{"hip:0", "hip:1"} {
		q, err := tokitai.Open(name)
		must(t, err)
		compiler, err := q.Device().(*gpu.Device).Compiler()
		must(t, err)
		if !strings.Contains(fmt.Sprint(compiler), "hipRTC") {
			t.Fatalf("compiled by %v, want AMD's compiler", compiler)
		}
		got := newOperands(t, q)
		must(t, got.compute(q))
		if !bytes.Equal(got.bytes(t), want.bytes(t)) {
			t.Errorf("%s, compiled by %v: other bits than on the CPU", name, compiler)
		}
		t.Logf("%s, %s, compiled by %v: the same bits as on the CPU", name, q.Device().Describe().Architecture, compiler)
		must(t, q.Close())
	}
}
