package exact

import (
	"math"

	"tokitai/num"
	"tokitai/num/ball"
)

// Operand is the Go type of the values of a dot product. Each value must be a binary32
// number, also if the type is float64 (a widened panel).
type Operand interface{ float32 | float64 }

// Product is init + Σ a[k]*b[k] in float64: the exact value is within Err of Sum.
// Abs is an upper bound of |init| + Σ |a[k]*b[k]|, above it by at most (K+4)*2^-51 of
// itself for K products. With a NaN or an infinity among the operands Sum is the NaN
// or infinity that the exact sum has, and Err and Abs are infinite.
type Product struct{ Sum, Err, Abs float64 }

// Float64 returns the dot product of a and b plus init; len(a) = len(b) = K < 2^32.
//
// Error. There are n = K+1 terms and the products are exact, so in any order of
// summation |Sum - exact| <= (n-1)*2^-53*A, A = |init| + Σ|a[k]*b[k]| (Jeannerod and
// Rump 2013, no second-order term). The same bound for the computed Σ|…|, t, gives
// A <= t/(1-K*2^-53) <= t*(1+K*2^-52). The other factors outweigh the roundings of the bound
// itself: docs/proofs.md proves it for what is computed (ExactSum.float64_error).
func Float64[E Operand](a, b []E, init E) Product {
	sum, abs := sums(a, b)
	K := float64(len(a))
	p := Product{Sum: sum + float64(init), Abs: abs + math.Abs(float64(init))}
	p.Abs *= 1 + (K+4)*0x1p-52
	p.Err = p.Abs * K * (0x1p-53 * (1 + 0x1p-50))
	if !(p.Abs <= math.MaxFloat64) {
		p.Err, p.Abs = math.Inf(1), math.Inf(1)
	}
	return p
}

// sums returns Σ a[k]*b[k] and Σ |a[k]*b[k]|, in four lanes to keep the adders busy.
// Fusing a product with its sum changes nothing: the product is exact.
func sums[E Operand](a, b []E) (sum, abs float64) {
	checkLengths(a, b)
	var s0, s1, s2, s3, t0, t1, t2, t3 float64
	for len(a) >= 4 && len(b) >= 4 {
		p0 := float64(a[0]) * float64(b[0])
		p1 := float64(a[1]) * float64(b[1])
		p2 := float64(a[2]) * float64(b[2])
		p3 := float64(a[3]) * float64(b[3])
		s0, s1, s2, s3 = s0+p0, s1+p1, s2+p2, s3+p3
		t0, t1, t2, t3 = t0+math.Abs(p0), t1+math.Abs(p1), t2+math.Abs(p2), t3+math.Abs(p3)
		a, b = a[4:], b[4:]
	}
	for i := range a {
		p := float64(a[i]) * float64(b[i])
		s0, t0 = s0+p, t0+math.Abs(p)
	}
	return (s0 + s1) + (s2 + s3), (t0 + t1) + (t2 + t3)
}

func checkLengths[E Operand](a, b []E) {
	if len(a) != len(b) {
		panic("exact: operands of a dot product differ in length")
	}
}

// Ball returns a ball that contains the exact value.
func (p Product) Ball() ball.Ball { return ball.Ball{Mid: p.Sum, Rad: p.Err} }

// Round rounds the exact value to d. It returns false if Sum and Err do not determine the
// result. An exact zero is +0.
func (p Product) Round(d num.DType) (pattern uint32, ok bool) {
	if p.Sum-p.Sum != 0 {
		return num.Canonical(d, num.NarrowF64(d, p.Sum)), true
	}
	lo, hi := p.Ball().Endpoints()
	pattern = num.NarrowF64(d, lo)
	return pattern, pattern == num.NarrowF64(d, hi)
}
