package truthtest

import (
	"math/big"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/num/exact"
	"tokitai/reference"
	"tokitai/trial/randdef"
	"tokitai/truth"
)

// ordinary fills every float operand of a case with ordinary values.
func ordinary(g *gen.Generator, c *randdef.Case) {
	for i, a := range c.Operands {
		if c.Definition.Operands[i].IsIndex {
			continue
		}
		for r := range a.Rows {
			for col := range a.Cols {
				a.Set(r, col, g.Normal())
			}
		}
	}
}

// TestProductsWithAxes checks, for products with batch axes and groups in every model, that the
// enclosure holds the reference's result and is narrow enough to exclude a wrong term.
func TestProductsWithAxes(t *testing.T) {
	g := gen.New(t.Name())
	accums := []def.Accum{def.FMAChain, def.MMA(16, 25), def.Panels(def.FMAChain, 4), def.Panels(def.MMA(8, 24), 2)}
	wrong, count := 0, 0
	for trial := range 120 {
		d := randdef.Product(g)
		accum := accums[trial%len(accums)]
		dtypes := []num.DType{num.FloatDTypes[trial%2], num.FloatDTypes[trial%2], num.F32, num.I32}[:len(d.Operands)]
		sizes := randdef.ProductSizes(g, d, 4)
		sizes["K"] = 1 + g.Below(200)
		c := randdef.NewCase(g, d, dtypes, sizes)
		ordinary(g, c)
		z, err := truth.Enclose(d, c.Operands, truth.Options{Mode: truth.Rounded, Accum: accum})
		if err != nil {
			t.Fatal(err)
		}
		exactly, err := truth.Enclose(d, c.Operands, truth.Options{})
		if err != nil {
			t.Fatal(err)
		}
		correct, err := exactly.Round(2)
		if err != nil {
			t.Fatal(err)
		}
		answer := c.Clone()
		if err := reference.Run(d, answer.Operands, reference.Options{Accum: accum}); err != nil {
			t.Fatal(err)
		}
		result := &answer.Operands[2]
		for r := range result.Rows {
			for col := range result.Cols {
				bits := result.Bits(r, col)
				if !z.Admits(2, r, col, bits) || !z.Admits(2, r, col, correct.Bits[r*result.Cols+col]) {
					t.Fatalf("%s, %v: c[%d,%d] is %v, correctly rounded %v, which %v does not admit\n%s", accum, sizes, r, col, result.At(r, col),
						num.Widen(num.F32, correct.Bits[r*result.Cols+col]), z.At(2, r, col), d.Text())
				}
				if count++; !z.Admits(2, r, col, num.Narrow(num.F32, result.At(r, col)+0.5)) {
					wrong++
				}
			}
		}
	}
	if wrong < count*9/10 {
		t.Errorf("of %d wrong values only %d were refused", count, wrong)
	}
}

// TestScaledProducts checks the same for products with scales and for FP8 factors, and that the
// correctly rounded value is admitted and agrees with exact arithmetic.
func TestScaledProducts(t *testing.T) {
	g := gen.New(t.Name())
	accums := []def.Accum{def.FMAChain, def.MMA(32, 13).Narrow(13), def.MMA(2, 25).Narrow(4)}
	wrong, count, states := 0, 0, map[truth.State]int{}
	for trial := range 600 {
		d := randdef.Scaled(g)
		accum := accums[trial%len(accums)]
		dtypes := randdef.DTypes(g, d)
		if accum.Takes(dtypes[0]) != nil {
			continue
		}
		sizes := map[string]int{"M": 1 + g.Below(4), "N": 1 + g.Below(4), "K": 1 + g.Below(100)}
		if g.Below(2) == 0 {
			sizes["K"] = 1 // a sum that does not round: the scales do
		}
		c := randdef.NewCase(g, d, dtypes, sizes)
		ordinary(g, c)
		if trial%2 == 0 { // products that lie halfway between stored values
			scale := map[num.DType]float32{num.F16: 1 + 0x1p-11, num.BF16: 1 + 0x1p-8, num.F32: 1 + 0x1p-12}[dtypes[2]] // squared, in f32
			for i := range c.Operands {
				a := &c.Operands[i]
				for r := range a.Rows {
					for col := range a.Cols {
						if v := float32(g.Below(5) - 2); i < 3 {
							a.Set(r, col, v)
						} else if a.Set(r, col, scale); i == 4 && dtypes[2] != num.F32 {
							a.Set(r, col, 2)
						}
					}
				}
			}
		}
		z, err := truth.Enclose(d, c.Operands, truth.Options{Mode: truth.Rounded, Accum: accum})
		if err != nil {
			t.Fatal(err)
		}
		exactly, err := truth.Enclose(d, c.Operands, truth.Options{})
		if err != nil {
			t.Fatal(err)
		}
		correct, err := exactly.Round(2)
		if err != nil {
			t.Fatal(err)
		}
		answer := c.Clone()
		if err := reference.Run(d, answer.Operands, reference.Options{Accum: accum}); err != nil {
			t.Fatal(err)
		}
		result := &answer.Operands[2]
		for r := range result.Rows {
			for col := range result.Cols {
				i, bits := r*result.Cols+col, result.Bits(r, col)
				states[correct.State[i]]++
				if want := correctlyScaled(c, r, col); correct.Bits[i] != want {
					t.Fatalf("c[%d,%d] is rounded to %#x, want %#x\n%s", r, col, correct.Bits[i], want, d.Text())
				}
				if !z.Admits(2, r, col, bits) || !z.Admits(2, r, col, correct.Bits[i]) {
					t.Fatalf("%s, %v: c[%d,%d] is %v, correctly rounded %#x, which %v does not admit\n%s", accum, sizes, r, col, result.At(r, col),
						correct.Bits[i], z.At(2, r, col), d.Text())
				}
				if v := result.At(r, col); v != 0 && accum == def.FMAChain {
					count++
					if !z.Admits(2, r, col, num.Narrow(result.DType, v*1.02)) {
						wrong++
					}
				}
			}
		}
	}
	if wrong < count*9/10 {
		t.Errorf("of %d wrong values only %d were refused", count, wrong)
	}
	if states[truth.ByFloat64] == 0 || states[truth.ByBig] == 0 || len(states) != 2 {
		t.Errorf("values were decided in these ways alone: %v", states)
	}
}

// correctlyScaled returns an element over the rational numbers, rounded once.
func correctlyScaled(c *randdef.Case, row, col int) uint32 {
	d := c.Definition
	rational := func(i, r, col int) *big.Rat { return new(big.Rat).SetFloat64(float64(c.Operands[i].At(r, col))) }
	sum := new(big.Rat)
	length := c.Operands[0].Cols
	if d.Product().TransposeLeft {
		length = c.Operands[0].Rows
	}
	for k := range length {
		left, right := [2]int{row, k}, [2]int{k, col}
		if d.Product().TransposeLeft {
			left = [2]int{k, row}
		}
		if d.Product().TransposeRight {
			right = [2]int{col, k}
		}
		sum.Add(sum, new(big.Rat).Mul(rational(0, left[0], left[1]), rational(1, right[0], right[1])))
	}
	if i := d.Operand(d.Scales().Row); i >= 0 {
		sum.Mul(sum, rational(i, row, 0))
	}
	if i := d.Operand(d.Scales().Col); i >= 0 {
		sum.Mul(sum, rational(i, col, 0))
	}
	return exact.RoundBig(c.Operands[2].DType, new(big.Float).SetPrec(2000).SetRat(sum))
}

// TestPanelsAreBetterThanAChain checks that the bound of a long sum is smaller for a tree over panels
// than for a chain.
func TestPanelsAreBetterThanAChain(t *testing.T) {
	const K = 4096
	g := gen.New(t.Name())
	a, b, c := num.NewArray(num.F16, 1, K), num.NewArray(num.F16, K, 1), num.NewArray(num.F32, 1, 1)
	for k := range K {
		a.Set(0, k, g.Uniform(1, 2))
		b.Set(k, 0, g.Uniform(1, 2))
	}
	radius := func(m def.Accum) float64 {
		exactly := enclose(t, product, truth.Exact, nil, a, b, c).At(2, 0, 0)
		z, err := truth.Enclose(product, []num.Array{a, b, c}, truth.Options{Mode: truth.Rounded, Accum: m})
		if err != nil {
			t.Fatal(err)
		}
		return truth.Radius(z.At(2, 0, 0), exactly)
	}
	chain, panels := radius(def.FMAChain), radius(def.Panels(def.FMAChain, 8))
	if !(panels < chain/4) {
		t.Errorf("radius %v in 8 panels, %v as a chain", panels, chain)
	}
}

func TestAxesRefused(t *testing.T) {
	d := def.Must(def.Contraction("grouped", def.ContractionForm{Left: "a", LeftDims: []string{"M", "K"}, Right: "b", RightDims: []string{"G", "K", "N"}, Result: "c", ResultDims: []string{"M", "N"},
		Groups: def.Groups{Number: "G", Of: "M", Offsets: "offsets"}}))
	a, b, c := num.NewArray(num.F16, 5, 2), num.NewArray(num.F16, 4, 3), num.NewArray(num.F16, 5, 3)
	b.Batch.Append(2, 6)
	for _, offsets := range [][]int32{{1, 2, 5}, {0, 2, 4}, {0, 6, 5}, {0, -1, 5}, {0, 5}, {0, 2, 3, 5}} {
		if _, err := truth.Enclose(d, []num.Array{a, b, c, num.IndexArray(offsets...)}, truth.Options{}); err == nil || !strings.Contains(err.Error(), "want 3 that ascend from 0 to 5") {
			t.Errorf("offsets %v: %v", offsets, err)
		}
	}
	if _, err := truth.Enclose(d, []num.Array{a, num.NewArray(num.F16, 4, 3), c, num.IndexArray(0, 2, 5)}, truth.Options{}); err == nil || !strings.Contains(err.Error(), "b has 0 batch axes, want 1") {
		t.Errorf("no batch axes: %v", err)
	}
	if _, err := truth.Enclose(d, []num.Array{a, b, c, num.IndexArray(0, 0, 5)}, truth.Options{}); err != nil {
		t.Errorf("an empty group: %v", err)
	}
}
