package nvml

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/internal/tool"
)

// TestStandIn reads everything from a library that stands in for NVIDIA's, and has the types of nvml.h from a
// C compiler.
func TestStandIn(t *testing.T) {
	library := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if out, err := exec.Command(tool.Need(t, "gcc"), "-shared", "-fPIC", "-o", library, "testdata/nvml.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("TOKITAI_NVML", library)
	l, err := newLibrary()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.open("0000:1c:00.0"); err == nil || !strings.Contains(err.Error(), "Not Found (code 6)") {
		t.Errorf("another bus: got error %v", err)
	}
	d, err := l.open("0000:1b:00.0")
	if err != nil {
		t.Fatal(err)
	}
	if d.UUID != "GPU-01234567-89ab-cdef-0123-456789abcdef" || d.Serial != "" || d.Driver != "580.159" {
		t.Errorf("got %q %q %q", d.UUID, d.Serial, d.Driver)
	}
	check := func(what string, got any, want string) {
		if text, _ := json.Marshal(got); string(text) != want {
			t.Errorf("%s: got %s, want %s", what, text, want)
		}
	}
	check("errors", d.Errors(), `{"Corrected":0,"Uncorrected":10,"CorrectedEver":1,"UncorrectedEver":11,"RemappedCorrectable":1,"RemappedUncorrectable":2,"RemapPending":true,"RemapFailed":false}`)
	check("sample", d.Sample(), `{"Celsius":61,"MemoryCelsius":73,"Watts":690.5,"ClockMHz":1980,"Slowed":["power cap","heat, by hardware","reasons 0x1000"],"IsTold":true}`)
	check("limit", d.PowerLimitWatts(), "700")
	if e := d.Errors(); *e.Corrected != 100 {
		t.Errorf("after a sample: %d errors corrected, want 100", *e.Corrected)
	}
}

func TestNoLibrary(t *testing.T) {
	t.Setenv("TOKITAI_NVML", filepath.Join(t.TempDir(), "nothing.so"))
	if _, err := newLibrary(); err == nil || !strings.Contains(err.Error(), "NVIDIA's management library") {
		t.Errorf("got error %v", err)
	}
}
