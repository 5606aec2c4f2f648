package gpu_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/lower"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/op/gemm"
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
	{3, 264, 31, false, 0, 8}, {130, 8, 520, false, 16, 0}, {20, 76, 28, false, 16, 4},
}

// isAligned reports whether the rows of both factors begin at multiples of 16 bytes.
func (s *gemmShape) isAligned(operands []num.Array) bool {
	return s.lead%16 == 0 && (operands[0].Cols+s.gap)%8 == 0 && (operands[1].Cols+s.gap)%8 == 0
}

// addMMA adds calls of a definition, in tiles of all kinds by turns.
func addMMA(t testing.TB, p *tables, d *def.Definition, dtypes []num.DType, first int) {
	g := gen.New(fmt.Sprint("mma", d.Name, dtypes))
	for _, p.variant = range []gpu.Variant{gpu.Element, gpu.Vector} {
		k, turn := p.compile(t, d, dtypes), first
		for i, s := range mmaShapes {
			operands := gemmOperands(g, d, dtypes, s.m, s.n, s.k, valueKinds[(i+first)%len(valueKinds)])
			if p.variant == gpu.Vector && !s.isAligned(operands) {
				continue
			}
			p.tile, turn = turn%gpu.MMATiles(p.variant), turn+1
			p.add(t, fmt.Sprint(d.Name, dtypes, s, p.variant, p.tile), d, k, operands, s.lead, s.gap)
		}
		// Negative zeros: a step of zeros makes a positive one of the old result.
		operands := gemmOperands(g, d, dtypes, 8, 16, 24, func(*gen.Generator) float32 { return negativeZero })
		p.add(t, fmt.Sprint(d.Name, dtypes, p.variant, " negative zeros"), d, k, operands, 0, 8)
	}
}

// TestMMA: every form, in tiles of every kind, has the bits of the model, of Hopper and of Ampere.
func TestMMA(t *testing.T) {
	for i, d := range gemms {
		if isSmoke() && i != 0 && i != 5 { // the first, and one of transposed, accumulated products
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			p := &tables{accum: []def.Accum{def.MMA(16, 25), def.MMA(8, 24)}[i%2]}
			for j, dtypes := range mmaFormats {
				if j == i%4 || isFull() {
					addMMA(t, p, d, dtypes, i+j)
				}
			}
			inBuilds(t, func(build simtest.Build) string { return p.run(t, build, 32, uint64(i)) })
		})
	}
}

// TestMMAStacks: batch axes and groups.
func TestMMAStacks(t *testing.T) {
	for i := range stacks {
		if isSmoke() && i != 2 && i != 5 { // groups of rows, and of sums
			continue
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			p := &tables{accum: def.MMA(16, 25), variant: gpu.Element}
			d := stackDefinition(i)
			dtypes := append(slices.Clone(mmaFormats[i%4]), num.I32)[:len(d.Operands)]
			k := p.compile(t, d, dtypes)
			g := gen.New(fmt.Sprint("mma", d.Name, dtypes))
			for n := range 6 {
				p.tile = n % gpu.MMATiles(gpu.Element)
				sizes := randdef.ProductSizes(g, d, []int{5, 40, 140}[n%3])
				c := randdef.NewCase(g, d, dtypes, sizes)
				p.place(t, fmt.Sprint(d.Name, dtypes, sizes), k, c.Memory)
			}
			sizes := map[string]int{"M": 40, "N": 136, "K": 72, "P": 2, "H": 2, "G": 3}
			if i < 3 || i == 4 { // groups of the others begin at any address
				p.variant = gpu.Vector
				k = p.compile(t, d, dtypes)
			}
			for p.tile = range gpu.MMATiles(p.variant) {
				p.place(t, fmt.Sprint(d.Name, dtypes, sizes), k, trial.CopyOf(d, contiguous(g, d, dtypes, sizes), nil))
			}
			if text := p.run(t, simtest.Plain, 32, uint64(i)); text != "" {
				t.Fatal(text)
			}
		})
	}
}

// TestScaledMMA: scales of rows and columns.
func TestScaledMMA(t *testing.T) {
	if isSmoke() {
		t.Skip("needs TOKITAI_LEVEL=quick or higher")
	}
	t.Parallel()
	p := &tables{accum: def.MMA(16, 25)}
	d := def.Must(def.Contraction("scaled", def.ContractionForm{
		Left: "a", LeftDims: []string{"M", "K"}, Right: "b", RightDims: []string{"K", "N"}, Result: "c", ResultDims: []string{"M", "N"},
		Scales: def.Scales{Row: "s", Col: "r"},
	}))
	addMMA(t, p, d, append(slices.Clone(mmaFormats[2]), num.F32, num.F32), 0)
	if text := p.run(t, simtest.Plain, 32, 1); text != "" {
		t.Fatal(text)
	}
}

// TestMMATiles: every number of rows has tiles of its own, as large as still gives every
// multiprocessor work.
func TestMMATiles(t *testing.T) {
	for _, x := range []struct {
		m, n, k int
		variant gpu.Variant
		want    string
	}{
		{4096, 4096, 4096, gpu.Vector, "128x256"}, {4096, 4096, 4088, gpu.Vector, "128x128"}, {2048, 4096, 4096, gpu.Vector, "128x256"}, {1024, 4096, 4096, gpu.Vector, "128x128"}, {384, 4096, 4096, gpu.Vector, "128x128"}, {256, 4096, 4096, gpu.Vector, "64x128"}, {96, 4096, 4096, gpu.Vector, "64x64"},
		{65, 1024, 64, gpu.Vector, "64x32"}, {64, 14336, 4096, gpu.Vector, "64x64"}, {64, 4096, 4096, gpu.Vector, "64x32"}, {33, 64, 64, gpu.Vector, "64x32"},
		{32, 14336, 4096, gpu.Vector, "32x64"}, {32, 4096, 4096, gpu.Vector, "32x32"}, {17, 8, 8, gpu.Vector, "32x32"},
		{16, 14336, 4096, gpu.Vector, "16x64"}, {16, 4096, 4096, gpu.Vector, "16x32"}, {1, 8, 8, gpu.Vector, "16x32"},
		{4095, 4095, 4095, gpu.Element, "128x128"}, {65, 7, 7, gpu.Element, "64x64"}, {17, 7, 7, gpu.Element, "64x64"}, {16, 7, 7, gpu.Element, "16x32"}, {2, 3, 5, gpu.Element, "16x32"},
	} {
		dtypes := mmaFormats[0]
		k, err := gpu.CompileMMA(gemm.ForwardDefinition, dtypes, x.variant)
		if err != nil {
			t.Fatal(err)
		}
		operand := func(rows, cols int) lower.Operand {
			return lower.Operand{Array: num.Array{DType: num.F16, Rows: rows, Cols: cols, Stride: cols}, Pointer: 4096}
		}
		call := &lower.Call{Operands: []lower.Operand{operand(x.m, x.k), operand(x.k, x.n), operand(x.m, x.n)}}
		if got := gpu.MMAVariant(gemm.ForwardDefinition, call); got != x.variant {
			t.Errorf("%+v: got %s access", x, got)
		}
		var plan gpu.Plan
		if err := k.Plan(&plan, call, gpu.Limits{WarpWidth: 32, Multiprocessors: 132, SharedBytes: 227 << 10}); err != nil {
			t.Fatal(err)
		}
		if got := k.Source.Entries[plan.Launches[0].Entry]; !strings.HasSuffix(got, "_"+x.want) {
			t.Errorf("%+v: got %s", x, got)
		}
		if err := k.Plan(&plan, call, gpu.Limits{WarpWidth: 32, Multiprocessors: 132, SharedBytes: 99 << 10}); err != nil || plan.Launches[0].Shared > 99<<10 {
			t.Errorf("%+v: got %d bytes of shared memory where there are %d, %v", x, plan.Launches[0].Shared, 99<<10, err)
		}
		if x.variant == gpu.Element && x.m > 1 {
			vector, err := gpu.CompileMMA(gemm.ForwardDefinition, dtypes, gpu.Vector)
			if err != nil {
				t.Fatal(err)
			}
			if err := vector.Plan(&plan, call, gpu.Limits{}); err == nil || !strings.Contains(err.Error(), "multiples of 16 bytes") {
				t.Errorf("%+v: the vector kernel takes it: %v", x, err)
			}
		}
	}
}
