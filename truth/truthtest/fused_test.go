package truthtest

import (
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/promise"
	"tokitai/reference"
	"tokitai/trial/randdef"
	"tokitai/truth"
)

// TestFused checks, for products that end in random expressions, that the enclosure and what stable admits hold
// the reference's results, and that the enclosure is narrow enough to exclude wrong ones.
func TestFused(t *testing.T) {
	g := gen.New(t.Name())
	wrong, known, decided := 0, 0, 0
	for trial := range 60 {
		d := randdef.Fused(g)
		dtypes := randdef.DTypes(g, d)
		accum := def.FMAChain
		if trial%3 == 1 && (dtypes[0] == num.F16 || dtypes[0] == num.BF16) {
			accum = def.MMA(16, 25)
		}
		sizes := randdef.ProductSizes(g, d, 5)
		sizes["K"] = 1 + g.Below(100)
		c := randdef.NewCase(g, d, dtypes, sizes)
		randdef.FillNormal(g, c)
		z, err := truth.Enclose(d, c.Operands, truth.Options{Mode: truth.Rounded, Accum: accum, Params: c.Params})
		if err != nil {
			t.Fatal(err)
		}
		exactly, err := truth.Enclose(d, c.Operands, truth.Options{Params: c.Params})
		if err != nil {
			t.Fatal(err)
		}
		stable, err := truth.EncloseStable(d, c.Operands, truth.StableOptions{Params: c.Params, Accum: accum, Declares: promise.Declaration{}})
		if err != nil {
			t.Fatal(err)
		}
		answer := c.Clone()
		if err := reference.Run(d, answer.Operands, reference.Options{Accum: accum, Params: c.Params}); err != nil {
			t.Fatal(err)
		}
		for i := range d.Operands {
			if !d.Operands[i].IsOut {
				continue
			}
			result := &answer.Operands[i]
			correct, err := exactly.Round(i)
			if err != nil {
				t.Fatal(err)
			}
			for r := range result.Rows {
				for col := range result.Cols {
					bits, at := result.Bits(r, col), r*result.Cols+col
					if num.IsNaN(result.DType, bits) && !d.Operands[i].IsInt() || !z.At(i, r, col).Known() {
						continue // nothing is known
					}
					known++
					if !z.Admits(i, r, col, bits) {
						t.Fatalf("%s, %v: %s[%d,%d] is %v, which %v does not admit\n%s", accum, sizes, d.Operands[i].Name, r, col, result.At(r, col), z.At(i, r, col), d.Text())
					}
					if stable.Known(i, r, col) && !stable.Admits(i, r, col, stable.MostHeight(), bits) {
						t.Fatalf("%s, %v: %s[%d,%d] is %v, which stable does not admit: %v off by %g\n%s", accum, sizes, d.Operands[i].Name, r, col,
							result.At(r, col), stable.At(i, r, col), stable.Error(i, r, col, stable.MostHeight()), d.Text())
					}
					if correct.State[at] != truth.Undecided {
						if decided++; !z.Admits(i, r, col, correct.Bits[at]) {
							t.Fatalf("%s, %v: %s[%d,%d] correctly rounded is %v, which %v does not admit\n%s", accum, sizes, d.Operands[i].Name, r, col,
								num.Widen(result.DType, correct.Bits[at]), z.At(i, r, col), d.Text())
						}
					}
					if d.Operands[i].IsInt() || !z.Admits(i, r, col, num.Narrow(result.DType, result.At(r, col)*1.25+0.25)) {
						wrong++
					}
				}
			}
		}
	}
	if wrong < known*8/10 || known < 100 || decided < known/2 {
		t.Errorf("of %d known results, %d of them decided, %d wrong ones were refused", known, decided, wrong)
	}
}
