package truthtest

import (
	"testing"

	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/reference"
	"tokitai/trial/randdef"
	"tokitai/truth"
)

// TestIndexedHolds checks that the sets of random gather-sums, dispatches and row writes hold the
// reference's answers.
func TestIndexedHolds(t *testing.T) {
	g := gen.New("indexed")
	known, all := 0, 0
	for range testlevel.Pick(60, 600, 6000) {
		d := randdef.Indexed(g)
		c := randdef.NewCase(g, d, randdef.DTypes(g, d), randdef.IndexedSizes(g, d, 40))
		r := enclose(t, d, truth.Rounded, nil, c.Operands...)
		answer := c.Clone()
		if err := reference.Run(d, answer.Operands, reference.Options{}); err != nil {
			t.Fatal(err)
		}
		for i := range d.Operands {
			if !d.Operands[i].IsOut {
				continue
			}
			for row := range answer.Operands[i].Rows {
				for col := range answer.Operands[i].Cols {
					if all++; !d.Operands[i].IsInt() && !r.At(i, row, col).Known() {
						continue // an infinity or NaN takes part
					}
					known++
					if bits := answer.Operands[i].Bits(row, col); !r.Admits(i, row, col, bits) {
						t.Fatalf("%s: %s[%d,%d] is %#x, which is not admitted\n%s", d.Name, d.Operands[i].Name, row, col, bits, d.Text())
					}
				}
			}
		}
	}
	if known < all/2 {
		t.Errorf("of %d results only %d are enclosed", all, known)
	}
}
