package trial_test

import (
	"testing"

	"tokitai/num"
	"tokitai/trial"
)

// TestBreachDetail writes elements at known distances and reads where they are said to be.
func TestBreachDetail(t *testing.T) {
	for _, test := range []struct {
		name string // of the operand
		at   int    // element, counted from the first one
		n    int    // elements written
		want string
	}{
		{"y", -1, 1, "it writes outside y: 2 bytes changed, first at element 1 before the first one, now 0x3c00 (1)"},
		{"y", -3, 2, "it writes outside y: 4 bytes changed, first at element 3 before the first one, now 0x3c00 (1)"},
		// y is 3×5 with a gap of 1 after each row, so that its last element is number 16.
		{"y", 18, 1, "it writes outside y: 2 bytes changed, first at element 2 after the last one, now 0x3c00 (1)"},
		{"y", 30, 1, "it writes outside y: 2 bytes changed, first at element 14 after the last one, now 0x3c00 (1)"},
		{"y", 5, 3, "it writes between the rows of y: 2 bytes changed, first at element 1 of the gap after row 0, now 0x3c00 (1)"},
		{"w", 11, 7, "it writes between the rows of w: 4 bytes changed, first at element 1 of the gap after row 1, now 0x3c00 (1)"},
		{"x", 6, 3, "it writes to its input x: 6 bytes changed, first at element 0 of row 1, now 0x3c00 (1)"},
		{"x", 17, 1, "it writes between the rows of x: 2 bytes changed, first at element 1 of the gap after row 2, now 0x3c00 (1)"},
		{"g", 4, 1, "it writes to its input g: 2 bytes changed, first at element 4 of row 0, now 0x3c00 (1)"},
		{"g", 5, 1, "it writes outside g: 2 bytes changed, first at element 1 after the last one, now 0x3c00 (1)"},
		{"s", 1, 1, "it writes between the rows of s: 4 bytes changed, first at element 1 of the gap after row 0, now 0x3f800000 (1)"},
	} {
		before := all(t)
		after := before.Clone()
		i := operand(t, test.name)
		memory, offset := after.Memory(i)
		dtype := after.Array(i).DType
		from := offset + test.at*dtype.Size()
		part := num.Array{DType: dtype, Rows: 1, Cols: test.n, Stride: test.n, Data: memory[from : from+test.n*dtype.Size()]}
		trial.FillBits(part, func(int, int) uint32 { return num.Narrow(dtype, 1) })
		if b := after.Breach(before); b == nil || b.String() != test.want {
			t.Errorf("%s, element %d: got %v, want %s", test.name, test.at, b, test.want)
		}
	}
	before := all(t)
	after := before.Clone()
	memory, offset := after.Memory(operand(t, "y"))
	memory[offset-1] = 0x3c
	if b, want := after.Breach(before), "it writes outside y: 1 byte changed, at element 1 before the first one, now 0x3ca5 (1.1611328)"; b == nil || b.String() != want {
		t.Errorf("a single byte: got %v, want %s", b, want)
	}
}
