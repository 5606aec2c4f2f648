// Package zpk computes in Z/p^k, the integers modulo a power of a prime: exactly, so that the
// order of a sum or a product makes no difference.
//
// Elements have two representations. [Word] holds them as uint64, for p^k up to 2^63, and
// multiplies by Montgomery's method; [Big] holds them as *big.Int, for any p^k. In both, an
// element is its least residue, from 0 to p^k-1. What both can do, and matrices and roots
// need, is [Arithmetic].
//
// The package knows integers only: storage formats are in num, sums of tensors in the
// packages that compute them. Start with [NewWord].
package zpk

import (
	"errors"
	"fmt"
	"math/big"
	"math/bits"
)

// Errors that the errors of this package wrap.
var (
	ErrNotPrime = errors.New("is not a prime")
	ErrTooLarge = errors.New("is too large")
	ErrNotUnit  = errors.New("is not a unit")
)

// Arithmetic is Z/p^k with elements of type E. Operands are elements: from 0 to p^k-1.
type Arithmetic[E any] interface {
	Int(v int64) E // the element of an integer
	Add(x, y E) E
	Sub(x, y E) E
	Mul(x, y E) E

	// Valuation returns the largest v up to k for which p^v divides x. That of 0 is k.
	Valuation(x E) int

	// Inverse returns 1/x. The error wraps ErrNotUnit if p divides x.
	Inverse(x E) (E, error)

	// Exponent returns k.
	Exponent() int
}

// MaxWord is the largest p^k of a Word.
const MaxWord = 1 << 63

// Power returns p^k. The error wraps ErrNotPrime or, if p^k is beyond MaxWord, ErrTooLarge.
func Power(p uint64, k int) (uint64, error) {
	if !new(big.Int).SetUint64(p).ProbablyPrime(0) { // which is exact below 2^64
		return 0, fmt.Errorf("p = %d %w", p, ErrNotPrime)
	}
	if k < 1 {
		return 0, fmt.Errorf("k = %d, want at least 1", k)
	}
	q := uint64(1)
	for range k {
		high, low := bits.Mul64(q, p)
		if high != 0 || low > MaxWord {
			return 0, fmt.Errorf("%d^%d %w: it is beyond 2^63, for which there is zpk.Big", p, k, ErrTooLarge)
		}
		q = low
	}
	return q, nil
}

// Inverses by Newton's iteration: if x·y = 1 mod p^n, then y·(2 - x·y) is the inverse mod
// p^2n. newton does the steps that k needs.
func newton[E any](r Arithmetic[E], x, y E) E {
	for n := 1; n < r.Exponent(); n *= 2 {
		y = r.Mul(y, r.Sub(r.Int(2), r.Mul(x, y)))
	}
	return y
}

// Evaluate returns f(x) and f'(x) for the polynomial f[0] + f[1]·x + f[2]·x² + ….
func Evaluate[E any](r Arithmetic[E], f []E, x E) (value, slope E) {
	value, slope = r.Int(0), r.Int(0)
	for i := len(f) - 1; i >= 0; i-- {
		slope = r.Add(r.Mul(slope, x), value)
		value = r.Add(r.Mul(value, x), f[i])
	}
	return value, slope
}

// Lift returns the root of f in Z/p^k that is root mod p, by Hensel's lemma: p must divide
// f(root) and not f'(root). The steps x - f(x)/f'(x) double the number of right digits.
func Lift[E any](r Arithmetic[E], f []E, root E) (E, error) {
	value, slope := Evaluate(r, f, root)
	if r.Valuation(value) == 0 {
		return root, errors.New("f(root) is not 0 mod p, want a root mod p")
	}
	if _, err := r.Inverse(slope); err != nil {
		return root, fmt.Errorf("f'(root): %w, want a simple root mod p", err)
	}
	x := root
	for n := 1; n < r.Exponent(); n *= 2 {
		inverse, err := r.Inverse(slope)
		if err != nil {
			return root, err
		}
		x = r.Sub(x, r.Mul(value, inverse))
		value, slope = Evaluate(r, f, x)
	}
	return x, nil
}
