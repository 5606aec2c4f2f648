package num

import (
	"slices"
	"testing"
)

func TestDTypeNames(t *testing.T) {
	for d := F16; d <= E5M2; d++ {
		if got, err := ParseDType(d.String()); got != d || err != nil {
			t.Errorf("ParseDType(%q) = %v, %v", d, got, err)
		}
	}
	if _, err := ParseDType("none"); err == nil {
		t.Error("ParseDType accepted none")
	}
}

func TestArray(t *testing.T) {
	for _, d := range slices.Concat(FloatDTypes, FP8DTypes) {
		a := Array{DType: d, Rows: 2, Cols: 2, Stride: 3, Data: make([]byte, 6*d.Size())}
		a.Set(0, 1, 1.5)
		a.Set(1, 0, -2)
		b := a.Clone()
		a.Set(1, 0, 7)
		if a.At(1, 0) != 7 || b.Stride != 2 || b.At(0, 1) != 1.5 || b.At(1, 0) != -2 || b.At(1, 1) != 0 {
			t.Errorf("%v: %v, clone %v", d, a, b)
		}
		if c := ArrayOf(d, 2, 2, 0, 1.5, -2, 0); string(c.Data) != string(b.Data) {
			t.Errorf("%v: ArrayOf %v, want %v", d, c.Data, b.Data)
		}
	}
	if i := IndexArray(3, -1); i.Int(1, 0) != -1 || i.At(0, 0) != 3 || i.Rows != 2 {
		t.Errorf("IndexArray: %v", i)
	}
}
