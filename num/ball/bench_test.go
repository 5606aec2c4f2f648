package ball

import (
	"fmt"
	"testing"
)

var sink any

func BenchmarkBall(b *testing.B) {
	xs := make([]Ball, 1024)
	for i := range xs {
		xs[i] = Ball{0.01 + float64(i)*0.01, 0x1p-30}
	}
	ys := make([]Ball, len(xs))
	one, two := unary[Ball](), pairs[Ball]()
	for _, name := range sortedKeys(one) {
		f := one[name]
		b.Run("op="+name, func(b *testing.B) {
			for b.Loop() {
				for i, x := range xs {
					ys[i] = f(x)
				}
			}
			b.ReportMetric(float64(b.N)*float64(len(xs))/b.Elapsed().Seconds()/1e6, "Mop/s")
		})
	}
	for _, name := range []string{"add", "mul", "div", "max"} {
		f := two[name]
		b.Run("op="+name, func(b *testing.B) {
			for b.Loop() {
				for i, x := range xs {
					ys[i] = f(x, xs[len(xs)-1-i])
				}
			}
			b.ReportMetric(float64(b.N)*float64(len(xs))/b.Elapsed().Seconds()/1e6, "Mop/s")
		})
	}
	b.Run("op=sum", func(b *testing.B) {
		for b.Loop() {
			ys[0] = Ball{}.Sum(xs)
		}
		b.ReportMetric(float64(b.N)*float64(len(xs))/b.Elapsed().Seconds()/1e6, "Mop/s")
	})
	sink = ys
}

func BenchmarkBig(b *testing.B) {
	one, two := unary[Big](), pairs[Big]()
	for _, prec := range []uint{100, 200, 400} {
		x, y := NewBig(1, prec).Div(NewBig(3, prec)), NewBig(2, prec).Div(NewBig(7, prec))
		for _, name := range sortedKeys(one) {
			b.Run(fmt.Sprintf("op=%s/prec=%d", name, prec), func(b *testing.B) {
				for b.Loop() {
					sink = one[name](x)
				}
			})
		}
		for _, name := range []string{"add", "mul", "div"} {
			b.Run(fmt.Sprintf("op=%s/prec=%d", name, prec), func(b *testing.B) {
				for b.Loop() {
					sink = two[name](x, y)
				}
			})
		}
	}
}
