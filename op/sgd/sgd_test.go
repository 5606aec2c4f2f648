package sgd_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/optest"
	"tokitai/op/sgd"
	"tokitai/tensor"
)

var (
	inf  = float32(math.Inf(1))
	nan  = float32(math.NaN())
	zero = float32(math.Copysign(0, -1))
)

var definitions = []*def.Definition{sgd.StepDefinition, sgd.MasterDefinition, sgd.NesterovDefinition, sgd.NesterovMasterDefinition}

// usual are numbers that people train with.
var usual = sgd.Hyper{LR: 0.1, Momentum: 0.9, WeightDecay: 5e-4}

func size(r, c int) map[string]int { return map[string]int{"R": r, "C": c} }

func subject(d *def.Definition, h sgd.Hyper) optest.Subject {
	return optest.Subject{Definition: d, Params: []float64{h.LR, h.Momentum, h.Dampening, h.WeightDecay}, Data: optest.Operation(sgd.Operations, d.Name).Data[:1],
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			u := sgd.Update{Weight: x[0], Buffer: x[1], Grad: x[2], IsNesterov: isNesterov[d], Hyper: h}
			if len(x) > 3 {
				u.Copy, u.IsMaster = x[3], true
			}
			return sgd.Step(q, u, opts...)
		},
	}
}

func TestDoc(t *testing.T) { optest.Doc(t, "doc.go", definitions...) }

func TestMatchReference(t *testing.T) {
	for _, d := range definitions {
		optest.MatchReference(t, subject(d, usual), size(5, 77), size(1, 1), size(2, 1025))
		optest.MatchReference(t, subject(d, sgd.Hyper{1, 0.5, 0.25, 0.5}), size(3, 7))
	}
}

func TestErrors(t *testing.T) {
	for _, d := range definitions {
		optest.Errors(t, subject(d, usual), size(3, 5))
	}
}

// TestCopyWithoutMaster: a copy that nothing would write is refused.
func TestCopyWithoutMaster(t *testing.T) {
	x := optest.Vector(t, num.F32, 1)
	err := sgd.Step(cpu.Queue(), sgd.Update{Weight: x, Buffer: x, Grad: x, Copy: x})
	if want := "sgd.step: copy is given, want none, or a step with IsMaster"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// run takes a step of a definition, with weights of a format and a copy in f16 if there is one.
func run(t testing.TB, d *def.Definition, format num.DType, h sgd.Hyper, weight, buffer, grad []float32) sgd.Update {
	t.Helper()
	u := sgd.Update{Weight: optest.Vector(t, format, weight...), Buffer: optest.Vector(t, num.F32, buffer...), Grad: optest.Vector(t, num.F32, grad...), IsNesterov: isNesterov[d], Hyper: h}
	if d.Operand("copy") >= 0 {
		u.Copy, u.IsMaster = optest.Garbage(t, num.F16, len(weight)), true
	}
	if u.Definition() != d {
		t.Fatalf("the update is %s, want %s", u.Definition().Name, d.Name)
	}
	optest.OK(t, sgd.Step(cpu.Queue(), u))
	return u
}

// formats of the weights of a definition.
func formats(d *def.Definition) []num.DType {
	if d.Operand("copy") >= 0 {
		return []num.DType{num.F32}
	}
	return num.FloatDTypes
}

func TestByHand(t *testing.T) {
	h := sgd.Hyper{LR: 0.5, Momentum: 0.5, Dampening: 0.25, WeightDecay: 0.25}
	for _, d := range definitions {
		for _, f := range formats(d) {
			u := run(t, d, f, h, []float32{4, -8}, []float32{2, 0}, []float32{3, 6})
			// g = 3 + 1 and 6 - 2; buffer = 1 + 3 and 0 + 3.
			optest.Want(t, "buffer", u.Buffer, 4, 3)
			weight := []float32{2, -9.5}
			if isNesterov[d] { // g + buffer/2 = 6 and 5.5
				weight = []float32{1, -10.75}
			}
			optest.Want(t, "weight", u.Weight, weight...)
			if u.Copy != nil {
				optest.Want(t, "copy", u.Copy, weight...)
			}
		}
	}
}

// TestRoundings: the same operations written in Go, in the same order, have the same bits.
func TestRoundings(t *testing.T) {
	g := gen.New("sgd")
	n := 2000
	w, b, x := make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range w {
		w[i], b[i], x[i] = g.Normal(), g.Normal(), g.Normal()
	}
	h := sgd.Hyper{LR: 0.1, Momentum: 0.9, Dampening: 0.3, WeightDecay: 0.01}
	lr, momentum, dampening, decay := float32(h.LR), float32(h.Momentum), float32(h.Dampening), float32(h.WeightDecay)
	for _, d := range definitions {
		var weight, buffer []float32
		for i := range w {
			gradient := x[i] + float32(decay*w[i])
			next := float32(momentum*b[i]) + float32(float32(1-dampening)*gradient)
			step := next
			if isNesterov[d] {
				step = gradient + float32(momentum*next)
			}
			weight, buffer = append(weight, w[i]-float32(lr*step)), append(buffer, next)
		}
		u := run(t, d, num.F32, h, w, b, x)
		optest.Want(t, "weight", u.Weight, weight...)
		optest.Want(t, "buffer", u.Buffer, buffer...)
		if u.Copy != nil {
			optest.Want(t, "copy", u.Copy, weight...)
		}
	}
}

func TestClauses(t *testing.T) {
	for _, d := range definitions {
		t.Run(d.Name, func(t *testing.T) {
			optest.Clauses(t, d, map[string]func(t *testing.T){
				"C1_shapes": func(t *testing.T) { optest.Shapes(t, subject(d, usual), size(6, 5)) },
				"C2_numbers": func(t *testing.T) {
					for _, h := range []sgd.Hyper{{LR: -1}, {LR: math.NaN()}, {LR: math.Inf(1)}, {Momentum: -0.5}, {WeightDecay: -1}, {Dampening: math.Inf(-1)}, {LR: 1e300}} {
						var refused *device.ArgumentError
						u := sgd.Update{Weight: optest.Vector(t, num.F32, 1), Buffer: optest.Vector(t, num.F32, 1), Grad: optest.Vector(t, num.F32, 1), IsNesterov: isNesterov[d], Hyper: h}
						if d.Operand("copy") >= 0 {
							u.Copy, u.IsMaster = optest.Vector(t, num.F16, 1), true
						}
						if err := sgd.Step(cpu.Queue(), u); !errors.As(err, &refused) {
							t.Errorf("%+v: got %v", h, err)
						}
						optest.Want(t, "weight", u.Weight, 1)
					}
				},
				"C3_nan": func(t *testing.T) {
					u := run(t, d, num.F32, usual, []float32{nan, 1, 1}, []float32{1, nan, 1}, []float32{1, 1, nan})
					optest.Want(t, "weight", u.Weight, nan, nan, nan)
					optest.Want(t, "buffer", u.Buffer, nan, nan, nan)
				},
				"C4_buffer": func(t *testing.T) {
					i := d.Operand("buffer")
					if rule := d.Operands[i].DTypes.String(); rule != "f32" {
						t.Errorf("buffer is %s", rule)
					}
				},
				"C5_rounding": func(t *testing.T) {
					for _, f := range formats(d) {
						// A step of 2^-13 is lost beside a weight of 1 in 16 bits, and not in f32.
						u := run(t, d, f, sgd.Hyper{LR: 1}, []float32{1}, []float32{0}, []float32{-0x1p-13})
						optest.Want(t, "weight", u.Weight, 1+0x1p-13)
						if u.Copy != nil {
							optest.Want(t, "copy", u.Copy, 1)
						}
					}
				},
				"C6_infinities": func(t *testing.T) {
					u := run(t, d, num.F32, sgd.Hyper{LR: 0.5, Momentum: 0.5, WeightDecay: 0.5}, []float32{inf, 1, 1}, []float32{1, -inf, 1}, []float32{1, 1, inf})
					optest.Want(t, "weight", u.Weight, nan, inf, -inf)
					optest.Want(t, "buffer", u.Buffer, inf, -inf, inf)
					u = run(t, d, num.F32, sgd.Hyper{LR: 0.5}, []float32{inf, 1}, []float32{1, inf}, []float32{1, 1})
					optest.Want(t, "0 times an infinity", u.Buffer, nan, nan)
				},
				"C7_ends": func(t *testing.T) {
					u := run(t, d, num.F32, sgd.Hyper{LR: 1}, []float32{0x1p-149, -math.MaxFloat32}, []float32{0, 0}, []float32{-0x1p-148, math.MaxFloat32})
					optest.Want(t, "weight", u.Weight, 3*0x1p-149, -inf)
					optest.Want(t, "buffer", u.Buffer, -0x1p-148, math.MaxFloat32)
				},
				"C8_rest": func(t *testing.T) {
					for _, f := range formats(d) {
						u := run(t, d, f, sgd.Hyper{LR: 0.1, Momentum: 0.9}, []float32{1.5, zero, 0}, make([]float32, 3), make([]float32, 3))
						optest.Want(t, "weight", u.Weight, 1.5, zero, 0)
						optest.Want(t, "buffer", u.Buffer, 0, 0, 0)
					}
				},
				"C9_overlap": TestErrors,
			})
		})
	}
}

func BenchmarkSGD(b *testing.B) {
	for _, f := range num.FloatDTypes {
		optest.Bench(b, optest.Timing{
			Name: "dtype=" + f.String() + "/shape=256x1024", Subject: subject(sgd.StepDefinition, usual), DTypes: slices.Concat([]num.DType{f, num.F32, f}),
			Sizes: size(256, 1024), Check: size(2, 1024),
		})
	}
}
