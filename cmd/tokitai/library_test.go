package main

import (
	"errors"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/bench"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/verify"
)

// TestBenchTableHasLibraries: a vendor's library has two columns where one is measured, and
// none where none is.
func TestBenchTableHasLibraries(t *testing.T) {
	plan := &bench.Plan{Backend: cpu.Backend, DTypes: []num.DType{num.F16}, IsQuick: true}
	cases := plan.Cases(all.Find("gemm.forward"))
	var without strings.Builder
	newBenchTable(&without, cases).head()
	if strings.Contains(without.String(), "  ratio") {
		t.Errorf("a table without libraries:\n%s", without.String())
	}
	cases[0].Library = &engine.Lowering{Library: "Vendor"}
	report := &benchReport{device: "cuda:0"}
	result := &bench.Result{Case: cases[0], Seconds: 2e-3, Repetitions: 15, FLOPs: 1e9, CopyGBps: 100}
	result.Library = &bench.Library{Name: "Vendor", Seconds: 1.8e-3, Ratio: 0.9, Least: 0.85, Most: 1.05, Algorithm: "algorithm 7"}
	measured := report.measured(cases[0], result)
	result.Library = &bench.Library{Name: "Vendor", Err: errors.New("it is not installed")}
	missing := report.measured(cases[0], result)
	report.Results = []benchResult{measured, missing, missing}
	report.leftOut = []string{"gemm.forward/cuda.other cannot compute this call: reason"}
	var with strings.Builder
	table := newBenchTable(&with, cases)
	table.head()
	for _, r := range report.Results {
		table.row(r)
	}
	if err := report.printEnd(&with); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(with.String(), "\n")
	for i, want := range []string{"share of copy     Vendor ms  ratio", "-         1.800  0.900 (0.850 to 1.050)", "-             -  -"} {
		if !strings.HasSuffix(lines[i], want) {
			t.Errorf("line %d is %q, want it to end in %q", i, lines[i], want)
		}
	}
	if n := strings.Count(with.String(), "Vendor was not measured: it is not installed\n"); n != 1 || !strings.Contains(with.String(), "left out: gemm.forward/cuda.other cannot compute") {
		t.Errorf("the reason is there %d times, want once, and what is left out:\n%s", n, with.String())
	}
	if measured.Library.Algorithm != "algorithm 7" || measured.Library.Error != "" || missing.Library.Error != "it is not installed" || missing.Library.MS != 0 {
		t.Errorf("as JSON: %+v, %+v", measured.Library, missing.Library)
	}
}

// TestPrintAlgorithms: what a library chose is printed with whether it has a model's bits.
func TestPrintAlgorithms(t *testing.T) {
	v := &verification{results: []*verify.Result{{Report: &evidence.Report{}}, {Report: &evidence.Report{
		Summary: evidence.Summary{Lowering: "gemm.forward/cuda.cublaslt", DType: "f16"},
		Algorithms: []evidence.Algorithm{
			{Name: "algorithm 66, tile 23", Parts: 1, Model: "mma(16,25)", Cases: 3, SameCases: 3, Elements: 30, SameBits: 30},
			{Name: "algorithm 21, split-K 4", Parts: 4, Model: "mma(16,25)", Cases: 2, SameCases: 1, Elements: 20, SameBits: 17, Others: []string{"normal/M=1"}},
		},
	}}}}
	var s strings.Builder
	v.printAlgorithms(&s)
	want := `
gemm.forward/cuda.cublaslt, f16: 4 of 5 cases with the bits of a model in all outputs
  algorithm 66, tile 23: 3 cases, all with the bits of mma(16,25)
  algorithm 21, split-K 4 (sums in 4 parts): 2 cases, 1 with the bits of mma(16,25) (17 of 20 outputs), not normal/M=1
`
	if s.String() != want {
		t.Errorf("got\n%s\nwant\n%s", s.String(), want)
	}
}

// TestFullName completes names without the kind of device, and no others.
func TestFullName(t *testing.T) {
	known := []string{"cpu.packed", "gemm.forward/cpu.packed", "all"}
	for name, want := range map[string]string{"packed": "cpu.packed", "cpu.packed": "cpu.packed", "all": "all", "other": "other", "": ""} {
		if got := fullName(cpu.Backend, name, known); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

// offering is a backend that offers other lowerings on demand.
type offering struct {
	engine.Backend
	list []*engine.Lowering
}

func (b offering) OnDemand(*def.Definition) []*engine.Lowering { return b.list }

type vendorLibrary struct{ engine.Compiler }

func (vendorLibrary) String() string { return "Vendor 1.2" }
func (vendorLibrary) Path() string   { return "/lib/vendor.so" }

// TestDoctorFindsLibraries: a vendor's library is shown with its file, or with the reason why
// it cannot be used.
func TestDoctorFindsLibraries(t *testing.T) {
	if found := findLibraries(cpu.Backend); len(found) != 0 {
		t.Errorf("the CPU has %+v", found)
	}
	d := &diagnosis{Devices: []foundDevice{{Name: "cuda:0", Available: true, Libraries: findLibraries(offering{list: []*engine.Lowering{
		{Name: "cuda.own"},
		{Name: "cuda.vendor", Library: "Vendor", OpenLibrary: func() (engine.Compiler, error) { return vendorLibrary{}, nil }},
		{Name: "cuda.other", Library: "Other", OpenLibrary: func() (engine.Compiler, error) { return nil, errors.New("Other: not found") }},
	}})}}}
	var s strings.Builder
	d.printDevices(&s)
	if want := "\ndevices\n  cuda:0  available\n          Vendor 1.2, /lib/vendor.so\n          not installed: Other: not found\n"; s.String() != want {
		t.Errorf("got %q, want %q", s.String(), want)
	}
}
