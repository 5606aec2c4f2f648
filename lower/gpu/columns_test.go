package gpu_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/op/layernorm"
	"tokitai/op/rmsnorm"
	"tokitai/op/rope"
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

// TestColumnsInRegisters computes gradients whose column sums a block of one row adds up in registers,
// with more rows than a sum has lanes.
func TestColumnsInRegisters(t *testing.T) {
	t.Parallel()
	var b batch
	b.source.WriteString(plainly)
	g := gen.New(t.Name())
	for _, test := range []struct {
		d     *def.Definition
		dtype num.DType
		sizes [][2]int
	}{
		{rmsnorm.ResidualBackwardDefinition, num.F32, [][2]int{{2, 4096}, {5, 4000}}},
		{rmsnorm.BackwardDefinition, num.F32, [][2]int{{259, 2064}, {3, 4096}}},
	} {
		dtypes := test.d.DTypes(test.dtype)
		k := b.compile(test.d, dtypes, gpu.Vector)
		for i, s := range test.sizes {
			c := randdef.NewCase(g, test.d, dtypes, sized(test.d, gpu.Vector, s))
			b.add(t, fmt.Sprintf("%s %s %v", test.d.Name, dtypes, s), k, c, layout{variant: gpu.Vector, inPlace: i > 0})
		}
	}
	run, _ := b.plan(t, 32, false)
	inRegisters := 0
	for _, l := range run.Launches {
		if strings.HasSuffix(l.Entry, "_rows128_fused4") && l.Block[0] == 128 {
			inRegisters++
		}
	}
	if want := 4; inRegisters != want {
		t.Errorf("%d calls add up columns in registers, want %d", inRegisters, want)
	}
	b.run(t, simtest.Plain, 32, 1)
}

// TestWholeLanes computes gradients of rows that fill all lanes of column sums, twice, by the kernels
// for them.
func TestWholeLanes(t *testing.T) {
	t.Parallel()
	var b batch
	b.source.WriteString(plainly)
	g := gen.New(t.Name())
	for i, test := range []struct {
		d     *def.Definition
		sizes map[string]int
	}{
		{rope.NormBackwardDefinition, map[string]int{"R": 16384, "C": 64, "P": 40}},
		{rmsnorm.ResidualBackwardDefinition, map[string]int{"R": 4096, "C": 1024}},
		{layernorm.BackwardDefinition, map[string]int{"R": 1024, "C": 4096}},
	} {
		if isSmoke() && i > 1 {
			continue
		}
		dtypes := test.d.DTypes(num.BF16)
		c := randdef.NewCase(g, test.d, dtypes, test.sizes)
		for i, a := range c.Operands { // a NaN in each row would hide everything else
			if o := &test.d.Operands[i]; o.IsIn && !o.IsIndex {
				for e := range a.Rows * a.Cols {
					a.Set(e/a.Cols, e%a.Cols, float32(g.Below(4097)-2048)/1024)
				}
			}
		}
		b.add(t, test.d.Name, b.compile(test.d, dtypes, gpu.Vector), c, layout{variant: gpu.Vector, inPlace: i > 0})
	}
	run, _ := b.plan(t, 32, false)
	for _, l := range run.Launches {
		if strings.Contains(l.Entry, "_rows") && !strings.HasSuffix(l.Entry, "_whole") {
			t.Errorf("%s computes whole rows", l.Entry)
		}
	}
	b.run(t, simtest.Plain, 32, 1)
}
