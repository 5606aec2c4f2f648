package truthtest

import (
	"cmp"
	"fmt"
	"math"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/truth"
)

// stepsInAnyOrder adds products on a tensor core, those of a step drawn at random, in
// several partial sums that are added up at random, and the old value at the end or as
// the beginning of a partial sum.
func stepsInAnyOrder(g *gen.Generator, m num.MMA, d num.DType, a, b []uint32, init float32) float32 {
	a, b = append([]uint32(nil), a...), append([]uint32(nil), b...)
	for i := range a {
		j := i + g.Below(len(a)-i)
		a[i], a[j], b[i], b[j] = a[j], a[i], b[j], b[i]
	}
	partial := make([]float32, 1+g.Below((len(a)+m.L-1)/m.L))
	last := g.Below(2) == 0
	if !last {
		partial[0] = init
	}
	for k, step := 0, 0; k < len(a); k, step = k+m.L, step+1 {
		end, p := min(k+m.L, len(a)), &partial[step%len(partial)]
		*p = m.Step(d, a[k:end], b[k:end], *p)
	}
	sum := shuffled(g, partial)
	if last {
		sum += init
	}
	return sum
}

// TestStepsInAnyOrder checks that, with a model of tensor cores and an order, the enclosure holds the
// results of the model's steps in every order, and binary32 sums too, and extends to the bound that
// the documents derive.
func TestStepsInAnyOrder(t *testing.T) {
	const M, N = 4, 5
	outside, count := 0, 0
	for _, accum := range []def.Accum{def.MMA(16, 25), def.MMA(8, 24), def.MMA(4, 23), def.MMA(2, 20).Narrow(8)} {
		for _, dtype := range []num.DType{num.F16, num.BF16} {
			for _, K := range []int{1, 2, 3, 15, 16, 17, 100, 1000} {
				if accum.R != 0 && K > 100 { // nothing is known of so many narrow steps
					continue
				}
				for kind, value := range kinds {
					g := gen.New(fmt.Sprint(t.Name(), accum, dtype, K, kind))
					d := def.Must(def.Contraction("product", def.ContractionForm{
						Left: "a", LeftDims: []string{"M", "K"}, Right: "b", RightDims: []string{"K", "N"}, Result: "c", ResultDims: []string{"M", "N"}, Accumulate: K%2 == 1,
					}))
					a, b, c := num.NewArray(dtype, M, K), num.NewArray(dtype, K, N), num.NewArray(num.F32, M, N)
					fill(g, a, value)
					fill(g, b, value)
					fill(g, c, value)
					r, err := truth.Enclose(d, []num.Array{a, b, c}, truth.Options{Mode: truth.Rounded, Accum: accum, Order: &def.Order{}})
					if err != nil {
						t.Fatal(err)
					}
					for row := range M {
						for col := range N {
							var left, right []uint32
							var terms []float32
							exactly, abs, init := 0.0, 0.0, float32(0)
							if d.Accumulates() {
								init = c.At(row, col)
								terms = append(terms, init)
							}
							exactly, abs = float64(init), math.Abs(float64(init))
							for k := range K {
								left, right = append(left, a.Bits(row, k)), append(right, b.Bits(k, col))
								p := float64(a.At(row, k)) * float64(b.At(k, col))
								terms = append(terms, float32(p)) // exact
								exactly += p
								abs += math.Abs(p)
							}
							S := math.Ceil(float64(K) / float64(accum.L))
							lossy := float64(K)
							if accum.F < 23 { // a term of the largest exponent may lose bits too
								lossy += S
							}
							relative := lossy*math.Ldexp(1, -accum.F) + S*(math.Ldexp(1, -cmp.Or(accum.R, 23))+0x1p-24)
							bound := max(relative/(1-relative)*abs, float64(len(terms)-1)*0x1p-24*abs)
							what := fmt.Sprintf("%s %s K=%d %s c[%d,%d]", accum, dtype, K, kind, row, col)
							mustBeIn(t, what, r, 2, row, col, stepsInAnyOrder(g, accum.MMA(), dtype, left, right, init), exactly, abs, bound)
							mustBeIn(t, what+" in binary32", r, 2, row, col, shuffled(g, terms), exactly, abs, bound)
							lost := g.Below(K)
							v := exactly - float64(a.At(row, lost))*float64(b.At(lost, col))
							if kind == "wide" || K > 100 || accum.R != 0 { // some products are smaller than the bound
								continue
							}
							if lo, hi := r.At(2, row, col).Bounds(); v < lo || v > hi {
								outside++
							}
							count++
						}
					}
				}
			}
		}
	}
	if outside < count*98/100 {
		t.Errorf("of %d sums that lack a product only %d are outside", count, outside)
	}
}

// TestEveryTermOfAStepLosesBits checks that the bound covers the losses of all terms of a step. If F
// is less than the 20 fractional bits of a product, every term may lose almost a unit of the
// alignment: the product, which is the largest, and the old value.
func TestEveryTermOfAStepLosesBits(t *testing.T) {
	d := def.Must(def.Contraction("product", def.ContractionForm{
		Left: "a", LeftDims: []string{"M", "K"}, Right: "b", RightDims: []string{"K", "N"}, Result: "c", ResultDims: []string{"M", "N"}, Accumulate: true,
	}))
	const F = 13
	a, b, c := num.NewArray(num.F16, 1, 1), num.NewArray(num.F16, 1, 1), num.NewArray(num.F32, 1, 1)
	c.Set(0, 0, 0x1.fffffep-14) // just below 2^-13, and lost
	tried := 0
	for x := 1024; x < 1200; x++ {
		for y := x; y < 1200; y++ {
			if (x*y)&127 != 127 || x*y >= 1<<20+1<<18 { // the product loses 127 of 128 parts
				continue
			}
			a.Set(0, 0, float32(x)/1024)
			b.Set(0, 0, float32(y)/1024)
			v := num.MMA{L: 1, F: F}.Step(num.F16, []uint32{a.Bits(0, 0)}, []uint32{b.Bits(0, 0)}, c.At(0, 0))
			for _, order := range []*def.Order{nil, {}} {
				r, err := truth.Enclose(d, []num.Array{a, b, c}, truth.Options{Mode: truth.Rounded, Accum: def.MMA(1, F), Order: order})
				if err != nil {
					t.Fatal(err)
				}
				if lo, hi := r.At(2, 0, 0).Bounds(); float64(v) < lo || float64(v) > hi {
					t.Errorf("%d/1024 * %d/1024 + %g in mma(1,%d) is %g, outside [%g, %g]", x, y, c.At(0, 0), F, v, lo, hi)
				}
			}
			tried++
		}
	}
	if tried < 10 {
		t.Errorf("only %d products lose bits, want 10", tried)
	}
}
