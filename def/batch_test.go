package def_test

import (
	"testing"

	"tokitai/def"
	"tokitai/num"
)

// TestBatchUse derives what a row depends on from definitions with every way to depend on
// others.
func TestBatchUse(t *testing.T) {
	rowwise := def.Must(def.Rowwise("test", func(b *def.Builder) {
		x, scale := b.In("x"), b.InCol("scale")
		zero := b.IntParam("zero")
		mean := def.ColSum(x).Div(b.Rows())
		b.Out("alone", x.Mul(scale).Sub(def.RowMax(x)))
		b.Out("shared", x.Div(b.Rows()))
		b.Out("shaken", x.StochasticRound(def.FixedStorage(num.F16), b.Random(zero, zero, zero, zero)))
		n := b.InRow("n", def.Only(num.I32))
		b.Out("drawn", b.RandomRow(zero, zero, n, zero, zero))
		b.Out("numbered", b.Element(zero, zero))
		b.OutRow("sum", def.RowSum(x))
		b.OutCol("mean", mean)
		b.OutCol("twice", scale.Add(scale))
		b.OutScalar("total", def.TotalSum(x))
	}))
	for name, want := range map[string]struct {
		use def.BatchUse
		why string
	}{
		"alone":    {def.OwnRow, ""},
		"shared":   {def.WholeBatch, "uses the number of rows"},
		"shaken":   {def.OwnPlace, "uses random words"},
		"drawn":    {def.OwnRow, ""},
		"numbered": {def.OwnPlace, "uses the numbers of elements"},
		"sum":      {def.OwnRow, ""},
		"mean":     {def.WholeBatch, "sums over R"},
		"twice":    {def.WholeBatch, "has no rows"},
		"total":    {def.WholeBatch, "sums over R"},
	} {
		if use, why := rowwise.BatchUse(rowwise.Operand(name)); use != want.use || why != want.why {
			t.Errorf("%s: got %s (%s), want %s (%s)", name, use, why, want.use, want.why)
		}
	}
	weights := def.Must(def.Contraction("weights", def.ContractionForm{
		Left: "x", LeftDims: []string{"T", "I"}, TransposeLeft: true,
		Right: "dy", RightDims: []string{"T", "O"},
		Result: "dw", ResultDims: []string{"I", "O"},
	}))
	if use, why := weights.BatchUse(2); use != def.WholeBatch || why != "sums over T" {
		t.Errorf("dw: got %s (%s), want exempt (sums over T)", use, why)
	}
}
