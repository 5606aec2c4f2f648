package gpu_test

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/trial"
)

// tables is a program of hand-written kernels, and calls of it.
type tables struct {
	source  strings.Builder
	kernels int
	calls   []*call
	limits  gpu.Limits
	accum   def.Accum   // of contractions: tensor cores multiply where it is not fma
	variant gpu.Variant // of kernels/mma.cu, and its tile
	tile    int
	isWgmma bool // streams are multiplied by wgmma
}

var macroName = regexp.MustCompile(`(?m)^#define (\w+)`)

// compile adds a kernel to the program, in a namespace of its own.
func (p *tables) compile(t testing.TB, d *def.Definition, dtypes []num.DType) *gpu.Kernel {
	t.Helper()
	simtest.Compiler(t) // or all that follows would be for nothing
	p.kernels++
	name := fmt.Sprintf("%s_%d", strings.ReplaceAll(d.Name, ".", "_"), p.kernels)
	var k *gpu.Kernel
	switch {
	case p.accum == def.FMAChain:
		k = gpu.CompileNamed(d, dtypes, gpu.Element, name)
	case p.isWgmma:
		k = gpu.CompileWeighHopperNamed(d, dtypes, name)
	default:
		k = gpu.CompileMMANamed(d, dtypes, p.variant, name)
	}
	fmt.Fprintf(&p.source, "namespace kernel_%d {\n%s}\n", p.kernels, k.Source.Text)
	for _, m := range macroName.FindAllStringSubmatch(k.Source.Text, -1) {
		fmt.Fprintf(&p.source, "#undef %s\n", m[1])
	}
	return k
}

// add makes a call. Rows lie gap elements apart; the first element lies after lead
// bytes, of which multiples of 16 leave it aligned.
func (p *tables) add(t testing.TB, label string, d *def.Definition, k *gpu.Kernel, operands []num.Array, lead, gap int) {
	t.Helper()
	before := trial.CopyOf(d, operands, func(i int) trial.Layout {
		return trial.Layout{Offset: lead / operands[i].DType.Size(), Gap: gap, ColumnGap: gap}
	})
	for i := range d.Operands {
		if o := &d.Operands[i]; o.IsOut && !o.IsIn {
			trial.FillBits(before.Array(i), func(int, int) uint32 { return 0xa5a5a5a5 })
		}
	}
	p.place(t, label, k, before)
}

// run makes all calls and returns what is wrong, if anything.
func (p *tables) run(t testing.TB, build simtest.Build, warp int, seed uint64, change ...string) string {
	t.Helper()
	run := simtest.Run{Warp: warp, Seed: seed}
	var plan gpu.Plan
	var placed [][]piece
	for _, c := range p.calls {
		pieces, operands := lay(&run, c.before, build == simtest.Address)
		placed = append(placed, pieces)
		limits := c.limits
		limits.WarpWidth = warp
		var err error
		if arguments := newCall(c.before.Definition, operands, c.params); p.accum != def.FMAChain {
			err = c.kernel.PlanTiles(&plan, arguments, c.tile)
		} else {
			err = c.kernel.Plan(&plan, arguments, limits)
		}
		if err != nil {
			t.Fatalf("%s: %v", c.label, err)
		}
		plan.Place(simtest.Pointer(len(run.Buffers)), 0)
		memory := make([]byte, plan.ScratchBytes)
		for i := range memory {
			memory[i] = 0xff
		}
		run.Buffers, run.Launches = append(run.Buffers, memory), append(run.Launches, simtest.LaunchesOf(c.kernel, &plan)...)
	}
	source := plainly + withoutUnused(p.source.String(), run.Launches)
	if p.accum != def.FMAChain {
		source = fmt.Sprintf("#define TOKITAI_MMA_STEP %d\n#define TOKITAI_MMA_BITS %d\n#include \"tensorcore.h\"\n", p.accum.L, p.accum.F) + source
	}
	for i := 0; i < len(change); i += 2 {
		if !strings.Contains(source, change[i]) {
			t.Fatalf("the source does not contain %q", change[i])
		}
		source = strings.ReplaceAll(source, change[i], change[i+1])
	}
	start := time.Now()
	program := simtest.Compile(t, source, build)
	compiled := time.Now()
	if err := program.Run(run); err != nil {
		return err.Error()
	}
	t.Logf("%d kernels compiled in %.1f s, %d launches in %.1f s", p.kernels, compiled.Sub(start).Seconds(), len(run.Launches), time.Since(compiled).Seconds())
	for i, c := range p.calls {
		if text := readBack(&run, c.before, placed[i]).Fault(c.want); text != "" {
			return c.label + ": " + text
		}
	}
	return ""
}

var negativeZero = float32(math.Copysign(0, -1))

// valueKinds are what operands are filled with.
var valueKinds = []func(g *gen.Generator) float32{
	func(g *gen.Generator) float32 { return g.Ordinary() },
	func(g *gen.Generator) float32 { return g.Exponents(-24, -12) }, // subnormal in f16
	func(g *gen.Generator) float32 { // signed zeros, and now and then something else
		switch g.Below(8) {
		case 0:
			return g.Ordinary()
		case 1, 2, 3:
			return 0
		}
		return negativeZero
	},
	func(g *gen.Generator) float32 {
		if g.Below(12) == 0 {
			return g.Special()
		}
		return g.Ordinary()
	},
	func(g *gen.Generator) float32 { return g.Exponents(-75, -60) }, // products underflow
	func(g *gen.Generator) float32 { return g.Exponents(60, 66) },   // products overflow
}

func filled(g *gen.Generator, d num.DType, rows, cols int, value func(*gen.Generator) float32) num.Array {
	a := num.NewArray(d, rows, cols)
	for r := range rows {
		for c := range cols {
			a.Set(r, c, value(g))
		}
	}
	return a
}

// gemmOperands fills the operands of a product of m×n, summed over k.
func gemmOperands(g *gen.Generator, d *def.Definition, dtypes []num.DType, m, n, k int, value func(*gen.Generator) float32) []num.Array {
	left, right := [2]int{m, k}, [2]int{k, n}
	if d.Product().TransposeLeft {
		left = [2]int{k, m}
	}
	if d.Product().TransposeRight {
		right = [2]int{n, k}
	}
	operands := []num.Array{filled(g, dtypes[0], left[0], left[1], value), filled(g, dtypes[1], right[0], right[1], value), filled(g, dtypes[2], m, n, value)}
	if d.Scales().Row != "" {
		operands = append(operands, filled(g, num.F32, m, 1, value))
	}
	if d.Scales().Col != "" {
		operands = append(operands, filled(g, num.F32, n, 1, value))
	}
	return operands
}

var gemms = []*def.Definition{
	gemm.ForwardDefinition, gemm.ForwardAccumulateDefinition, gemm.GradADefinition,
	gemm.GradAAccumulateDefinition, gemm.GradBDefinition, gemm.GradBAccumulateDefinition,
}

// gemmShape is a product of m×n, summed over k, in tiles of one size. lead and gap are
// as in add: rows begin at multiples of 16 bytes if lead and stride allow.
type gemmShape struct {
	m, n, k   int
	isSmall   bool
	lead, gap int
}

var gemmShapes = []gemmShape{
	{1, 1, 1, false, 0, 0}, {1, 3, 2, true, 16, 8}, {5, 65, 33, false, 4, 3}, {63, 9, 32, true, 0, 0}, {64, 64, 31, false, 16, 8},
	{66, 7, 64, true, 4, 3}, {129, 5, 17, false, 0, 0}, {3, 129, 16, true, 16, 8}, {127, 128, 15, false, 4, 3}, {2, 2, 100, true, 0, 0},
	// Whole tiles whose rows are aligned, then with a last step that is not full.
	{128, 128, 48, false, 0, 0}, {64, 128, 32, true, 16, 8}, {128, 128, 24, false, 0, 0}, {64, 64, 56, true, 16, 8}, {128, 128, 8, false, 16, 8},
	// Aligned, with tiles at the edges beside whole ones.
	{136, 264, 32, false, 0, 0}, {72, 136, 40, true, 16, 8}, {133, 130, 22, false, 16, 2}, {130, 67, 19, true, 0, 5},
	// Whole tiles that are not aligned.
	{128, 128, 33, false, 4, 0}, {128, 64, 16, true, 0, 3},
}

func addGemms(t testing.TB, p *tables, d *def.Definition, dtypes []num.DType, shapes []gemmShape) {
	k := p.compile(t, d, dtypes)
	g := gen.New(fmt.Sprint(d.Name, dtypes))
	for i, s := range shapes {
		p.limits.Multiprocessors = 1
		if s.isSmall {
			p.limits.Multiprocessors = 1000
		}
		value := valueKinds[i%len(valueKinds)]
		p.add(t, fmt.Sprint(d.Name, dtypes, s), d, k, gemmOperands(g, d, dtypes, s.m, s.n, s.k, value), s.lead, s.gap)
	}
	// Only negative zeros: when accumulating, so is every result.
	operands := gemmOperands(g, d, dtypes, 5, 6, 7, func(*gen.Generator) float32 { return 1 })
	operands[0] = filled(g, dtypes[0], operands[0].Rows, operands[0].Cols, func(*gen.Generator) float32 { return negativeZero })
	operands[2] = filled(g, dtypes[2], 5, 6, func(*gen.Generator) float32 { return negativeZero })
	p.add(t, fmt.Sprint(d.Name, dtypes, "negative zeros"), d, k, operands, 0, 1)
}

// TestScaledContractions: scales of rows and columns, factors in FP8.
func TestScaledContractions(t *testing.T) {
	t.Parallel()
	form := def.ContractionForm{
		Left: "a", LeftDims: []string{"K", "M"}, TransposeLeft: true, Right: "b", RightDims: []string{"K", "N"}, Result: "c", ResultDims: []string{"M", "N"},
		Factors: def.Only(num.FP8DTypes...),
	}
	unscaled := def.Must(def.Contraction("transposed", form))
	form.Scales.Col, form.Factors = "s", def.Rule{}
	columns := def.Must(def.Contraction("columns", form))
	form.Scales = def.Scales{Row: "s"}
	rows := def.Must(def.Contraction("rows", form))
	p := &tables{}
	for i, d := range []*def.Definition{gemm.FP8ForwardDefinition, unscaled, columns, rows} {
		for j, dtypes := range d.Formats() {
			switch {
			case isFull(), i == 0 && !isSmoke(), j%3 == i%3 && (j < 3) == (i%2 == 0):
				addGemms(t, p, d, dtypes, gemmShapes)
			}
		}
	}
	if text := p.run(t, simtest.Plain, 32, 7); text != "" {
		t.Fatal(text)
	}
}

// TestContractions: every form, every format, sizes around the tiles, bit for bit.
func TestContractions(t *testing.T) {
	for i, d := range gemms {
		if isSmoke() && i != 0 && i != 3 { // the first, and one of transposed, accumulated products
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			p := &tables{}
			for j, dtypes := range d.Formats() {
				if isSmoke() && j != i {
					continue
				}
				if j%2 == i%2 || i == 0 || isFull() {
					addGemms(t, p, d, dtypes, gemmShapes)
				}
			}
			if text := p.run(t, simtest.Plain, 32, uint64(i)); text != "" {
				t.Fatal(text)
			}
		})
	}
}
