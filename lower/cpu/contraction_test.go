package cpu_test

import (
	"fmt"
	"math"
	"testing"

	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/cputest"
	"tokitai/num"
	"tokitai/trial/randdef"
)

var productDTypes = [][]num.DType{
	{num.F16, num.F16, num.F16}, {num.F16, num.F16, num.F32},
	{num.BF16, num.BF16, num.BF16}, {num.BF16, num.BF16, num.F32},
	{num.F32, num.F32, num.F32},
}

// tails are sizes around the tiles of the result and the blocks of the summed index.
var tails = [][3]int{ // M, N, K
	{63, 2, 3}, {64, 5, 2}, {65, 3, 7}, {128, 1, 2}, {129, 2, 3},
	{2, 127, 3}, {3, 128, 2}, {1, 129, 5}, {2, 255, 1}, {1, 257, 2},
	{2, 3, 255}, {3, 1, 256}, {1, 5, 257}, {2, 2, 513},
	{65, 129, 3}, {66, 5, 257}, {3, 130, 258},
}

// compareProduct holds the program against the reference on one case.
func compareProduct(t *testing.T, c *randdef.Case, workers int, g *gen.Generator) {
	t.Helper()
	dtypes := cputest.DTypesOf(c.Operands)
	p, err := lowercpu.Compile(c.Definition, dtypes, lowercpu.Short)
	if err != nil {
		t.Fatal(err)
	}
	if p.String() == "" {
		t.Error("the program lists nothing")
	}
	want, got := answer(t, c), c.Clone()
	cputest.Execute(p, cputest.CallOf(got), workers, g)
	a := c.Operands[0]
	report(t, got, want, p, "%s %v, left [%d %d], %d workers", c.Definition.Name, dtypes, a.Rows, a.Cols, workers)
}

func TestContractions(t *testing.T) {
	g := gen.New("contractions")
	for _, d := range cputest.Products() {
		for _, dtypes := range productDTypes {
			t.Run(fmt.Sprintf("%s/%v", d.Name, dtypes), func(t *testing.T) {
				shapes := testlevel.Pick(tails[:3], tails)
				for range 20 {
					shapes = append(shapes[:len(shapes):len(shapes)], [3]int{1 + g.Below(9), 1 + g.Below(9), 1 + g.Below(9)})
				}
				for _, s := range shapes {
					c := randdef.NewCase(g, d, dtypes, map[string]int{"M": s[0], "N": s[1], "K": s[2]})
					compareProduct(t, c, workerCounts[g.Below(len(workerCounts))], g)
				}
			})
		}
	}
}

// TestProductsWithAxes has batch axes and groups: matrices between the rows of others,
// broadcast ones, tiles of groups, empty groups.
func TestProductsWithAxes(t *testing.T) {
	g := gen.New("products with axes")
	for i := range testlevel.Pick(200, 2000) {
		d := randdef.Product(g)
		most := 7
		if i%8 == 0 {
			most = 150 // several tiles of a matrix
		}
		c := randdef.NewCase(g, d, randdef.DTypes(g, d), randdef.ProductSizes(g, d, most))
		compareProduct(t, c, workerCounts[g.Below(len(workerCounts))], g)
	}
}

// TestScaledProducts has scales, of factors in FP8 and in others.
func TestScaledProducts(t *testing.T) {
	g := gen.New("scaled products")
	for i := range testlevel.Pick(100, 1000) {
		d := randdef.Scaled(g)
		sizes := randdef.ProductSizes(g, d, 7)
		if i%8 == 0 {
			sizes["M"], sizes["N"] = 60+g.Below(10), 120+g.Below(20) // several tiles
		}
		c := randdef.NewCase(g, d, randdef.DTypes(g, d), sizes)
		compareProduct(t, c, workerCounts[g.Below(len(workerCounts))], g)
	}
}

// hard are values whose products are not exact in binary32, or whose fused sums
// round differently from separate ones.
var hard = map[num.DType][]float64{
	num.F32: {
		0x1p-12 * (1 + 0x1p-23), 0x1p-12 * (1 - 0x1p-23), 1, 1 + 0x1p-23, 0x1p-24, 0x1p-11, 3,
		0x1p-75 * (1 + 0x1p-23), 0x1p-75 * (1 - 0x1p-23), 0x1p-127 + 0x1p-149, 0x1p-127, 0x1p-74, 0x1p-149, 0x1p-126, 0x1p64, 0x1p63, 0x1p127, 0,
	},
	num.BF16: {
		0x1p64, 0x1p63, 0x1p-75, 0x1p-74, 0x1p-60, 0x1p-67, 0x1p127, 0x1p-133, 0x1p-126, 1.5, 0x1.fep-75, 0x1.fep63, 0x1.02p-70, 1, 0,
	},
	num.F16: {
		0x1p-24, 0x1p-14, 65504, 0x1.ffcp-15, 1, 1.5, 0x1.004p0, -0x1.004p0, 0x1.554p-10, 0,
	},
}

func fillHard(g *gen.Generator, a num.Array) {
	values := hard[a.DType]
	for r := range a.Rows {
		for c := range a.Cols {
			v := values[g.Below(len(values))]
			if g.Below(2) == 0 {
				v = -v
			}
			a.Set(r, c, float32(v))
		}
	}
}

// TestContractionHardProducts multiplies values that tell a fused multiply-add
// from a product and a sum, overflow and underflow halfway, and cancel.
func TestContractionHardProducts(t *testing.T) {
	g := gen.New("hard products")
	for _, d := range cputest.Products() {
		for _, dtypes := range productDTypes {
			for range 12 {
				sizes := map[string]int{"M": 1 + g.Below(12), "N": 1 + g.Below(12), "K": 1 + g.Below(6)}
				c := randdef.NewCase(g, d, dtypes, sizes)
				for _, a := range c.Operands {
					fillHard(g, a)
				}
				compareProduct(t, c, 2, g)
			}
		}
	}
}

// TestContractionProductRange multiplies bf16 values of one binade by those of
// another, on both sides of where their products cease to be exact in binary32.
func TestContractionProductRange(t *testing.T) {
	g := gen.New("product range")
	d := cputest.Products()[4] // added to an old result
	dtypes := []num.DType{num.BF16, num.BF16, num.F32}
	binade := func(a num.Array, e int) {
		for r := range a.Rows {
			for c := range a.Cols {
				a.Set(r, c, g.Exponents(e, e+1))
			}
		}
	}
	compare := func(e, f, old int) {
		c := randdef.NewCase(g, d, dtypes, map[string]int{"M": 4, "N": 8, "K": 2})
		binade(c.Operands[0], max(e, -126))
		if e < -126 { // subnormals
			for r := range 4 {
				for k := range 2 {
					c.Operands[0].SetBits(r, k, uint32(1+g.Below(127)))
				}
			}
		}
		binade(c.Operands[1], f)
		binade(c.Operands[2], old)
		compareProduct(t, c, 1, g)
	}
	for range 3 {
		for sum := -142; sum < -130; sum++ {
			compare(-70, sum+70, -126)
		}
		for f := -18; f < -4; f++ {
			compare(-127, f, -126)
		}
		for sum := 122; sum < 130; sum++ {
			compare(60, sum-60, 127)
		}
	}
	zeros := randdef.NewCase(g, d, dtypes, map[string]int{"M": 3, "N": 3, "K": 3})
	for i := range 9 {
		zeros.Operands[0].SetBits(i/3, i%3, uint32(i%2)<<15)
	}
	compareProduct(t, zeros, 1, g)
}

// TestContractionKnownAnswers has answers worked out by hand: the products of the
// row a and the column b, in this order, on top of an old result or +0.
func TestContractionKnownAnswers(t *testing.T) {
	inf := math.Inf(1)
	for _, test := range []struct {
		name  string
		dtype num.DType
		a, b  []float64
		old   float64 // f32; −0 where there is none
		want  uint32
	}{
		{"a product beyond binary32", num.BF16, []float64{-0x1p64, 0x1p64}, []float64{0x1p63, 0x1p64}, 0, math.Float32bits(0x1p127)},
		{"a sum beyond binary32", num.BF16, []float64{0x1p64, -0x1p64}, []float64{0x1p64, 0x1p63}, 0, 0x7f800000},
		{"a product below binary32", num.BF16, []float64{0x1p-75, 0x1p-75}, []float64{0x1p-74, 0x1p-75}, 0, 2}, // 2^-149 + 2^-150, a tie
		{"a tie that is none", num.F32, []float64{0x1p-12 * (1 + 0x1p-23)}, []float64{0x1p-12 * (1 - 0x1p-23)}, 1 + 0x1p-23, math.Float32bits(1 + 0x1p-23)},
		{"cancellation", num.F32, []float64{1 + 0x1p-23, 1}, []float64{1 + 0x1p-23, -(1 + 0x1p-22)}, 0, 0x00000000},
		{"minus zero times one on minus zero", num.F16, []float64{math.Copysign(0, -1)}, []float64{1}, math.Copysign(0, -1), 0x80000000},
		{"minus zero times one on zero", num.F16, []float64{math.Copysign(0, -1)}, []float64{1}, 0, 0},
		{"zero times infinity", num.F16, []float64{0}, []float64{inf}, 1, 0x7fc00000},
		{"infinities of both signs", num.BF16, []float64{inf, 1}, []float64{1, -inf}, 0, 0x7fc00000},
		{"infinity", num.F32, []float64{-inf, 3}, []float64{2, 1}, 0, 0xff800000},
		{"f16 subnormals", num.F16, []float64{0x1p-24, 0x1p-24}, []float64{0x1p-24, 0x1p-24}, 0, math.Float32bits(0x1p-47)},
	} {
		for _, d := range cputest.Products() {
			if !d.Accumulates() {
				continue
			}
			dtypes := []num.DType{test.dtype, test.dtype, num.F32}
			g := gen.New(test.name)
			c := randdef.NewCase(g, d, dtypes, map[string]int{"M": 3, "N": 5, "K": len(test.a)})
			for k := range test.a {
				for m := range 3 {
					r, col := m, k
					if d.Product().TransposeLeft {
						r, col = k, m
					}
					c.Operands[0].Set(r, col, float32(test.a[k]))
				}
				for n := range 5 {
					r, col := k, n
					if d.Product().TransposeRight {
						r, col = n, k
					}
					c.Operands[1].Set(r, col, float32(test.b[k]))
				}
			}
			for m := range 3 {
				for n := range 5 {
					c.Operands[2].Set(m, n, float32(test.old))
				}
			}
			p, err := lowercpu.Compile(d, dtypes, lowercpu.Short)
			if err != nil {
				t.Fatal(err)
			}
			want := answer(t, c)
			cputest.Execute(p, cputest.CallOf(c), 1, g)
			for _, answer := range []struct {
				by string
				c  *randdef.Case
			}{{"reference", want}, {"program", c}} {
				if got := num.Canonical(num.F32, answer.c.Operands[2].Bits(2, 4)); got != test.want {
					t.Errorf("%s, %s by the %s: got 0x%08x, want 0x%08x", test.name, d.Name, answer.by, got, test.want)
				}
			}
		}
	}
}
