package gpu_test

import (
	"fmt"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/trial/randdef"
)

// TestStoredInFP8 compares outputs in FP8 with the reference: of rows and of elements, in rows of several lengths and in
// flat definitions, in either format and with either access.
func TestStoredInFP8(t *testing.T) {
	t.Parallel()
	var b batch
	b.source.WriteString(plainly)
	for i, format := range num.FP8DTypes {
		rows := def.Must(def.Rowwise("test.rows", func(b *def.Builder) {
			x := b.In("x")
			most := def.RowMax(x.Abs())
			b.Out("y", x.Div(most.Mul(def.Const(0x1p-9))), def.Only(format))
			b.OutRow("s", most, def.Only(format))
		}))
		flat := def.Must(def.Rowwise("test.flat", func(b *def.Builder) { b.Out("y", b.In("x"), def.Only(format)) }))
		for _, d := range []*def.Definition{rows, flat} {
			for _, v := range variants {
				for _, in := range []num.DType{num.F32, num.BF16} {
					dtypes := []num.DType{in, format}
					if d == rows {
						dtypes = append(dtypes, format)
					}
					k := b.compile(d, dtypes, v)
					for n, shape := range [][2]int{{5, 7}, {3, 300}, {2, 2500}} {
						g, l := gen.Seeded(uint64(i*3+n)), layout{variant: v, gap: n * 3}
						sizes := sized(d, v, shape)
						b.add(t, fmt.Sprintf("%s, %s, sizes %v, %+v", d.Name, dtypes, sizes, l), k, randdef.NewCase(g, d, dtypes, sizes), l)
					}
				}
			}
		}
	}
	b.run(t, simtest.Plain, 32, 1)
}
