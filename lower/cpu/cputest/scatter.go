package cputest

import (
	"math"
	"slices"

	"tokitai/num"
)

// ScatterAnswer is the answer to a sum of f16 values by index, worked out by hand: the sum is
// exact, with an old value or without, and rounded once.
type ScatterAnswer struct {
	Name   string
	Values []float64
	Old    []float64 // at most one: then it accumulates
	Result num.DType
	Want   uint32
}

// ScatterAnswers returns answers for f16.
func ScatterAnswers() []ScatterAnswer {
	inf, nan, minusZero := math.Inf(1), math.NaN(), math.Copysign(0, -1)
	repeat := func(n int, v float64) []float64 { return slices.Repeat([]float64{v}, n) }
	return []ScatterAnswer{
		{"nothing lost in a long sum", repeat(5000, 0x1p-24), nil, num.F16, uint32(num.F32ToF16(5000 * 0x1p-24))},
		{"small after large", append([]float64{65504}, append(repeat(300, 0x1p-24), -65504)...), nil, num.F16, 300},
		{"beyond f16 and back", []float64{65504, 65504, -65504}, nil, num.F16, 0x7bff},
		{"beyond f16", []float64{65504, 16}, nil, num.F16, 0x7c00},
		{"just not beyond f16", []float64{65504, 15.9921875}, nil, num.F16, 0x7bff},
		{"far beyond f16, f32 holds it", repeat(200, 65504), nil, num.F32, math.Float32bits(200 * 65504)},
		{"exact cancellation", []float64{1.5, -1.5}, nil, num.F16, 0},
		{"minus zeros", []float64{minusZero, minusZero}, nil, num.F16, 0},
		{"minus zeros on minus zero", []float64{minusZero}, []float64{minusZero}, num.F16, 0},
		{"minus zeros on minus zero in f32", []float64{minusZero}, []float64{minusZero}, num.F32, 0},
		{"cancelling the old value", []float64{-0.25, -0.25}, []float64{0.5}, num.F16, 0},
		{"infinity", []float64{1, inf, -65504}, nil, num.F16, 0x7c00},
		{"minus infinity", []float64{-inf, 1}, []float64{5}, num.F32, 0xff800000},
		{"infinities of both signs", []float64{inf, -inf}, nil, num.F16, 0x7e00},
		{"infinities of both signs, one of them old", []float64{inf}, []float64{-inf}, num.F32, 0x7fc00000},
		{"NaN", []float64{1, nan, inf}, nil, num.F16, 0x7e00},
		{"an old NaN", []float64{1}, []float64{nan}, num.F32, 0x7fc00000},
		{"an old infinity", []float64{1}, []float64{inf}, num.F16, 0x7c00},
		{"a tie to even", []float64{2048, 1}, nil, num.F16, uint32(num.F32ToF16(2048))},
		{"above a tie", []float64{2048, 1, 0x1p-24}, nil, num.F16, uint32(num.F32ToF16(2050))},
		{"a tie of f32", []float64{0x1p14, 0x1p-10}, nil, num.F32, math.Float32bits(0x1p14)},
		{"above a tie of f32", []float64{0x1p14, 0x1p-10, 0x1p-24}, nil, num.F32, math.Float32bits(0x1p14 + 0x1p-9)},
		{"an old f32 below 2^-24", []float64{0x1p-24}, []float64{0x1p-40}, num.F32, math.Float32bits(0x1p-24 + 0x1p-40)},
		{"an old f32 that decides a tie", []float64{1, 0x1p-24}, []float64{0x1p-149}, num.F32, math.Float32bits(1 + 0x1p-23)},
		{"an old f32 that decides a tie downward", []float64{1, 0x1p-24}, []float64{-0x1p-149}, num.F32, math.Float32bits(1)},
		{"an old f32 beyond binary64's reach", []float64{0x1p-24}, []float64{0x1p100}, num.F32, math.Float32bits(0x1p100)},
		{"a sum beyond 53 bits", append(repeat(8196, 65504), 160, 0x1p-24), nil, num.F32, math.Float32bits(0x1p29 + 64)}, // above the tie 2^29 + 32
		{"a sum beyond 53 bits on an old value", append(repeat(8196, 65504), 160, 0x1p-24), []float64{0}, num.F32, math.Float32bits(0x1p29 + 64)},
		{"below a tie by one part in 2^53", append(repeat(4098, 65504), 112, -0x1p-24), []float64{0x1p-40}, num.F32, math.Float32bits(0x1p28 + 32)},
		{"an old f32 near the end of the range", []float64{65504}, []float64{math.MaxFloat32}, num.F32, math.Float32bits(math.MaxFloat32)},
	}
}
