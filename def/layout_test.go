package def_test

import (
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/num"
)

// Every choice of formats follows the rules, none is missing, and the one that stores
// as much as possible alike comes first.
func TestFormats(t *testing.T) {
	const h, b, f = num.F16, num.BF16, num.F32
	d := def.Must(def.Rowwise("formats", func(bd *def.Builder) {
		x, gamma := bd.In("x"), bd.InCol("gamma", def.Like("x").Or(f))
		bd.Out("y", x.Mul(gamma), def.Like("x"))
		bd.OutRow("m", def.RowMax(x), def.Only(f))
	}))
	want := [][]num.DType{{h, h, h, f}, {h, f, h, f}, {b, b, b, f}, {b, f, b, f}, {f, f, f, f}}
	if got := d.Formats(); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
	for i, format := range []num.DType{h, h, b, b, f} {
		if got := d.Format(want[i]); got != format {
			t.Errorf("the format of %v is %v, want %v", want[i], got, format)
		}
	}

	later := def.Must(def.Rowwise("later", func(bd *def.Builder) {
		gamma, x := bd.InCol("gamma", def.Like("x")), bd.In("x")
		bd.Out("y", x.Mul(gamma), def.Like("x"))
	}))
	want = [][]num.DType{{h, h, h}, {b, b, b}, {f, f, f}}
	if got := later.Formats(); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("stored like a later operand: got %v, want %v", got, want)
	}

	none := def.Must(def.Rowwise("none", func(bd *def.Builder) {
		bd.Out("y", bd.In("x", def.Only(f)), def.Like("x"))
	}))
	if got := none.Format(none.Formats()[0]); got != f {
		t.Errorf("without a choice the format is %v, want f32", got)
	}
}

func TestMatrixAndSizes(t *testing.T) {
	d := def.Must(def.Rowwise("sizes", func(b *def.Builder) {
		x, gamma, mean := b.In("x"), b.InCol("gamma"), b.InRow("mean")
		b.Out("y", x.Sub(mean).Mul(gamma), def.Like("x"))
		b.OutScalar("total", def.TotalSum(x), def.Only(num.F32))
	}))
	if got := d.Sizes(); !slices.Equal(got, []string{"R", "C"}) {
		t.Errorf("sizes are %v, want [R C]", got)
	}
	sizes := map[string]int{"R": 3, "C": 7}
	for _, want := range []struct {
		operand    string
		rows, cols int
	}{{"x", 3, 7}, {"gamma", 1, 7}, {"mean", 3, 1}, {"y", 3, 7}, {"total", 1, 1}} {
		o := &d.Operands[d.Operand(want.operand)]
		if rows, cols := o.Matrix(sizes); rows != want.rows || cols != want.cols {
			t.Errorf("%s is %d×%d, want %d×%d", want.operand, rows, cols, want.rows, want.cols)
		}
	}
}
