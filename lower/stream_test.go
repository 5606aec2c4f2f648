package lower_test

import (
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/trial/randdef"
)

// TestPartsOfManyOperands: the steps of streams with as many operands as there may be have more than that, and are built.
func TestPartsOfManyOperands(t *testing.T) {
	g := gen.New("streams of many operands")
	most := 0
	for drawn := 0; most <= def.MaxOperands; drawn++ {
		if drawn == 10_000 {
			t.Fatalf("no step of a stream has more than %d operands", most)
		}
		d := randdef.Stream(g)
		if len(d.Operands) < def.MaxOperands-1 {
			continue
		}
		p, err := lower.PartsOf(d.Form.(*def.Stream), num.BF16)
		if err != nil {
			t.Fatalf("%v\n%s", err, d.Text())
		}
		most = max(most, len(p.Stored[1].Operands))
	}
}
