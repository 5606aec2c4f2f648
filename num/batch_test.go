package num

import "testing"

func TestBatch(t *testing.T) {
	// Two axes, the inner one outermost in memory, over matrices of 2×3 with a gap of one.
	a := Array{DType: I32, Cols: 3, Stride: 4, Data: make([]byte, 4*100)}
	if !a.Batch.Append(2, 8) || !a.Batch.Append(3, 16) {
		t.Fatal("two axes do not fit")
	}
	a.Rows = 2 * 3 * 2
	for i := range 100 {
		w := Array{DType: I32, Rows: 1, Cols: 100, Stride: 100, Data: a.Data}
		w.SetBits(0, i, uint32(i))
	}
	if a.Matrices() != 6 || a.Span() != 1*8+2*16+1*4+3 {
		t.Errorf("%d matrices over %d elements", a.Matrices(), a.Span())
	}
	row := 0
	for outer := range 2 {
		for inner := range 3 {
			m := a.Matrix(outer*3 + inner)
			for r := range 2 {
				for c := range 3 {
					want := int32(outer*8 + inner*16 + r*4 + c)
					if a.Int(row, c) != want || m.Int(r, c) != want || a.Index(row, c) != int(want) || m.Rows != 2 || m.Matrices() != 1 {
						t.Errorf("matrix %d,%d, element %d,%d: %d and %d, want %d", outer, inner, r, c, a.Int(row, c), m.Int(r, c), want)
					}
				}
				if got := a.Row(row); len(got) != 12 || got[0] != byte(a.Int(row, 0)) {
					t.Errorf("row %d is %v", row, got)
				}
				row++
			}
		}
	}
	b := a.Clone()
	if b.Stride != 3 || len(b.Data) != 4*36 || b.Batch.IsBroadcast() {
		t.Errorf("clone %+v", b)
	}
	for r := range a.Rows {
		for c := range a.Cols {
			if a.Bits(r, c) != b.Bits(r, c) || b.Index(r, c) != 3*r+c {
				t.Errorf("clone: element %d,%d is %d at %d", r, c, b.Bits(r, c), b.Index(r, c))
			}
		}
	}
	a.Batch.Axes[0].Stride = 0
	if !a.Batch.IsBroadcast() || a.Int(0, 0) != a.Int(6, 0) {
		t.Error("a stride of 0 does not broadcast")
	}
	for range MaxBatchAxes - 2 {
		if !a.Batch.Append(1, 0) {
			t.Error("there is no room for an axis")
		}
	}
	if a.Batch.Append(1, 0) || a.Batch.Count != MaxBatchAxes {
		t.Error("an axis too many was taken")
	}
}

// TestIndexInBatch: an element of a stack is where it is in its matrix, whether or not the matrices are one.
func TestIndexInBatch(t *testing.T) {
	var sizes, strides = []int{1, 2, 3}, []int{0, 5, 20, 40, 41, 60, 120}
	ones := 0
	for _, outer := range sizes {
		for _, inner := range sizes {
			for _, outside := range strides {
				for _, inside := range strides {
					a := Array{DType: F32, Rows: 4 * outer * inner, Cols: 5, Stride: 5, Data: make([]byte, 4*1000),
						Batch: Batch{Count: 2, Axes: [MaxBatchAxes]Axis{{outer, outside}, {inner, inside}}}}
					if a.isOneMatrix() {
						ones++
					}
					for r := range a.Rows {
						if got, want := a.Index(r, 3), r/4/inner*outside+r/4%inner*inside+r%4*5+3; got != want {
							t.Fatalf("%+v: row %d is at %d, want %d", a.Batch, r, got, want)
						}
					}
				}
			}
		}
	}
	if ones < 9 {
		t.Errorf("%d stacks are one matrix, want that of each sizes at least", ones)
	}
}
