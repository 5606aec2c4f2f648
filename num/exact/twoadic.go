package exact

import (
	"math"
	"math/bits"
)

// twoAdic determines the exact sum from its float64 sum and its residue modulo 2^64,
// and returns it rounded to odd (see oddWords).
//
// In units of 2^g.unit every term is an integer; let Z be their exact sum and f =
// p.Sum. f is an integer too: every partial sum is, since rounding to float64 takes
// integers to integers. |Z - f| <= p.Err. The sum w of all terms modulo 2^64, by
// wrapping arithmetic, is Z modulo 2^64, whatever overflows on the way. So if
// p.Err < 2^63 units, Z - f is the one number in [-2^63, 2^63) that is congruent to
// w - f. Otherwise ok is false.
//
// Since p.Err >= 2^-53 * Abs, the condition also keeps |Z| below 2^116. docs/proofs.md proves
// it (Exact.two_adic_dot, ExactSum.exact_sum).
func twoAdic[E Operand](a, b []E, init E, p Product, g grid) (sum float64, ok bool) {
	if !(p.Err < math.Ldexp(1, g.unit+63)) {
		return 0, false
	}
	w := residueSum(a, b, g) + residue(float64(init), g.unit)
	w -= residue(p.Sum, g.unit)

	z := words2(p.Sum, g.unit)
	var carry uint64
	z[0], carry = bits.Add64(z[0], w, 0)
	z[1], _ = bits.Add64(z[1], uint64(int64(w)>>63), carry)
	return oddWords(z[:], g.unit), true
}

// residueSum returns Σ a[k]*b[k] modulo 2^64, in units of the grid.
func residueSum[E Operand](a, b []E, g grid) (w uint64) {
	scaleA, scaleB := math.Ldexp(1, -g.a), math.Ldexp(1, -g.b)
	if !g.isNarrow {
		for i := range a {
			w += residue(float64(a[i]), g.a) * residue(float64(b[i]), g.b)
		}
		return w
	}
	for i := range a {
		x, y := int64(float64(a[i])*scaleA), int64(float64(b[i])*scaleB) // exact
		w += uint64(x * y)
	}
	return w
}

// residue returns x/2^unit modulo 2^64, for a multiple x of 2^unit.
func residue(x float64, unit int) uint64 {
	if x == 0 {
		return 0
	}
	m, e := split(x)
	m = shift(m, e-unit)
	if x < 0 {
		return -m
	}
	return m
}

// shift returns m*2^n modulo 2^64, rounded down.
func shift(m uint64, n int) uint64 {
	if n < 0 {
		return m >> uint(-n)
	}
	return m << uint(n)
}

// words2 returns x/2^unit as a 128-bit two's complement integer, low word first, for a
// multiple x of 2^unit below 2^127 of them.
func words2(x float64, unit int) (z [2]uint64) {
	if x == 0 {
		return z
	}
	m, e := split(x)
	n := e - unit
	z[0], z[1] = shift(m, n), shift(m, n-64)
	if x < 0 {
		z = [2]uint64{-z[0], ^z[1]}
		if z[0] == 0 {
			z[1]++
		}
	}
	return z
}

// oddWords returns the two's complement integer z (low word first) times 2^unit, rounded
// to odd: if inexact, of the two float64 neighbours the one with an odd last bit.
// Rounding that to nearest in any format of at most 51 bits gives what rounding the
// integer itself gives. Zero is +0. The result must be a normal float64.
func oddWords(z []uint64, unit int) float64 {
	isNegative := int64(z[len(z)-1]) < 0
	var mag [5]uint64
	n, carry := 0, uint64(1)
	for i, w := range z {
		if isNegative {
			w, carry = bits.Add64(^w, 0, carry)
		}
		if mag[i] = w; w != 0 {
			n = 64*i + bits.Len64(w)
		}
	}
	if n == 0 {
		return 0
	}
	drop := max(0, n-53) // low bits to drop
	i, s := drop/64, uint(drop%64)
	m := mag[i] >> s
	if i+1 < len(mag) && s > 0 {
		m |= mag[i+1] << (64 - s)
	}
	isInexact := mag[i]&(1<<s-1) != 0
	for _, w := range mag[:i] {
		isInexact = isInexact || w != 0
	}
	if isInexact {
		m |= 1
	}
	x := math.Ldexp(float64(m), drop+unit)
	if isNegative {
		return -x
	}
	return x
}
