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
	for _, c := range []struct {
		name, kind string
		number     int
	}{
		{"auto", "cpu", device.NoNumber},
		{"cpu", "cpu", device.NoNumber},
		{"cuda", "cuda", device.NoNumber},
		{"cuda:17", "cuda", 17},
		{"sim", "sim", device.NoNumber},
		{"sim:32", "sim", 32},
		{"sim:64", "sim", 64},
	} {
		b, number, err := Parse(c.name)
		if err != nil || b.Kind() != c.kind || number != c.number {
			t.Errorf("Parse(%q) = %v, %d, %v; want %s, %d", c.name, b, number, err, c.kind, c.number)
		}
	}
}

func TestRefuses(t *testing.T) {
	for name, reason := range map[string]string{
		"":         "unknown kind",
		"gpu":      "unknown kind",
		"hip:0":    "unknown kind",
		"cuda:x":   `"x" is not a number`,
		"cpu:0":    "cpu takes no number",
		"auto:0":   "auto takes no number",
		"auto:":    `"" is not a number`,
		"sim:16":   "the warp width is 32 or 64",
		"sim:048 ": "is not a number",
	} {
		dev, err := Open(name)
		none, ok := errors.AsType[*device.NoDeviceError](err)
		if dev != nil || !ok || none.Name != name {
			t.Errorf("Open(%q) = %v, %v, want a NoDeviceError of that name", name, dev, err)
			continue
		}
		for _, part := range []string{reason, "auto, cpu, cuda:<index>, sim, sim:64"} {
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
