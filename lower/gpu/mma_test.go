package gpu_test

import (
	"fmt"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/trial"
	"tokitai/trial/randdef"
)

// mmaFormats are those that tensor cores multiply.
var mmaFormats = [][]num.DType{{num.F16, num.F16, num.F16}, {num.BF16, num.BF16, num.F32}, {num.BF16, num.BF16, num.BF16}, {num.F16, num.F16, num.F32}}

// mmaShapes are products of m×n, summed over k: less than a step of any kind, whole steps,
// more steps than are in shared memory, and sizes beside those of tiles.
var mmaShapes = []gemmShape{
	{1, 1, 1, false, 0, 0}, {5, 19, 33, false, 4, 3}, {16, 32, 256, false, 0, 0}, {17, 33, 70, false, 16, 8},
	{7, 40, 1300, false, 0, 0}, {33, 9, 600, false, 2, 0}, {65, 72, 16, false, 16, 8}, {64, 24, 129, false, 0, 0},
	{3, 264, 31, false, 0, 8}, {130, 8, 520, false, 16, 0},
}

// addMMA adds calls of a definition, each shape in tiles of one kind and of the next.
func addMMA(t testing.TB, p *tables, d *def.Definition, dtypes []num.DType, first int) {
	k := p.compile(t, d, dtypes)
	g := gen.New(fmt.Sprint("mma", d.Name, dtypes))
	for i, s := range mmaShapes {
		p.tile = (i + first) % gpu.MMATiles
		value := valueKinds[(i+first)%len(valueKinds)]
		p.add(t, fmt.Sprint(d.Name, dtypes, s, " in tiles of kind ", p.tile), d, k, gemmOperands(g, d, dtypes, s.m, s.n, s.k, value), s.lead, s.gap)
	}
	// Negative zeros: a step of zeros makes a positive one of the old result.
	operands := gemmOperands(g, d, dtypes, 5, 6, 7, func(*gen.Generator) float32 { return negativeZero })
	p.add(t, fmt.Sprint(d.Name, dtypes, " negative zeros"), d, k, operands, 0, 1)
}

// TestMMA: every form, in tiles of every kind, has the bits of the model, of Hopper and of Ampere.
func TestMMA(t *testing.T) {
	for i, d := range gemms {
		if isSmoke() && i != 0 && i != 3 && i != 4 {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			p := &tables{model: []def.Model{def.MMA(16, 25), def.MMA(8, 24)}[i%2]}
			for j, dtypes := range mmaFormats {
				if j == i%4 || isFull() {
					addMMA(t, p, d, dtypes, i+j)
				}
			}
			builds := []simtest.Build{simtest.Plain}
			if isFull() {
				builds = append(builds, simtest.Address, simtest.Race)
			}
			for _, build := range builds {
				if text := p.run(t, build, 32, uint64(i)); text != "" {
					t.Fatalf("%v: %s", build, text)
				}
			}
		})
	}
}

// TestMMAStacks: batch axes and groups.
func TestMMAStacks(t *testing.T) {
	for i := range stacks {
		if isSmoke() && i < 3 {
			continue
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			p := &tables{model: def.MMA(16, 25)}
			d := stackDefinition(i)
			dtypes := append(slices.Clone(mmaFormats[i%4]), num.I32)[:len(d.Operands)]
			k := p.compile(t, d, dtypes)
			g := gen.New(fmt.Sprint("mma", d.Name, dtypes))
			for n := range 8 {
				p.tile = n % gpu.MMATiles
				sizes := randdef.ProductSizes(g, d, []int{5, 40, 140}[n%3])
				c := randdef.NewCase(g, d, dtypes, sizes)
				p.place(t, fmt.Sprint(d.Name, dtypes, sizes), k, c.Memory)
			}
			for n := range gpu.MMATiles {
				p.tile = n
				sizes := map[string]int{"M": 40, "N": 136, "K": 72, "P": 2, "H": 2, "G": 3}
				p.place(t, fmt.Sprint(d.Name, dtypes, sizes), k, trial.CopyOf(d, contiguous(g, d, dtypes, sizes), nil))
			}
			if text := p.run(t, simtest.Plain, 32, uint64(i)); text != "" {
				t.Fatal(text)
			}
		})
	}
}
