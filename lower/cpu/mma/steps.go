package mma

import (
	"cmp"
	"math"
	"unsafe"

	"tokitai/def"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
)

// steps is the argument of the innermost code: a block of the summed index for all rows of
// a tile and one strip of its columns. Generated code knows the offsets of its fields.
type steps struct {
	left           *float64 // for each step, for each row, L values
	leftExponents  *int32
	right          *float64 // for each step, L times the strip's values
	rightExponents *int32
	acc            *float64 // for each row, the strip's accumulators
	rows           int
	steps          int
}

// infExponent is the exponent of infinities and NaN. It does not affect the result. A much
// larger one would make other terms subnormal, which are slow on some processors.
const infExponent = 128

// leastAlignment is the least exponent at which a step is aligned.
const leastAlignment = -133

// Properties of binary64.
const (
	bias64     = 1023
	fraction64 = 52
	fraction32 = 23 // of binary32
)

// Accumulators are binary32 values times accScale, which makes them integers.
const (
	accScale = 0x1p149
	accBias  = bias64 + 149

	// overflow takes accumulators from 2^128·accScale on to infinity, and no others.
	overflow = 0x1p747
)

// stepper computes the steps of one model.
type stepper struct {
	run      func(*steps)
	lanes    int    // columns of a strip
	language string // avx512, avx2 or Go
	listing  func() string
}

// newStepper returns the stepper of a model in an instruction set, in Go where nothing
// generates code for the set.
func newStepper(m def.Accum, set machine.Set) (stepper, error) {
	if set != machine.AVX512 && set != machine.AVX2 {
		run := func(s *steps) { stepsGo(s, m.MMA()) }
		return stepper{run, goLanes, "Go", func() string { return "" }}, nil
	}
	g := newGenerator(m.MMA(), set)
	g.function()
	text, err := g.Finish()
	if err != nil {
		return stepper{}, err
	}
	code, err := machine.Load(text)
	if err != nil {
		return stepper{}, err
	}
	run := func(s *steps) { code.Call(0, unsafe.Pointer(s)) }
	return stepper{run, g.lanes(), set.String(), g.Listing}, nil
}

// rounding says how sums are truncated to results of R fractional bits.
type rounding struct {
	extraBits uint64  // of the significand of binary64, those that results do not have
	unitBias  uint64  // the exponent field of accScale in units of the least subnormal result
	unit      float64 // the least subnormal result, times accScale
}

func roundingOf(m num.MMA) rounding {
	r := cmp.Or(m.R, fraction32)
	return rounding{1<<(fraction64-r) - 1, uint64(accBias - (fraction32 - r)), math.Ldexp(1, fraction32-r)}
}

// goLanes is the number of columns that stepsGo takes.
const goLanes = 8

// stepsGo computes steps in Go.
func stepsGo(s *steps, m num.MMA) {
	L, z := m.L, roundingOf(m)
	left := unsafe.Slice(s.left, s.steps*s.rows*L)
	leftExponents := unsafe.Slice(s.leftExponents, len(left))
	right := unsafe.Slice(s.right, s.steps*L*goLanes)
	rightExponents := unsafe.Slice(s.rightExponents, len(right))
	acc := unsafe.Slice(s.acc, s.rows*goLanes)
	for len(left) > 0 {
		for r := range s.rows {
			row := acc[r*goLanes:][:goLanes]
			a, ae := left[:L], leftExponents[:L]
			for c := range goLanes {
				x := &row[lane(c, goLanes)]
				*x = stepGo(*x, a, right[lane(c, goLanes):], ae, rightExponents[c:], m.F, &z)
			}
			left, leftExponents = left[L:], leftExponents[L:]
		}
		right, rightExponents = right[L*goLanes:], rightExponents[L*goLanes:]
	}
}

// stepGo computes one step of one element: the values of b are goLanes apart.
func stepGo(acc float64, a, b []float64, ae, be []int32, F int, z *rounding) float64 {
	e := int32(leastAlignment)
	if acc != 0 {
		e = max(e, min(int32(math.Float64bits(acc)<<1>>(fraction64+1))-accBias, infExponent), -126)
	}
	for i, x := range ae {
		e = max(e, x+be[i*goLanes])
	}
	s := math.Float64frombits(uint64(bias64+F-int(e)) << fraction64)
	sum := math.Trunc(acc * (1 / accScale) * s)
	for i, x := range a {
		sum += math.Trunc(x * b[i*goLanes] * s)
	}
	inverse := math.Float64frombits((bias64+z.unitBias)<<fraction64 - math.Float64bits(s))
	sum = math.Float64frombits(math.Float64bits(sum) &^ z.extraBits)
	return float64(math.Trunc(sum*inverse)*(z.unit*overflow)) * (1 / overflow)
}
