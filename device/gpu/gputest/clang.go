package gputest

import (
	"testing"

	"tokitai/device/gpu/compile"
	"tokitai/internal/tool"
)

// NeedsClang opens the compiler for AMD GPUs. TOKITAI_REQUIRE lists it as clang.
func NeedsClang(t testing.TB) *compile.Clang {
	t.Helper()
	c, err := compile.OpenClang()
	if err != nil {
		tool.Missing(t, "clang", err)
	}
	return c
}
