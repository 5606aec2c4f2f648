package exact

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"tokitai/num"
)

var sink any

func benchStep[E Operand](b *testing.B, K int) {
	r := rand.New(rand.NewPCG(1, 1))
	x, y := make([]E, K), make([]E, K)
	for i := range x {
		x[i], y[i] = E(float32(r.NormFloat64())), E(float32(r.NormFloat64()))
	}
	rate := func(b *testing.B) {
		b.ReportMetric(float64(b.N)*float64(K)/b.Elapsed().Seconds()/1e9, "GMAC/s")
	}
	p, g := Float64(x, y, 0), newGrid(x, y, 0)
	if _, ok := twoAdic(x, y, 0, p, g); !ok {
		b.Fatal("two-adic step does not apply")
	}
	b.Run("step=float64", func(b *testing.B) {
		for b.Loop() {
			sink = Float64(x, y, 0).Sum
		}
		rate(b)
	})
	b.Run("step=two-adic", func(b *testing.B) {
		for b.Loop() {
			s, _ := twoAdic(x, y, 0, p, newGrid(x, y, 0))
			sink = s
		}
		rate(b)
	})
	b.Run("step=double-double", func(b *testing.B) {
		for b.Loop() {
			s, _, _ := doubleDouble(x, y, 0, p.Abs)
			sink = s
		}
		rate(b)
	})
	b.Run("step=big", func(b *testing.B) {
		for b.Loop() {
			sink = Big(x, y, 0)
		}
		rate(b)
	})
	for _, d := range num.FloatDTypes {
		b.Run("step=round/to="+d.String(), func(b *testing.B) {
			for b.Loop() {
				s, _ := Round(d, x, y, 0)
				sink = s
			}
			rate(b)
		})
	}
}

func BenchmarkDot(b *testing.B) {
	for _, K := range []int{256, 4096} {
		b.Run(fmt.Sprintf("K=%d/held=float32", K), func(b *testing.B) { benchStep[float32](b, K) })
		b.Run(fmt.Sprintf("K=%d/held=float64", K), func(b *testing.B) { benchStep[float64](b, K) })
	}
}

func BenchmarkSumF16(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	x := make([]uint16, 4096)
	for i := range x {
		x[i] = num.F32ToF16(float32(r.NormFloat64()))
	}
	for b.Loop() {
		var s SumF16
		for _, v := range x {
			s.Add(v)
		}
		sink = s.Round(num.F16)
	}
	b.ReportMetric(float64(b.N)*float64(len(x))/b.Elapsed().Seconds()/1e9, "Gterm/s")
}
