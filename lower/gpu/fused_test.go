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
	"tokitai/trial"
	"tokitai/trial/randdef"
)

// fusedCase draws the operands of products that end in an expression: at any address, or aligned.
func fusedCase(g *gen.Generator, d *def.Definition, dtypes []num.DType, sizes map[string]int, aligned bool) *randdef.Case {
	c := randdef.NewCase(g, d, dtypes, sizes)
	if !aligned {
		return c
	}
	return c.Relaid(func(i int) trial.Layout { return trial.Layout{Gap: alignedGap(c.Operands[i], 8*g.Below(2))} })
}

// drawFused returns a random definition whose factors have a format that ok accepts, and formats of its operands.
func drawFused(g *gen.Generator, ok func(num.DType) bool) (*def.Definition, []num.DType) {
	for {
		d := randdef.Fused(g)
		for range 20 {
			if dtypes := randdef.DTypes(g, d); ok(dtypes[0]) {
				return d, dtypes
			}
		}
	}
}

// TestRandomFused compares products that end in random expressions with the reference, which computes one after
// the other: sums that are chains, in large tiles and small ones.
func TestRandomFused(t *testing.T) {
	t.Parallel()
	p := &tables{}
	for seed := range testlevel.Pick(6, 30, 200) {
		g := gen.Seeded(uint64(seed))
		d, dtypes := drawFused(g, func(num.DType) bool { return true })
		k := p.compile(t, d, dtypes)
		for i, most := range []int{20, 150} {
			p.limits.Multiprocessors = []int{1, 1000}[(seed+i)%2]
			c := fusedCase(g, d, dtypes, randdef.ProductSizes(g, d, most), i == 1 && seed%2 == 0)
			p.place(t, fmt.Sprintf("seed %d, %v\n%s", seed, dtypes, d.Text()), k, c.Memory, c.Params...)
		}
	}
	if text := p.run(t, simtest.Plain, 32, 3); text != "" {
		t.Fatal(text)
	}
}

// TestRandomFusedMMA: the same on tensor cores, in tiles of every kind.
func TestRandomFusedMMA(t *testing.T) {
	t.Parallel()
	p := &tables{accum: def.MMA(16, 25)}
	for seed := range testlevel.Pick(3, 20, 200) {
		g := gen.Seeded(uint64(seed))
		d, dtypes := drawFused(g, func(f num.DType) bool { return f == num.F16 || f == num.BF16 })
		p.variant = []gpu.Variant{gpu.Element, gpu.Vector}[seed%2]
		k := p.compile(t, d, dtypes)
		for i := range 3 {
			p.tile = (seed + 3*i) % gpu.MMATiles(p.variant)
			sizes := randdef.ProductSizes(g, d, 140)
			if p.variant == gpu.Vector {
				sizes["K"], sizes["N"], sizes["M"] = (sizes["K"]+7)/8*8, (sizes["N"]+7)/8*8, (sizes["M"]+7)/8*8
			}
			c := fusedCase(g, d, dtypes, sizes, p.variant == gpu.Vector)
			if p.variant == gpu.Vector && d.Product() == nil && gpu.MMAVariant(d, newCall(d, pointedTo(c.Operands), nil)) != gpu.Vector {
				continue // groups begin at any address
			}
			p.place(t, fmt.Sprintf("seed %d, %v, %v\n%s", seed, dtypes, sizes, d.Text()), k, c.Memory, c.Params...)
		}
	}
	if text := p.run(t, simtest.Plain, 32, 3); text != "" {
		t.Fatal(text)
	}
}

// TestRandomFusedHopper: the same with wgmma, f16, bf16 and FP8.
func TestRandomFusedHopper(t *testing.T) {
	for seed := range testlevel.Pick(2, 10, 100) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			g := gen.Seeded(uint64(seed))
			d, dtypes := drawFused(g, func(f num.DType) bool { return f.IsFP8() == (seed%3 == 2) && f != num.F32 })
			if dtypes[0].IsFP8() && gpu.TakesBytes(d) != nil {
				t.Skip("the product is not one that Hopper multiplies in FP8")
			}
			k := compileHopper(t, d, dtypes)
			var calls []multiplied
			for _, most := range []int{40, 200} {
				sizes := randdef.ProductSizes(g, d, most)
				for _, letter := range []string{"M", "N", "K"} {
					sizes[letter] = (sizes[letter] + 15) / 16 * 16
				}
				c := fusedCase(g, d, dtypes, sizes, true)
				if gpu.SuitsHopper(d, newCall(d, pointedTo(c.Operands), nil)) == nil {
					x := newMultiplied(t, fmt.Sprintf("%v, %v\n%s", dtypes, sizes, d.Text()), c.Memory, c.Params...)
					calls = append(calls, x)
				}
			}
			if text := multiply(t, simtest.Plain, uint64(seed), k, calls); text != "" {
				t.Fatal(text)
			}
		})
	}
}

// pointedTo returns operands as a kernel gets them, at aligned addresses.
func pointedTo(arrays []num.Array) []lower.Operand {
	var operands []lower.Operand
	for _, a := range arrays {
		operands = append(operands, lower.Operand{Array: a, Pointer: 4096})
	}
	return operands
}
