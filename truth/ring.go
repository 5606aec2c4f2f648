package truth

import (
	"math/big"
	"math/bits"

	"tokitai/num"
	"tokitai/num/ball"
	"tokitai/num/exact"
)

// encloseExact encloses the elements of a contraction in a ring. The sums are exact integers,
// reduced once.
func (f productTerms) encloseExact(k *call, out []ball.Ball) error {
	if _, err := f.newStack(k); err != nil {
		return err
	}
	q := new(big.Int).Exp(new(big.Int).SetUint64(f.Ring.P), big.NewInt(int64(f.Ring.K)), nil)
	rows, cols := integers(k.operands[f.Left], f.TransposeLeft), integers(k.operands[f.Right], !f.TransposeRight)
	for r := range rows {
		if err := k.ended(); err != nil {
			return err
		}
		for c := range cols {
			var sum integerSum
			for i, a := range rows[r] {
				sum.add(a, cols[c][i])
			}
			z := sum.value()
			z.Mod(z, q)
			if f.factors(k) == num.I8 && z.Bit(31) == 1 { // two's complement
				z.Sub(z, q)
			}
			if k.keep != nil { // an int32, as a sum of one product
				p := products{a: []float64{float64(z.Int64())}, b: []float64{1}}
				k.keep(r*len(cols)+c, p, exact.Float64(p.a, p.b, 0))
				continue
			}
			one := []ball.Ball{enclosed(z)}
			if k.d.HasScales() {
				roundingOf(k.Options, ball.Ball{}).step(one, unit, tiny)
			}
			out[r*len(cols)+c] = k.encloseScaled(one[0], r, c)
		}
	}
	return nil
}

// integers returns the rows of an array or, if it is transposed, its columns.
func integers(a num.Array, isTransposed bool) [][]int64 {
	n, length := a.Rows, a.Cols
	if isTransposed {
		n, length = length, n
	}
	lines := make([][]int64, n)
	for i := range lines {
		lines[i] = make([]int64, length)
		for j := range lines[i] {
			if isTransposed {
				lines[i][j] = a.Integer(j, i)
			} else {
				lines[i][j] = a.Integer(i, j)
			}
		}
	}
	return lines
}

// integerSum is a sum of products of int64, of positive and of negative ones, each in 192 bits.
type integerSum [2][3]uint64

func (s *integerSum) add(a, b int64) {
	sign := 0
	if (a < 0) != (b < 0) {
		sign = 1
	}
	high, low := bits.Mul64(magnitude(a), magnitude(b))
	z, carry := &s[sign], uint64(0)
	z[0], carry = bits.Add64(z[0], low, 0)
	z[1], carry = bits.Add64(z[1], high, carry)
	z[2] += carry
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

func (s *integerSum) value() *big.Int {
	word := func(z [3]uint64) *big.Int {
		v := new(big.Int).SetUint64(z[2])
		for _, w := range []uint64{z[1], z[0]} {
			v.Lsh(v, 64).Or(v, new(big.Int).SetUint64(w))
		}
		return v
	}
	return new(big.Int).Sub(word(s[0]), word(s[1]))
}

// enclosed returns a ball around an integer of at most 64 bits.
func enclosed(z *big.Int) ball.Ball {
	high := new(big.Int).Rsh(z, 32) // toward -∞: z = high·2^32 + low
	low := new(big.Int).Sub(z, new(big.Int).Lsh(high, 32))
	return ball.FromFloat64(float64(high.Int64()) * 0x1p32).Add(ball.FromFloat64(float64(low.Int64())))
}
