package soak_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"tokitai/backend/gputest"
	"tokitai/device/gpu"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/driver"
	devicetest "tokitai/device/gpu/gputest"
	"tokitai/device/gpu/sim"
	"tokitai/soak"
)

func TestMain(m *testing.M) { os.Exit(gputest.KeepKernels(m.Run)) }

// soaked runs the shortest soak of the simulator, whose driver a test may change.
func soaked(t *testing.T, width int, change func(*driver.Table)) *soak.Report {
	t.Helper()
	devicetest.NeedsSim(t, width)
	table, err := sim.Table(width)
	if err != nil {
		t.Fatal(err)
	}
	changed := *table
	if change != nil {
		change(&changed)
	}
	dev := gputest.NeedsWith(t, &changed, width, gpu.Options{})
	r, err := soak.GPU(context.Background(), dev, soak.Options{Time: time.Millisecond, Seed: 7, IsSmall: true})
	if err != nil {
		t.Fatal(err)
	}
	r.Tool, r.Version = "tokitai", "test"
	data, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := soak.Decode(data); err != nil {
		t.Errorf("the report is refused: %v\n%s", err, data)
	}
	return r
}

// source is a change of the kernels' source.
func source(t *testing.T, old, text string) func(*driver.Table) {
	return func(table *driver.Table) {
		inner := table.Compile
		table.Compile = func(index int, s compile.Source) (*compile.Program, error) {
			if strings.Count(s.Text, old) != 1 {
				t.Fatalf("the source has %d times %q, want it once", strings.Count(s.Text, old), old)
			}
			s.Text = strings.Replace(s.Text, old, text, 1)
			return inner(index, s)
		}
	}
}

func TestRightGPU(t *testing.T) {
	for width, checks := range map[int][]string{32: {"arithmetic", "shared memory", "matrix products of f16", "matrix products of bf16"}, 64: {"arithmetic", "shared memory"}} {
		r := soaked(t, width, nil)
		var names []string
		for _, c := range r.Checks {
			names = append(names, c.Name)
			if c.Least != c.Most || c.Least == 0 {
				t.Errorf("width %d: %s: %d to %d answers of a multiprocessor, want the same of each", width, c.Name, c.Least, c.Most)
			}
		}
		if r.Verdict != soak.Right || r.Units.Held != 4 || !slices.Equal(names, checks) || r.Memory.Held != 1<<20 || len(r.Memory.Patterns) != 8 {
			text, _ := json.Marshal(r)
			t.Errorf("width %d: got %s", width, text)
		}
	}
}

// TestPlantedFaults has faults as chips have them found, and placed.
func TestPlantedFaults(t *testing.T) {
	stuck := func(table *driver.Table) { // one bit of the memory that is held is always set
		alloc, launch := table.Alloc, table.Launch
		var at driver.Pointer
		table.Alloc = func(bytes int64) (driver.Pointer, error) {
			p, err := alloc(bytes)
			if bytes == 1<<20 {
				at = p + 0x1235
			}
			return p, err
		}
		table.Launch = func(f driver.Function, grid, block [3]uint32, shared uint32, s driver.Stream, params []byte) error {
			err := launch(f, grid, block, shared, s, params)
			b := make([]byte, 1)
			table.CopyOut(b, at, s)
			b[0] |= 1 << 3
			table.CopyIn(at, b, s)
			return err
		}
	}
	for _, test := range []struct {
		name   string
		change func(*driver.Table)
		places []string // beginnings
	}{
		{"a wrong lane", source(t, "float f = fused(a, b, c)", "float f = fused(a, b, c) + (threadIdx.x == 45 ? 0x1p-20f : 0.0f)"), []string{"arithmetic: multiprocessors 0 1 2 3, lane 13, "}},
		{"a wrong multiprocessor", source(t, "q = divide(a, b)", "q = divide(a, multiprocessor() == 2 ? b + 0x1p-23f : b)"), []string{"arithmetic: multiprocessor 2, 32 lanes, "}},
		{"a wrong matrix product", source(t, "multiply(d, left[j], right[j]);", "multiply(d, left[j], right[j]), d[3] = d[3] + (multiprocessor() == 1 && threadIdx.x % 32 == 7 ? 1.0f : 0.0f);"),
			[]string{"matrix products of bf16: multiprocessor 1, lane 7, ", "matrix products of f16: multiprocessor 1, lane 7, "}},
		{"a cell of shared memory", source(t, "cells[i] = mix(salt + i) ^ flip;", "cells[i] = (mix(salt + i) ^ flip) & (i == 1000 && multiprocessor() == 3 ? ~256u : ~0u);"), []string{"shared memory: multiprocessor 3, lane "}},
		{"a wrong exchange", source(t, "SHFL_XOR(own, d, 32)", "(SHFL_XOR(own, d, 32) ^ (multiprocessor() == 0 && threadIdx.x % 32 == 31))"), []string{"exchange between lanes: multiprocessor 0, lane 31, bits 00000001"}},
		{"a bit of memory", stuck, []string{"memory: multiprocessor "}},
	} {
		r := soaked(t, 32, test.change)
		if r.Verdict != soak.Wrong || len(r.Places) != len(test.places) {
			t.Errorf("%s: got verdict %s, places %q", test.name, r.Verdict, r.Places)
			continue
		}
		for i, want := range test.places {
			if !strings.HasPrefix(r.Places[i], want) {
				t.Errorf("%s: got %q, want %q…", test.name, r.Places[i], want)
			}
		}
	}
	r := soaked(t, 32, stuck)
	if got := r.Places[len(r.Places)-1]; !strings.HasSuffix(got, "byte 0x1234, bits 00000800") || r.Faults[0].Again != "00000800" {
		t.Errorf("a bit of memory: got %q, %v", got, &r.Faults[0])
	}
}
