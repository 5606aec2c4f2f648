package gpu_test

import (
	"fmt"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
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
