package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/device/gpu/gputest"
	"tokitai/device/gpu/hip/standin"
	"tokitai/evidence"
	"tokitai/internal/alone"
	"tokitai/internal/testlevel"
)

// TestStandIn runs the program on hip:0, an emulated GPU behind a library that stands in for
// HIP's.
func TestStandIn(t *testing.T) {
	testlevel.Need(t, testlevel.Full, "emulates for tens of seconds")
	if !alone.Process(t) { // a process opens one library of HIP's
		return
	}
	gputest.NeedsClang(t)
	standin.Forward(t, "gfx1100")
	t.Chdir(t.TempDir())
	t.Setenv("TOKITAI_CACHE", filepath.Join(t.TempDir(), "cache"))
	run := func(want string, arguments ...string) {
		t.Helper()
		code, stdout, stderr := program(t.Context(), arguments...)
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("tokitai %s: exit code %d, want 0 and %q\n%s%s", strings.Join(arguments, " "), code, want, stdout, stderr)
		}
	}
	run("hip:0", "doctor", "--device", "cpu")
	run("1 accepted, 0 rejected", "verify", "embedding.forward", "--device", "hip:0", "--level", "smoke", "--dtype", "f16", "--out", "reports.zip")
	index, reports, err := evidence.ReadRun("reports.zip")
	if err != nil {
		t.Fatal(err)
	}
	if m := reports[0].Machine; index.Totals.Mismatches != 0 || m.Name != "emulated gfx1100" || m.Architecture != "gfx1100" || m.Driver != "HIP 6.4.43484" {
		t.Errorf("reports of %+v with %d mismatches", m, index.Totals.Mismatches)
	}
	run("3 cases", "evidence", "reports", "--replay", "3")
	run(`"device": "hip:0"`, "bench", "gelu.forward", "--device", "hip:0", "--dtype", "f16", "--shape", "R=2,C=32", "--json")

	writeFile(t, "x.safetensors", "x:f16:2x3=1")
	run("", "run", "gelu.forward", "--device", "hip:0", "--in", "x.safetensors", "--out", "hip.npy")
	run("", "run", "gelu.forward", "--device", "cpu", "--in", "x.safetensors", "--out", "cpu.npy")
	var bits [2][]byte
	for i, file := range []string{"hip.npy", "cpu.npy"} {
		if bits[i], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(bits[0], bits[1]) {
		t.Errorf("hip:0 computes % x, the CPU % x", bits[0], bits[1])
	}
}
