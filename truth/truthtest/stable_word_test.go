package truthtest

import (
	"math"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/truth"
)

// TestStableFollowsRandomWords checks that the set of a stochastically rounded weight holds the
// values that the definition's own random word gives: almost always one, and never the neighbour
// that another word would give.
func TestStableFollowsRandomWords(t *testing.T) {
	const rows, cols = 8, 64
	d := adamw.StochasticDefinition
	for _, dtype := range []num.DType{num.F16, num.BF16} {
		operands := make([]num.Array, len(d.Operands))
		for i, o := range d.Operands {
			format := num.F32
			if o.Name == "weight" || o.Name == "grad" {
				format = dtype
			}
			operands[i] = num.NewArray(format, rows, cols)
			for r := range rows {
				for c := range cols {
					operands[i].Set(r, c, float32(1+math.Abs(math.Sin(float64(r*cols+c+1000*i)))))
				}
			}
		}
		params := make([]float64, len(d.Params))
		for name, v := range map[string]float64{
			"beta1": 0.9, "one_minus_beta1": 0.1, "beta2": 0.99, "one_minus_beta2": 0.01, "step_size": 0.01, "inverse_sqrt_bc2": 1,
			"eps": 1e-8, "decay": 1e-3, "seed_low": 7, "tensor": 3, "t": 5,
		} {
			params[d.Param(name)] = v
		}
		inPlace := adamw.InPlaceDefinition // whose weight is the same before it is stored
		plain := make([]num.Array, len(operands))
		for i := range operands {
			plain[i] = operands[i].Clone()
		}
		plain[d.Operand("weight")] = num.NewArray(num.F32, rows, cols)
		for r := range rows {
			for c := range cols {
				plain[d.Operand("weight")].Set(r, c, operands[d.Operand("weight")].At(r, c))
			}
		}
		before, err := truth.EncloseStable(inPlace, plain, truth.StableOptions{Params: params[:len(inPlace.Params)], CountSteps: true})
		if err != nil {
			t.Fatal(err)
		}
		after, err := truth.EncloseStable(d, operands, truth.StableOptions{Params: params, CountSteps: true})
		if err != nil {
			t.Fatal(err)
		}
		ordered, err := truth.Enclose(d, operands, truth.Options{Params: params, Mode: truth.Rounded, Order: &def.Order{}})
		if err != nil {
			t.Fatal(err)
		}
		weight, several := d.Operand("weight"), 0
		for r := range rows {
			for c := range cols {
				word := num.RandomWord(7, 3, 5, uint64(r*cols+c))
				least, most := before.Between(weight, r, c, math.MaxInt)
				stored := func(end uint32) uint32 {
					return num.Narrow(dtype, num.StochasticRound(dtype, num.Widen(num.F32, end), word))
				}
				lo, hi := after.Between(weight, r, c, math.MaxInt)
				if lo != stored(least) || hi != stored(most) {
					t.Errorf("%s weight[%d,%d]: the set is %#x to %#x, want %#x to %#x", dtype, r, c, lo, hi, stored(least), stored(most))
				}
				if lo != hi {
					several++
				}
				if l, h := ordered.Between(weight, r, c); num.Index(dtype, l) < num.Index(dtype, lo) || num.Index(dtype, h) > num.Index(dtype, hi) {
					t.Errorf("%s weight[%d,%d]: promise ordered admits %#x to %#x, stable %#x to %#x", dtype, r, c, l, h, lo, hi)
				}
			}
		}
		if several > rows*cols/16 {
			t.Errorf("%s: %d of %d sets have several values", dtype, several, rows*cols)
		}
	}
}
