package truthtest

import (
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/truth"
)

// TestAbsoluteErrors: what a function loses near zero beside its ulps is in the enclosures of
// definitions: 2^-126.6 is 0 by exp2_short3, some 4 million ulps off.
func TestAbsoluteErrors(t *testing.T) {
	holds := func(f *def.Function) bool {
		d := def.Must(def.Rowwise("absolute", func(b *def.Builder) {
			b.Out("y", f.Of(b.In("x", def.Only(num.F32))), def.Only(num.F32))
		}))
		var x []float32
		for v := float32(-160); v < 2; v += 0.37 {
			x = append(x, v)
		}
		operands := []num.Array{num.ArrayOf(num.F32, 1, len(x), x...), num.NewArray(num.F32, 1, len(x))}
		if err := reference.Run(d, operands, reference.Options{}); err != nil {
			t.Fatal(err)
		}
		enclosed, err := truth.Enclose(d, operands, truth.Options{Mode: truth.Rounded})
		if err != nil {
			t.Fatal(err)
		}
		stable, err := truth.EncloseStable(d, operands, truth.StableOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range x {
			y := float64(operands[1].At(0, i))
			lo, hi := enclosed.At(1, 0, i).Bounds()
			low, high := stable.Between(1, 0, i, 0)
			if y < lo || y > hi || y < float64(num.Widen(num.F32, low)) || y > float64(num.Widen(num.F32, high)) {
				return false
			}
		}
		return true
	}
	f := *fn.Exp2Short3Function
	if !holds(&f) {
		t.Error("a result lies outside its enclosure")
	}
	if f.Absolute = 0; holds(&f) {
		t.Error("without the absolute error every result still lies in its enclosure")
	}
}
