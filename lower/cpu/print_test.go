package cpu_test

import (
	"testing"

	"tokitai/def"
	lowercpu "tokitai/lower/cpu"
	"tokitai/num"
)

// TestListing shows a program with every part: what is computed once, per row, in
// each pass and after the last row; rows kept, inputs read in place.
func TestListing(t *testing.T) {
	d := def.Must(def.Rowwise("listing", func(b *def.Builder) {
		x, scale := b.In("x"), b.InCol("scale")
		label, first := b.InIndex("label"), b.InRow("first")
		weight := scale.Mul(b.Param("p")).As("weight")
		e := x.Sub(def.RowMax(x).As("max")).Mul(weight).As("e")
		b.Out("y", e.Div(def.RowSum(e).As("sum")).Add(first.Neg().As("shift")))
		b.OutRow("at", x.At(label))
		b.OutCol("means", def.ColSum(x).As("columns").Div(b.Rows()))
		b.OutScalar("norm", def.TotalSum(e).As("total").Sqrt())
	}))
	dtypes := []num.DType{num.F32, num.F16, num.I32, num.F32, num.BF16, num.F32, num.F32, num.F32}
	for class, want := range map[lowercpu.Class]string{
		lowercpu.Short: `vector program listing (x f32, scale f16, label i32, first f32, y bf16, at f32, means f32, norm f32), rows in chunks of 512
per column:
  col0 = load scale
  col2 = mul col0 all(p)    ; weight
per row: first = input, shift = neg, label = input, at
pass 1:
  rowmax x
after pass 1: max = rowmax
pass 2:
  v5 = sub x all(max)
  row6 = mul v5 col2    ; e
  rowsum row6
after pass 2: sum = rowsum
pass 3:
  v5 = div row6 all(sum)
  v5 = add v5 all(shift)
  colsum x
  totalsum row6
  store y = v5
after the last row: total = totalsum, sqrt
after the last row, per column:
  col11 = div col9 all(R)
  store means = col11
`,
		lowercpu.Long: `vector program listing (x f32, scale f16, label i32, first f32, y bf16, at f32, means f32, norm f32), rows in chunks of 512
per column:
  col0 = load scale
  col2 = mul col0 all(p)    ; weight
per row: first = input, shift = neg, label = input, at
pass 1:
  rowmax x
after pass 1: max = rowmax
pass 2:
  v5 = sub x all(max)
  v5 = mul v5 col2    ; e
  rowsum v5
after pass 2: sum = rowsum
pass 3:
  v5 = sub x all(max)
  v5 = mul v5 col2    ; e
  v7 = div v5 all(sum)
  v7 = add v7 all(shift)
  colsum x
  totalsum v5
  store y = v7
after the last row: total = totalsum, sqrt
after the last row, per column:
  col11 = div col9 all(R)
  store means = col11
`,
	} {
		p, err := lowercpu.Compile(d, dtypes, class)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.String(); got != want {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		}
	}
}
