package all

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tokitai/device"
	"tokitai/engine"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ name, kind, id string }{
		{"auto", "cpu", ""},
		{"cpu", "cpu", ""},
		{"cuda", "cuda", ""},
		{"cuda:17", "cuda", "17"},
		{"hip", "hip", ""},
		{"hip:1", "hip", "1"},
		{"sim", "sim", ""},
		{"sim:32", "sim", "32"},
		{"sim:64", "sim", "64"},
		{"amdemu", "amdemu", ""},
		{"amdemu:gfx942", "amdemu", "gfx942"},
	} {
		b, id, err := Parse(c.name)
		if err != nil || b.Kind() != c.kind || id != c.id {
			t.Errorf("Parse(%q) = %v, %q, %v; want %s, %q", c.name, b, id, err, c.kind, c.id)
		}
	}
}

func TestRefuses(t *testing.T) {
	for name, reason := range map[string]string{
		"":         "unknown kind",
		"gpu":      "unknown kind",
		"rocm:0":   "unknown kind",
		"hip:x":    `"x" is not a number from 0 to 65535`,
		"cuda:x":   `"x" is not a number from 0 to 65535`,
		"cuda:":    `nothing follows "cuda:"`,
		"cpu:0":    "cpu takes no id",
		"auto:0":   "auto takes no id",
		"auto:":    `nothing follows "auto:"`,
		"sim:16":   "the warp width is 32 or 64",
		"sim:048 ": "the warp width is 32 or 64",

		"amdemu:":        `nothing follows "amdemu:"`,
		"amdemu:0":       `"0" is not an emulated architecture, want one of gfx1100, gfx1101, gfx1102, gfx90a, gfx942`,
		"amdemu:gfx1201": `"gfx1201" is not an emulated architecture, want one of gfx1100, gfx1101, gfx1102, gfx90a, gfx942`,
	} {
		dev, err := Open(name)
		none, ok := errors.AsType[*device.NoDeviceError](err)
		if dev != nil || !ok || none.Name != name {
			t.Errorf("Open(%q) = %v, %v, want a NoDeviceError of that name", name, dev, err)
			continue
		}
		for _, part := range []string{reason, "auto, cpu, cuda:<index>, hip:<index>, sim, sim:64, amdemu:<architecture>"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("Open(%q): error %q does not say %q", name, err, part)
			}
		}
	}
}

// TestOpen opens what every machine has, and what auto means here.
func TestOpen(t *testing.T) {
	for _, name := range []string{"cpu", "auto"} {
		dev, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		if name == "cpu" && dev.Name() != "cpu" || !slices.Contains(Backends, dev.Backend().(Backend)) {
			t.Errorf("%s: got %s of %v", name, dev.Name(), dev.Backend())
		}
		b, err := dev.Alloc(1)
		if err != nil {
			t.Fatal(err)
		}
		q, err := engine.NewQueue(dev)
		if err != nil {
			t.Fatal(err)
		}
		if b.Device() != device.Device(dev) || q.Device() != device.Device(dev) || q.DeviceQueue().Device() != device.Device(dev) {
			t.Errorf("%s: a buffer or a queue is on another device", name)
		}
	}
}

// TestNamesOpen: whatever is found has a name that Parse understands, and opens or says
// what is missing.
func TestNamesOpen(t *testing.T) {
	for _, name := range Find() {
		if _, _, err := Parse(name); err != nil {
			t.Error(err)
		}
		dev, err := Open(name)
		switch {
		case err == nil && dev.Name() != name:
			t.Errorf("%s opens %s", name, dev.Name())
		case err == nil:
			dev.Close()
		case !errors.Is(err, device.ErrNoDevice) || !strings.Contains(err.Error(), name):
			t.Errorf("%s: got %v, want a NoDeviceError with its name", name, err)
		}
	}
}
