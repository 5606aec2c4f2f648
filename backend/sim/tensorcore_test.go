package sim

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/device/gpu/gputest"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/tensor"
)

// TestTensorCores: the lowerings for tensor cores are admitted when a call names them, and
// passed by otherwise and on the simulator that has none.
func TestTensorCores(t *testing.T) {
	t.Setenv("TOKITAI_CACHE", filepath.Join(t.TempDir(), "cache"))
	d := gemm.ForwardDefinition
	for _, width := range []int{32, 64} {
		q, err := engine.NewQueue(New(gputest.NeedsSim(t, width)))
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		for _, name := range []string{"sim.hopper", "sim.mma"} {
			chosen, err := engine.Admit(q, d, []num.DType{num.F16, num.F16, num.F16}, engine.WithLowering(name))
			if width == 64 {
				if err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("%s in warps of 64: got %v, %v", name, chosen, err)
				}
				continue
			}
			if err != nil || chosen.Name != name {
				t.Fatalf("%s: admitted %v, %v", name, chosen, err)
			}
		}
		chosen, err := engine.Admit(q, d, []num.DType{num.F16, num.F16, num.F16})
		if err != nil || chosen.Name != "sim.fma" {
			t.Fatalf("without a name: admitted %v, %v", chosen, err)
		}
	}
}

// TestUnsuited: a call that a tensor map cannot describe is an error of the lowering that it
// names.
func TestUnsuited(t *testing.T) {
	q, err := engine.NewQueue(New(gputest.NeedsSim(t, 32)))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	x, err := tensor.FromFloat32(q.Device(), num.F16, make([]float32, 9), 3, 3)
	if err != nil {
		t.Fatal(err)
	}
	_, err = engine.Eval(q, gemm.ForwardDefinition, engine.Args{"A": x, "B": x}, engine.WithLowering("sim.hopper"))
	if _, ok := errors.AsType[*engine.UnsuitedError](err); !ok || !strings.Contains(err.Error(), "multiples of 16 bytes") {
		t.Errorf("rows of six bytes: got %v", err)
	}
}
