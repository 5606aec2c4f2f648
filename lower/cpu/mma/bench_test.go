package mma_test

import (
	"fmt"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/lower/cpu/cputest"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
	"tokitai/trial"
)

// BenchmarkProducts measures products per second on one core.
func BenchmarkProducts(b *testing.B) {
	d := cputest.Products()[0]
	for _, m := range []def.Accum{def.MMA(16, 25), def.MMA(8, 24), def.MMA(4, 23)} {
		for _, dtype := range []num.DType{num.F16, num.BF16} {
			for _, n := range []int{64, 512} {
				g := gen.New("products")
				operands := []num.Array{num.NewArray(dtype, n, n), num.NewArray(dtype, n, n), num.NewArray(num.F32, n, n)}
				for _, a := range operands[:2] {
					trial.Fill(a, func(int, int) float32 { return g.Normal() })
				}
				for _, set := range machine.Available() {
					p := compile(b, d, operands, m, set)
					b.Run(fmt.Sprintf("%s/%s/%d/%s", m, dtype, n, set), func(b *testing.B) {
						for b.Loop() {
							execute(p, d, operands, g)
						}
						b.ReportMetric(float64(n*n*n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gproducts/s")
					})
				}
			}
		}
	}
}
