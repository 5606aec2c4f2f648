package cpu_test

import (
	"fmt"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/cputest"
	"tokitai/lower/cpu/jit"
	"tokitai/lower/cpu/machine"
	"tokitai/lower/cpu/matmul"
	"tokitai/num"
	"tokitai/trial/randdef"
)

// TestRandomFused compares products that end in random expressions with the reference, which computes one
// after the other: in plain Go and in the code of each instruction set, few rows at a time and many.
func TestRandomFused(t *testing.T) {
	for seed := range testlevel.Pick(40, 400, 4000) {
		g := gen.Seeded(uint64(seed))
		d := randdef.Fused(g)
		dtypes := randdef.DTypes(g, d)
		for range 2 {
			c := randdef.NewCase(g, d, dtypes, randdef.ProductSizes(g, d, 70))
			want := answer(t, c)
			for _, set := range machine.Available() {
				p, err := lowercpu.CompileFused(d, dtypes, func(part *def.Definition, dtypes []num.DType) (lowercpu.Program, error) {
					switch {
					case set == machine.Plain:
						return lowercpu.Compile(part, dtypes, lowercpu.Short)
					case part.Product() != nil:
						return matmul.Compile(part, dtypes, set)
					}
					return jit.Compile(part, dtypes, 0, set)
				})
				if err != nil {
					t.Fatal(err)
				}
				for _, rows := range []int{1 + g.Below(20), 1000} {
					lowercpu.SetFusedRows(p, rows)
					got := c.Clone()
					workers := workerCounts[g.Below(len(workerCounts))]
					cputest.Execute(p, cputest.CallOf(got), workers, g)
					report(t, got, want, p, "seed %d, %s, %d workers, %d rows at a time", seed, fmt.Sprint(set), workers, rows)
				}
			}
		}
	}
}
