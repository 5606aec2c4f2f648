package mma_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/tensorcore"
	"tokitai/internal/testlevel"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/cputest"
	"tokitai/lower/cpu/machine"
	"tokitai/lower/cpu/mma"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/trial"
	"tokitai/trial/randdef"
)

var formats = [][]num.DType{
	{num.F16, num.F16, num.F16}, {num.F16, num.F16, num.F32},
	{num.BF16, num.BF16, num.BF16}, {num.BF16, num.BF16, num.F32},
}

// anyModel returns one of all models of tensor cores.
func anyModel(g *gen.Generator) def.Accum {
	m := def.MMA(1+g.Below(32), 1+g.Below(32))
	if g.Below(4) == 0 {
		m = m.Narrow(1 + g.Below(23))
	}
	return m
}

func compile(t testing.TB, d *def.Definition, operands []num.Array, m def.Accum, set machine.Set) lowercpu.Program {
	t.Helper()
	p, err := mma.Compile(d, cputest.DTypesOf(operands), m, set)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// execute runs a program with a few workers.
func execute(p lowercpu.Program, d *def.Definition, operands []num.Array, g *gen.Generator) {
	cputest.Execute(p, cputest.Call(d, operands, nil), 1+g.Below(3), g)
}

// compare holds the programs of every instruction set against the reference.
func compare(t testing.TB, c *randdef.Case, m def.Accum, g *gen.Generator) {
	t.Helper()
	want := c.Clone()
	if err := reference.Run(want.Definition, want.Operands, reference.Options{Accum: m}); err != nil {
		t.Fatal(err)
	}
	for _, set := range machine.Available() {
		p, got := compile(t, c.Definition, c.Operands, m, set), c.Clone()
		execute(p, c.Definition, got.Operands, g)
		if text := randdef.Diff(got, want); text != "" {
			a := &c.Operands[0]
			t.Fatalf("%s in %s, left [%d %d] %s: %s\n%s", m, set, a.Rows, a.Cols, a.DType, text, c.Definition.Text())
		}
	}
}

// TestDeviceAnswers compares with what an H200 computed, NaN included to the bit.
func TestDeviceAnswers(t *testing.T) {
	d := def.Must(def.Contraction("tiles", def.ContractionForm{
		Left: "a", LeftDims: []string{"T", "M", "K"}, Right: "b", RightDims: []string{"T", "K", "N"},
		Result: "c", ResultDims: []string{"T", "M", "N"}, Accumulate: true,
	}))
	g := gen.New("device answers")
	for n, kind := range tensorcore.Kinds {
		stack := func(d num.DType, cols int) num.Array {
			a := num.NewArray(d, 16*tensorcore.Tiles, cols)
			a.Batch.Append(tensorcore.Tiles, 16*cols)
			return a
		}
		left, right, old := stack(kind.DType, 16), stack(kind.DType, 8), stack(num.F32, 8)
		for tile := range tensorcore.Tiles {
			x := tensorcore.Input(n, tile)
			a, b, acc := left.Matrix(tile), right.Matrix(tile), old.Matrix(tile)
			for r := range 16 {
				for k := range 16 {
					a.SetBits(r, k, x.A[r][k])
				}
				for col := range 8 {
					b.SetBits(r, col, x.B[r][col])
					acc.SetBits(r, col, x.C[r][col])
				}
			}
		}
		for _, set := range machine.Available() {
			operands := []num.Array{left, right, old.Clone()}
			execute(compile(t, d, operands, def.MMA(16, 25), set), d, operands, g)
			hash := sha256.Sum256(operands[2].Data)
			if got := hex.EncodeToString(hash[:8]); got != kind.Answer {
				t.Errorf("%s %s in %s: the results hash to %s, the H200's to %s", kind.DType, kind.Name, set, got, kind.Answer)
			}
		}
	}
}

// TestModels compares products for every L and F of a model, with sums that are shorter than one step or up to three steps long.
// Level smoke compares wide accumulators for one half of the models and narrow ones for the other.
func TestModels(t *testing.T) {
	g := gen.New("models")
	all := cputest.Products()
	for L := 1; L <= 32; L++ {
		for F := 1; F <= 32; F++ {
			for range testlevel.Pick(1, 4) {
				c := randdef.NewCase(g, all[g.Below(8)], formats[g.Below(4)], map[string]int{"M": 1 + g.Below(4), "N": 1 + g.Below(20), "K": 1 + g.Below(3*L)})
				if testlevel.InSample(L+F, testlevel.Pick(2, 1)) {
					compare(t, c, def.MMA(L, F), g)
				}
				if testlevel.InSample(L+F+1, testlevel.Pick(2, 1)) {
					compare(t, c, def.MMA(L, F).Narrow(1+g.Below(23)), g)
				}
			}
		}
	}
}

// TestSizes has all small sizes of the result, at level smoke in a quarter of their pairs, and all
// small lengths of the sums.
func TestSizes(t *testing.T) {
	g := gen.New("sizes")
	all := cputest.Products()
	size := func(M, N, K int) {
		c := randdef.NewCase(g, all[g.Below(8)], formats[g.Below(4)], map[string]int{"M": M, "N": N, "K": K})
		compare(t, c, anyModel(g), g)
	}
	for M := 1; M <= 40; M++ {
		for N := 1; N <= 40; N++ {
			if testlevel.InSample(M+N, testlevel.Pick(4, 1)) { // every M and every N
				size(M, N, 1+g.Below(testlevel.Pick(3, 30)))
			}
		}
	}
	for K := 1; K <= 100; K++ {
		for range 4 {
			size(1+g.Below(3), 1+g.Below(20), K)
		}
	}
}

// TestTiles has sizes around the tiles of the result and the blocks of the summed index.
func TestTiles(t *testing.T) {
	g := gen.New("tiles")
	for _, s := range [][3]int{ // M, N, K
		{127, 2, 3}, {128, 1, 17}, {129, 3, 2}, {257, 2, 5},
		{2, 127, 3}, {1, 128, 17}, {3, 129, 2}, {1, 257, 5},
		{2, 3, 127}, {3, 2, 128}, {1, 5, 129}, {2, 2, 400},
		{129, 130, 3}, {130, 5, 131}, {3, 130, 131},
	} {
		for _, d := range cputest.Products() {
			c := randdef.NewCase(g, d, formats[g.Below(4)], map[string]int{"M": s[0], "N": s[1], "K": s[2]})
			compare(t, c, anyModel(g), g)
		}
	}
}

// TestKindsOfData has longer sums of the data that tells models apart.
func TestKindsOfData(t *testing.T) {
	g := gen.New("kinds of data")
	for n, kind := range tensorcore.Kinds {
		var a, b, acc []uint32
		for tile := range 16 {
			x := tensorcore.Input(n, tile)
			for r := range 16 {
				a, b, acc = append(a, x.A[r][:]...), append(b, x.B[r][:]...), append(acc, x.C[r][:]...)
			}
		}
		for _, d := range cputest.Products() {
			for range testlevel.Pick(4, 16) {
				c := randdef.NewCase(g, d, []num.DType{kind.DType, kind.DType, num.F32}, map[string]int{"M": 1 + g.Below(5), "N": 17, "K": 1 + g.Below(99)})
				for i, patterns := range [][]uint32{a, b, acc} {
					trial.FillBits(c.Operands[i], func(int, int) uint32 { return patterns[g.Below(len(patterns))] })
				}
				compare(t, c, []def.Accum{def.MMA(16, 25), def.MMA(8, 24), def.MMA(4, 23), anyModel(g)}[g.Below(4)], g)
			}
		}
	}
}

// TestPanels divides sums of every length into panels: full, short and empty ones.
func TestPanels(t *testing.T) {
	g := gen.New("panels")
	all := cputest.Products()
	for K := 1; K <= 700; K += 1 + g.Below(testlevel.Pick(20, 2)) {
		for P := 1; P <= 16; P *= 2 {
			c := randdef.NewCase(g, all[g.Below(8)], formats[g.Below(4)], map[string]int{"M": 1 + g.Below(3), "N": 1 + g.Below(20), "K": K})
			compare(t, c, def.Panels(anyModel(g), P), g)
		}
	}
}

// TestAxes has batch axes and groups: matrices between the rows of others, broadcast ones,
// tiles of groups, empty groups.
func TestAxes(t *testing.T) {
	g := gen.New("axes")
	for i := range testlevel.Pick(200, 2000) {
		d := randdef.Product(g)
		dtypes := randdef.DTypes(g, d)
		if dtypes[0] == num.F32 {
			continue
		}
		most := 7
		if i%8 == 0 {
			most = 150 // several tiles of a matrix
		}
		m := anyModel(g)
		if g.Below(3) == 0 {
			m = def.Panels(m, 4)
		}
		compare(t, randdef.NewCase(g, d, dtypes, randdef.ProductSizes(g, d, most)), m, g)
	}
}

// TestScaled has scales, of factors in FP8 and in others.
func TestScaled(t *testing.T) {
	g := gen.New("scaled")
	for i := range testlevel.Pick(100, 1000) {
		d := randdef.Scaled(g)
		dtypes := randdef.DTypes(g, d)
		if dtypes[0] == num.F32 {
			continue
		}
		sizes := randdef.ProductSizes(g, d, 7)
		if i%8 == 0 {
			sizes["M"], sizes["N"] = 120+g.Below(20), 120+g.Below(20) // several tiles
		}
		m := []def.Accum{def.MMA(32, 13).Narrow(13), def.MMA(16, 25), def.Panels(def.MMA(16, 13).Narrow(13), 4), anyModel(g)}[g.Below(4)]
		compare(t, randdef.NewCase(g, d, dtypes, sizes), m, g)
	}
}

// TestOneProgramManyCalls runs one program on several cases at the same time.
func TestOneProgramManyCalls(t *testing.T) {
	g := gen.New("many calls")
	d, m := cputest.Products()[4], def.Panels(def.MMA(16, 25), 2)
	for _, set := range machine.Available() {
		var p lowercpu.Program
		var all sync.WaitGroup
		for i := range 6 {
			c := randdef.NewCase(g, d, formats[1], map[string]int{"M": 150, "N": 1 + 30*i, "K": 1 + 20*i})
			want := c.Clone()
			if err := reference.Run(d, want.Operands, reference.Options{Accum: m}); err != nil {
				t.Fatal(err)
			}
			if p == nil {
				p = compile(t, d, c.Operands, m, set)
			}
			own := gen.Seeded(g.Next())
			all.Go(func() {
				execute(p, d, c.Operands, own)
				if text := randdef.Diff(c, want); text != "" {
					t.Errorf("%s in %s: %s", m, set, text)
				}
			})
		}
		all.Wait()
	}
}

func TestNoAllocation(t *testing.T) {
	g := gen.New("no allocation")
	c := randdef.NewCase(g, cputest.Products()[7], formats[0], map[string]int{"M": 130, "N": 5, "K": 200})
	call := cputest.CallOf(c)
	for _, set := range machine.Available() {
		p := compile(t, c.Definition, c.Operands, def.Panels(def.MMA(4, 23), 4), set)
		if n := testing.AllocsPerRun(10, func() {
			job := p.Bind(call, 1)
			for items, ok := job.Next(); ok; items, ok = job.Next() {
				for i := range items {
					job.Do(0, i)
				}
			}
			job.Release()
		}); n != 0 {
			t.Errorf("%s: a call allocates %v times", set, n)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	product := cputest.Products()[0]
	rowwise := def.Must(def.Rowwise("copy", func(b *def.Builder) { b.Out("y", b.In("x"), def.Like("x")) }))
	for _, c := range []struct {
		d      *def.Definition
		dtypes []num.DType
		accum  def.Accum
		want   string
	}{
		{rowwise, []num.DType{num.F16, num.F16}, def.MMA(16, 25), "copy: rule mma(16,25) is for contractions, got rowwise"},
		{product, formats[0], def.FMAChain, "product: rule fma has no steps, want mma(L,F) or panels of it"},
		{product, formats[0], def.Panels(def.FMAChain, 4), "product: rule panels(fma,4) has no steps"},
		{product, formats[0], def.MMA(33, 25), "want 1 to 32"},
		{product, formats[0], def.Panels(def.MMA(16, 25), 3), "want a power of two"},
		{product, []num.DType{num.F32, num.F32, num.F32}, def.MMA(16, 25), "takes f16, bf16, e4m3 or e5m2, got f32"},
	} {
		for _, set := range machine.Available() {
			if p, err := mma.Compile(c.d, c.dtypes, c.accum, set); p != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %s: %v, want %q", c.d.Name, c.accum, err, c.want)
			}
		}
	}
}
