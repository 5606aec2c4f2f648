package zpk

import (
	"fmt"
	"math/bits"
)

// Word is Z/p^k for p^k up to MaxWord. Its elements are uint64 below p^k. It implements
// Arithmetic and is safe for concurrent use.
type Word struct {
	p, q uint64
	k    int

	// For odd p, Montgomery's method with R = 2^64: negated is -1/q mod R, square R² mod q.
	negated, square uint64
}

// NewWord returns Z/p^k. The error wraps ErrNotPrime or ErrTooLarge.
func NewWord(p uint64, k int) (*Word, error) {
	q, err := Power(p, k)
	if err != nil {
		return nil, err
	}
	w := &Word{p: p, q: q, k: k}
	if p == 2 {
		return w, nil
	}
	inverse := q // of q mod 2^3; each step doubles the number of right bits
	for range 5 {
		inverse *= 2 - q*inverse
	}
	w.negated = -inverse
	_, rest := bits.Div64(1, 0, q) // R mod q
	high, low := bits.Mul64(rest, rest)
	w.square = bits.Rem64(high, low, q)
	return w, nil
}

// P returns the prime.
func (w *Word) P() uint64 { return w.p }

// Exponent returns k.
func (w *Word) Exponent() int { return w.k }

// Q returns p^k.
func (w *Word) Q() uint64 { return w.q }

func (w *Word) String() string { return fmt.Sprintf("Z/%d^%d", w.p, w.k) }

// Int returns the element of an integer.
func (w *Word) Int(v int64) uint64 {
	if v >= 0 {
		return uint64(v) % w.q
	}
	if rest := -uint64(v) % w.q; rest != 0 {
		return w.q - rest
	}
	return 0
}

// Add returns x + y.
func (w *Word) Add(x, y uint64) uint64 {
	z := x + y // below 2^64
	if z >= w.q {
		z -= w.q
	}
	return z
}

// Sub returns x - y.
func (w *Word) Sub(x, y uint64) uint64 {
	if x < y {
		return x + w.q - y
	}
	return x - y
}

// Mul returns x·y.
func (w *Word) Mul(x, y uint64) uint64 { return w.MulPrepared(w.Prepare(x), y) }

// Prepare returns what MulPrepared takes for x: x·2^64 mod p^k, or x itself if p is 2.
func (w *Word) Prepare(x uint64) uint64 {
	if w.p == 2 {
		return x
	}
	return w.reduce(bits.Mul64(x, w.square))
}

// MulPrepared returns x·y, of an x that was prepared: one reduction, where Mul has two.
func (w *Word) MulPrepared(x, y uint64) uint64 {
	if w.p == 2 {
		return x * y & (w.q - 1)
	}
	return w.reduce(bits.Mul64(x, y))
}

// reduce returns (high·2^64 + low) / 2^64 mod q, for high below q. It adds the multiple of q
// that makes the low word 0: the carry is 1 unless low is 0. As q is below 2^63, the sum of
// the high words is below 2^64.
func (w *Word) reduce(high, low uint64) uint64 {
	above, _ := bits.Mul64(low*w.negated, w.q)
	z := high + above
	if low != 0 {
		z++
	}
	if z >= w.q {
		z -= w.q
	}
	return z
}

// Valuation returns the largest v up to k for which p^v divides x.
func (w *Word) Valuation(x uint64) int {
	if x == 0 {
		return w.k
	}
	if w.p == 2 {
		return bits.TrailingZeros64(x)
	}
	v := 0
	for x%w.p == 0 {
		x /= w.p
		v++
	}
	return v
}

// Inverse returns 1/x. The error wraps ErrNotUnit if p divides x.
func (w *Word) Inverse(x uint64) (uint64, error) {
	if x%w.p == 0 {
		return 0, fmt.Errorf("%d %w of %s", x, ErrNotUnit, w)
	}
	return newton(w, x, inverseMod(x%w.p, w.p)), nil
}

// Div returns x/y. The error wraps ErrNotUnit if p divides y.
func (w *Word) Div(x, y uint64) (uint64, error) {
	inverse, err := w.Inverse(y)
	if err != nil {
		return 0, err
	}
	return w.Mul(x, inverse), nil
}

// inverseMod returns 1/x mod a prime p, for 0 < x < p: the extended algorithm of Euclid, with
// coefficients that alternate in sign.
func inverseMod(x, p uint64) uint64 {
	a, b := p, x
	s, t := uint64(0), uint64(1) // |coefficients| of x
	isOdd := true
	for b > 1 {
		n := a / b
		a, b = b, a-n*b
		s, t = t, s+n*t
		isOdd = !isOdd
	}
	if isOdd {
		return t
	}
	return p - t
}
