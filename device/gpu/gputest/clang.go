package gputest

import (
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
