package crossentropy_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/crossentropy"
	"tokitai/op/optest"
	"tokitai/reference"
	"tokitai/tensor"
)

var (
	inf  = float32(math.Inf(1))
	nan  = float32(math.NaN())
	zero = float32(math.Copysign(0, -1))
)

func subject(p crossentropy.Params) optest.Subject {
	return optest.Subject{
		Definition: crossentropy.Definition, Params: []float64{float64(p.Ignore), p.Scale}, Data: crossentropy.Operations[0].Data,
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return crossentropy.Run(q, x[2], x[3], x[0], x[1], p, opts...)
		},
	}
}

func rows(r, c int) map[string]int { return map[string]int{"R": r, "C": c} }

func TestDoc(t *testing.T) { optest.Doc(t, "doc.go", crossentropy.Definition) }

func TestMatchReference(t *testing.T) {
	optest.MatchReference(t, subject(crossentropy.DefaultParams), rows(7, 77), rows(2, 1), rows(3, 1025), rows(1, 9001))
	optest.MatchReference(t, subject(crossentropy.Params{Scale: -1. / 3, Ignore: 2}), rows(40, 5))
}

func TestErrors(t *testing.T) { optest.Errors(t, subject(crossentropy.DefaultParams), rows(3, 5)) }

// run computes loss and gradient of rows of logits.
func run(t testing.TB, d num.DType, p crossentropy.Params, labels []int32, logits ...float32) (loss, dlogits *tensor.Tensor) {
	t.Helper()
	x := optest.Matrix(t, d, len(labels), logits...)
	loss, dlogits = optest.Garbage(t, num.F32, len(labels)), optest.Garbage(t, d, x.Shape()...)
	optest.OK(t, crossentropy.Run(cpu.Queue(), loss, dlogits, x, optest.Ints(t, labels...), p))
	return loss, dlogits
}

func TestByHand(t *testing.T) {
	for _, d := range num.FloatDTypes {
		loss, dlogits := run(t, d, crossentropy.DefaultParams, []int32{1, 0, 1, -100}, 3, 3, 7, 7, 1000, 0, 5, 5)
		optest.Want(t, "loss", loss, math.Ln2, math.Ln2, 1000, 0)
		optest.Want(t, "dlogits", dlogits, 0.5, -0.5, -0.5, 0.5, 1, -1, 0, 0)

		loss, dlogits = run(t, d, crossentropy.Params{Scale: 8, Ignore: crossentropy.DefaultIgnore}, []int32{2}, 1, 1, 1, 1)
		optest.Want(t, "loss", loss, 2*math.Ln2)
		optest.Want(t, "dlogits", dlogits, 2, 2, -6, 2)

		loss, dlogits = run(t, d, crossentropy.DefaultParams, []int32{0, 0}, 42, -42)
		optest.Want(t, "loss of one class", loss, 0, 0)
		optest.Want(t, "dlogits of one class", dlogits, 0, 0)
	}
}

var exp = def.Must(def.Rowwise("test.exp", func(b *def.Builder) {
	b.Out("y", fn.ExpNonPositive(b.In("x")), def.Only(num.F32))
}))

var logarithm = def.Must(def.Rowwise("test.log", func(b *def.Builder) {
	b.Out("y", fn.Log(b.In("x")), def.Only(num.F32))
}))

// apply is an elementwise definition on a row.
func apply(t testing.TB, d *def.Definition, x ...float32) []float32 {
	t.Helper()
	a := []num.Array{num.ArrayOf(num.F32, 1, len(x), x...), num.NewArray(num.F32, 1, len(x))}
	optest.OK(t, reference.Run(d, a, reference.Options{}))
	y := make([]float32, len(x))
	for i := range y {
		y[i] = a[1].At(0, i)
	}
	return y
}

// The same operations written in Go, in the same order: the bits say where the
// definition rounds.
func TestPlainGo(t *testing.T) {
	g := gen.New("plain")
	const scale = 1. / 7
	for _, c := range []int{2, 300, 3000} {
		x, differences := make([]float32, c), make([]float32, c)
		for i := range x {
			x[i] = 2 * g.Normal()
		}
		for i := range x {
			differences[i] = x[i] - slices.Max(x)
		}
		label := g.Below(c)
		e := apply(t, exp, differences...)
		sum := num.LaneSum(e, num.RowLanes(c))
		inverse := 1 / sum
		want := make([]float32, c)
		for i := range want {
			p := e[i] * inverse
			if i == label {
				p -= 1
			}
			want[i] = float32(scale) * p
		}
		loss, dlogits := run(t, num.F32, crossentropy.Params{Scale: scale, Ignore: crossentropy.DefaultIgnore}, []int32{int32(label)}, x...)
		optest.Want(t, "loss", loss, apply(t, logarithm, sum)[0]-differences[label])
		optest.Want(t, "dlogits", dlogits, want...)
	}
}

func TestShiftInvariance(t *testing.T) {
	// x and x + c lie on a common grid of every format, so x − max is the same.
	g := gen.New("shift")
	for _, d := range num.FloatDTypes {
		x, shifted := make([]float32, 300), make([]float32, 300)
		for i := range x {
			x[i] = float32(g.Below(9)) * 0.25
			shifted[i] = x[i] + 4
		}
		loss, dlogits := run(t, d, crossentropy.DefaultParams, []int32{17}, x...)
		otherLoss, other := run(t, d, crossentropy.DefaultParams, []int32{17}, shifted...)
		optest.SameBits(t, "loss of x + 4", otherLoss, loss)
		optest.SameBits(t, "dlogits of x + 4", other, dlogits)
	}
}

func TestScaleByPowersOfTwo(t *testing.T) {
	g := gen.New("scale")
	x := make([]float32, 300)
	for i := range x {
		x[i] = g.Normal()
	}
	_, dlogits := run(t, num.F32, crossentropy.DefaultParams, []int32{17}, x...)
	want := optest.Floats(t, dlogits)
	for i := range want {
		want[i] *= -0x1p12
	}
	loss, dlogits := run(t, num.F32, crossentropy.Params{Scale: -0x1p12, Ignore: crossentropy.DefaultIgnore}, []int32{17}, x...)
	optest.Want(t, "dlogits", dlogits, want...)
	unscaled, _ := run(t, num.F32, crossentropy.DefaultParams, []int32{17}, x...)
	optest.SameBits(t, "loss, which has no scale", loss, unscaled)
}

func TestClauses(t *testing.T) {
	optest.Clauses(t, crossentropy.Definition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, subject(crossentropy.DefaultParams), rows(6, 5)) },
		"C2_ignored": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				loss, dlogits := run(t, d, crossentropy.DefaultParams, []int32{-100, -100, 0}, nan, inf, -inf, -inf, 0, 0)
				optest.Want(t, "loss", loss, 0, 0, math.Ln2)
				optest.Want(t, "dlogits", dlogits, 0, 0, 0, 0, -0.5, 0.5)
				// A label that names a column can be the one to ignore; a scale below 0
				// does not make the zeros negative.
				loss, dlogits = run(t, d, crossentropy.Params{Scale: -1, Ignore: 1}, []int32{1, 0}, nan, 0, 0, 0)
				optest.Want(t, "loss", loss, 0, math.Ln2)
				optest.Want(t, "dlogits", dlogits, 0, 0, 0.5, -0.5)
			}
		},
		"C3_rejected": func(t *testing.T) {
			for _, bad := range []int32{-1, 2, -99, math.MinInt32, math.MaxInt32} {
				x := optest.Matrix(t, num.F16, 2, 0, 0, 0, 0)
				loss := optest.Vector(t, num.F32, 7, 7)
				err := crossentropy.Run(cpu.Queue(), loss, x, x, optest.Ints(t, 1, bad), crossentropy.DefaultParams)
				var index *engine.IndexError
				if !errors.As(err, &index) || index.Op != "crossentropy" || index.Operand != "label" || index.Position != 1 || index.Value != bad {
					t.Errorf("label %d gives %v, want an IndexError that names it", bad, err)
				}
				optest.Want(t, "loss after a refusal", loss, 7, 7)
				optest.Want(t, "logits after a refusal", x, 0, 0, 0, 0)
			}
		},
		"C3_skipped": func(t *testing.T) {
			x := optest.Matrix(t, num.F16, 3, nan, 0, 0, 0, 0, 0)
			loss := optest.Garbage(t, num.F32, 3)
			optest.OK(t, crossentropy.Run(cpu.Queue(), loss, x, x, optest.Ints(t, 2, -1, 1), crossentropy.Params{Scale: -1, Ignore: -100}, engine.WithBadIndex(engine.Skip)))
			optest.Want(t, "loss", loss, 0, 0, math.Ln2)
			optest.Want(t, "dlogits", x, 0, 0, 0, 0, -0.5, 0.5)
		},
		"C4_nan_and_infinity": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				loss, dlogits := run(t, d, crossentropy.DefaultParams, []int32{0, 0, 1}, 0, nan, 0, inf, 0, inf)
				optest.Want(t, "loss", loss, nan, nan, nan)
				optest.Want(t, "dlogits", dlogits, nan, nan, nan, nan, nan, nan)
			}
		},
		"C5_minus_infinity": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				p := crossentropy.Params{Scale: 3, Ignore: crossentropy.DefaultIgnore}
				loss, dlogits := run(t, d, p, []int32{1, 0, 0}, -inf, 5, -inf, 5, -inf, -inf)
				optest.Want(t, "loss", loss, 0, inf, nan)
				optest.Want(t, "dlogits", dlogits, 0, 0, -3, 3, nan, nan)
			}
		},
		"C6_scale": func(t *testing.T) {
			for _, scale := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e39} {
				x := optest.Matrix(t, num.F32, 1, 1, 2)
				loss := optest.Vector(t, num.F32, 7)
				err := crossentropy.Run(cpu.Queue(), loss, x, x, optest.Ints(t, 0), crossentropy.Params{Scale: scale, Ignore: crossentropy.DefaultIgnore})
				optest.Refused(t, err, "crossentropy", "scale", "crossentropy.C6")
				optest.Want(t, "logits after a refusal", x, 1, 2)
				optest.Want(t, "loss after a refusal", loss, 7)
			}
			_, dlogits := run(t, num.F32, crossentropy.Params{Ignore: crossentropy.DefaultIgnore}, []int32{0}, 0, 0)
			optest.Want(t, "dlogits of scale 0", dlogits, zero, 0)
		},
		"C7_loss": func(t *testing.T) {
			huge := float32(math.MaxFloat32)
			loss, _ := run(t, num.F32, crossentropy.DefaultParams, []int32{0, 1, 1}, huge, -huge, huge, -huge, huge, 0)
			optest.Want(t, "loss", loss, 0, inf, huge)
			g := gen.New("loss")
			logits, labels := make([]float32, 1000), make([]int32, 500)
			for i := range logits {
				logits[i] = g.Exponents(-30, 8)
			}
			loss, _ = run(t, num.F32, crossentropy.DefaultParams, labels, logits...)
			for i, v := range optest.Floats(t, loss) {
				if !(v >= 0) || math.Signbit(float64(v)) {
					t.Errorf("loss %v for logits %v", v, logits[2*i:2*i+2])
				}
			}
		},
		"C8_range": func(t *testing.T) {
			_, dlogits := run(t, num.F16, crossentropy.Params{Scale: 1e6, Ignore: crossentropy.DefaultIgnore}, []int32{0}, 0, 0)
			optest.Want(t, "too large for f16", dlogits, -inf, inf)
			for _, d := range num.FloatDTypes {
				least := num.Widen(d, 1)
				_, dlogits = run(t, d, crossentropy.Params{Scale: 6 * float64(least), Ignore: crossentropy.DefaultIgnore}, []int32{0}, 0, 0)
				optest.Want(t, "subnormal dlogits", dlogits, -3*least, 3*least)
			}
			g := gen.New("range")
			x := make([]float32, 1000)
			for i := range x {
				x[i] = g.Exponents(-9, 7)
			}
			_, dlogits = run(t, num.F32, crossentropy.Params{Scale: 3, Ignore: crossentropy.DefaultIgnore}, []int32{1}, x...)
			for i, v := range optest.Floats(t, dlogits) {
				if !(v >= -3 && v <= 3) {
					t.Errorf("dlogits[%d] = %v", i, v)
				}
			}
		},
		"C9_zeros": func(t *testing.T) {
			for _, d := range num.FloatDTypes {
				loss, dlogits := run(t, d, crossentropy.DefaultParams, []int32{0}, zero, 0, -3)
				otherLoss, other := run(t, d, crossentropy.DefaultParams, []int32{0}, 0, zero, -3)
				optest.SameBits(t, "loss", loss, otherLoss)
				optest.SameBits(t, "dlogits", dlogits, other)
			}
		},
		"C10_overlap": TestErrors,
	})
}

// The operation by name takes its parameters as text, and keeps its inputs.
func TestOperation(t *testing.T) {
	o := crossentropy.Operations[0]
	in := engine.Args{"logits": optest.Matrix(t, num.F32, 2, 1, 1, 4, 4), "label": optest.Ints(t, 0, 7)}
	v, err := o.NewValues(map[string]string{"scale": "4", "ignore": "7"})
	optest.OK(t, err)
	out, err := o.Run(cpu.Queue(), in, v)
	optest.OK(t, err)
	optest.Want(t, "loss", out["loss"], math.Ln2, 0)
	optest.Want(t, "dlogits", out["dlogits"], -2, 2, 0, 0)
	optest.Want(t, "logits", in["logits"], 1, 1, 4, 4)
	for name, given := range map[string]map[string]string{
		"scale": {"scale": "NaN"}, "ignore": {"ignore": "4294967296"},
	} {
		v, err := o.NewValues(given)
		optest.OK(t, err)
		if _, err := o.Run(cpu.Queue(), in, v); !errors.Is(err, tensor.ErrBadArgument) {
			t.Errorf("a bad %s gives %v", name, err)
		}
	}
}

func BenchmarkCrossEntropy(b *testing.B) {
	for _, d := range num.FloatDTypes {
		for _, shape := range [][2]int{{256, 1024}, {16, 32768}} {
			optest.Bench(b, optest.Timing{
				Name:    "dtype=" + d.String() + "/shape=" + optest.Shape(shape[0], shape[1]),
				Subject: subject(crossentropy.DefaultParams), DTypes: []num.DType{d, num.I32, num.F32, d},
				Sizes: rows(shape[0], shape[1]), Check: rows(2, shape[1]),
			})
		}
	}
}
