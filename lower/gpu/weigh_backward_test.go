package gpu_test

import (
	"fmt"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/lower"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/op/attention"
	"tokitai/trial"
	"tokitai/trial/randdef"
)

// TestStreamsBackward compares gradients of random streams with the reference, on values of every kind,
// also where nothing is visible, and on normal ones.
func TestStreamsBackward(t *testing.T) {
	t.Parallel()
	p := &tables{}
	g := gen.New("gradients of streams")
	for i := range testlevel.Pick(3, 30, 300) {
		d := randdef.StreamBackward(g)
		dtypes := randdef.DTypes(g, d)
		k := p.compile(t, d, dtypes)
		for n := range 4 {
			sizes := randdef.StreamSizes(g)
			if n == 3 && i%3 == 2 { // several blocks for a head, and, where there is time, sums of 1,024 lanes
				sizes["T"], sizes["S"], sizes["G"], sizes["J"] = 3, 5, 1, 1
				if sizes["D"] = 129 + g.Below(20); !isSmoke() && i == 2 {
					sizes["D"] = 2049 + g.Below(20)
				}
			}
			c := randdef.NewCase(g, d, dtypes, sizes)
			if n%2 == 1 {
				randdef.FillNormal(g, c)
			}
			p.place(t, fmt.Sprint(d.Name, i, dtypes, sizes), k, c.Memory, c.Params...)
		}
	}
	for warp, seed := range map[int]uint64{32: 0, 64: 7} {
		if text := p.run(t, simtest.Plain, warp, seed); text != "" {
			t.Fatal(text)
		}
	}
}

// TestStreamsBackwardMMA compares gradients of random streams on tensor cores with the reference, in the models of
// Hopper and of Ampere, and those of queries in several segments.
func TestStreamsBackwardMMA(t *testing.T) {
	models := []def.Accum{def.MMA(16, 25), def.MMA(8, 24)}
	if isSmoke() {
		models = models[:1] // compilers take long
	}
	for n, accum := range models {
		t.Run(accum.String(), func(t *testing.T) {
			t.Parallel()
			p := &tables{accum: accum}
			g := gen.New(fmt.Sprint("gradients of streams of matrices", n))
			for i := range testlevel.Pick(1, 6, 60) {
				d := randdef.StreamBackward(g)
				dtypes := d.DTypes([]num.DType{num.F16, num.BF16}[(i+n)%2])
				p.variant = gpu.Variant((i/2 + n) % 2)
				k := p.compile(t, d, dtypes)
				depth := []int{24, 8, 64, 17, 40, 128}[i%6] // an entry takes seconds to compile
				for n := range testlevel.Pick(4, 4, 8) {
					sizes := randdef.StreamSizes(g)
					sizes["D"] = depth
					lay := func(int) trial.Layout { return trial.Layout{Offset: 1, Gap: 3} }
					if p.variant == gpu.Vector {
						sizes["D"], lay = roundUp(depth, 8), nil
					}
					if n == 3 && i%3 == 0 {
						sizes["T"], sizes["S"], sizes["G"], sizes["B"] = 1100, 1400, 1, 1
					}
					c := randdef.NewCase(g, d, dtypes, sizes)
					if n%2 == 1 {
						randdef.FillNormal(g, c)
					}
					p.place(t, fmt.Sprint(d.Name, i, dtypes, sizes, p.variant), k, trial.CopyOf(d, c.Operands, lay), c.Params...)
				}
			}
			if text := p.run(t, simtest.Plain, 32, uint64(n)); text != "" {
				t.Fatal(text)
			}
		})
	}
}

// TestUnalignedHeads: kernels for wgmma take no rows of heads that do not begin at multiples of 16 bytes, whether they read or store them.
func TestUnalignedHeads(t *testing.T) {
	sizes := map[string]int{"T": 3, "S": 5, "G": 1, "J": 2, "D": 16, "B": 1}
	for _, d := range []*def.Definition{attention.ForwardDefinition, attention.BackwardDefinition} {
		call := &lower.Call{}
		for i := range d.Operands {
			rows, cols := d.Operands[i].Matrix(sizes)
			a := num.Array{DType: d.DTypes(num.BF16)[i], Rows: rows, Cols: cols, Stride: cols}
			n := rows * cols
			for _, letter := range d.Operands[i].BatchDims() {
				n /= sizes[letter]
				a.Batch.Append(sizes[letter], n)
			}
			call.Operands = append(call.Operands, lower.Operand{Array: a, Pointer: 1 << 20})
		}
		if err := gpu.SuitsWeighHopper(d, call); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
		for i := range d.Operands {
			if dims := d.Operands[i].Dims; dims[len(dims)-1] != "D" {
				continue
			}
			call.Operands[i].Pointer += 2
			if gpu.SuitsWeighHopper(d, call) == nil {
				t.Errorf("%s: %s begins at an odd address, and is taken", d.Name, d.Operands[i].Name)
			}
			call.Operands[i].Pointer -= 2
		}
	}
}

// TestStreamsBackwardHopper does so with wgmma, in heads of every width of its kernels.
func TestStreamsBackwardHopper(t *testing.T) {
	t.Parallel()
	p := &tables{accum: hopperModel, isWgmma: true}
	g := gen.New("gradients of streams of wgmma")
	for i := range testlevel.Pick(1, 6, 60) {
		d := randdef.StreamBackward(g)
		dtypes := d.DTypes([]num.DType{num.BF16, num.F16}[i%2])
		k := p.compile(t, d, dtypes)
		depth := []int{64, 128, 96, 72, 8, 120}[i%6] // an entry takes seconds to compile
		for n := range testlevel.Pick(4, 4, 8) {
			sizes := randdef.StreamSizes(g)
			sizes["D"] = depth
			if n == 3 && i%3 == 0 {
				sizes["T"], sizes["S"], sizes["G"], sizes["B"] = 1100, 1400, 1, 1
			}
			c := randdef.NewCase(g, d, dtypes, sizes)
			if n%2 == 1 {
				randdef.FillNormal(g, c)
			}
			p.place(t, fmt.Sprint(d.Name, i, dtypes, sizes), k, trial.CopyOf(d, c.Operands, func(j int) trial.Layout { return trial.Layout{Gap: alignedGap(c.Operands[j], 8*(i%2))} }), c.Params...)
		}
	}
	builds := []simtest.Build{simtest.Plain}
	if !isSmoke() {
		builds = append(builds, simtest.Race)
	}
	for _, build := range builds {
		if text := p.run(t, build, 32, 0); text != "" {
			t.Fatal(text)
		}
	}
}
