package gpu_test

import (
	"fmt"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/trial"
)

// multiplied is a call of a kernel for tensor cores, and the reference's answer by the model.
type multiplied struct {
	label        string
	before, want *trial.Operands
}

// multiply lowers a definition, makes calls in one program, and returns what is wrong, if
// anything. Changes are pairs of texts.
func multiply(t testing.TB, build simtest.Build, seed uint64, k *gpu.Kernel, calls []multiplied, change ...string) string {
	t.Helper()
	run := simtest.Run{Seed: seed}
	var plan gpu.Plan
	var placed [][]piece
	for _, c := range calls {
		pieces, operands := lay(&run, c.before, build == simtest.Address)
		placed = append(placed, pieces)
		if err := k.Plan(&plan, newCall(c.before.Definition, operands, nil), gpu.Limits{WarpWidth: 32, Multiprocessors: 2, SharedBytes: 227 << 10}); err != nil {
			t.Fatalf("%s: %v", c.label, err)
		}
		run.Launches = append(run.Launches, simtest.LaunchesOf(k, &plan)...)
	}
	source := k.Source.Text
	for i := 0; i < len(change); i += 2 {
		if !strings.Contains(source, change[i]) {
			t.Fatalf("the source does not contain %q", change[i])
		}
		source = strings.ReplaceAll(source, change[i], change[i+1])
	}
	if err := simtest.Compile(t, withTensorCores+"#line 1 \"kernel.cu\"\n"+source, build).Run(run); err != nil {
		return err.Error()
	}
	for i, c := range calls {
		if text := readBack(&run, c.before, placed[i]).Fault(c.want); text != "" {
			return "wrong bits: " + c.label + ": " + text
		}
	}
	return ""
}

var hopperModel = def.MMA(16, 25)

// call returns a call on operands as they are laid out, with the answer.
func newMultiplied(t testing.TB, label string, before *trial.Operands) multiplied {
	t.Helper()
	for i := range before.Definition.Operands {
		if o := &before.Definition.Operands[i]; o.IsOut && !o.IsIn {
			trial.FillBits(before.Array(i), func(int, int) uint32 { return 0xa5a5a5a5 })
		}
	}
	want := before.Clone()
	if err := reference.Run(want.Definition, want.Arrays(), reference.Options{Model: hopperModel}); err != nil {
		t.Fatal(err)
	}
	return multiplied{label, before, want}
}

// products returns calls of a product: rows at multiples of 16 bytes, sizes beside those
// of tiles, a gap between rows.
func products(t testing.TB, d *def.Definition, dtypes []num.DType, shapes [][3]int) []multiplied {
	t.Helper()
	g := gen.New(fmt.Sprint("hopper", d.Name, dtypes))
	var list []multiplied
	for i, s := range shapes {
		operands := gemmOperands(g, d, dtypes, s[0], s[1], s[2], valueKinds[i%len(valueKinds)])
		before := trial.CopyOf(d, operands, func(j int) trial.Layout { return trial.Layout{Gap: alignedGap(operands[j], 8*(i%2))} })
		list = append(list, newMultiplied(t, fmt.Sprint(d.Name, dtypes, s), before))
	}
	return list
}

func compileHopper(t testing.TB, d *def.Definition, dtypes []num.DType) *gpu.Kernel {
	t.Helper()
	k, err := gpu.CompileHopper(d, dtypes)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var hopperShapes = [][3]int{{130, 264, 72}, {64, 120, 200}, {5, 8, 8}, {1, 1, 1}, {300, 130, 330}}

// TestHopper compares the kernel for Hopper with the reference, by the model.
func TestHopper(t *testing.T) {
	formats := [][]num.DType{{num.F16, num.F16, num.F16}, {num.BF16, num.BF16, num.F32}, {num.BF16, num.BF16, num.BF16}, {num.F16, num.F16, num.F32}}
	for i, d := range gemms {
		if isSmoke() && i%3 != 0 {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			dtypes := formats[i%len(formats)]
			k, calls := compileHopper(t, d, dtypes), products(t, d, dtypes, hopperShapes)
			builds := []simtest.Build{simtest.Plain}
			if isFull() {
				builds = append(builds, simtest.Address, simtest.Race)
			}
			for _, build := range builds {
				if text := multiply(t, build, uint64(i), k, calls); text != "" {
					t.Errorf("%v: %s", build, text)
				}
			}
		})
	}
}

// TestHopperStacks: batch axes and groups.
func TestHopperStacks(t *testing.T) {
	for i := range stacks {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			d := stackDefinition(i)
			dtypes := append([]num.DType{num.BF16, num.BF16, num.BF16}, num.I32)[:len(d.Operands)]
			k := compileHopper(t, d, dtypes)
			g := gen.New(fmt.Sprint("hopper", d.Name))
			var calls []multiplied
			for n := range 3 {
				sizes := map[string]int{"M": 40 + 96*n, "N": 136, "K": 72 + 8*n, "P": 2, "H": 2, "G": 3}
				calls = append(calls, newMultiplied(t, fmt.Sprint(d.Name, sizes), trial.CopyOf(d, contiguous(g, d, dtypes, sizes), nil)))
			}
			if text := multiply(t, simtest.Plain, uint64(i), k, calls); text != "" {
				t.Error(text)
			}
		})
	}
}
