package engine_test

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/backend/gputest"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/promise"
	"tokitai/tensor"
)

// columns has int32 outputs of every extent.
var columns = def.Must(def.Rowwise("columns", func(b *def.Builder) {
	x := b.In("x")
	best := def.RowArgMax(x)
	b.OutRow("best", best)
	b.OutRow("worst", def.RowArgMin(x))
	b.OutRow("top", x.At(best))
	b.Out("mark", def.Select(b.Col().Equal(best), def.IntConst(math.MinInt32), b.Col()))
	b.Out("ramp", b.ColFloat().Mul(x), def.Like("x"))
	b.OutCol("sign", def.Select(def.ColSum(x).Less(def.Zero), def.IntConst(-1), def.IntConst(1)))
	b.OutScalar("copy", b.IntParam("n"))
}))

// TestIntegers evaluates int32 outputs on the CPU and in the simulator.
func TestIntegers(t *testing.T) {
	nan := float32(math.NaN())
	values := []float32{
		1, 5, -2, 5,
		0, -3, nan, -3,
		float32(math.Copysign(0, -1)), 0, 0, -1,
	}
	queues := []*engine.Queue{cpu.Queue(), cpu.Queue().With(engine.WithLowering("cpu.reference"))}
	for _, width := range testlevel.Pick(nil, []int{32, 64}) {
		q, err := engine.NewQueue(gputest.NeedsSim(t, width))
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		queues = append(queues, q)
	}
	for _, q := range queues {
		x, err := tensor.FromFloat32(q.Device(), num.F16, values, 3, 4)
		if err != nil {
			t.Fatal(err)
		}
		out, err := engine.Eval(q, columns, engine.Args{"x": x}, engine.WithParams(engine.Params{"n": -7}))
		if err != nil {
			t.Fatalf("%s: %v", q.Device().Name(), err)
		}
		const want = "best i32 [3] copy i32 [] mark i32 [3 4] ramp f16 [3 4] sign i32 [4] top f16 [3] worst i32 [3]"
		if got := describe(out); got != want {
			t.Errorf("%s: got %s, want %s", q.Device().Name(), got, want)
		}
		for name, want := range map[string][]int32{
			"best": {1, 2, 0}, "worst": {2, 2, 3}, "copy": {-7},
			"mark": {0, math.MinInt32, 2, 3, 0, 1, math.MinInt32, 3, math.MinInt32, 1, 2, 3},
			"sign": {1, 1, 1, 1},
		} {
			if got, err := out[name].Int32s(); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %s is %v, want %v, error %v", q.Device().Name(), name, got, want, err)
			}
		}
		if ramp, err := out["ramp"].Float32s(); err != nil || !slices.Equal(ramp[:4], []float32{0, 5, -4, 15}) {
			t.Errorf("%s: ramp is %v, error %v", q.Device().Name(), ramp, err)
		}
	}
}

func TestIntegersRefused(t *testing.T) {
	q := newQueue(t)
	x := matrix(t, q, num.F16, 2, 3)
	all := func() engine.Args {
		out, err := engine.Eval(q, columns, engine.Args{"x": x}, engine.WithParams(engine.Params{"n": 1}))
		if err != nil {
			t.Fatal(err)
		}
		out["x"] = x
		return out
	}
	with := func(name string, v *tensor.Tensor) engine.Args {
		args := all()
		args[name] = v
		return args
	}
	for _, test := range []struct {
		args engine.Args
		want string
	}{
		{with("best", matrix(t, q, num.F32, 2)), "columns: best is f32, want i32"},
		{with("top", indices(t, q, 1, 2)), "columns: top is i32, want f16, bf16 or f32"},
		{with("worst", all()["mark"]), "columns: worst has shape [2 3], want [2], one for each row of x"},
		{with("x", indices(t, q, 1, 2)), "columns: x is i32, want f16, bf16 or f32"},
	} {
		wantRefusal(t, engine.Run(q, columns, test.args, engine.WithParams(engine.Params{"n": 1})), test.want)
	}
	args := all()
	args["worst"] = args["best"]
	wantRefusal(t, engine.Run(q, columns, args, engine.WithParams(engine.Params{"n": 1})), "columns: best overlaps worst, want memory of its own")
}

// TestIntegersAreAdmitted: a lowering with one wrong int32 is inadmissible, whether it
// promises bits or not, and the self-tests have ties.
func TestIntegersAreAdmitted(t *testing.T) {
	argmax := def.Must(def.Rowwise("argmax", func(b *def.Builder) { b.OutRow("i", def.RowArgMax(b.In("x"))) }))
	if tests := private.SelfTests(argmax); !slices.Contains(tests, "ties") || !slices.Contains(tests, "ties-wide") {
		t.Errorf("self-tests %v, want ties among them", tests)
	}
	for _, mistake := range []struct {
		name string
		best func(x num.Array, r int) int
	}{
		{"right", func(x num.Array, r int) int { return argMax(x, r, false, false, true) }},
		{"last of equals", func(x num.Array, r int) int { return argMax(x, r, true, false, true) }},
		{"zeros differ", func(x num.Array, r int) int { return argMax(x, r, false, true, true) }},
		{"NaN is nothing", func(x num.Array, r int) int { return argMax(x, r, false, false, false) }},
	} {
		for _, p := range []promise.Name{promise.Bits, promise.Stable} {
			l := lowering("cpu.wrong", func(_ *def.Definition, l *engine.Launch) error {
				operands := l.Arrays()
				for r := range operands[0].Rows {
					operands[1].SetBits(r, 0, uint32(mistake.best(operands[0], r)))
				}
				return nil
			})
			l.Promise = engine.Promise{Name: p, Order: def.Order{Kind: def.Pairwise}}
			var err error
			for _, test := range private.SelfTests(argmax) {
				err = cmp.Or(err, private.RunSelfTest(newQueue(t), l, argmax, []num.DType{num.F16, num.I32}, test))
			}
			if mistake.name == "right" {
				if err != nil {
					t.Errorf("right, promise %s: %v", p, err)
				}
			} else if !errors.Is(err, engine.ErrInadmissible) || strings.Contains(err.Error(), "0x") {
				t.Errorf("%s, promise %s: got error %v", mistake.name, p, err)
			}
		}
	}
}

// argMax is a column of the largest value of a row, with mistakes on demand.
func argMax(x num.Array, r int, takesLast, zerosDiffer, seesNaN bool) int {
	best := 0
	for c := range x.Cols {
		v, m := x.At(r, c), x.At(r, best)
		switch {
		case v != v && seesNaN:
			return c
		case v > m || takesLast && v == m || m != m,
			zerosDiffer && v == 0 && m == 0 && math.Signbit(float64(m)) && !math.Signbit(float64(v)):
			best = c
		}
	}
	return best
}
