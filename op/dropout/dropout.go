package dropout

import (
	"fmt"
	"math"
	"math/big"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/tensor"
)

// ForwardDefinition is x*scale for elements that are kept, and +0 for the others.
var ForwardDefinition = define("dropout.forward", "x", "y",
	"y = x * scale where the element is kept, else +0",
	"kept: word >= threshold, as unsigned numbers, and scale != 0")

// BackwardDefinition is the same for gradients: it draws the same words again.
var BackwardDefinition = define("dropout.backward", "dy", "dx",
	"dx = dy * scale where forward kept the element, else +0")

func define(name, in, out string, formula ...string) *def.Definition {
	return def.Must(def.Rowwise(name, func(b *def.Builder) {
		x := b.In(in)
		word := b.Random(b.IntParam("seed_low"), b.IntParam("seed_high"), b.IntParam("tensor"), b.IntParam("step"),
			b.IntParam("first_low"), b.IntParam("first_high")).As("word")
		threshold, scale := b.IntParam("threshold"), b.Param("scale", def.AtLeast(0))
		sign := def.IntConst(math.MinInt32) // with it flipped, unsigned numbers compare as signed ones
		isDropped := word.IXor(sign).Less(threshold.IXor(sign)).As("dropped")
		kept := def.Select(scale.Equal(def.Zero), def.Zero, x.Mul(scale))
		b.Out(out, def.Select(isDropped, def.Zero, kept), def.Like(in))

		b.Formula(formula...)
		b.Clauses(
			"any shape; rows may be strided",
			fmt.Sprintf("the element with number e, counted row after row from first on, has word e mod 4 of Philox 4x32-10 with the seed as key and the counter (e/4 low, e/4 high, tensor, step); the words do not depend on the dtype, the device or the values of %s", in),
			"keep = 1 keeps every element as it is; keep = 0 gives +0 everywhere",
			"an element that is dropped gives +0, also for NaN and infinities; one that is kept gives NaN for NaN and infinities for infinities, with their signs, as zeros keep theirs",
			"a result too large for its format is infinite; subnormals are kept",
			fmt.Sprintf("%s may be %s itself; any other overlap is refused", out, in),
		)
	}))
}

// Words names the random words of a call. Forward and backward of one layer have the same.
type Words struct {
	Seed   uint64
	Tensor int32  // number of the tensor in its model
	Step   int32  // number of the training step
	First  uint64 // number of the first element, so that a part of a tensor drops what the whole drops
}

// Forward computes y from x, and keeps each element with probability keep, from 0 to 1. y may
// be x.
func Forward(q *engine.Queue, y, x *tensor.Tensor, keep float64, w Words, opts ...engine.CallOption) error {
	return call(q, ForwardDefinition, x, y, keep, w, opts)
}

// Backward computes dx from dy. dx may be dy.
func Backward(q *engine.Queue, dx, dy *tensor.Tensor, keep float64, w Words, opts ...engine.CallOption) error {
	return call(q, BackwardDefinition, dy, dx, keep, w, opts)
}

func call(q *engine.Queue, d *def.Definition, in, out *tensor.Tensor, keep float64, w Words, opts []engine.CallOption) error {
	params, err := numbers(d, keep, w)
	if err != nil {
		return err
	}
	return engine.Call(q, d, []*tensor.Tensor{in, out}, params, opts...)
}

// numbers returns the parameters of a definition, in its order.
func numbers(d *def.Definition, keep float64, w Words) ([]float64, error) {
	if !(keep >= 0 && keep <= 1) {
		return nil, &device.ArgumentError{Op: d.Name, Operand: "keep", Clause: d.Name + ".C3", Got: fmt.Sprintf("is %v", keep), Want: "a probability from 0 to 1"}
	}
	threshold, scale := Limits(keep)
	low, high := words(w.Seed)
	firstLow, firstHigh := words(w.First)
	return []float64{low, high, float64(w.Tensor), float64(w.Step), firstLow, firstHigh, threshold, scale}, nil
}

// words returns the low and the high word of a number, as int32.
func words(v uint64) (low, high float64) {
	return float64(int32(uint32(v))), float64(int32(uint32(v >> 32)))
}

// Limits returns the threshold, an int32 with the bits of an unsigned number, and the scale. Of
// 2^32 words, kept = keep·2^32 are kept, rounded to nearest even, and the scale is 2^32/kept: the
// mean of the results is x, whatever the rounding. If none is kept, the scale is 0.
func Limits(keep float64) (threshold, scale float64) {
	exact, _ := new(big.Float).SetMantExp(big.NewFloat(keep), 32).Float64() // a power of two: exact
	kept := math.RoundToEven(exact)
	if kept == 0 {
		return 0, 0
	}
	return float64(int32(uint32(uint64(1<<32 - kept)))), 0x1p32 / kept
}
