package cpu

import (
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/reference"
)

// drawn is a definition with a reduction and an ordering that only some rows need; with words, its part counts elements.
func drawn(words bool) *def.Definition {
	return def.Must(def.Rowwise("drawn", func(b *def.Builder) {
		x, isDrawn := b.In("x"), def.Zero.Less(b.InRow("heat"))
		noise := x.Mul(x)
		if words {
			seed := b.IntParam("seed")
			noise = noise.Add(b.Random(seed, seed, seed, seed).IToF())
		}
		b.OutRow("y", def.Select(isDrawn, def.RowMax(noise), def.RowSum(x)))
		b.OutRow("z", def.Select(isDrawn, x.At(def.RowKth(x.Neg(), def.IntConst(2))), def.Zero))
	}))
}

// TestLazyStages computes definitions in which only some rows need a stage, in every pattern of such rows, and counts
// the rows that a part computes.
func TestLazyStages(t *testing.T) {
	t.Parallel()
	g := gen.New(t.Name())
	for _, words := range []bool{false, true} {
		d := drawn(words)
		dtypes := d.DTypes(num.F32)
		computed := 0
		stages := d.LazyStages(dtypes)
		hasMax := func(part *def.Definition) bool {
			return slices.ContainsFunc(part.Exec().Nodes, func(n *def.Node) bool { return n.Op == def.OpRowMax })
		}
		p, err := CompileStages(d, stages, nil, func(part *def.Definition, dtypes []num.DType) (Program, error) {
			p, err := compileRowwise(part, dtypes, Short)
			if hasMax(part) {
				p = counted{p, &computed}
			}
			return p, err
		})
		if err != nil {
			t.Fatal(err)
		}
		const cols = 1500 // two rows are joined by one that nothing needs
		for _, rows := range []string{"0", "1", "0000", "1111", "0110", "1001", "10000001", "0100010", "101"} {
			x, heat := num.NewArray(num.F32, len(rows), cols), num.NewArray(num.F32, len(rows), 1)
			for r := range len(rows) {
				heat.Set(r, 0, float32(rows[r]-'0'))
				for c := range cols {
					x.Set(r, c, float32(g.Below(1000)))
				}
			}
			y, z := num.NewArray(num.F32, len(rows), 1), num.NewArray(num.F32, len(rows), 1)
			var params []float64
			if words {
				params = []float64{7}
			}
			operands := []num.Array{x, heat, y, z}
			call := &lower.Call{Params: params, Rows: len(rows), Cols: cols}
			for _, a := range operands {
				call.Operands = append(call.Operands, lower.Operand{Array: a})
			}
			computed = 0
			job := p.Bind(call, 1)
			for {
				items, ok := job.Next()
				if !ok {
					break
				}
				for i := range items {
					job.Do(0, i)
				}
			}
			job.Release()
			want := []num.Array{x, heat, y.Clone(), z.Clone()}
			if err := reference.Run(d, want, reference.Options{Params: params}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(y.Data, want[2].Data) || !slices.Equal(z.Data, want[3].Data) {
				t.Errorf("words %v, rows %s: other bits than the reference", words, rows)
			}
			needed := map[string]int{"1": 1, "1111": 4, "0110": 2, "1001": 2, "10000001": 2, "0100010": 2, "101": 3}[rows]
			if words && needed > 0 {
				needed = len(rows)
			}
			if computed != needed {
				t.Errorf("words %v, rows %s: a part computes %d, want %d", words, rows, computed, needed)
			}
		}
	}
}

// counted counts the rows of a program's calls.
type counted struct {
	Program
	rows *int
}

func (p counted) Bind(c *lower.Call, workers int) Job {
	*p.rows += c.Rows
	return p.Program.Bind(c, workers)
}
