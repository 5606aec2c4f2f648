package reference_test

import (
	"math"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/reference"
)

// TestSlots has values in slots and back, worked out by hand: as many as are kept, fewer and more.
func TestSlots(t *testing.T) {
	d := def.Must(def.Rowwise("slots", func(b *def.Builder) {
		x := b.In("x", def.Only(num.F32))
		keep := def.Zero.Less(x)
		b.OutSlots("columns", def.Packed(keep, b.Col()))
		b.OutSlots("values", def.Packed(keep, x), def.Only(num.F32))
		b.Out("back", def.Unpacked(keep, b.InSlots("slots", def.Only(num.F32))), def.Only(num.F32))
	}))
	for _, test := range []struct {
		slots        []float64
		columns      []int32
		values, back []float32
	}{
		{[]float64{10, 20}, []int32{1, 3}, []float32{2, 5}, []float32{0, 10, 0, 20, 0}},
		{[]float64{10}, []int32{1}, []float32{2}, []float32{0, 10, 0, 0, 0}},
		{[]float64{10, 20, 30}, []int32{1, 3, -1}, []float32{2, 5, 0}, []float32{0, 10, 0, 20, 0}},
	} {
		k := len(test.slots)
		operands := []num.Array{row(num.F32, []float64{-1, 2, nan, 5, 0}), num.NewArray(num.I32, 1, k), num.NewArray(num.F32, 1, k), row(num.F32, test.slots), num.NewArray(num.F32, 1, 5)}
		if err := reference.Run(d, operands, reference.Options{}); err != nil {
			t.Fatal(err)
		}
		var columns []int32
		var values, back []float32
		for c := range k {
			columns = append(columns, int32(operands[1].Bits(0, c)))
			values = append(values, operands[2].At(0, c))
		}
		for c := range 5 {
			back = append(back, operands[4].At(0, c))
		}
		if !slices.Equal(columns, test.columns) || !slices.Equal(values, test.values) || !slices.Equal(back, test.back) || math.Signbit(float64(values[k-1])) {
			t.Errorf("%d slots: columns %v, values %v, back %v; want %v, %v, %v", k, columns, values, back, test.columns, test.values, test.back)
		}
	}
}
