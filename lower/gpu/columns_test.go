package gpu_test

import (
	"fmt"
	"regexp"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/trial/randdef"
)

// Definitions with columns of extremes and int32 outputs: of an input alone, of what is
// computed and kept between passes, and where column and total sums need them, so that
// they go through scratch memory.
var columnDefinitions = []*def.Definition{
	def.Must(def.Rowwise("extremes", func(b *def.Builder) {
		x := b.In("x")
		b.OutRow("best", def.RowArgMax(x))
		b.OutRow("worst", def.RowArgMin(x))
		b.OutRow("sum", def.RowSum(x), def.Only(num.F32))
	})),
	def.Must(def.Rowwise("columns", func(b *def.Builder) {
		x := b.In("x")
		best := def.RowArgMax(x).As("best")
		far := x.Sub(x.At(best)).Abs().Sqrt().Mul(b.ColFloat()).Mul(x).Add(x).As("far")
		farthest := def.RowArgMin(far)
		b.OutRow("first", best)
		b.OutRow("top", far.At(farthest), def.Only(num.F32))
		b.Out("mark", def.Select(b.Col().Equal(farthest), best, b.Col()))
		b.Out("y", far, def.Like("x"))
	})),
	def.Must(def.Rowwise("besides", func(b *def.Builder) {
		x := b.In("x")
		best := def.RowArgMax(x)
		hot := def.Select(b.Col().Equal(best), x, b.ColFloat())
		count := def.ColSum(hot).As("count")
		b.OutCol("sign", def.Select(count.Less(def.Zero), def.IntConst(-1), def.IntConst(1)))
		b.OutCol("sum", count, def.Only(num.F32))
		b.OutRow("best", best)
		b.Out("hot", def.Select(hot.Less(def.Zero), best, def.IntConst(-5)))
	})),
	def.Must(def.Rowwise("totals", func(b *def.Builder) {
		x := b.In("x")
		worst := def.RowArgMin(x)
		hot := def.Select(b.Col().LessEqual(worst), def.One, def.Zero)
		b.OutScalar("sign", def.Select(def.TotalSum(hot).Less(def.Const(9)), b.IntParam("n"), def.IntConst(1)))
		b.OutCol("sum", def.ColSum(hot.Mul(b.ColFloat())), def.Only(num.F32))
		b.OutRow("worst", worst)
		b.Out("y", def.Select(b.Col().Less(worst), b.Col(), worst))
	})),
}

// TestColumnsOfExtremes computes them for rows that are kept in every way, in warps of 32
// and of 64.
func TestColumnsOfExtremes(t *testing.T) {
	t.Parallel()
	var b batch
	b.source.WriteString(plainly)
	g := gen.New(t.Name())
	for i, d := range columnDefinitions {
		for _, v := range variants {
			if isSmoke() && (i == 0 || i > 2 || v != variants[i%2]) { // one that keeps rows, one that adds up columns
				continue
			}
			dtypes := onePerFormat(d, d.Formats())[(i+int(v)+1)%3]
			k := b.compile(d, dtypes, v)
			for n, s := range [][2]int{
				{40, 1}, {40, 9}, {40, 128}, {33, 257}, {5, 2500}, {3, 8192}, {3, 8200}, {2, 33000}, {1, 33000}, {1, 70000},
			} {
				if isSmoke() && n%2 == 0 {
					continue
				}
				c := randdef.NewCase(g, d, dtypes, sized(d, v, s))
				randdef.Contenders(g, c.Operands[0])
				b.add(t, fmt.Sprintf("%s %s %v %s", d.Name, dtypes, s, v), k, c, layout{variant: v, gap: n % 3, inPlace: n%2 == 0})
				if n == 8 {
					b.calls[len(b.calls)-1].limits.SharedBytes = 48 << 10
				}
			}
		}
	}
	storage := regexp.MustCompile(`_rows\d+_([a-z]+)\d*$`)
	run, _ := b.plan(t, 32, false)
	used := map[string]bool{}
	for _, l := range run.Launches {
		if m := storage.FindStringSubmatch(l.Entry); m != nil {
			used[m[1]] = true
		}
	}
	for _, want := range []string{"fused", "staged", "partly", "registers", "shared", "reread"} {
		if !used[want] && !isSmoke() {
			t.Errorf("no row is kept by way of %q; used are %v", want, used)
		}
	}
	program := simtest.Compile(t, b.text(t), simtest.Plain)
	for _, warp := range []int{32, 64} {
		if text := b.tryProgram(t, program, simtest.Plain, warp, uint64(warp)); text != "" {
			t.Errorf("warps of %d: %s", warp, text)
		}
	}
}
