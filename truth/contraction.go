package truth

import (
	"encoding/binary"
	"math"

	"tokitai/num"
	"tokitai/num/ball"
	"tokitai/num/exact"
)

// encloseContraction fills out, the elements of a contraction whose sizes fit. Both
// operands are widened once, into the factors of each row and of each column of the
// result, and four elements are computed at a time, which share what they load.
func (k *call) encloseContraction(out []ball.Ball) error {
	rows := lines(k.operands[0], !k.d.TransposeLeft)
	cols := lines(k.operands[1], k.d.TransposeRight)
	result := k.operands[2]
	for r := 0; r < len(rows); r += 2 {
		if err := k.ended(); err != nil {
			return err
		}
		for c := 0; c < len(cols); c += 2 {
			R, C := [2]int{r, min(r+1, len(rows)-1)}, [2]int{c, min(c+1, len(cols)-1)}
			sums, abs := dots(rows[R[0]], rows[R[1]], cols[C[0]], cols[C[1]])
			for q := range 4 {
				r, c := R[q/2], C[q%2]
				p := products{a: rows[r], b: cols[c]}
				if k.d.Accumulate {
					p.init = float64(result.At(r, c))
				}
				out[r*len(cols)+c] = k.encloseSum(p, bounded(p, sums[q], abs[q]))
			}
		}
	}
	return nil
}

// lines are the rows of an array, or its columns.
func lines(a num.Array, areRows bool) [][]float64 {
	if areRows {
		z := matrix(a.Rows, a.Cols)
		for r := range z {
			widen(z[r], a, r)
		}
		return z
	}
	// Rows are read eight at a time: what is written to a column is then one line of
	// the cache.
	const block = 8
	z, rows := matrix(a.Cols, a.Rows), matrix(block, a.Cols)
	for first := 0; first < a.Rows; first += block {
		n := min(block, a.Rows-first)
		for i := range n {
			widen(rows[i], a, first+i)
		}
		for c := range z {
			for i := range n {
				z[c][first+i] = rows[i][c]
			}
		}
	}
	return z
}

func matrix(rows, cols int) [][]float64 {
	values := make([]float64, rows*cols)
	z := make([][]float64, rows)
	for r := range z {
		z[r] = values[r*cols:][:cols]
	}
	return z
}

// widen reads a row: num.Array.At of each element, with the format looked up once.
func widen(to []float64, a num.Array, r int) {
	data := a.Data[r*a.Stride*a.DType.Size():]
	switch a.DType {
	case num.F16:
		for c := range to {
			to[c] = float64(num.F16ToF32(binary.LittleEndian.Uint16(data[2*c:])))
		}
	case num.BF16:
		for c := range to {
			to[c] = float64(num.BF16ToF32(binary.LittleEndian.Uint16(data[2*c:])))
		}
	case num.F32:
		for c := range to {
			to[c] = float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*c:])))
		}
	}
}

// dots returns the float64 sums of products of a0·b0, a0·b1, a1·b0 and a1·b1, and of
// their magnitudes. Products of binary32 numbers are exact in float64, so that fusing
// one with an addition changes nothing.
func dots(a0, a1, b0, b1 []float64) (sums, abs [4]float64) {
	var s00, s01, s10, s11, t00, t01, t10, t11 float64
	a1, b0, b1 = a1[:len(a0)], b0[:len(a0)], b1[:len(a0)]
	for k, x := range a0 {
		y, u, v := a1[k], b0[k], b1[k]
		p00, p01, p10, p11 := x*u, x*v, y*u, y*v
		s00, s01, s10, s11 = s00+p00, s01+p01, s10+p10, s11+p11
		t00, t01, t10, t11 = t00+math.Abs(p00), t01+math.Abs(p01), t10+math.Abs(p10), t11+math.Abs(p11)
	}
	return [4]float64{s00, s01, s10, s11}, [4]float64{t00, t01, t10, t11}
}

// bounded adds the old value, and bounds the error as exact.Float64 does: there are K+1
// terms, so the sum is off by K·2^-53·A at most, and the computed A by as much of itself
// (Jeannerod and Rump 2013, any order).
func bounded(p products, sum, abs float64) exact.Product {
	K := float64(len(p.a))
	z := exact.Product{Sum: sum + p.init, Abs: abs + math.Abs(p.init)}
	z.Abs *= 1 + (K+4)*0x1p-52
	z.Err = z.Abs * K * (0x1p-53 * (1 + 0x1p-50))
	if !(z.Abs <= math.MaxFloat64) {
		z.Err, z.Abs = math.Inf(1), math.Inf(1)
	}
	return z
}
