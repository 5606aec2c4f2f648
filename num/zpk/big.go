package zpk

import (
	"fmt"
	"math/big"
)

// Limits of a Big: beyond them, a mistyped exponent would take all memory, and the test of p hours.
const (
	maxBits      = 1 << 20 // of p^k
	maxPrimeBits = 1 << 13 // of p
)

// Big is Z/p^k for p of up to 2^13 bits and p^k of up to 2^20 bits. Its elements are *big.Int from 0 to p^k-1; no
// method changes its operands. It implements Arithmetic and is safe for concurrent use.
type Big struct {
	p, q *big.Int
	k    int
}

// NewBig returns Z/p^k. The error wraps ErrNotPrime or ErrTooLarge. A p beyond 2^64 is tested
// as math/big tests it: with 20 rounds of Miller and Rabin, and that of Baillie, Pomerance,
// Selfridge and Wagstaff.
func NewBig(p *big.Int, k int) (*Big, error) {
	switch {
	case p == nil || p.Sign() <= 0:
		return nil, fmt.Errorf("p = %v %w", p, ErrNotPrime)
	case p.BitLen() > maxPrimeBits:
		return nil, fmt.Errorf("p %w: it has %d bits, want at most 2^13", ErrTooLarge, p.BitLen())
	case !p.ProbablyPrime(20):
		return nil, fmt.Errorf("p = %v %w", p, ErrNotPrime)
	case k < 1:
		return nil, fmt.Errorf("k = %d, want at least 1", k)
	}
	b := &Big{p: new(big.Int).Set(p), k: k}
	if k <= maxBits && (p.BitLen()-1)*k < maxBits { // otherwise p^k, which is at least 2^((bits-1)·k), is too large
		b.q = new(big.Int).Exp(p, big.NewInt(int64(k)), nil)
	}
	if b.q == nil || b.q.BitLen() > maxBits {
		return nil, fmt.Errorf("%v^%d %w: it has more than 2^20 bits", p, k, ErrTooLarge)
	}
	return b, nil
}

func (b *Big) String() string { return fmt.Sprintf("Z/%v^%d", b.p, b.k) }

// Exponent returns k.
func (b *Big) Exponent() int { return b.k }

// Q returns p^k.
func (b *Big) Q() *big.Int { return new(big.Int).Set(b.q) }

// Int returns the element of an integer.
func (b *Big) Int(v int64) *big.Int { return b.Reduce(big.NewInt(v)) }

// Reduce returns the element of an integer.
func (b *Big) Reduce(v *big.Int) *big.Int { return new(big.Int).Mod(v, b.q) }

// Add returns x + y.
func (b *Big) Add(x, y *big.Int) *big.Int { return b.Reduce(new(big.Int).Add(x, y)) }

// Sub returns x - y.
func (b *Big) Sub(x, y *big.Int) *big.Int { return b.Reduce(new(big.Int).Sub(x, y)) }

// Mul returns x·y.
func (b *Big) Mul(x, y *big.Int) *big.Int { return b.Reduce(new(big.Int).Mul(x, y)) }

// Valuation returns the largest v up to k for which p^v divides x.
func (b *Big) Valuation(x *big.Int) int {
	if x.Sign() == 0 {
		return b.k
	}
	v, n, rest := 0, new(big.Int).Set(x), new(big.Int)
	for {
		if n.QuoRem(n, b.p, rest); rest.Sign() != 0 {
			return v
		}
		v++
	}
}

// Inverse returns 1/x. The error wraps ErrNotUnit if p divides x.
func (b *Big) Inverse(x *big.Int) (*big.Int, error) {
	first := new(big.Int).ModInverse(new(big.Int).Mod(x, b.p), b.p)
	if first == nil {
		return nil, fmt.Errorf("%v %w of %s", x, ErrNotUnit, b)
	}
	return newton(b, x, first), nil
}

// Div returns x/y. The error wraps ErrNotUnit if p divides y.
func (b *Big) Div(x, y *big.Int) (*big.Int, error) {
	inverse, err := b.Inverse(y)
	if err != nil {
		return nil, err
	}
	return b.Mul(x, inverse), nil
}
