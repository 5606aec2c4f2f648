package accuracy_test

import (
	"fmt"
	"strings"
	"testing"

	"tokitai/internal/gen"
	"tokitai/reference"
	"tokitai/trial/randdef"
	"tokitai/truth"
)

// Definitions of any nodes on operands of any pattern: what is known of a result
// contains what the reference computes. Refused are only functions that are not what
// their mathematics says, and random bits that hang on an open comparison.
func TestRandomCases(t *testing.T) {
	judged, unknown, refused := 0, 0, 0
	const seeds = 1000
	for seed := range seeds {
		g := gen.New(fmt.Sprint(t.Name(), seed))
		d, err := randdef.New(g)
		if err != nil {
			t.Fatal(err)
		}
		k := randdef.NewCase(g, d, randdef.DTypes(g, d), randdef.Sizes(g, d, 20000))
		answer := k.Clone()
		if err := reference.Run(d, answer.Operands, reference.Options{Params: k.Params}); err != nil {
			t.Fatal(err)
		}
		rounded, err := truth.Enclose(d, k.Operands, truth.Options{Params: k.Params, Mode: truth.Rounded})
		if err != nil {
			if !strings.Contains(err.Error(), "too close to call") && !strings.Contains(err.Error(), "it is not the exponential") {
				t.Errorf("seed %d: %v", seed, err)
			}
			refused++
			continue
		}
		for i, o := range d.Operands {
			if !o.IsOut {
				continue
			}
			y := answer.Operands[i]
			for r := range y.Rows {
				for c := range y.Cols {
					if !rounded.At(i, r, c).Known() {
						unknown++
						continue
					}
					judged++
					lo, hi := rounded.Between(i, r, c)
					bits := y.Bits(r, c)
					if !rounded.Admits(i, r, c, bits) {
						t.Fatalf("seed %d: %s[%d,%d] is %#x (%v), want %#x to %#x, %v\n%s", seed, o.Name, r, c, bits, y.At(r, c), lo, hi, rounded.At(i, r, c), d.Text())
					}
				}
			}
		}
	}
	if judged < 2*unknown || refused > seeds/4 {
		t.Errorf("%d elements judged, %d unknown, %d of %d definitions refused: too little was seen", judged, unknown, refused, seeds)
	}
}
