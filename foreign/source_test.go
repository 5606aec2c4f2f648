package foreign_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	backends "tokitai/backend/all"
	"tokitai/backend/sim"
	"tokitai/def"
	"tokitai/device/gpu/compile"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/foreign"
	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
	"tokitai/verify"
)

// A file of testdata begins with the command that judges it, and says what is found.
var (
	checkLine = regexp.MustCompile(`^// check (\S+)(?: --dtype (\S+))?(?: --entry (\S+))? --launch (.*)\n(?:// want (.*)\n)?`)
	placeWord = regexp.MustCompile(`\S+\.(?:cu|hip):\d+$`)
)

// judged is a kernel of testdata.
type judged struct {
	operation  *op.Operation
	definition *def.Definition
	dtype      num.DType
	kernel     *foreign.Kernel
	want       string
	device     string
	open       func(string) (engine.Device, error)
}

// openSim opens the simulator: sim, or sim:64 with waves of 64 lanes.
func openSim(name string) (engine.Device, error) {
	_, width, _ := strings.Cut(name, ":")
	return sim.Backend.Open(width)
}

// simulatorFor returns the simulator that a file is for: AMD's waves have 64 lanes.
func simulatorFor(path string) string {
	if filepath.Ext(path) == ".hip" {
		return "sim:64"
	}
	return "sim"
}

func openTestdata(t *testing.T, path string) judged {
	t.Helper()
	if _, err := compile.OpenHost(); err != nil {
		tool.Missing(t, "g++", err)
	}
	return openOn(t, path, simulatorFor(path), openSim)
}

// openOn opens a file of testdata on a device.
func openOn(t *testing.T, path, device string, open func(string) (engine.Device, error)) judged {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := checkLine.FindStringSubmatch(string(text))
	if m == nil {
		t.Fatalf("%s has no line that says how it is checked", path)
	}
	j := judged{dtype: num.F32, want: m[5], device: device, open: open}
	if m[2] != "" {
		if j.dtype, err = num.ParseDType(m[2]); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if d.Name == m[1] {
				j.operation, j.definition = o, d
			}
		}
	}
	o := foreign.Options{Definition: j.definition, Device: device, Open: open, DTypes: []num.DType{j.dtype}}
	language := map[string]string{".cu": "cuda", ".hip": "hip"}[filepath.Ext(path)]
	if j.kernel, err = foreign.Source(language, path, m[3], m[4], o); err != nil {
		t.Fatal(err)
	}
	return j
}

func (j *judged) run(t *testing.T, o verify.Options) *evidence.Report {
	t.Helper()
	backend, _, err := backends.Parse(j.device)
	if err != nil {
		t.Fatal(err)
	}
	target := &verify.Target{Operation: j.operation, Definition: j.definition, Lowering: j.kernel.Lowering, DType: j.dtype, Backend: backend}
	o.Device, o.Open, o.Seed = j.device, j.open, 1
	r, err := verify.Run(context.Background(), target, o)
	if err != nil {
		t.Fatal(err)
	}
	return r.Report
}

func testdata(t *testing.T, kind string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", kind, "*.*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata/%s: %v, %v", kind, files, err)
	}
	return files
}

// TestRightSources: right kernels are accepted at level smoke.
func TestRightSources(t *testing.T) {
	testlevel.Need(t, testlevel.Full, "it takes seconds for each kernel")
	for _, path := range testdata(t, "right") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			j := openTestdata(t, path)
			if r := j.run(t, verify.Options{}); r.Verdict != evidence.Accepted {
				t.Errorf("got %s: %s", r.Verdict, r.Reason)
			}
		})
	}
}

// TestRightCase: one case of a right kernel is accepted.
func TestRightCase(t *testing.T) {
	t.Parallel()
	j := openTestdata(t, filepath.Join("testdata", "right", "layernorm.cu"))
	if r := j.run(t, verify.Options{Case: "normal/R=3,C=70"}); r.Elements == 0 || r.Verdict == evidence.Rejected || r.Mismatches != 0 {
		t.Errorf("got %s with %d outputs and %d mismatches: %s", r.Verdict, r.Elements, r.Mismatches, r.Reason)
	}
}

// TestWrongSources: each wrong kernel is rejected for its fault, with its line.
func TestWrongSources(t *testing.T) {
	t.Parallel()
	for _, path := range testdata(t, "wrong") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			j := openTestdata(t, path)
			r := j.run(t, verify.Options{FirstFailure: true})
			if r.Verdict != evidence.Rejected {
				t.Fatalf("got %s: %s, want rejected", r.Verdict, r.Reason)
			}
			place := placeWord.FindString(j.want)
			for _, want := range []string{strings.TrimSpace(strings.TrimSuffix(j.want, place)), place} {
				if !strings.Contains(r.Reason, want) {
					t.Errorf("got %q, want it to contain %q", r.Reason, want)
				}
			}
		})
	}
}

// TestSourceErrors: what is wrong with a source or its launch is said before anything runs.
func TestSourceErrors(t *testing.T) {
	t.Parallel()
	if _, err := compile.OpenHost(); err != nil {
		tool.Missing(t, "g++", err)
	}
	const right = "template <class T> __global__ void k(const T* x, T* y, int C) {}\n"
	testSourceErrors(t, "cuda", "sim", openSim, []sourceError{
		{right, "k<T>", "grid=R block=32 args=x,y", "k<T> takes 3 arguments, and args has 2: x, y"},
		{right, "k<T>", "grid=R block=32 args=x,y,C:i64", "argument 3 of k<T> is int, and C is passed as i64; write C:i32"},
		{right, "k<T>", "grid=R block=32 args=x,C,y", "argument 2 of k<T> is float*, and C is a number"},
		{right, "k<__half>", "grid=R block=32 args=x,y,C", "and x is stored in f32"},
		{right, "kk<T>", "grid=R block=32 args=x,y,C", "has no kernel kk<T>"},
		{right, "", "grid=R block=32 args=x,y,C", "want --entry, one of k"},
		{right, "k", "grid=R block=32 args=x,y,C", "a template needs its arguments, as in --entry 'k<T>'"},
		{right, "k<T>", "grid=R block=2048 args=x,y,C", "the block of k<T> is 2048 along x, want 1 to 1024"},
		{right, "k<T>", "grid=R block=32,64 args=x,y,C", "= 2048 threads, want at most 1024"},
		{right, "k<T>", "grid=R block=32 shared=1000000 args=x,y,C", "the shared memory of k<T>: 1000000 bytes"},
		{"__global__ void k(float* x) { undeclared(x); }\n", "k", "grid=R block=32 args=x", "does not compile for f32"},
		{"#include <mma.h>\n", "k", "grid=R block=32 args=x", "kernel.cu:1: the simulator has no tensor-core intrinsics"},
		{"\n__global__ void k() { asm(\"\"); }\n", "k", "grid=R block=32 args=", "kernel.cu:2: the simulator has no inline assembly"},
		{"__global__ void k() { float big[100000]; big[threadIdx.x] = 1; printf(\"%f\", big[3]); }\n", "k", "grid=R block=32 args=", "does not compile"},
	}, num.F32)
	testSourceErrors(t, "hip", "sim:64", openSim, []sourceError{
		{right, "k<T>", "grid=R block=32 args=x,y,C:i64", "argument 3 of k<T> is int, and C is passed as i64; write C:i32"},
		{"\n__global__ void k() { __builtin_amdgcn_s_barrier(); }\n", "k", "grid=R block=32 args=", "kernel.hip:2: the simulator has no intrinsics of AMD's compiler; on a GPU, --device hip:0"},
		{"void f() { hipLaunchKernelGGL(k); }\n", "k", "grid=R block=32 args=", "kernel.hip:1: the simulator has no launches from host code"},
		{"#include <hip/hip_runtime.h>\n__global__ void k(float* x) { undeclared(x); }\n", "k", "grid=R block=32 args=x", "does not compile for f32"},
	}, num.F32)
	for language, want := range map[string]string{"opencl": `got the language "opencl", want cuda or hip`, "hip": "HIP sources run on hip:0, or without a GPU on an emulated one"} {
		path := filepath.Join(t.TempDir(), "kernel.hip")
		if err := os.WriteFile(path, []byte(right), 0o600); err != nil {
			t.Fatal(err)
		}
		o := foreign.Options{Definition: definitionNamed(t, "softmax.forward"), Device: "cpu", Open: backends.Open}
		if _, err := foreign.Source(language, path, "k<T>", "grid=R block=32 args=x,y,C", o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", language, err, want)
		}
	}
}

// sourceError is a source or a launch that is wrong, and what is said.
type sourceError struct{ text, entry, launch, want string }

// testSourceErrors opens sources that are wrong, of softmax in one format.
func testSourceErrors(t *testing.T, language, device string, open func(string) (engine.Device, error), list []sourceError, dtype num.DType) {
	t.Helper()
	file := map[string]string{"cuda": "kernel.cu", "hip": "kernel.hip"}[language]
	for _, c := range list {
		path := filepath.Join(t.TempDir(), file)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		o := foreign.Options{Definition: definitionNamed(t, "softmax.forward"), Device: device, Open: open, DTypes: []num.DType{dtype}}
		_, err := foreign.Source(language, path, c.entry, c.launch, o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, %s: got %v, want %q", c.text, c.launch, err, c.want)
		}
		if e, ok := errors.AsType[*foreign.CompileError](err); ok && !strings.Contains(e.Detail(), file+":1") && c.entry != "k" {
			t.Errorf("%q: got the details %q, want a line of %s", c.text, e.Detail(), file)
		}
	}
}

// TestFormatsTaken: a kernel for one format is judged in that one alone.
func TestFormatsTaken(t *testing.T) {
	t.Parallel()
	if _, err := compile.OpenHost(); err != nil {
		tool.Missing(t, "g++", err)
	}
	path := filepath.Join(t.TempDir(), "kernel.cu")
	if err := os.WriteFile(path, []byte("__global__ void k(const float* x, float* y) {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := foreign.Source("cuda", path, "k", "grid=R block=32 args=x,y", foreign.Options{Definition: definitionNamed(t, "softmax.forward"), Device: "sim", Open: openSim})
	if err != nil {
		t.Fatal(err)
	}
	if len(k.DTypes) != 1 || k.DTypes[0] != num.F32 {
		t.Errorf("got %v, want f32 alone", k.DTypes)
	}
}

func definitionNamed(t *testing.T, name string) *def.Definition {
	t.Helper()
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if d.Name == name {
				return d
			}
		}
	}
	t.Fatalf("no definition %s", name)
	return nil
}
