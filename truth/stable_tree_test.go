package truth

import (
	"math"
	"testing"

	"tokitai/internal/gen"
	"tokitai/num/ball"
)

// TestTree compares the sums of trees with sums over all columns.
func TestTree(t *testing.T) {
	g := gen.New("tree")
	kinds := map[string]func(s, j int) float64{
		"normal":           func(int, int) float64 { return float64(g.Normal()) },
		"a constant sum":   func(s, _ int) float64 { return []float64{1, float64(g.Normal()), float64(g.Normal())}[s%3] },
		"few directions":   func(s, j int) float64 { return float64((j%3-1)*s + j%2) },
		"one direction":    func(s, j int) float64 { return float64(s+1) * float64(j%5-2) },
		"other magnitudes": func(s, _ int) float64 { return math.Ldexp(float64(g.Normal()), 40*s) },
		"mostly zeros":     func(int, int) float64 { return float64(g.Normal()) * float64(g.Below(2)*g.Below(2)) },
		"zeros":            func(int, int) float64 { return 0 },
	}
	for name, derivative := range kinds {
		for _, n := range []int{1, 2, 9, 100, 1000} {
			for dim := 2; dim <= 5; dim++ {
				z := spread{errors: make([]float64, n), sums: make([]dense, dim)}
				for j := range z.errors {
					z.errors[j] = math.Abs(float64(g.Normal())) * float64(min(1, g.Below(8)))
				}
				for s := range z.sums {
					z.sums[s].by = make([]ball.Ball, n)
					for j := range n {
						z.sums[s].by[j].Mid = derivative(s, j)
					}
				}
				z.tree.build(z.sums, z.errors)
				for range 20 {
					triangle := 0.0
					for s := range z.sums {
						z.sums[s].a = float64(g.Normal()) * float64(min(1, g.Below(4)))
						for j, e := range z.errors {
							triangle += math.Abs(z.sums[s].a*z.sums[s].by[j].Mid) * e
						}
					}
					got, want := z.tree.sum(z.sums), z.direct()
					if !(math.Abs(got-want) <= float64(2*n+4*dim)*0x1p-52*triangle) {
						t.Fatalf("%s, %d columns, %d sums: got %v, want %v", name, n, dim, got, want)
					}
				}
			}
		}
	}
}
