package lower

import (
	"fmt"
	"math"

	"tokitai/def"
	"tokitai/num"
)

// Piece is a definition that computes one step of a larger definition.
type Piece struct {
	*def.Definition

	// SumLanes is the lane count of sums over rows; 0 for the usual count of rows of their length.
	SumLanes int
}

// StreamParts are the steps of a stream as definitions, for a tile of queries of one head and a block
// of keys. A program that computes them one after another computes the stream, but for values at
// keys that are not visible, which its sums must leave out.
type StreamParts struct {
	Scores *def.Definition // s[M,N] = q[M,D]·k[N,D]ᵀ
	Packed *def.Definition // the same of kᵀ[D,N]
	Body   *def.Definition

	// Weigh takes what the body reads, and the carried m and l of each row. It gives the weights, the
	// factor a of what is carried, and the new m and l. The first definition is for blocks in which every
	// query sees every key. Rows whose m becomes NaN have any weights.
	//
	// Weights take the place of the scores, rounded as values are stored. Those of Stored are an output of
	// their own, in the format of values.
	Weigh, Stored [2]Piece

	Scales *def.Definition // o = o·a, a per row
	Values *def.Definition // o[M,D] += p[M,N]·v[N,D]

	// Finite gives a NaN for each row of values that has a NaN or an infinity. PackedFinite does so in f32.
	Finite, PackedFinite *def.Definition

	Joins *def.Definition // of two carried m: the new one, and the factors of either side
	Folds *def.Definition // o = o·a + part·b, a and b per row
	Means *def.Definition // the result: o/l, l per row
	Logs  *def.Definition // the second result, of m and l
}

// TensorCoreHeads is the number of columns up to which heads of streams can follow the rule of a tensor core. Which
// rule a stream follows must not depend on the device, so it is the same for all of them.
const TensorCoreHeads = 128

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
	p.Packed = must(&err, def.ContractionForm{
		Left: "q", Right: "k", Result: "s", LeftDims: []string{"M", "D"}, RightDims: []string{"D", "N"}, ResultDims: []string{"M", "N"},
	})
	p.Values = must(&err, def.ContractionForm{
		Left: "p", Right: "v", Result: "o", LeftDims: []string{"M", "N"}, RightDims: []string{"N", "D"}, ResultDims: []string{"M", "D"}, Accumulate: true,
	})
	rowwise := func(build func(b *def.Builder)) *def.Definition {
		d, failed := def.Rowwise("part", func(b *def.Builder) {
			b.Step()
			build(b)
		})
		if err == nil {
			err = failed
		}
		return d
	}
	weigh := func(isPartial, isStored bool) Piece {
		return Piece{rowwise(func(b *def.Builder) {
			score, t, visible, _ := applyBody(b, f)
			m, l := b.InRow("m", f32), b.InRow("l", f32)
			if isPartial {
				t = def.Select(visible, t, lowest)
			}
			n := def.RowMax(t).Max(m)
			z := origin(n)
			weight := powerOf(e, dtype, t, z)
			switch {
			case isStored:
				b.Out("p", weight, def.Only(dtype))
			case dtype == num.F32:
				b.Out(score, weight)
			default:
				b.Out(score, weight.Round(def.FixedStorage(dtype)))
			}
			a := powerOf(e, dtype, m, z)
			b.OutRow("a", a, f32)
			b.OutRow("n", n, f32)
			b.OutRow("sum", def.FMA(l, a, def.RowSum(weight)), f32)
		}), def.StreamLanes}
	}
	p.Weigh = [2]Piece{weigh(false, false), weigh(true, false)}
	p.Stored = [2]Piece{weigh(false, true), weigh(true, true)}
	p.Scales = rowwise(func(b *def.Builder) {
		o, a := b.In("o", f32), b.InRow("a", f32)
		b.Out("scaled", o.Mul(a), f32)
	})
	p.Finite, p.PackedFinite = rowwise(finite(dtype)), rowwise(finite(num.F32))
	p.Joins = rowwise(func(b *def.Builder) {
		left, right := b.In("left", f32), b.In("right", f32)
		n := left.Max(right)
		z := origin(n)
		b.Out("n", n, f32)
		b.Out("a", e.Of(left.Sub(z)), f32)
		b.Out("b", e.Of(right.Sub(z)), f32)
	})
	p.Folds = rowwise(func(b *def.Builder) {
		o, a := b.In("o", f32), b.InRow("a", f32)
		b.Out("o", def.FMA(o, a, b.In("part", f32).Mul(b.InRow("b", f32))))
	})
	p.Means = rowwise(func(b *def.Builder) {
		o, l := b.In("o", f32), b.InRow("l", f32)
		b.Out("mean", def.FMA(o, def.One.Div(l), def.Zero), def.Only(dtype))
	})
	p.Logs = rowwise(func(b *def.Builder) {
		m, l := b.In("m", f32), b.In("l", f32)
		b.Out("y", m.Add(f.Functions.Log2.Of(l)), f32)
	})
	return p, err
}

// finite builds what gives a NaN for each row that has a NaN or an infinity, and else 0.
func finite(dtype num.DType) func(b *def.Builder) {
	return func(b *def.Builder) {
		x := b.In("x", def.Only(dtype))
		b.OutRow("y", def.RowMax(x.Sub(x)), def.Only(num.F32))
	}
}

// powerOf returns the weight of an exponent t, from which z is taken. An exponent of -Inf has the
// weight +0, and nothing is computed from it: results below the normal numbers take a processor long.
func powerOf(e *def.Function, dtype num.DType, t, z def.Value) def.Value {
	x := t.Sub(z)
	if dtype != num.F32 { // a short power has no such results
		return e.Of(x)
	}
	isNothing := t.Equal(def.Const(math.Inf(-1)))
	return def.Select(isNothing, def.Zero, e.Of(def.Select(isNothing, def.Zero, x)))
}

// applyBody declares what the body of a stream reads, under names of its own, and returns the name of
// the score and what the body gives.
func applyBody(b *def.Builder, f *def.Stream) (score string, exponent, visible, slope def.Value) {
	of := map[string]def.Value{}
	for i := range f.Reads {
		o := &f.Body.Operands[i]
		name := fmt.Sprintf("read%d", i)
		rule := o.DTypes
		switch o.Extent {
		case def.PerRow:
			of[o.Name] = b.InRow(name, rule)
		case def.PerColumn:
			of[o.Name] = b.InCol(name, rule)
		default:
			of[o.Name] = b.In(name, rule)
		}
	}
	for i := range f.Body.Params {
		x := &f.Body.Params[i]
		declare := b.Param
		if x.IsInt {
			declare = b.IntParam
		}
		of[x.Name] = declare(fmt.Sprintf("param%d", i))
	}
	exponent, visible, slope = f.Apply(b, of)
	return "read0", exponent, visible, slope
}

func must(err *error, form def.ContractionForm) *def.Definition {
	d, failed := def.Contraction("part", form)
	if *err == nil {
		*err = failed
	}
	return d
}
