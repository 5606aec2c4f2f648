package truthtest

import (
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/trial/randdef"
	"tokitai/truth"
)

// TestStreams encloses the answers of random streams, by chains and on tensor cores, in mode Rounded,
// and the truth there in mode Exact. The promise stable admits them too.
func TestStreams(t *testing.T) {
	drawn := 0
	testStreams(t, gen.New("truth of streams"), func(g *gen.Generator) *def.Definition {
		if drawn++; drawn%3 == 0 {
			return randdef.PagedStream(g)
		}
		return randdef.Stream(g)
	})
}

// TestStreamsBackward does so for gradients.
func TestStreamsBackward(t *testing.T) {
	testStreams(t, gen.New("truth of gradients"), randdef.StreamBackward)
}

func testStreams(t *testing.T, g *gen.Generator, random func(*gen.Generator) *def.Definition) {
	known, stably := 0, 0
	for i := range testlevel.Pick(30, 300, 3000) {
		d := random(g)
		dtypes := randdef.DTypes(g, d)
		sizes := map[string]int{"T": 1 + g.Below(5), "S": 1 + g.Below(300), "G": 1, "J": 1 + g.Below(2), "D": 1 + g.Below(20), "B": 1 + g.Below(2)}
		if g.Below(6) == 0 {
			sizes["T"], sizes["D"], sizes["S"] = 1, 2, def.StreamSegment+g.Below(2000)
			if g.Below(3) == 0 {
				sizes["T"], sizes["S"] = sizes["S"], 1+g.Below(3)
			}
		}
		if f, ok := d.Form.(*def.Stream); ok && f.IsPaged() {
			sizes["N"] = def.MinPage << g.Below(5)
			sizes["M"], sizes["P"] = 1+sizes["S"]/sizes["N"], 1+g.Below(9)
		}
		c := randdef.NewCase(g, d, dtypes, sizes)
		randdef.FillNormal(g, c) // of which something is known
		accum := def.FMAChain
		if dtypes[0] != num.F32 && g.Below(2) == 0 {
			accum = def.Accum{L: 16, F: 25}
		}
		if err := reference.Run(d, c.Operands, reference.Options{Params: c.Params, Accum: accum}); err != nil {
			t.Fatal(err)
		}
		rounded, err := truth.Enclose(d, c.Operands, truth.Options{Params: c.Params, Mode: truth.Rounded, Accum: accum})
		if err != nil {
			t.Fatal(err)
		}
		exact, err := truth.Enclose(d, c.Operands, truth.Options{Params: c.Params})
		if err != nil {
			t.Fatal(err)
		}
		stable, err := truth.EncloseStable(d, c.Operands, truth.StableOptions{Params: c.Params, Accum: accum})
		if err != nil {
			t.Fatal(err)
		}
		for o := range d.Operands {
			if !d.Operands[o].IsOut {
				continue
			}
			for r := range c.Operands[o].Rows {
				for col := range c.Operands[o].Cols {
					z, x := rounded.At(o, r, col), exact.At(o, r, col)
					if stable.Known(o, r, col) {
						if stably++; !stable.Admits(o, r, col, stable.MostHeight(), c.Operands[o].Bits(r, col)) {
							lo, hi := stable.Between(o, r, col, stable.MostHeight())
							dtype := c.Operands[o].DType
							t.Fatalf("stream %d, %v %v %v: %s[%d,%d] is %v, stable is %v to %v, the truth is %v\n%s", i, dtypes, accum, sizes, d.Operands[o].Name, r, col,
								c.Operands[o].At(r, col), num.Widen(dtype, lo), num.Widen(dtype, hi), x, d.Text())
						}
					}
					if !z.Known() {
						continue
					}
					known++
					if bits := c.Operands[o].Bits(r, col); !rounded.Admits(o, r, col, bits) {
						t.Fatalf("stream %d, %v %v %v: %s[%d,%d] is %v, outside of %v, the truth is %v\n%s", i, dtypes, accum, sizes, d.Operands[o].Name, r, col, c.Operands[o].At(r, col), z, x, d.Text())
					}
					lo, hi := z.Bounds()
					if from, to := x.Bounds(); !x.Known() || to < lo || hi < from {
						t.Fatalf("stream %d: %s[%d,%d]: the truth %v is outside of %v", i, d.Operands[o].Name, r, col, x, z)
					}
				}
			}
		}
	}
	if known < 300 || stably < known/2 {
		t.Errorf("%d elements are known, %d under stable", known, stably)
	}
}
