package verify_test

import (
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/combine"
	"tokitai/op/dispatch"
	"tokitai/op/dropout"
	"tokitai/op/embedding"
	"tokitai/op/rope"
	"tokitai/verify"
)

// TestIndexRelations checks that each relation of indices and of numbered words accepts the right kernel,
// and rejects one that is right in the case itself and wrong in the calls that the relation makes.
func TestIndexRelations(t *testing.T) {
	t.Parallel()
	spoil := func(a *num.Array, r int) { a.SetBits(r, 0, a.Bits(r, 0)^1) }
	for _, x := range []struct {
		what  string
		name  string // of the case
		d     *def.Definition
		dtype num.DType
		wrong func(l *engine.Launch, out []num.Array)
	}{
		{
			"counts start at the expert before one without tokens", "unnamed-E:uniform/T=20,S=3,E=4", dispatch.ForwardDefinition, num.I32,
			func(_ *engine.Launch, out []num.Array) {
				for e := 1; e < out[1].Rows; e++ {
					if out[1].Int(e, 0) == 0 {
						spoil(&out[2], e)
					}
				}
			},
		},
		{
			"a number of experts above the usual", "unnamed-E:uniform/T=20,S=3,E=4", dispatch.ForwardDefinition, num.I32,
			func(_ *engine.Launch, out []num.Array) {
				if out[1].Rows == 5 {
					spoil(&out[5], 7)
				}
			},
		},
		{
			"one block too few for more tokens", "order-T:uniform/T=185,S=3,E=9", dispatch.ForwardDefinition, num.I32,
			func(_ *engine.Launch, out []num.Array) {
				if out[3].Rows == 370 {
					spoil(&out[4], 300)
				}
			},
		},
		{
			"rows of an expert by the value of their token", "order-T:uniform/T=185,S=3,E=9", dispatch.ForwardDefinition, num.I32,
			func(l *engine.Launch, out []num.Array) {
				expert := l.Arrays()[0]
				if expert.Rows == 185 && expert.Int(0, 0) < expert.Int(184, 0) {
					first, second := out[4].Bits(0, 0), out[4].Bits(0, 1)
					out[4].SetBits(0, 0, second)
					out[4].SetBits(0, 1, first)
				}
			},
		},
		{
			"a row whose weight is NaN is not left out", "pad-S:normal/Q=9,S=3,V=11,D=5", combine.ForwardDefinition, num.F16,
			func(l *engine.Launch, out []num.Array) {
				if weight := l.Arrays()[2]; weight.Cols > 3 {
					for r := range out[3].Rows {
						out[3].SetBits(r, 0, uint32(num.Stored(num.F16, weight.At(r, weight.Cols-1))))
					}
				}
			},
		},
		{
			"all rows of the table are read", "unnamed-V:normal/Q=9,S=3,V=11,D=5", combine.ForwardDefinition, num.F16,
			func(l *engine.Launch, out []num.Array) {
				rows := l.Arrays()[1]
				out[3].Set(0, 0, out[3].At(0, 0)+0*rows.At(rows.Rows-1, 0))
			},
		},
		{
			"a table of more rows than before", "unnamed-V:normal/Q=9,V=11,D=5", combine.PermuteDefinition, num.F16,
			func(l *engine.Launch, out []num.Array) {
				if l.Arrays()[1].Rows == 12 {
					spoil(&out[2], 0)
				}
			},
		},
		{
			"indices out of range are added to the last row", "pad-Q:normal/Q=9,D=5,V=3", embedding.BackwardDefinition, num.F32,
			func(l *engine.Launch, out []num.Array) {
				if index := l.Arrays()[0]; index.Int(0, 0) < 0 {
					spoil(&out[2], 2)
				}
			},
		},
		{
			"a table of more positions", "unnamed-P:normal/R=5,C=8,P=9", rope.ForwardDefinition, num.F32,
			func(l *engine.Launch, out []num.Array) {
				if l.Arrays()[3].Rows == 10 {
					spoil(&out[5], 4)
				}
			},
		},
		{
			"words counted from the first element of the call", "shard-R:normal/R=12,C=40", dropout.ForwardDefinition, num.F32,
			func(l *engine.Launch, out []num.Array) {
				if l.Params[4] != 0 {
					spoil(&out[1], 0)
				}
			},
		},
	} {
		t.Run(x.what, func(t *testing.T) {
			t.Parallel()
			if r := run(t, target(x.d, x.dtype, bitwise(honest)), verify.Options{Seed: 1, Case: x.name}).Report; r.Verdict != evidence.Accepted {
				t.Errorf("the right kernel is %s: %+v", r.Verdict, r.Failure)
			}
			r := run(t, target(x.d, x.dtype, bitwise(damaged(x.wrong))), verify.Options{Seed: 1, Case: x.name}).Report
			if f := r.Failure; f == nil || f.Tier != evidence.Relations {
				t.Errorf("%s: verdict %s, failure %+v", x.name, r.Verdict, f)
			}
		})
	}
}
