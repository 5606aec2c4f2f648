package gputest

import (
	"os/exec"
	"testing"

	"tokitai/device/gpu/compile"
)

// NeedsClang opens the compiler for AMD GPUs. TOKITAI_REQUIRE lists it as clang.
func NeedsClang(t testing.TB) *compile.Clang {
	t.Helper()
	c, err := compile.OpenClang()
	if err != nil {
		missing(t, "clang", err)
	}
	return c
}

// NeedsLLVM returns the path of a tool of LLVM, such as llvm-objdump-22. TOKITAI_REQUIRE lists
// the tools as llvm.
func NeedsLLVM(t testing.TB, tool string) string {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err != nil {
		missing(t, "llvm", err)
	}
	return path
}
