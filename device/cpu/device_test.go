package cpu

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"tokitai/device"
)

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		o    Options
		text string
	}{
		{Options{Workers: -1}, "cpu: new: got -1 workers, want 1 to 4096"},
		{Options{Workers: 4097}, "cpu: new: got 4097 workers"},
		{Options{MemoryLimit: -5}, "cpu: new: got a memory limit of -5 bytes"},
	} {
		d, err := New(c.o)
		if d != nil || !errors.Is(err, device.ErrBadArgument) || !strings.HasPrefix(err.Error(), c.text) {
			t.Errorf("New(%+v) = %v, %v, want %q", c.o, d, err, c.text)
		}
	}
}

func TestDescribe(t *testing.T) {
	d := open(t, Options{Workers: 3, MemoryLimit: 1 << 30})
	got := d.Describe()
	if got.Name == "" || got.Architecture != runtime.GOARCH || got.Units != 3 || got.MemoryBytes != 1<<30 {
		t.Errorf("Describe() = %+v", got)
	}
	if !slices.IsSorted(got.Features) {
		t.Errorf("features %v are not sorted", got.Features)
	}
	if kind, _, err := device.ParseName(d.Name()); err != nil || kind != d.Kind() {
		t.Errorf("ParseName(%q) = %q, %v", d.Name(), kind, err)
	}
	if len(got.Features) > 0 {
		got.Features[0] = "changed by the caller"
		if slices.Contains(d.Describe().Features, "changed by the caller") {
			t.Error("a caller can change the device's own list")
		}
	}
	if got := open(t, Options{}).Pool().Workers(); got != runtime.GOMAXPROCS(0) {
		t.Errorf("%d workers by default, want GOMAXPROCS = %d", got, runtime.GOMAXPROCS(0))
	}
}

func TestFeaturesOfThisArchitecture(t *testing.T) {
	foreign := map[string][]string{"amd64": {"asimd", "sve"}, "arm64": {"avx", "avx2", "fma"}}
	for _, name := range foreign[runtime.GOARCH] {
		if slices.Contains(features(), name) {
			t.Errorf("%s reports %s", runtime.GOARCH, name)
		}
	}
	if slices.Contains(features(), "avx512f") && !slices.Contains(features(), "avx2") {
		t.Errorf("avx512f without avx2: %v", features())
	}
}

func TestProcFiles(t *testing.T) {
	cpuinfo := "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 143\nmodel name\t: Intel(R) Xeon(R): Gold 6430\n" +
		"processor\t: 1\nmodel name\t: another\n"
	if got, want := modelName([]byte(cpuinfo)), "Intel(R) Xeon(R): Gold 6430"; got != want {
		t.Errorf("model name %q, want %q", got, want)
	}
	if got := modelName([]byte("processor\t: 0\nBogoMIPS\t: 50.00\n")); got != "" {
		t.Errorf("model name %q where there is none", got)
	}
	for text, want := range map[string]int64{
		"MemTotal:       16384 kB\nMemFree: 3 kB\n": 16 << 20,
		"MemFree: 3 kB\n":                  0,
		"MemTotal: x kB\n":                 0,
		"MemTotal: -4 kB\n":                0,
		"MemTotal: 9000000000000000000 kB": 0,
		"":                                 0,
	} {
		if got := totalMemory([]byte(text)); got != want {
			t.Errorf("totalMemory(%q) = %d, want %d", text, got, want)
		}
	}
	const status = "Name:\tx\nVmPeak:\t 9 kB\nVmSize:\t    1024 kB\n"
	for limits, want := range map[string]int64{
		"Max stack size            8388608              unlimited            bytes\nMax address space         5000000              unlimited            bytes\n": 5000000 - 1<<20,
		"Max address space         1000                 1000                 bytes\n":                                                                            1,
		"Max address space         unlimited            unlimited            bytes\n":                                                                            0,
		"": 0,
	} {
		if got, ok := addressSpace([]byte(limits), []byte(status)); got != want || ok != (want > 0) {
			t.Errorf("addressSpace(%q) = %d, %v, want %d", limits, got, ok, want)
		}
	}
}

func TestQueue(t *testing.T) {
	d := open(t, Options{})
	q, err := d.NewQueue()
	if err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if q.Device() != device.Device(d) || q.Wait(canceled) != nil {
		t.Error("an empty queue is done, whatever the context says")
	}
	e, err := q.Record()
	if err != nil || !e.Done() || e.Wait(canceled) != nil {
		t.Errorf("an event of the CPU is reached at once: %v", err)
	}
	if allocs := testing.AllocsPerRun(100, func() {
		e, _ := q.Record()
		if !e.Done() || q.Wait(canceled) != nil {
			t.Error("not done")
		}
	}); allocs != 0 {
		t.Errorf("recording and waiting allocate %v times", allocs)
	}
	q.Close()
	if err := q.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := q.Wait(t.Context()); !errors.Is(err, device.ErrClosed) {
		t.Errorf("Wait on a closed queue: %v", err)
	}
	if e, err := q.Record(); e != nil || !errors.Is(err, device.ErrClosed) {
		t.Errorf("Record on a closed queue: %v, %v", e, err)
	}
}
