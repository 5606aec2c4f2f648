package sim

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/device/gpu/gputest"
	"tokitai/engine"
	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/tensor"
)

// TestTensorCores checks that a lowering for tensor cores is admitted only if a call names it and
// the simulated GPU has tensor cores.
func TestTensorCores(t *testing.T) {
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

// TestUnknownArchitecture: where the model of tensor cores is known, the lowering without a
// promise of bits is not chosen, not even by name; where it is not, it is admitted, by results that
// any tensor core may give.
func TestUnknownArchitecture(t *testing.T) {
	q, err := engine.NewQueue(New(gputest.NeedsSim(t, 32)))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	d, formats := gemm.ForwardDefinition, []num.DType{num.BF16, num.BF16, num.F32}
	_, err = engine.Admit(q, d, formats, engine.WithLowering("sim.mma-bounded"))
	if err == nil || !strings.Contains(err.Error(), "sim.mma-bounded") {
		t.Errorf("of a known model: got %v, want an error", err)
	}
	for _, l := range engine.Lowerings(Backend, d) {
		if l.Name != "sim.mma-bounded" {
			continue
		}
		elsewhere := *l
		elsewhere.Suits = nil
		if l.Promise.IsBits() {
			t.Errorf("%s promises bits", l.Name)
		}
		if testlevel.Current() == testlevel.Smoke {
			return // compiling takes seconds
		}
		if chosen, err := engine.Admit(q, d, formats, engine.Using(&elsewhere)); err != nil || chosen != &elsewhere {
			t.Errorf("of an unknown model: got %v, %v", chosen, err)
		}
		if _, err := engine.Admit(q, d, formats, engine.Using(&elsewhere), engine.WithPolicy(engine.Same)); err == nil {
			t.Error("policy same takes a lowering without a promise of bits")
		}
		return
	}
	t.Error("there is no sim.mma-bounded")
}

// TestOtherModel: tensor cores that follow another model than the one declared do not give the
// known answers, and their lowerings are inadmissible, also where they would have been bounded.
func TestOtherModel(t *testing.T) {
	compiler := tool.Need(t, cmp.Or(os.Getenv("TOKITAI_CXX"), "g++"))
	tool.Need(t, "sh")
	planted := filepath.Join(t.TempDir(), "g++")
	if err := os.WriteFile(planted, []byte("#!/bin/sh\nexec "+compiler+" -DTOKITAI_MMA_STEP=8 -DTOKITAI_MMA_BITS=24 \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TOKITAI_CXX", planted)
	q, err := engine.NewQueue(New(gputest.NeedsSim(t, 32)))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	d, formats := gemm.ForwardDefinition, []num.DType{num.F16, num.F16, num.F16}
	for _, name := range []string{"sim.mma", "sim.hopper"} {
		if name != "sim.mma" && testlevel.Current() == testlevel.Smoke {
			return // compiling takes seconds
		}
		_, err := engine.Admit(q, d, formats, engine.WithLowering(name))
		if !errors.Is(err, engine.ErrInadmissible) || !strings.Contains(err.Error(), "the tensor cores do not follow their model") {
			t.Errorf("%s: got %v, want it inadmissible", name, err)
		}
	}
	if chosen, err := engine.Admit(q, d, formats); err != nil || chosen.Name != "sim.fma" {
		t.Errorf("without a name: admitted %v, %v, want sim.fma", chosen, err)
	}
}
