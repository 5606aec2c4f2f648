package ball

import "golang.org/x/sys/cpu"

// The functions in slopes_amd64.s take n places, a multiple of 4 above 0, and give the bits of the
// loops in slopes.go. The functions here return how many places they took.

var hasAVX = cpu.X86.HasAVX2

//go:noescape
func setProductsAVX(to, a, b *Ball, n int)

//go:noescape
func addProductsAVX(to, a, b *Ball, n int)

// setMultiplesAVX takes a single b.
//
//go:noescape
func setMultiplesAVX(to, a, b *Ball, n int)

// addMultiplesAVX takes a single b.
//
//go:noescape
func addMultiplesAVX(to, a, b *Ball, n int)

// addAllAVX changes the sign of a if sign has that bit.
//
//go:noescape
func addAllAVX(to, a *Ball, n int, sign uint64)

//go:noescape
func setMeansAVX(to, a, b *Ball, n int)

//go:noescape
func addMagnitudesAVX(totals *float64, a *Ball, weights *float64, n int)

//go:noescape
func addWeightedAVX(totals *float64, a *Ball, n int, weight, grow float64)

// step has the arguments of a noisy step.
type step struct {
	to, a, b                  *Ball
	errors                    *float64 // nil if no error is added
	n                         int
	strideA, strideB          int // in bytes: that of four balls, or 0 if all places have the same
	relative, absolute, limit float64
	sign                      uint64 // the bit that changes the sign of b
	beyond, below             int    // whether a result is beyond the limit, and whether one reaches below 0
}

//go:noescape
func copyStepAVX(args *step)

//go:noescape
func addStepAVX(args *step)

//go:noescape
func mulStepAVX(args *step)

//go:noescape
func sqrStepAVX(args *step)

func manyOf(n int) int {
	if !hasAVX {
		return 0
	}
	return n &^ 3
}

func setManyProducts(to, a, b []Ball) int {
	n := manyOf(len(a))
	switch {
	case n == 0:
	case len(b) == 1:
		setMultiplesAVX(&to[0], &a[0], &b[0], n)
	default:
		setProductsAVX(&to[0], &a[0], &b[0], n)
	}
	return n
}

func addManyProducts(to, a, b []Ball) int {
	n := manyOf(len(a))
	switch {
	case n == 0:
	case len(b) == 1:
		addMultiplesAVX(&to[0], &a[0], &b[0], n)
	default:
		addProductsAVX(&to[0], &a[0], &b[0], n)
	}
	return n
}

func addMany(to, a []Ball, isNegative bool) int {
	n := manyOf(len(a))
	if n == 0 {
		return 0
	}
	sign := uint64(0)
	if isNegative {
		sign = 1 << 63
	}
	addAllAVX(&to[0], &a[0], n, sign)
	return n
}

func setManyMeans(to, a, b []Ball) int {
	n := manyOf(len(a))
	if n > 0 {
		setMeansAVX(&to[0], &a[0], &b[0], n)
	}
	return n
}

func addManyMagnitudes(totals []float64, a []Ball, weights []float64) int {
	n := manyOf(len(a))
	if n > 0 {
		addMagnitudesAVX(&totals[0], &a[0], &weights[0], n)
	}
	return n
}

func addManyWeighted(totals []float64, a []Ball, weight, grow float64) int {
	n := manyOf(len(a))
	if n > 0 {
		addWeightedAVX(&totals[0], &a[0], n, weight, grow)
	}
	return n
}

// stepMany computes the first places of a step.
func (z *Noise) stepMany(kind stepKind, to, a, b []Ball) (n int, isBeyond, isBelow bool) {
	if n = manyOf(len(to)); n == 0 {
		return 0, false, false
	}
	var sameA, sameB [4]Ball
	s := step{to: &to[0], a: &a[0], b: &b[0], n: n, strideA: 64, strideB: 64, relative: z.Relative, absolute: z.Absolute, limit: z.Limit}
	if z.Errors != nil {
		s.errors = &z.Errors[0]
	}
	if len(a) == 1 {
		fill(sameA[:], a[0])
		s.a, s.strideA = &sameA[0], 0
	}
	if len(b) == 1 {
		fill(sameB[:], b[0])
		s.b, s.strideB = &sameB[0], 0
	}
	switch kind {
	case copied:
		copyStepAVX(&s)
	case added:
		addStepAVX(&s)
	case subtracted:
		s.sign = 1 << 63
		addStepAVX(&s)
	case multiplied:
		mulStepAVX(&s)
	case squared:
		sqrStepAVX(&s)
	}
	return n, s.beyond != 0, s.below != 0
}
