package gpu_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tokitai/internal/testlevel"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
)

// amdArithmetic returns the part of the prelude with divide and square_root for AMD GPUs.
func amdArithmetic(t *testing.T) string {
	t.Helper()
	_, after, ok := strings.Cut(gpu.Prelude, "#elif defined(__HIP__)\n\nDEVICE float fused")
	text, _, isWhole := strings.Cut(after, "\n#else\n")
	if !ok || !isWhole {
		t.Fatal("the prelude has no arithmetic for HIP")
	}
	return "DEVICE float fused" + text
}

// runArithmetic compiles the functions for this processor, with AMD's instructions replaced
// by functions, and compares their results with the processor's own, for every approximation
// of reciprocals and square roots that AMD's documents allow.
func runArithmetic(t *testing.T, text string, stride int) (said string, err error) {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "arithmetic.h"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(folder, "program")
	build := exec.Command(simtest.Compiler(t), "-O2", "-std=c++17", "-ffp-contract=off", "-I", folder, "-x", "c++", filepath.Join("testdata", "amd_arithmetic.cc"), "-o", program, "-lm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	out, err := exec.Command(program, strconv.Itoa(stride)).CombinedOutput()
	return string(out), err
}

// TestAMDQuotientsAndRoots tries all fractions of divisors and of radicands at level full,
// and some of them below it. From level quick on, faults are planted: each must give wrong
// results.
func TestAMDQuotientsAndRoots(t *testing.T) {
	text := amdArithmetic(t)
	said, err := runArithmetic(t, text, testlevel.Pick(64, 16, 1))
	if err != nil || !strings.Contains(said, " 0 wrong\n") {
		t.Fatalf("%v\n%s", err, said)
	}
	t.Log(said)
	testlevel.Need(t, testlevel.Quick, "eight more programs are compiled")
	for _, x := range []struct{ name, from, to string }{
		{"the reciprocal decides", "__builtin_fabsf(other) < __builtin_fabsf(residual) ? neighbour : s", "s"},
		{"the product is not corrected", "q = fused(fused(-n, q, m), r, q);", ""},
		{"the neighbour is on the other side", "(residual > 0.0f ? 1 : -1)", "(residual > 0.0f ? -1 : 1)"},
		{"subnormal quotients are rounded twice", "float s = __builtin_amdgcn_ldexpf(q, e);", "e = 0; float s = q;"},
		{"quotients overflow before they are rounded", "exponent < 64 ? exponent : 64", "exponent"},
		{"the root is not corrected upward", "fused(-above, s, a) > 0.0f ? above : r", "r"},
		{"the root is not corrected downward", "fused(-below, s, a) <= 0.0f ? below : r", "r"},
		{"residuals of small roots underflow", "x < 0x1p-96f", "false"},
	} {
		t.Run(x.name, func(t *testing.T) {
			planted := strings.Replace(text, x.from, x.to, 1)
			if planted == text {
				t.Fatalf("no %q in the prelude", x.from)
			}
			if said, err := runArithmetic(t, planted, 64); err == nil {
				t.Errorf("not found: %s", said)
			}
		})
	}
}
