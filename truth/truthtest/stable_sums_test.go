package truthtest

import (
	"math"
	"testing"

	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/promise"
	"tokitai/truth"
)

// flush replaces a subnormal number by zero.
func flush(x float32) float32 {
	if math.Abs(float64(x)) < 0x1p-126 {
		return 0
	}
	return x
}

// TestStableFlushedSums checks that products whose subnormal factors, terms and partial sums become
// zeros are admitted only if that is declared.
func TestStableFlushedSums(t *testing.T) {
	const m, k, n = 3, 40, 4
	a, b := num.NewArray(num.F32, m, k), num.NewArray(num.F32, k, n)
	g := gen.New("flushed sums")
	for i := range m * k {
		a.Set(i/k, i%k, g.Exponents(-70, -55))
		b.Set(i%k, i/k, g.Exponents(-75, -60))
	}
	for i := range k {
		b.Set(i, n-1, g.Normal())
	}
	a.Set(0, 1, 0x1.8p-128) // subnormal, and multiplied by an ordinary number
	operands := []num.Array{a, b, num.NewArray(num.F32, m, n)}
	plain := stable(t, gemm.ForwardDefinition, truth.StableOptions{}, operands...)
	flushed := stable(t, gemm.ForwardDefinition, truth.StableOptions{Declares: promise.Declaration{FlushesSubnormals: true}}, operands...)
	refused := 0
	for r := range m {
		for c := range n {
			sum := float32(0)
			for i := range k {
				sum = flush(sum + flush(flush(a.At(r, i))*flush(b.At(i, c))))
			}
			bits, height := math.Float32bits(sum), flushed.MostHeight()
			if !flushed.Admits(2, r, c, height, bits) {
				t.Errorf("C[%d,%d] = %v is not admitted", r, c, sum)
			}
			if !plain.Admits(2, r, c, height, bits) {
				refused++
			}
			if c < n-1 && flushed.Admits(2, r, c, height, math.Float32bits(sum+0x1p-110)) {
				t.Errorf("C[%d,%d] = %v is admitted beside %v", r, c, sum+0x1p-110, sum)
			}
		}
	}
	if refused == 0 {
		t.Error("nothing is refused without the declaration")
	}
}

// TestStableScalesInAnyOrder checks that scales may be multiplied in any order, even if a product of
// two of the three factors is subnormal.
func TestStableScalesInAnyOrder(t *testing.T) {
	const m, k, n = 16, 9, 16
	g := gen.New("scales")
	d := gemm.FP8ForwardDefinition
	operands := make([]num.Array, len(d.Operands))
	operands[0], operands[1], operands[2] = num.NewArray(num.E4M3, m, k), num.NewArray(num.E4M3, k, n), num.NewArray(num.F32, m, n)
	rows, cols := d.Operand(d.Scales().Row), d.Operand(d.Scales().Col)
	operands[rows], operands[cols] = num.NewArray(num.F32, m, 1), num.NewArray(num.F32, n, 1)
	if d.Product().TransposeRight {
		operands[1] = num.NewArray(num.E4M3, n, k)
	}
	for _, i := range []int{0, 1} {
		for r := range operands[i].Rows {
			for c := range operands[i].Cols {
				operands[i].Set(r, c, g.Normal())
			}
		}
	}
	for i := range m {
		operands[rows].Set(i, 0, g.Exponents(-80, 10))
		operands[cols].Set(i, 0, g.Exponents(-80, 10))
	}
	s := stable(t, d, truth.StableOptions{}, operands...)
	for r := range m {
		for c := range n {
			factor := func(i int) float32 {
				if d.Product().TransposeRight {
					return operands[1].At(c, i)
				}
				return operands[1].At(i, c)
			}
			x, y := operands[rows].At(r, 0), operands[cols].At(c, 0)
			sum, dequantized := float32(0), float32(0)
			for i := range k {
				sum += float32(operands[0].At(r, i) * factor(i))
				dequantized += float32(float32(operands[0].At(r, i)*x) * float32(factor(i)*y))
			}
			for form, v := range map[string]float32{"row first": float32(sum*x) * y, "column first": float32(sum*y) * x, "scales first": sum * float32(x*y), "factors first": dequantized} {
				if !s.Admits(2, r, c, s.MostHeight(), math.Float32bits(v)) {
					t.Errorf("C[%d,%d], %s: %v is not admitted", r, c, form, v)
				}
			}
			if v := sum * x * y; math.Abs(float64(v)) > 0x1p-100 && s.Admits(2, r, c, 1, math.Float32bits(v*(1+0x1p-10))) && math.Abs(float64(sum)) > 1 {
				t.Errorf("C[%d,%d]: %v is admitted", r, c, v*(1+0x1p-10))
			}
		}
	}
}
