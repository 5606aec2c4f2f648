package norm

import (
	"fmt"
	"math"
	"testing"

	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/reference"
)

// TestClipAfterSquareSum holds the norm and the factor of a tensor to their bounds where the
// square sum is rounded too.
func TestClipAfterSquareSum(t *testing.T) {
	branches := map[string]int{}
	hold := func(x []float32, limit float64) error {
		d := ClipDefinition
		operands := []num.Array{num.NewArray(num.F32, 1, 1), num.NewArray(num.F32, 1, 1), num.NewArray(num.F32, 1, 1)}
		first := []num.Array{num.ArrayOf(num.F32, 1, len(x), x...), operands[0]}
		if err := reference.Run(SquareSumDefinition, first, reference.Options{}); err != nil {
			return err
		}
		if err := reference.Run(d, operands, reference.Options{Params: []float64{limit}}); err != nil {
			return err
		}
		total, values := 0.0, make([]float64, len(x))
		for i, v := range x {
			values[i] = float64(v)
			total += float64(v) * float64(v)
		}
		off, max := squareSumBound(values), float64(float32(limit))
		for _, out := range []struct {
			name           string
			y, want, bound float64
		}{
			{"norm", float64(operands[1].At(0, 0)), math.Sqrt(total), normBound(total, off)},
			{"factor", float64(operands[2].At(0, 0)), min(1, max/math.Sqrt(total)), factorBound(total, off, max)},
		} {
			if e := math.Abs(out.y - out.want); e > out.bound*(1+0x1p-40) {
				return fmt.Errorf("%s of %v, limit %v: got %v, want %v within %v", out.name, x, limit, out.y, out.want, out.bound)
			}
		}
		switch {
		case off <= total/1024:
			branches["close"]++
		case off <= total/32:
			branches["near"]++
		default:
			branches["open"]++
		}
		return nil
	}
	lost := float32(0x1p-75)
	if err := hold([]float32{lost, lost, lost, lost, lost, lost, lost}, 1e-24); err != nil {
		t.Error(err)
	}
	g := gen.New(t.Name())
	for range 20000 {
		x := make([]float32, 1+g.Below(9))
		e := -80 + g.Below(20)
		for i := range x {
			x[i] = g.Exponents(e, e+1+g.Below(4))
		}
		if err := hold(x, math.Ldexp(1+float64(g.Uniform(0, 1)), e-3+g.Below(8))); err != nil {
			t.Fatal(err)
		}
	}
	if branches["close"] < 1000 || branches["near"] < 1000 || branches["open"] < 1000 {
		t.Errorf("cases: %v", branches)
	}
}
