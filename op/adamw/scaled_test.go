package adamw

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/device"
	"tokitai/num"
	"tokitai/op/optest"
)

// TestStepScaled: weights, moments and copies have the bits of a step by products that were stored.
func TestStepScaled(t *testing.T) {
	t.Parallel()
	const factor = 0.3
	w, m, v, g := make([]float32, 1000), make([]float32, 1000), make([]float32, 1000), make([]float32, 1000)
	for i := range w {
		x := float64(i)
		w[i], m[i], v[i], g[i] = float32(math.Sin(x)), float32(math.Sin(x*x)/8), float32(math.Abs(math.Cos(x))/16), float32(math.Exp(-x/10)*math.Cos(3*x))
	}
	g[0], g[1], g[2] = float32(math.NaN()), float32(math.Inf(1)), 0x1p-149
	products := make([]float32, len(g))
	for i := range g {
		products[i] = g[i] * float32(factor)
	}
	for _, mode := range []Mode{InPlace, Master} {
		var bits [2][]byte
		for k := range bits {
			u := Update{Mode: mode, State: state(t, mode, num.F32, w, m, v), Hyper: usual(1e-3), T: 3}
			var err error
			if k == 0 {
				u.Grad = optest.Vector(t, num.F32, products...)
				err = Step(cpu.Queue(), u)
			} else {
				u.Grad = optest.Vector(t, num.F32, g...)
				err = StepScaled(cpu.Queue(), u, factor)
			}
			if err != nil {
				t.Fatal(err)
			}
			list := []interface{ Bytes() ([]byte, error) }{u.State.Weight, u.State.M, u.State.V}
			if mode == Master {
				list = append(list, u.State.Copy)
			}
			for _, x := range list {
				raw, err := x.Bytes()
				if err != nil {
					t.Fatal(err)
				}
				bits[k] = append(bits[k], raw...)
			}
		}
		if !bytes.Equal(bits[0], bits[1]) {
			t.Errorf("%v: the step has other bits than one by products", mode)
		}
	}
	for want, u := range map[string]Update{
		"mode": {Mode: Stochastic, State: state(t, Stochastic, num.BF16, w, m, v), Grad: optest.Vector(t, num.F32, g...), Hyper: usual(1e-3), T: 1},
		"grad": {Mode: InPlace, State: state(t, InPlace, num.BF16, w, m, v), Grad: optest.Vector(t, num.BF16, g...), Hyper: usual(1e-3), T: 1},
	} {
		if e, ok := errors.AsType[*device.ArgumentError](StepScaled(cpu.Queue(), u, 1)); !ok || e.Operand != want {
			t.Errorf("error %v, want one about %s", e, want)
		}
	}
}
