package engine_test

import (
	"errors"
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/backend/gputest"
	"tokitai/engine"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

// TestSim admits kernels on a device whose memory the host does not see: guards and all
// travel there and back, a wrong answer is found, and a call has the bits of the CPU.
func TestSim(t *testing.T) {
	d, dtypes := softmax.ForwardDefinition, []num.DType{num.F16, num.F16}
	for _, width := range testlevel.Pick([]int{32}, []int{32, 64}) {
		q, err := engine.NewQueue(gputest.NeedsSim(t, width))
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		l, err := engine.Admit(q, d, dtypes)
		if err != nil || l.Name != "sim.rowwise" {
			t.Fatalf("%v, %v", l, err)
		}
		if private.Plans(q) != 2 {
			t.Errorf("%d plans, want one for each variant", private.Plans(q))
		}
		setCorrupt(func(_ string, output num.Array) { output.SetBits(0, 0, output.Bits(0, 0)^1) })
		err = private.RunSelfTest(q, l, d, dtypes, "C=7")
		setCorrupt(nil)
		if !errors.Is(err, engine.ErrInadmissible) {
			t.Errorf("a wrong answer: got %v", err)
		}
		values := make([]float32, 3*41)
		for i := range values {
			values[i] = float32(i*i%37) / 7
		}
		var results [][]byte
		for _, on := range []*engine.Queue{cpu.Queue(), q} {
			x, err := tensor.FromFloat32(on.Device(), num.F16, values, 3, 41)
			if err != nil {
				t.Fatal(err)
			}
			out, err := engine.Eval(on, d, engine.Args{"x": x})
			if err != nil {
				t.Fatal(err)
			}
			raw, err := out["y"].Bytes()
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, raw)
		}
		if !slices.Equal(results[0], results[1]) {
			t.Error("the simulator's bits are not the CPU's")
		}
	}
}
