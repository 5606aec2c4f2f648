package accuracy_test

import (
	"testing"

	"tokitai/accuracy"
	"tokitai/def"
	"tokitai/num"
	"tokitai/op"
)

// TestIntOutputs: an int32 output is held to what it may be, and has no row of ulps.
func TestIntOutputs(t *testing.T) {
	d := def.Must(def.Rowwise("top", func(b *def.Builder) {
		x := b.In("x")
		best := def.RowArgMax(x.Mul(def.Number("0.1")))
		b.OutRow("index", best)
		b.OutRow("value", x.At(best), def.Like("x"))
		b.Out("mark", def.Select(b.Col().Equal(best), def.IntConst(1), def.IntConst(0)))
	}))
	o := &op.Operation{Name: "top", Definitions: []*def.Definition{d}}
	run, ok := accuracy.NewRun(o, op.Data{Name: "integers", Definition: d, Sizes: map[string]int{"R": 50, "C": 33}, Values: map[string]op.Element{"x": op.Normal}}, num.F16)
	if !ok {
		t.Fatal("no run in f16")
	}
	rows, err := run.Measure()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0].Output != "value" || rows[0].Elements != 50 || rows[0].Measured.Worst != 0 {
		t.Errorf("got %+v, want one row, of the values, which are exact", rows)
	}
}
