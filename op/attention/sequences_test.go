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

// The check sequences sees a kernel whose bits depend on the batch: right in the case itself, and wrong
// with one sequence, with fewer queries, or beside NaN.
func TestSequencesCheck(t *testing.T) {
	const name = "sequences:normal/T=33,G=1,J=1,D=8,S=49,B=3"
	for fault, isWrong := range map[string]func(operands []num.Array) bool{
		"none":             func([]num.Array) bool { return false },
		"a sequence alone": func(x []num.Array) bool { return x[3].Rows == 2 },
		"fewer queries":    func(x []num.Array) bool { return x[3].Rows == 4 && x[0].Rows < 33 },
		"beside NaN": func(x []num.Array) bool {
			v := x[2].At(int(x[4].Int(1, 0)), 0)
			return x[3].Rows == 4 && v != v
		},
	} {
		l := &engine.Lowering{
			Name: "cpu.batch", Device: "cpu",
			Compile: func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
				return engine.KernelFunc(func(l *engine.Launch) error {
					x := l.Arrays()
					if err := reference.Run(d, x, reference.Options{Params: l.Params}); err != nil || !isWrong(x) {
						return err
					}
					for r := range x[5].Rows {
						x[5].SetBits(r, 0, x[5].Bits(r, 0)^1)
					}
					return nil
				}), nil
			},
		}
		target := &verify.Target{Operation: attention.Operations[0], Definition: attention.ForwardDefinition, Lowering: l, DType: num.F16}
		r, err := verify.Run(t.Context(), target, verify.Options{Level: verify.Smoke, Seed: 1, Case: name, Tool: "test", Version: "1"})
		if err != nil {
			t.Fatal(err)
		}
		f := r.Report.Failure
		if isFound := f != nil && f.Tier == evidence.Relations; isFound == (fault == "none") {
			t.Errorf("%s: verdict %s, failure %v", fault, r.Report.Verdict, f)
		}
	}
}
