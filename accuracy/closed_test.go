package accuracy_test

import (
	"fmt"
	"math"
	"testing"

	"tokitai/accuracy"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/truth"
)

func TestBounds(t *testing.T) {
	bounds := map[[2]string]accuracy.Bound{}
	for _, b := range accuracy.Bounds {
		bounds[[2]string{b.Operation, b.Output}] = b
	}
	for _, o := range all.Operations {
		for _, data := range o.Data {
			for _, dtype := range num.FloatDTypes {
				run, ok := accuracy.NewRun(o, data, dtype)
				if !ok {
					continue
				}
				exact, err := run.Enclose(truth.Exact)
				rounded, err := run.Enclose(truth.Rounded)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := run.Answer()
				if err != nil {
					t.Fatal(err)
				}
				for i, operand := range data.Definition.Operands {
					if !operand.IsOut {
						continue
					}
					b, ok := bounds[[2]string{o.Name, operand.Name}]
					if !ok {
						t.Errorf("%s has no closed form for %s", o.Name, operand.Name)
						continue
					}
					bound := b.At(run)
					y := answer[i]
					worst, tight, loose := 0.0, 0.0, math.Inf(1)
					for r := range y.Rows {
						for c := range y.Cols {
							v := float64(y.At(r, c))
							lo, hi := exact.At(i, r, c).Bounds()
							limit := bound(r, c)
							if rad := truth.Radius(rounded.At(i, r, c), exact.At(i, r, c)); rad > 0 {
								tight = max(tight, rad/limit)
								loose = min(loose, rad/limit)
							}
							if y.DType != num.F32 {
								limit += num.ULP(y.DType, v) / 2
							} else if limit > 0 {
								worst = max(worst, max(hi-v, v-lo)/limit)
							}
							if max(hi-v, v-lo) > limit {
								t.Errorf("%s %s %v: %s[%d,%d] = %v, truth %v, limit %g", o.Name, data.Name, dtype, operand.Name, r, c, v, exact.At(i, r, c), limit)
							}
						}
					}
					fmt.Printf("%-20s %-20s %-5v %-8s  measured/limit %6.3f radius/limit %6.4f .. %6.4f\n", o.Name, data.Name, dtype, operand.Name, worst, loose, tight)
				}
			}
		}
	}
}
