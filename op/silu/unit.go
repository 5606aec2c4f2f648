package silu

import (
	"math"

	"tokitai/def"
	"tokitai/fn"
)

// Unit holds the values that silu and its derivative at x have in common, for every
// definition that contains one. silu(x) = x·σ(x), with one exponential that cannot overflow:
//
//	a = |x|, e = exp(−a), r = 1/(1+e)
//	σ(x) = r for x ≥ 0, e·r for x < 0
//
// a is held at 128, where e is already zero: so the infinities give x, or −0, instead of
// NaN.
type Unit struct{ x, a, e, r, isNegative def.Value }

var limit = def.Const(128)

// Of returns the unit of x.
func Of(x def.Value) Unit {
	u := Unit{x: x, a: x.Abs().Min(limit).As("a")}
	u.e = fn.ExpBounded(u.a.Neg()).As("e")
	u.r = fn.RecipBounded(def.One.Add(u.e)).As("r")
	u.isNegative = x.Less(def.Zero).As("neg")
	return u
}

// Value returns silu(x), rounded twice for x < 0 and once above.
func (u Unit) Value() def.Value {
	return def.Select(u.isNegative, u.a.Mul(u.e).Neg(), u.x).Mul(u.r).As("silu")
}

// Slope returns the derivative of silu, σ + x·σ(1−σ), with σ(1−σ) = e·r·r. Factored so that
// only its zero, near x = −1.28, cancels:
//
//	h = r·a
//	x ≥ 0: r·(1 + e·h)      x < 0: r·(e − e·h)
func (u Unit) Slope() def.Value {
	h := u.r.Mul(u.a).As("h")
	first := def.Select(u.isNegative, u.e, def.One)
	second := def.Select(u.isNegative, u.e.Neg(), u.e)
	return u.r.Mul(def.FMA(second, h, first)).As("slope")
}

// ExpandedSlope returns the derivative as σ(x) + x·σ(x)·σ(−x).
func (u Unit) ExpandedSlope() def.Value {
	small := u.e.Mul(u.r).As("small")
	s := def.Select(u.isNegative, small, u.r).As("s")
	rest := def.Select(u.isNegative, u.r, small).As("rest")
	product := u.a.Mul(s).Mul(rest).As("product")
	return s.Add(def.Select(u.isNegative, product.Neg(), product))
}

// Numbers are the values of a [Unit] over the real numbers. As computed, e is off by 2u and
// 2^-149, so r by 2u·e/(1+e) + 2.5u, which is at most 3.5u.
type Numbers struct {
	A, E, R float64
	x       float64
}

// At returns the numbers of x.
func At(x float64) Numbers {
	n := Numbers{x: x, A: min(math.Abs(x), 128)}
	n.E = math.Exp(-n.A)
	n.R = 1 / (1 + n.E)
	return n
}

// Value returns silu(x).
func (n Numbers) Value() float64 {
	if n.x < 0 {
		return -n.A * n.E * n.R
	}
	return n.x * n.R
}

// Slope returns the derivative of silu.
func (n Numbers) Slope() float64 {
	if n.x < 0 {
		return n.R * n.E * (1 - n.A*n.R)
	}
	return n.R * (1 + n.E*n.A*n.R)
}
