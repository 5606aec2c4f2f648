package lower

import (
	"fmt"
	"math"

	"tokitai/def"
	"tokitai/num"
)

// StreamParts are the steps of a stream as definitions, for a tile of queries of one head and a block
// of keys. A program that computes them one after another computes the stream, but for values at
// keys that are not visible, which its sums must leave out.
type StreamParts struct {
	Scores *def.Definition // s[M,N] = q[M,D]·k[N,D]ᵀ
	Body   *def.Definition

	// Weights takes exponents t, what is seen and the carried m of each row, and gives the weights p,
	// those rounded as values are stored (where that is not f32), the factor a of what is carried,
	// and the new m.
	Weights *def.Definition

	// Sums adds columns of weights to lanes, ascending: its inputs are the lanes, then StreamSums times as
	// many columns. Totals adds the lanes to the carried l of each row: n = fma(l, a, sum).
	Sums, Totals *def.Definition

	Scales *def.Definition // o = o·a, a per row

	Values *def.Definition // o[M,D] += p[M,N]·v[N,D]
	Joins  *def.Definition // of two carried m: the new one, and the factors of either side
	Logs   *def.Definition // the second result, of m and l
}

// TensorCoreHeads is the number of columns up to which heads of streams can follow the rule of a tensor core. Which
// rule a stream follows must not depend on the device, so it is the same for all of them.
const TensorCoreHeads = 128

// StreamSums is how many weights of a lane are added at once.
const StreamSums = 8

// The operands of Weights and Joins.
const (
	WeightsExponent = iota
	WeightsSeen
	WeightsM
	WeightsP
	WeightsA
	WeightsN
	WeightsRounded // not in f32
)
const (
	JoinsLeft = iota
	JoinsRight
	JoinsN
	JoinsA
	JoinsB
)

// PartsOf returns the steps of a stream whose values are stored in a format.
func PartsOf(f *def.Stream, dtype num.DType) (p StreamParts, err error) {
	f32 := def.Only(num.F32)
	e := f.Weights(dtype)
	lowest := def.Const(math.Inf(-1))
	origin := func(n def.Value) def.Value { return def.Select(n.Equal(lowest), def.Const(0), n) }
	p.Body = f.Body
	p.Scores = must(&err, def.ContractionForm{
		Left: "q", Right: "k", Result: "s", LeftDims: []string{"M", "D"}, RightDims: []string{"N", "D"}, ResultDims: []string{"M", "N"}, TransposeRight: true,
	})
	p.Values = must(&err, def.ContractionForm{
		Left: "p", Right: "v", Result: "o", LeftDims: []string{"M", "N"}, RightDims: []string{"N", "D"}, ResultDims: []string{"M", "D"}, Accumulate: true,
	})
	rowwise := func(build func(b *def.Builder)) *def.Definition {
		d, failed := def.Rowwise("part", build)
		if err == nil {
			err = failed
		}
		return d
	}
	p.Weights = rowwise(func(b *def.Builder) {
		t := b.In("t", f32)
		seen := inputOf(b, "seen", f.Body.Operands[len(f.Reads)+1].Extent, def.Only(num.I32)).NotEqual(def.IntConst(0))
		m := b.InRow("m", f32)
		x := def.Select(seen, t, lowest)
		n := def.RowMax(x).Max(m)
		z := origin(n)
		weight := def.Select(seen, e.Of(x.Sub(z)), def.Const(0))
		b.Out("p", weight, f32)
		b.OutRow("a", e.Of(m.Sub(z)), f32)
		b.OutRow("n", n, f32)
		if dtype != num.F32 {
			b.Out("r", weight, def.Only(dtype))
		}
	})
	p.Sums = rowwise(func(b *def.Builder) {
		sum := b.In("lanes", f32)
		for i := range StreamSums {
			sum = sum.Add(b.In(fmt.Sprintf("p%d", i), f32))
		}
		b.Out("sums", sum, f32)
	})
	p.Totals = rowwise(func(b *def.Builder) {
		lanes, l, a := b.In("lanes", f32), b.InRow("l", f32), b.InRow("a", f32)
		b.OutRow("n", def.FMA(l, a, def.RowSum(lanes)), f32) // of eight columns it is the rule's sum of eight lanes
	})
	p.Scales = rowwise(func(b *def.Builder) {
		o, a := b.In("o", f32), b.InRow("a", f32)
		b.Out("scaled", o.Mul(a), f32)
	})
	p.Joins = rowwise(func(b *def.Builder) {
		left, right := b.In("left", f32), b.In("right", f32)
		n := left.Max(right)
		z := origin(n)
		b.Out("n", n, f32)
		b.Out("a", e.Of(left.Sub(z)), f32)
		b.Out("b", e.Of(right.Sub(z)), f32)
	})
	p.Logs = rowwise(func(b *def.Builder) {
		m, l := b.In("m", f32), b.In("l", f32)
		b.Out("y", m.Add(f.Functions.Log2.Of(l)), f32)
	})
	return p, err
}

func must(err *error, form def.ContractionForm) *def.Definition {
	d, failed := def.Contraction("part", form)
	if *err == nil {
		*err = failed
	}
	return d
}
