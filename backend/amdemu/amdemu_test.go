package amdemu

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/device"
	"tokitai/device/gpu/gputest"
	"tokitai/engine"
	"tokitai/op/embedding"
	"tokitai/op/gemm"
	"tokitai/op/softmax"
)

// TestLowerings: NVIDIA's tensor cores are not among them.
func TestLowerings(t *testing.T) {
	for d, want := range map[*def.Definition]string{
		softmax.ForwardDefinition: "amdemu.rowwise", gemm.ForwardDefinition: "amdemu.fma", embedding.ForwardDefinition: "amdemu.gather", embedding.BackwardDefinition: "amdemu.scatter",
	} {
		list := slices.Concat(Backend.Preferred(d), Backend.OnDemand(d))
		if len(list) != 1 || list[0].Name != want || list[0].Device != Kind {
			t.Errorf("%s: got %d lowerings, want only %s", d, len(list), want)
		}
	}
}

func TestOpen(t *testing.T) {
	for id, want := range map[string]string{"": "amdemu:gfx1100", "gfx90a": "amdemu:gfx90a"} {
		dev, err := Backend.Open(id)
		if err != nil {
			t.Fatal(err)
		}
		if dev.Name() != want || dev.Backend() != engine.Backend(Backend) || !slices.Contains(Backend.Find(), want) {
			t.Errorf("%q opens %s of %v", id, dev.Name(), dev.Backend())
		}
		dev.Close()
	}
	for _, id := range []string{"gfx1030", "0"} {
		if _, err := Backend.Open(id); !errors.Is(err, device.ErrNoDevice) || !strings.Contains(err.Error(), `no device "amdemu:`+id+`"`) {
			t.Errorf("%q: got %v, want a NoDeviceError", id, err)
		}
	}
	if Backend.IsAccelerator() {
		t.Error("auto may mean an emulated GPU")
	}
	t.Setenv("TOKITAI_AMDEMU_SEED", "first")
	if _, err := Backend.Open(""); !errors.Is(err, device.ErrNoDevice) || !strings.Contains(err.Error(), "TOKITAI_AMDEMU_SEED") {
		t.Errorf("a seed that is no number: got %v", err)
	}
}

func TestCheckReady(t *testing.T) {
	t.Setenv("TOKITAI_CACHE", filepath.Join(t.TempDir(), "cache"))
	dev := New(gputest.NeedsAMDEmulator(t, "gfx942"))
	if err := Backend.CheckReady(dev); err != nil {
		t.Error(err)
	}
	t.Setenv("TOKITAI_CLANG", "no-such-clang")
	if err := Backend.CheckReady(dev); err == nil || !strings.Contains(err.Error(), "no clang for AMD GPUs") {
		t.Errorf("without clang: got %v", err)
	}
}
