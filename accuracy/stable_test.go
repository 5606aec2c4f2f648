package accuracy

import (
	"testing"

	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/truth"
)

// The promise stable admits what every shipped definition computes, on hostile data too.
func TestStableAdmitsDefinitions(t *testing.T) {
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if d.Ring().IsExact() || d.IsExact() {
				continue // one result is right
			}
			judged, unknown := 0, 0
			eachHostile(gen.New(t.Name()+d.Name), testlevel.Pick(40, 200, 400), o, d, func(run *Run, _ bool) bool {
				s, err := truth.EncloseStable(d, run.Operands, truth.StableOptions{Params: run.Data.Params})
				if err != nil {
					t.Error(err)
					return false
				}
				answer, err := run.Answer()
				if err != nil {
					t.Error(err)
					return false
				}
				for i := range d.Operands {
					if !d.Operands[i].IsOut {
						continue
					}
					dtype := answer[i].DType
					for r := range answer[i].Rows {
						for c := range answer[i].Cols {
							if !s.Known(i, r, c) {
								unknown++
								continue
							}
							judged++
							if bits := answer[i].Bits(r, c); !s.Admits(i, r, c, s.MostHeight(), bits) {
								lo, hi := s.Between(i, r, c, s.MostHeight())
								t.Errorf("%s, %s, %v: %s[%d,%d] is %v, want %v to %v; truth %v, bound %v", d.Name, run.Data.Name, run.DType, d.Operands[i].Name, r, c,
									num.Widen(dtype, bits), num.Widen(dtype, lo), num.Widen(dtype, hi), s.At(i, r, c), s.Error(i, r, c, s.MostHeight()))
								describeInputs(t, run)
								return false
							}
						}
					}
				}
				return true
			})
			t.Logf("%s: %d judged, %d unknown", d.Name, judged, unknown)
			if judged < 100 || unknown > judged {
				t.Errorf("%s: %d judged, %d unknown: too little was seen", d.Name, judged, unknown)
			}
		}
	}
}
