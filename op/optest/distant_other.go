//go:build !linux

package optest

import (
	"testing"

	"tokitai/num"
	"tokitai/tensor"
)

// Distant skips the test: it needs addresses without memory.
func Distant(t testing.TB, _ num.DType, _ int) *tensor.Tensor {
	t.Helper()
	t.Skip("addresses without memory are asked for on Linux only")
	return nil
}
