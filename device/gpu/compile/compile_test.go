package compile_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/gputest"
	"tokitai/internal/dl"
	"tokitai/internal/tool"
)

// TestMain keeps the user's own cache out of the tests.
func TestMain(m *testing.M) {
	if os.Getenv(childRole) != "" {
		child()
		return
	}
	dir, err := os.MkdirTemp("", "tokitai-cache-")
	if err != nil {
		panic(err)
	}
	os.Setenv("TOKITAI_CACHE", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

const saxpy = `struct Params { float* y; const float* x; long long n; float a; float unused; };
extern "C" __global__ void __launch_bounds__(256) saxpy(const Params p) {
	for (long long i = blockIdx.x * 256ll + threadIdx.x; i < p.n; i += gridDim.x * 256ll)
		p.y[i] = p.a * p.x[i] + p.y[i];
}
extern "C" __global__ void second(const Params p) { __shared__ float s[64]; s[threadIdx.x] = p.x[threadIdx.x]; __syncthreads(); p.y[threadIdx.x] = s[63 - threadIdx.x]; }
`

func TestNVRTC(t *testing.T) {
	c := gputest.NeedsNVRTC(t)
	t.Logf("%s, %s", c, c.Path())
	known, err := c.Architectures()
	if err != nil || len(known) == 0 {
		t.Fatalf("architectures %v, %v", known, err)
	}
	for _, architecture := range []string{"sm_80", "sm_90a", "sm_100"} {
		p, err := c.Compile(architecture, compile.Source{Name: "saxpy.cu", Text: saxpy})
		if err != nil {
			t.Fatalf("%s: %v", architecture, err)
		}
		if !bytes.HasPrefix(p.Image, []byte("\x7fELF")) {
			t.Errorf("%s: %d bytes that are no code", architecture, len(p.Image))
		}
		if len(p.Usage) != 2 || p.Usage[0].Entry != "saxpy" || p.Usage[1].Entry != "second" {
			t.Fatalf("%s: usage %+v from\n%s", architecture, p.Usage, p.Log)
		}
		for _, u := range p.Usage {
			if u.Registers < 4 || u.SpillStoreBytes != 0 || u.SpillLoadBytes != 0 || (u.Entry == "second") != (u.SharedBytes == 256) {
				t.Errorf("%s: %+v", architecture, u)
			}
		}
	}
	if _, err := c.Compile("compute_90", compile.Source{Name: "saxpy.cu", Text: saxpy}); err == nil {
		t.Error("an architecture without code gave a program")
	}
}

func TestNVRTCError(t *testing.T) {
	c := gputest.NeedsNVRTC(t)
	_, err := c.Compile("sm_90a", compile.Source{Name: "bad.cu", Text: "// first\nextern \"C\" __global__ void k(int n) {\n\tint a = nowhere;\n\tint b = nothing;\n}\n"})
	checkError(t, err, `bad.cu:3: identifier "nowhere" is undefined`, "nothing")
	_, err = c.Compile("sm_90a", compile.Source{Name: "bad.cu", Text: "// text\n#line 7 \"softmax.forward\"\n__device__ int b = nowhere;\n"})
	checkError(t, err, `softmax.forward:7: identifier "nowhere" is undefined`, "")
	_, err = c.Compile("sm_90a", compile.Source{Name: "bad.cu", Text: "#include \"a.h\"\n", Headers: badHeaders})
	checkError(t, err, `b.h:2: identifier "nowhere" is undefined`, "")
	if _, err = c.Compile("sm_90a", compile.Source{Name: "good.cu", Text: "#include \"a.h\"\n", Headers: goodHeaders}); err != nil {
		t.Error(err)
	}
	_, err = c.Compile("sm_80", compile.Source{Name: "bad.cu", Text: `extern "C" __global__ void k() { asm volatile("wgmma.fence.sync.aligned;"); }`})
	checkError(t, err, "bad.cu: ", "wgmma")
}

var (
	badHeaders = []compile.Header{{Name: "b.h", Text: "// text\n__device__ int b = nowhere;\n"}, {Name: "a.h", Text: "#include \"b.h\"\n"}}

	goodHeaders = []compile.Header{{Name: "b.h", Text: "__device__ int b = 1;\n"}, badHeaders[1]}
)

// checkError wants one line with the place, and the whole log.
func checkError(t *testing.T, err error, text, inLog string) {
	t.Helper()
	e, ok := errors.AsType[*compile.Error](err)
	if !ok || !strings.HasPrefix(e.Error(), text) || strings.Contains(e.Error(), "\n") || !strings.Contains(e.Log, inLog) {
		t.Errorf("got %v, want %q", err, text)
	}
}

func host(t testing.TB) *compile.Host {
	t.Helper()
	h, err := compile.OpenHost()
	if err != nil {
		tool.Missing(t, "g++", err)
	}
	return h
}

// hipKernel has 160 values live at once: they fit into registers only where blocks are small.
const hipKernel = `extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(1, BOUND))) many(float* y, const float* x) {
	__attribute__((shared)) static float s[64];
	float a[160];
	_Pragma("unroll") for (int i = 0; i < 160; i++) a[i] = x[i * 977];
	asm volatile("" ::: "memory");
	s[__builtin_amdgcn_workitem_id_x() % 64] = a[0];
	__builtin_amdgcn_s_barrier();
	_Pragma("unroll") for (int i = 0; i < 160; i++) y[i * 31] = a[159 - i] * a[i] + s[i % 64];
}
extern "C" __attribute__((global)) void none(float* y) { *y = 1; }
`

func TestClang(t *testing.T) {
	c := gputest.NeedsClang(t)
	t.Log(c)
	for _, x := range []struct {
		bound  string
		spills bool
	}{{"64", false}, {"1024", true}} {
		source := compile.Source{Name: "many.hip", Text: "#define BOUND " + x.bound + "\n" + hipKernel}
		p, err := c.Compile("gfx942", source)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(p.Image, []byte("\x7fELF")) {
			t.Errorf("%d bytes that are no code", len(p.Image))
		}
		if len(p.Usage) != 2 || p.Usage[0].Entry != "many" || p.Usage[1].Entry != "none" {
			t.Fatalf("usage %+v from\n%s", p.Usage, p.Log)
		}
		u := p.Usage[0]
		if u.Registers < 64 || u.SharedBytes != 256 || (u.StackBytes > 0) != x.spills || (u.SpillStoreBytes > 0) != x.spills || u.SpillLoadBytes != u.SpillStoreBytes {
			t.Errorf("blocks of %s: %+v", x.bound, u)
		}
		text, err := c.Assemble("gfx942", source)
		if err != nil || !bytes.Contains(text.Image, []byte("\nmany:")) || !bytes.Contains(text.Image, []byte("v_mul_f32")) || bytes.Contains(text.Image, []byte("v_fma")) {
			t.Errorf("no assembly with a product of its own: %v in\n%s", err, text.Image)
		}
	}
	_, err := c.Compile("gfx942", compile.Source{Name: "bad.hip", Text: "#define __device__\n#include \"a.h\"\n", Headers: badHeaders})
	checkError(t, err, "b.h:2: ", "nowhere")
	identity, err := c.Identity()
	if err != nil || identity.Name == "" || identity.Hash == [32]byte{} {
		t.Errorf("identity %+v, %v", identity, err)
	}
}

func TestClangMissing(t *testing.T) {
	t.Setenv("TOKITAI_CLANG", "/nowhere/clang")
	if _, err := compile.OpenClang(); !errors.Is(err, compile.ErrNoClang) || !strings.Contains(err.Error(), "/nowhere/clang") {
		t.Errorf("got %v", err)
	}
}

func TestHost(t *testing.T) {
	h := host(t)
	p, err := h.Compile("sim", compile.Source{Name: "one.cc", Text: "extern \"C\" int one() { return 1; }\n"})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(p.Image, []byte("\x7fELF")) || p.Log != "" {
		t.Errorf("%d bytes, log %q", len(p.Image), p.Log)
	}
	_, err = h.Compile("sim", compile.Source{Name: "bad.cc", Text: "int a;\nint b = nowhere;\nint c = nothing;\n"})
	checkError(t, err, "bad.cc:2: ", "nothing")
	// The device's marker is what a header of the simulator would define away.
	text := "#define __device__\n#include \"a.h\"\n"
	_, err = h.Compile("sim", compile.Source{Name: "bad.cc", Text: text, Headers: badHeaders})
	checkError(t, err, "b.h:2: ", "nowhere")
	if _, err = h.Compile("sim", compile.Source{Name: "good.cc", Text: text, Headers: goodHeaders}); err != nil {
		t.Error(err)
	}
	if _, err = h.Compile("sim", compile.Source{Name: "out.cc", Headers: []compile.Header{{Name: "../a.h"}}}); err == nil {
		t.Error("a header outside the folder was written")
	}
	identity, err := h.Identity()
	if err != nil || identity.Name == "" || identity.Hash == [32]byte{} {
		t.Errorf("identity %+v, %v", identity, err)
	}
}

// TestHostUnits: units are linked with the text, include the same headers, and
// their errors name them.
func TestHostUnits(t *testing.T) {
	h := host(t)
	headers := []compile.Header{{Name: "both.h", Text: "int from_unit();\n"}}
	source := compile.Source{Name: "text.cc", Text: "#include \"both.h\"\nextern \"C\" int two() { return from_unit() + 1; }\n", Headers: headers}
	for _, architecture := range []string{"sim", compile.Races} {
		s := source
		s.Units = []compile.Header{{Name: "unit.cc", Text: "#include \"both.h\"\nint from_unit() { return 1; }\nextern \"C\" void __tsan_init() {}\nextern \"C\" void __tsan_func_entry(void*) {}\nextern \"C\" void __tsan_func_exit() {}\n"}}
		p, err := h.Compile(architecture, s)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "program.so")
		if err := os.WriteFile(file, p.Image, 0o700); err != nil {
			t.Fatal(err)
		}
		library, err := dl.Open(dl.Request{What: "the program", Files: []string{file}})
		if err != nil {
			t.Fatal(err)
		}
		two, err := library.Proc("two")
		if err != nil {
			t.Fatal(err)
		}
		if got := int32(two.Call(nil)); got != 2 {
			t.Errorf("%s: got %d, want 2", architecture, got)
		}
		if err := library.Close(); err != nil {
			t.Error(err)
		}
	}
	source.Units = []compile.Header{{Name: "unit.cc", Text: "\nint a = nowhere;\n"}}
	_, err := h.Compile("sim", source)
	checkError(t, err, "unit.cc:2: ", "nowhere")
}

func TestHostMissing(t *testing.T) {
	t.Setenv("TOKITAI_CXX", "/nowhere/c++")
	if _, err := compile.OpenHost(); !errors.Is(err, compile.ErrNoHostCompiler) || !strings.Contains(err.Error(), "/nowhere/c++") {
		t.Errorf("got %v", err)
	}
}
