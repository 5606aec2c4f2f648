package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"tokitai/backend/cpu"
	"tokitai/bench"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/op/softmax"
	"tokitai/reference"
)

// benchmark measures softmax.forward in its three formats, those at some positions
// with a kernel of the test, which may interrupt. It returns the text, too.
func benchmark(t *testing.T, admission engine.Admission, kernels map[int]testKernel) (report *benchReport, text string, failure error) {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	q, err := engine.NewQueue(dev, engine.WithLog(warnings(t.Output())), engine.WithAdmission(admission))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	meter, err := bench.NewMeter(q, bench.Options{CopyBytes: 1 << 16, Repetitions: 1, Time: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	plan := &bench.Plan{Backend: cpu.Backend, Sizes: map[string]int{"R": 3, "C": 5}}
	cases := plan.Cases(all.Find("softmax.forward"))
	for at, kernel := range kernels {
		cases[at].Lowering = &engine.Lowering{
			Name: "cpu.broken", Device: "cpu",
			Compile: func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) {
				return engine.KernelFunc(func(l *engine.Launch) error { return kernel(l, cancel) }), nil
			},
		}
	}
	c := &cobra.Command{}
	c.SetContext(ctx)
	c.SetErr(t.Output())
	report = newBenchReport(dev)
	var s strings.Builder
	table := newBenchTable(&s, cases)
	table.head()
	failure = report.measure(c, meter, cases, table.row)
	if err := report.printEnd(&s); err != nil {
		t.Fatal(err)
	}
	return report, s.String(), failure
}

// testKernel computes, and may interrupt.
type testKernel func(l *engine.Launch, interrupt func()) error

func silent(*engine.Launch, func()) error { return nil }

func interrupting(l *engine.Launch, interrupt func()) error {
	interrupt()
	return reference.Run(softmax.ForwardDefinition, l.Arrays(), reference.Options{})
}

// A kernel that computes something else is reported, and the others are measured.
func TestBenchFails(t *testing.T) {
	for _, row := range []struct {
		name      string
		admission engine.Admission
		code      int
		message   string
	}{
		{"wrong", engine.Off, exitRejected, "softmax.forward/cpu.broken bf16 R=3,C=5: wrong before timing: y[0,0] is 0xa5a5, want 0x"},
		{"inadmissible", engine.SelfTest, exitUndecided, "softmax.forward/cpu.broken is inadmissible on cpu"},
	} {
		report, text, err := benchmark(t, row.admission, map[int]testKernel{1: silent})
		if exitCode(err) != row.code || report.Partial || len(report.Results) != 3 {
			t.Errorf("%s: %v, %+v", row.name, err, report)
			continue
		}
		for i, r := range report.Results {
			if (r.Error != "") != (i == 1) || (r.MS > 0) != (i != 1) || (r.Share > 0) != (i != 1) {
				t.Errorf("%s: result %d is %+v", row.name, i, r)
			}
		}
		if !strings.Contains(report.Results[1].Error, row.message) || !strings.Contains(text, "failed: ") || !strings.Contains(text, row.message) {
			t.Errorf("%s: %q in\n%s", row.name, report.Results[1].Error, text)
		}
	}
}

// After an interrupt, what has been measured is printed as a part.
func TestBenchInterrupted(t *testing.T) {
	for at := range 3 {
		report, text, err := benchmark(t, engine.Off, map[int]testKernel{at: interrupting})
		if exitCode(err) != exitUndecided || !strings.Contains(err.Error(), "interrupted: ") || !report.Partial || len(report.Results) != at || !strings.Contains(text, "\npartial: ") {
			t.Errorf("%d: %v, %+v\n%s", at, err, report, text)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, stdout, stderr := program(ctx, "bench", "--quick", "--json")
	if code != exitUndecided || !strings.Contains(stdout, `"partial": true`) || !strings.Contains(stdout, `"results": []`) || !strings.Contains(stderr, "interrupted: 0 of ") {
		t.Errorf("exit code %d, %s, %s", code, stdout, stderr)
	}
}

// A wrong result outweighs an interrupt, and an interrupt a failed self-test.
func TestBenchGravest(t *testing.T) {
	report, _, err := benchmark(t, engine.Off, map[int]testKernel{0: silent, 2: interrupting})
	if exitCode(err) != exitRejected || !report.Partial || len(report.Results) != 2 {
		t.Errorf("wrong, then interrupted: %v, %+v", err, report)
	}
	report, _, err = benchmark(t, engine.SelfTest, map[int]testKernel{0: silent, 2: interrupting})
	if exitCode(err) != exitUndecided || !strings.Contains(err.Error(), "interrupted: ") || len(report.Results) != 2 {
		t.Errorf("inadmissible, then interrupted: %v, %+v", err, report)
	}
}

// The keys of --json, which programs rely on.
func TestBenchJSON(t *testing.T) {
	code, stdout, stderr := program(t.Context(), "bench", "softmax.forward", "gemm.forward", "--quick", "--dtype", "f16", "--shape", "R=2,C=3,M=2,N=3,K=4", "--json")
	var report struct {
		Tool, Version string
		Host          map[string]any
		Copy          map[string]float64
		Results       []map[string]any
	}
	if err := json.Unmarshal([]byte(stdout), &report); code != 0 || err != nil || stderr != "" || len(report.Results) != 2 {
		t.Fatalf("exit code %d, %v, %s%s", code, err, stdout, stderr)
	}
	common := []string{"op", "shape", "dtype", "device", "lowering", "ms", "repetitions", "bytes", "copy_gbps"}
	for i, want := range [][]string{append(slices.Clone(common), "gbps", "share"), append(slices.Clone(common), "tflops")} {
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(report.Results[i])); !slices.Equal(got, want) {
			t.Errorf("result %d has %v, want %v", i, got, want)
		}
	}
	r := report.Results[0]
	if share, want := r["share"].(float64), r["gbps"].(float64)/r["copy_gbps"].(float64); share != want {
		t.Errorf("share %v, want %v", share, want)
	}
	if report.Tool != "tokitai" || report.Version != version || report.Host["cpu"] == "" || report.Copy["count"] < 3 || !(report.Copy["gbps"] > 0) {
		t.Errorf("%+v", report)
	}
}
