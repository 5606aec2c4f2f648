package truth_test

import (
	"fmt"
	"testing"

	"tokitai/num"
	"tokitai/truth"
)

// The reference's results are admitted, with the heights of the definition's own order.
func TestStableAdmitsReference(t *testing.T) {
	for _, run := range runs(t) {
		name := fmt.Sprintf("%s/%s", run.Data.Definition.Name, run.Data.Name)
		answer, err := run.Answer()
		if err != nil {
			t.Fatal(err)
		}
		s, err := truth.EncloseStable(run.Data.Definition, run.Operands, truth.StableOptions{Params: run.Data.Params})
		if err != nil {
			t.Fatal(err)
		}
		known := 0
		eachOutput(run.Data.Definition, run.Operands, func(i, r, c int) {
			if !s.Known(i, r, c) {
				return
			}
			known++
			if bits := answer[i].Bits(r, c); !s.Admits(i, r, c, s.MostHeight(), bits) {
				lo, hi := s.Between(i, r, c, s.MostHeight())
				d := run.Operands[i].DType
				t.Fatalf("%s: %s[%d,%d] is %v, want %v to %v", name, run.Data.Definition.Operands[i].Name, r, c, num.Widen(d, bits), num.Widen(d, lo), num.Widen(d, hi))
			}
		})
		if known == 0 {
			t.Errorf("%s: no element is known", name)
		}
	}
}
