package foreign_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/backend/amdemu"
	"tokitai/device/gpu/hip"
	"tokitai/device/gpu/hip/standin"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/foreign"
	"tokitai/num"
	"tokitai/verify"
)

// underROCm is set in a process that runs with AMD's libraries.
const underROCm = "TOKITAI_TEST_UNDER_ROCM"

// withHIPRTC skips the test unless there is hipRTC for an architecture. Where it is only in
// folders of TOKITAI_ROCM, the test is run in processes of their own, and this one ends.
func withHIPRTC(t *testing.T, architecture string) {
	t.Helper()
	_, err := hip.RuntimeCompiler(architecture)
	if err == nil {
		return
	}
	if os.Getenv(underROCm) != "" {
		t.Fatal(err)
	}
	if os.Getenv(standin.ROCmVariable) == "" {
		t.Skipf("%v; or scripts/rocm unpacks it, and %s names its folder", err, standin.ROCmVariable)
	}
	for _, r := range standin.NeedsROCm(t) {
		command := r.Command(t, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=0")
		command.Env = append(os.Environ(), underROCm+"=1")
		out, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") {
			t.Errorf("%s: %v\n%s", r.Name(), err, out)
		}
	}
	t.SkipNow()
}

func openEmulated(name string) (engine.Device, error) {
	_, architecture, _ := strings.Cut(name, ":")
	return amdemu.Backend.Open(architecture)
}

// TestEmulatedHIP judges kernels in HIP on emulated GPUs, as hipRTC compiles them: waves of 32
// lanes, and of 64.
func TestEmulatedHIP(t *testing.T) {
	const rdna, cdna = "gfx1100", "gfx942"
	withHIPRTC(t, rdna)
	for _, c := range []struct {
		file, architecture, only string
		verdict                  evidence.Verdict
		want                     string
	}{
		{"right/gelu.hip", rdna, "normal/R=3,C=70", evidence.Accepted, ""},
		{"right/softmax_tree.hip", rdna, "normal/R=3,C=70", evidence.Accepted, ""},
		{"right/softmax_tree.hip", cdna, "normal/R=3,C=70", evidence.Accepted, ""},
		{"right/layernorm_waves.hip", rdna, "normal/R=3,C=70", evidence.Accepted, ""},
		{"right/layernorm_waves.hip", cdna, "normal/R=3,C=70", evidence.Accepted, ""},
		{"wrong/lanes_of_32.hip", rdna, "normal/R=3,C=70", evidence.Accepted, ""},
		{"wrong/lanes_of_32.hip", cdna, "normal/R=3,C=70", evidence.Rejected, "y[0,"},
		{"wrong/lost_tail.hip", rdna, "normal/R=3,C=7", evidence.Rejected, "y["},
		{"wrong/writes_past_the_end.hip", rdna, "normal/R=3,C=7", evidence.Rejected, "writes"},
	} {
		t.Run(filepath.Base(c.file)+" "+c.architecture, func(t *testing.T) {
			j := openOn(t, filepath.Join("testdata", c.file), "amdemu:"+c.architecture, openEmulated)
			if r := j.run(t, verify.Options{Case: c.only}); r.Verdict != c.verdict || !strings.Contains(r.Reason, c.want) {
				t.Errorf("got %s: %s, want %s: %s", r.Verdict, r.Reason, c.verdict, c.want)
			}
		})
	}
	example := foreign.Options{Definition: definitionNamed(t, "softmax.forward"), Device: "amdemu:" + rdna, Open: openEmulated}
	k, err := foreign.Source("hip", "../example/kernel/softmax.hip", "softmax<T>", "grid=R block=128 args=x,y,C", example)
	if err != nil {
		t.Fatal(err)
	}
	if len(k.DTypes) != 3 {
		t.Errorf("the example is compiled for %v, want f16, bf16 and f32", k.DTypes)
	}
	for _, dtype := range k.DTypes {
		j := judged{definition: example.Definition, dtype: dtype, kernel: k, device: example.Device, open: openEmulated}
		if r := j.run(t, verify.Options{Case: "normal/R=3,C=70"}); r.Verdict != evidence.Accepted {
			t.Errorf("%s: got %s: %s", dtype, r.Verdict, r.Reason)
		}
	}
	testSourceErrors(t, "hip", example.Device, openEmulated, []sourceError{
		{"template <class T> __global__ void k(const T* x, T* y, int C) {}\n", "k<T>", "grid=R block=32 args=x,y", "k<T> takes 3 arguments, and args has 2: x, y"},
		{"template <class T> __global__ void k(const T* x, T* y, int C) {}\n", "k<T>", "grid=R block=32 args=x,y,C:i64", "argument 3 of k<T> is int, and C is passed as i64; write C:i32"},
		{"template <class T> __global__ void k(const T* x, T* y, int C) {}\n", "k<T>", "grid=R block=32 args=x,C,y", "argument 2 of k<T> is float *, and C is a number"},
		{"template <class T> __global__ void k(const T* x, T* y, int C) {}\n", "k", "grid=R block=32 args=x,y,C", "a template needs its arguments, as in --entry 'k<T>'"},
		{"template <class T> __global__ void k(const T* x, T* y, int C) {}\n", "kk<T>", "grid=R block=32 args=x,y,C", "has no kernel kk<T>"},
		{"__global__ void k(float* x) { undeclared(x); }\n", "k", "grid=R block=32 args=x", "does not compile for f32 with hipRTC"},
	}, num.F32)
}
