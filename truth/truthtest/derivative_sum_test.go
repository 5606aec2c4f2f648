package truthtest

import (
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/num/ball"
	"tokitai/trial/randdef"
	"tokitai/truth"
)

// TestGatherSumDerivative compares the gradient of the weights of random gather-sums with differences. A
// gather-sum is linear in its weights, so that a difference is exact.
func TestGatherSumDerivative(t *testing.T) {
	enclose := func(d *def.Definition, operands ...num.Array) *truth.Result {
		r, err := truth.Enclose(d, operands, truth.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	count := 0
	for seed := range uint64(30) {
		g := gen.Seeded(seed)
		d := randdef.GatherSum(g)
		derivative, err := def.Derivative(d, []string{"weight"})
		if d.Operand("weight") < 0 {
			if err == nil {
				t.Errorf("seed %d: there is a gradient of weights that %s has not", seed, d.Name)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if again, err := def.Parse(derivative.Source()); err != nil || again.Hash() != derivative.Hash() {
			t.Fatalf("seed %d: %v\n%s", seed, err, derivative.Text())
		}
		sizes := randdef.IndexedSizes(g, d, 200)
		q, s, v, cols := sizes["Q"], sizes["S"], sizes["V"], sizes["D"]
		fill := func(a num.Array, value func(r, c int) float32) num.Array {
			for r := range a.Rows {
				for c := range a.Cols {
					a.Set(r, c, value(r, c))
				}
			}
			return a
		}
		normal := func(r, c int) float32 { return g.Normal() }
		index, rows := num.NewArray(num.I32, q, s), num.NewArray(num.I32, q*s, 1)
		for r := range q * s {
			i := uint32(g.Below(v + 1)) // the last is bad: it is skipped
			index.SetBits(r/s, r%s, i)
			rows.SetBits(r, 0, i)
		}
		table, weight := fill(num.NewArray(num.F32, v, cols), normal), fill(num.NewArray(num.F32, q, s), normal)
		dout := fill(num.NewArray(num.F32, q, cols), normal)
		repeated := fill(num.NewArray(num.F32, q*s, cols), func(r, c int) float32 { return dout.At(r/s, c) })

		got := enclose(derivative, rows, table, repeated, num.NewArray(num.F32, q*s, 1))
		out := num.NewArray(num.F32, q, cols)
		before := enclose(d, index, table, weight, out)
		k := g.Below(q * s)
		old := weight.At(k/s, k%s)
		weight.Set(k/s, k%s, old+1)
		after := enclose(d, index, table, weight, out)
		step := ball.FromFloat64(float64(weight.At(k/s, k%s))).Sub(ball.FromFloat64(float64(old)))
		var want ball.Ball
		for r := range q {
			for c := range cols {
				want = want.Add(after.At(3, r, c).Sub(before.At(3, r, c)).Mul(ball.FromFloat64(float64(dout.At(r, c)))))
			}
		}
		want = want.Div(step)
		lo, hi := got.At(3, k, 0).Bounds()
		least, most := want.Bounds()
		if !want.Known() || hi < least || most < lo || most-least > 1e-9 {
			t.Errorf("seed %d: dweight[%d] is %v, differences give %v", seed, k, got.At(3, k, 0), want)
		}
		count++
	}
	if count < 10 {
		t.Errorf("only %d gather-sums have weights", count)
	}
}
