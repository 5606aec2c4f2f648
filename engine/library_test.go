package engine_test

import (
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/promise"
)

// TestIsNamed: a lowering has a name with and without the kind of device, and an id.
func TestIsNamed(t *testing.T) {
	l := &engine.Lowering{Name: "cuda.cublaslt", Device: "cuda"}
	for name, want := range map[string]bool{
		"cuda.cublaslt": true, "cublaslt": true, "gemm.forward/cuda.cublaslt": true,
		"": false, "cuda": false, "lt": false, "cuda.cuda.cublaslt": false, "sim.cublaslt": false, "gemm.forward/cublaslt": false, "gemm.grad_a/cuda.cublaslt": false,
	} {
		if got := l.IsNamed(name, gemm.ForwardDefinition); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}

// TestAdmissible: results of another order are admissible, of other inputs not, and the
// text has the row's number as the caller counts.
func TestAdmissible(t *testing.T) {
	l := &engine.Lowering{Name: "cpu.free", Promise: engine.Promise{Name: promise.Stable}}
	a := num.ArrayOf(num.F32, 2, 3, 1, 0x1p-24, 0x1p-24, 3, 5, 7)
	b := num.ArrayOf(num.F32, 3, 1, 1, 1, 1)
	set, err := l.Admissible(t.Context(), gemm.ForwardDefinition, []num.Array{a, b, num.NewArray(num.F32, 2, 1)}, nil, def.FMAChain)
	if err != nil {
		t.Fatal(err)
	}
	number := func(row int) int { return 10 * row }
	for _, first := range []float32{1, 1 + 0x1p-23} { // ascending, and the small terms first
		if text := set.Outside(2, num.ArrayOf(num.F32, 2, 1, first, 15), number); text != "" {
			t.Errorf("%v: %s", first, text)
		}
	}
	if text := set.Outside(2, num.ArrayOf(num.F32, 2, 1, 1, 15.5), number); !strings.HasPrefix(text, "C[10,0] is 0x41780000, want 0x") {
		t.Errorf("a wrong result: %q", text)
	}
}
