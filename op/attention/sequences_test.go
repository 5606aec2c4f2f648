package attention_test

import (
	"testing"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/attention"
	"tokitai/reference"
	"tokitai/verify"
)

// TestSequencesCheck: the checks of sequences see a kernel whose bits depend on the batch, or on where keys
// lie: right in the case itself, and wrong elsewhere.
func TestSequencesCheck(t *testing.T) {
	type faults map[string]func(x []num.Array) bool
	for _, test := range []struct {
		operation int
		name      string
		spoils    string // the output
		faults    faults
	}{
		{0, "sequences:normal/T=33,G=1,J=1,D=8,S=49,B=3", "o", faults{
			"none":             func([]num.Array) bool { return false },
			"a sequence alone": func(x []num.Array) bool { return x[3].Rows == 2 },
			"fewer queries":    func(x []num.Array) bool { return x[3].Rows == 4 && x[0].Rows < 33 },
			"beside NaN": func(x []num.Array) bool {
				if x[3].Rows != 4 {
					return false
				}
				v := x[2].At(int(x[4].Int(1, 0)), 0)
				return v != v
			},
		}},
		{1, "sequences:normal/T=33,G=1,J=1,D=8,S=49,B=3", "dk", faults{
			"none":             func([]num.Array) bool { return false },
			"a sequence alone": func(x []num.Array) bool { return x[3].Rows == 2 },
			"beside NaN": func(x []num.Array) bool {
				if x[3].Rows != 4 {
					return false
				}
				v := x[2].At(int(x[4].Int(1, 0)), 0)
				return v != v
			},
		}},
		{2, "pages:normal/T=33,G=1,J=1,D=8,P=6,N=16,B=3,M=4", "o", faults{
			"none":          func([]num.Array) bool { return false },
			"longer pages":  func(x []num.Array) bool { return x[1].Batch.Axes[1].Size == 64 },
			"one sequence":  func(x []num.Array) bool { return x[4].Rows == 1 },
			"fewer queries": func(x []num.Array) bool { return x[4].Rows == 3 && x[0].Rows < 33 },
		}},
	} {
		o := attention.Operations[test.operation]
		for fault, isWrong := range test.faults {
			l := &engine.Lowering{
				Name: "cpu.batch", Device: "cpu",
				Compile: func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
					return engine.KernelFunc(func(l *engine.Launch) error {
						x := l.Arrays()
						if err := reference.Run(d, x, reference.Options{Params: l.Params}); err != nil || !isWrong(x) {
							return err
						}
						out := x[d.Operand(test.spoils)]
						for r := range out.Rows {
							out.SetBits(r, 0, out.Bits(r, 0)^1)
						}
						return nil
					}), nil
				},
			}
			target := &verify.Target{Operation: o, Definition: o.Definitions[0], Lowering: l, DType: num.F16}
			r, err := verify.Run(t.Context(), target, verify.Options{Level: verify.Smoke, Seed: 1, Case: test.name, Tool: "test", Version: "1"})
			if err != nil {
				t.Fatal(err)
			}
			f := r.Report.Failure
			if isFound := f != nil && f.Tier == evidence.Relations; isFound == (fault == "none") {
				t.Errorf("%s, %s: verdict %s, failure %v", o.Name, fault, r.Report.Verdict, f)
			}
		}
	}
}
