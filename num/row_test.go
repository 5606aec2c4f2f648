package num

import (
	"math"
	"math/rand/v2"
	"testing"
)

// rowValues are values of every kind, among them every kind of NaN.
func rowValues(n int) []float32 {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	values := make([]float32, n)
	for i := range values {
		values[i] = math.Float32frombits(r.Uint32())
		if i%3 == 0 {
			values[i] = randomFloat(r, -30, 20)
		}
	}
	return values
}

// TestRows compares rows with their elements, in a matrix with gaps and in a stack.
func TestRows(t *testing.T) {
	for _, d := range []DType{F16, BF16, F32, I32, E4M3, E5M2} {
		for _, a := range []Array{
			{DType: d, Rows: 3, Cols: 700, Stride: 703, Data: make([]byte, 3*703*d.Size())},
			{DType: d, Rows: 6, Cols: 7, Stride: 14, Data: make([]byte, 100*d.Size()), Batch: Batch{Count: 1, Axes: [MaxBatchAxes]Axis{{2, 7}}}},
		} {
			for r := range a.Rows {
				values, patterns := rowValues(a.Cols), make([]uint32, a.Cols)
				for c, v := range values {
					patterns[c] = math.Float32bits(v)
				}
				one := a.Clone()
				if d != I32 {
					a.SetFloats(r, values)
					for c, v := range values {
						one.Set(r, c, v)
					}
					expectRow(t, "SetFloats", &a, &one, r)
				}
				a.SetPatterns(r, patterns)
				for c, p := range patterns {
					one.SetBits(r, c, p)
				}
				expectRow(t, "SetPatterns", &a, &one, r)
				a.Patterns(r, patterns)
				a.Floats(r, values)
				for c := range values {
					if patterns[c] != a.Bits(r, c) || math.Float32bits(values[c]) != math.Float32bits(a.At(r, c)) {
						t.Fatalf("%v: row %d, column %d: got %#x and %v, want %#x and %v", d, r, c, patterns[c], values[c], a.Bits(r, c), a.At(r, c))
					}
				}
				MakeCanonical(d, a.Row(r))
				for c := range values {
					want := patterns[c]
					if d != I32 {
						want = Canonical(d, want)
					}
					if got := a.Bits(r, c); got != want {
						t.Fatalf("%v: %#x becomes %#x, want %#x", d, patterns[c], got, want)
					}
				}
			}
		}
	}
}

func expectRow(t *testing.T, what string, got, want *Array, r int) {
	t.Helper()
	for row := range got.Rows {
		if string(got.Row(row)) != string(want.Row(row)) {
			t.Fatalf("%s of row %d in %v: row %d is %x, want %x", what, r, got.DType, row, got.Row(row), want.Row(row))
		}
	}
}

// TestRowsOfFMA compares rows of fused multiply-adds with single ones, on operands that are
// hard to round.
func TestRowsOfFMA(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	for _, hard := range fmaTriples {
		a, b, c := make([]float32, 3000), make([]float32, 3000), make([]float32, 3000)
		for i := range a {
			a[i], b[i], c[i] = hard.triple(r)
		}
		z, sums := make([]float32, len(a)), append([]float32(nil), c...)
		FMAs(z, a, b, c)
		AddProducts(sums, a[7], b)
		for i := range a {
			for _, test := range [][2]float32{{z[i], FMA(a[i], b[i], c[i])}, {sums[i], FMA(a[7], b[i], c[i])}} {
				if got, want := Canonical(F32, math.Float32bits(test[0])), Canonical(F32, math.Float32bits(test[1])); got != want {
					t.Fatalf("%s: a %v, b %v, c %v: got %#x, want %#x", hard.name, a[i], b[i], c[i], got, want)
				}
			}
		}
	}
}

// TestRowsOfShortProducts compares rows of products that are added with single fused
// multiply-adds: for factors of bfloat16 of every exponent, and for sums near the product.
func TestRowsOfShortProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	short := func() float32 { return BF16ToF32(uint16(r.Uint32())) }
	for range 300 {
		x := short()
		y, z := make([]float32, 1000), make([]float32, 1000)
		for i := range y {
			y[i] = short()
			if z[i] = math.Float32frombits(r.Uint32()); i%2 == 0 {
				z[i] = -float32(float64(x) * float64(y[i]) * (1 + float64(int64(r.Uint64()))*0x1p-75))
			}
		}
		sums := append([]float32(nil), z...)
		AddShortProducts(sums, x, y)
		for i := range y {
			if got, want := Canonical(F32, math.Float32bits(sums[i])), Canonical(F32, math.Float32bits(FMA(x, y[i], z[i]))); got != want {
				t.Fatalf("%v times %v plus %v: got %#x, want %#x", x, y[i], z[i], got, want)
			}
		}
	}
}

// TestTreeRows compares columns with single sums.
func TestTreeRows(t *testing.T) {
	for n := 1; n <= 70; n++ {
		lanes := make([][]float32, n)
		column := make([]float32, n)
		for i := range lanes {
			lanes[i] = rowValues(5)
			for c := range lanes[i] {
				lanes[i][c] = float32(i*i) + float32(c)/3
			}
			column[i] = lanes[i][3]
		}
		TreeRows(lanes)
		if want := Tree(column); lanes[0][3] != want {
			t.Errorf("%d lanes: got %v, want %v", n, lanes[0][3], want)
		}
	}
}
