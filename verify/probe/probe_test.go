package probe_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/tensorcore"
	"tokitai/num"
	"tokitai/verify"
)

// matrixDevice is a device whose matrix instruction computes as a function does.
type matrixDevice struct {
	engine.Device
	instruction tensorcore.Instruction
	declared    num.MMA // the zero value for an unknown architecture
	compute     func(x, y []uint32, c float32) float32
	err         error
}

func (d *matrixDevice) MatrixInstructions() []tensorcore.Instruction {
	return []tensorcore.Instruction{d.instruction}
}

func (d *matrixDevice) MatrixAccum(tensorcore.Instruction) (num.MMA, bool) {
	return d.declared, d.declared != num.MMA{}
}

func (d *matrixDevice) RunTiles(_ context.Context, batches ...*tensorcore.Batch) (listing, artifact string, err error) {
	for _, b := range batches {
		x, y := make([]uint32, b.K), make([]uint32, b.K)
		for i := range b.Outputs() {
			c := b.Row(i, x, y)
			binary.LittleEndian.PutUint32(b.D[4*i:], math.Float32bits(d.compute(x, y, math.Float32frombits(c))))
		}
	}
	return "a source", strings.Repeat("ab", 32), d.err
}

func model(m num.MMA, d num.DType) func(x, y []uint32, c float32) float32 {
	return func(x, y []uint32, c float32) float32 { return m.Dot(d, x, y, c) }
}

var (
	mmaF16    = tensorcore.Instruction{Family: "mma.sync", M: 16, N: 8, K: 16, DType: num.F16}
	wgmmaE4M3 = tensorcore.Instruction{Family: "wgmma", M: 64, N: 64, K: 32, DType: num.E4M3}

	hopper    = num.MMA{L: 16, F: 25}
	ampere    = num.MMA{L: 8, F: 24}
	hopperFP8 = num.MMA{L: 32, F: 13, R: 13}
)

// TestProbe probes devices that follow the declared model, another model, or none.
func TestProbe(t *testing.T) {
	t.Parallel()
	dev, err := cpu.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	seen := 0
	for _, test := range []struct {
		what     string
		device   matrixDevice
		verdict  evidence.Verdict
		model    string
		contains string // of the reason, or of what the report shows
	}{
		{"as declared", matrixDevice{instruction: mmaF16, declared: hopper, compute: model(hopper, num.F16)}, evidence.Accepted, "mma(16,25)", "132096 outputs of 12 kinds of data"},
		{"as is declared for another", matrixDevice{instruction: mmaF16, declared: hopper, compute: model(ampere, num.F16)}, evidence.Rejected, "mma(16,25)", "mma(8,24) holds"},
		{"unknown, of a known kind", matrixDevice{instruction: mmaF16, compute: model(ampere, num.F16)}, evidence.Accepted, "mma(8,24)", "in no table"},
		{"FP8", matrixDevice{instruction: wgmmaE4M3, declared: hopperFP8, compute: model(hopperFP8, num.E4M3)}, evidence.Accepted, "mma(32,13,13)", "13 kinds"},
		{"FP8 with results of 23 bits", matrixDevice{instruction: wgmmaE4M3, declared: hopperFP8, compute: model(num.MMA{L: 32, F: 13}, num.E4M3)}, evidence.Rejected, "mma(32,13,13)", "mma(32,13) holds"},
		{"unlike any", matrixDevice{instruction: mmaF16, compute: func(x, y []uint32, c float32) float32 {
			for i := range x {
				c += num.Widen(num.F16, x[i]) * num.Widen(num.F16, y[i])
			}
			return c
		}}, evidence.Rejected, "", "is the best candidate, but"},
		{"one output wrong", matrixDevice{instruction: mmaF16, declared: hopper, compute: func(x, y []uint32, c float32) float32 {
			r := hopper.Step(num.F16, x, y, c)
			if seen++; seen == 100_000 {
				r = math.Float32frombits(math.Float32bits(r) ^ 1)
			}
			return r
		}}, evidence.Rejected, "mma(16,25)", "is declared, but 1 of 132096 outputs differ"},
		{"no answer", matrixDevice{instruction: mmaF16, declared: hopper, compute: model(hopper, num.F16), err: errors.New("lost")}, evidence.Inadmissible, "unknown", "lost"},
	} {
		t.Run(test.what, func(t *testing.T) {
			test.device.Device = dev
			r, err := verify.Probe(t.Context(), &test.device, test.device.instruction, verify.Options{Seed: 1, Tool: "test", Version: "0"})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Check(); err != nil {
				t.Error(err)
			}
			said := r.Reason + strings.Join(r.Evidence, "; ")
			if r.Verdict != test.verdict || test.model != "" && r.Model != test.model || !strings.Contains(said, test.contains) {
				t.Errorf("%s, %s: %s; want %s, %s: %s", r.Verdict, r.Model, said, test.verdict, test.model, test.contains)
			}
			if n := len(r.Candidates); test.device.err == nil && n < 90 {
				t.Errorf("%d candidates, want at least 90", n)
			}
			if r.Verdict == evidence.Accepted {
				replay := func(r *evidence.Report, c evidence.Case) verify.Replayed {
					again, err := verify.Replay(t.Context(), nil, r, c, verify.Options{})
					if err != nil {
						t.Error(err)
					}
					return again
				}
				for _, report := range []*evidence.Report{r, r.Compact()} {
					if again := replay(report, report.CaseList[3]); !again.IsCompared() || again.Comparison != evidence.SameResults {
						t.Errorf("replayed: %+v", again)
					}
				}
				other := *r
				if other.Model = "mma(4,23)"; r.Model == "mma(16,25)" {
					if again := replay(&other, r.CaseList[3]); !again.IsCompared() || again.Comparison != evidence.OtherResults {
						t.Errorf("replayed by another model: %+v", again)
					}
				}
				other.Model = "fma"
				if replay(&other, r.CaseList[3]).IsCompared() {
					t.Error("replayed by a model that is no candidate")
				}
				for _, name := range []string{"wide", "wide/tiles=0", "wide/tiles=33554432", "none/tiles=1"} {
					if replay(r, evidence.Case{Name: name}).IsCompared() {
						t.Errorf("%s is replayed", name)
					}
				}
				other = *r
				if other.Generator.Seed = nil; replay(&other, r.CaseList[3]).IsCompared() {
					t.Error("replayed without a seed")
				}
			}
			for _, c := range r.Candidates {
				if c.Elements < int64(128*12) && c.Mismatches < 100 {
					t.Errorf("%s was dropped after %d mismatches in %d outputs", c.Model, c.Mismatches, c.Elements)
				}
			}
		})
	}
}

// TestProbeIsDeterministic checks that two runs on several processors have the same counts.
func TestProbeIsDeterministic(t *testing.T) {
	t.Parallel()
	dev, err := cpu.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	var before []evidence.Candidate
	for range 2 {
		r, err := verify.Probe(t.Context(), &matrixDevice{Device: dev, instruction: mmaF16, declared: hopper, compute: model(hopper, num.F16)}, mmaF16, verify.Options{Seed: 3, Tool: "test", Version: "0"})
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && !slices.Equal(before, r.Candidates) {
			t.Errorf("got %v, then %v", before, r.Candidates)
		}
		before = r.Candidates
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := verify.Probe(ctx, &matrixDevice{Device: dev, instruction: mmaF16, declared: hopper, compute: model(hopper, num.F16)}, mmaF16, verify.Options{Tool: "test", Version: "0"})
	if err != nil || r.Verdict != evidence.Interrupted || r.Check() != nil {
		t.Errorf("got %v, %v, %v; want an interrupted report", r.Verdict, r.Check(), err)
	}
	if _, err := verify.Probe(t.Context(), &matrixDevice{Device: dev, instruction: mmaF16}, mmaF16, verify.Options{Seed: 1 << 16}); err == nil {
		t.Error("a seed of 17 bits is taken")
	}
}

// TestProbeEmulatedFP8 checks that the code that a compiler emits for an instruction that Hopper
// lacks is distinguished from every model of a tensor core.
func TestProbeEmulatedFP8(t *testing.T) {
	t.Parallel()
	dev, err := cpu.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	i := tensorcore.Instruction{Family: "mma.sync", M: 16, N: 8, K: 32, DType: num.E5M2}
	emulated := func(x, y []uint32, c float32) float32 {
		sum := float32(0)
		for _, first := range []int{0, 2} {
			var a, b []uint32
			for k := first; k < 32; k += 4 {
				for _, j := range []int{k, k + 1} { // E5M2 is the upper half of binary16
					a, b = append(a, x[j]<<8), append(b, y[j]<<8)
				}
			}
			sum = hopper.Step(num.F16, a, b, sum)
		}
		return c + sum
	}
	r, err := verify.Probe(t.Context(), &matrixDevice{Device: dev, instruction: i, compute: emulated}, i, verify.Options{Tool: "test", Version: "0"})
	if err != nil || r.Verdict != evidence.Accepted || r.Model != "emulated" {
		t.Errorf("got %s, %s, %v; want accepted, emulated", r.Verdict, r.Model, err)
	}
}
