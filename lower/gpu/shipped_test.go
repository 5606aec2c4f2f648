package gpu_test

import (
	"fmt"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/checksum"
	"tokitai/op/crossentropy"
	"tokitai/op/dropout"
	"tokitai/op/gelu"
	"tokitai/op/layernorm"
	"tokitai/op/norm"
	"tokitai/op/relu2"
	"tokitai/op/rmsnorm"
	"tokitai/op/rope"
	"tokitai/op/sgd"
	"tokitai/op/silu"
	"tokitai/op/softmax"
	"tokitai/op/swiglu"
	"tokitai/trial/randdef"
)

// shipped are the rowwise definitions of the project.
var shipped = []*def.Definition{
	softmax.ForwardDefinition, softmax.BackwardDefinition,
	crossentropy.Definition,
	gelu.ForwardDefinition, gelu.BackwardDefinition,
	relu2.ForwardDefinition, relu2.BackwardDefinition,
	silu.ForwardDefinition, silu.BackwardDefinition,
	swiglu.ForwardDefinition, swiglu.BackwardDefinition,
	rope.ForwardDefinition, rope.BackwardDefinition, rope.NormForwardDefinition, rope.NormBackwardDefinition,
	layernorm.ForwardDefinition, layernorm.BackwardDefinition,
	rmsnorm.ForwardDefinition, rmsnorm.ResidualForwardDefinition, rmsnorm.BackwardDefinition, rmsnorm.ResidualBackwardDefinition,
	adamw.InPlaceDefinition, adamw.MasterDefinition, adamw.StochasticDefinition,
	sgd.StepDefinition, sgd.MasterDefinition, sgd.NesterovDefinition, sgd.NesterovMasterDefinition,
	dropout.ForwardDefinition, checksum.ForwardDefinition, checksum.Int32Definition,
	norm.SquareSumDefinition, norm.TotalDefinition, norm.ClipDefinition,
}

// shapes reach every kernel: rows of every number of lanes in every storage, and the
// tails of groups, lanes and blocks.
var shapes = [][2]int{{3, 1}, {40, 7}, {5, 255}, {2, 257}, {9, 1030}, {4, 2048}, {3, 2049}, {2, 8200}, {1, 8192}, {2, 20_000}, {1, 33_001}, {3, 70_000}, {4, 128}, {40, 64}, {7, 104}, {3, 1024}, {2, 4096}, {5, 16_384}}

// allShapes are those of the thorough levels.
var allShapes = func() (all [][2]int) {
	for _, c := range []int{1, 7, 8, 255, 257, 1030, 2047, 4100, 8200, 20_000, 33_001, 70_000} {
		for _, r := range []int{1, 2, 3, 4, 5, 40} {
			if r*c <= 350_000 {
				all = append(all, [2]int{r, c})
			}
		}
	}
	return append(all, [2]int{5000, 3}, [2]int{1100, 260}, [2]int{600, 2049})
}()

// TestShippedDefinitions compares every rowwise definition, in every choice of formats
// and both variants, with the reference: with gaps between rows, in place, with
// special values.
func TestShippedDefinitions(t *testing.T) {
	for n, d := range shipped {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			var b batch
			b.source.WriteString(plainly)
			g := gen.New(d.Name)
			formats := d.Formats()
			if !isFull() {
				formats = onePerFormat(d, formats)
			}
			tried, list := variants, testlevel.Pick(shapes, shapes, allShapes)
			if isSmoke() { // formats and variants in turn
				formats, tried, list = formats[n%len(formats):][:1], variants[n%2:][:1], list[1+n%3*2:][:5]
			}
			for f, dtypes := range formats {
				for _, v := range tried {
					k := b.compile(d, dtypes, v)
					for i, s := range list {
						if !isFull() && s[1] > 10_000 && (i+f+int(v))%2 == 0 {
							continue
						}
						l := layout{variant: v, gap: i % 2 * 3, inPlace: i%4 > 1}
						c := randdef.NewCase(g, d, dtypes, sized(d, v, s))
						b.add(t, fmt.Sprintf("%s %s %s %v %+v", d.Name, dtypes, v, s, l), k, c, l)
					}
				}
			}
			b.run(t, simtest.Plain, 32, 1)
		})
	}
}

// onePerFormat takes one choice for each format that names it.
func onePerFormat(d *def.Definition, formats [][]num.DType) [][]num.DType {
	var chosen [][]num.DType
	for _, f := range append(slices.Clone(num.FloatDTypes), num.I32) {
		if i := slices.IndexFunc(formats, func(c []num.DType) bool { return d.Format(c) == f }); i >= 0 {
			chosen = append(chosen, formats[i])
		}
	}
	return chosen
}

// TestWarpsOf64 runs rows of 32 threads on warps that hold two of them.
func TestWarpsOf64(t *testing.T) {
	t.Parallel()
	var b batch
	b.source.WriteString(plainly)
	g := gen.New("warps of 64")
	list := shipped
	if isSmoke() { // sums over rows, over columns, and none
		list = []*def.Definition{softmax.ForwardDefinition, layernorm.BackwardDefinition, gelu.ForwardDefinition}
	}
	for _, d := range list {
		dtypes := onePerFormat(d, d.Formats())[0]
		k := b.compile(d, dtypes, gpu.Vector)
		for i, s := range [][2]int{{5, 7}, {11, 257}, {2, 2048}, {3, 2500}, {1, 8300}} {
			l := layout{variant: gpu.Vector, gap: i % 2, inPlace: i%2 == 1}
			b.add(t, fmt.Sprintf("%s %s %v", d.Name, dtypes, s), k, randdef.NewCase(g, d, dtypes, sized(d, gpu.Vector, s)), l)
		}
	}
	b.run(t, simtest.Plain, 64, 3)
}

// TestSanitizers looks for races and for accesses out of bounds, in place where it can be.
func TestSanitizers(t *testing.T) {
	for _, build := range []simtest.Build{simtest.Race, simtest.Address} {
		t.Run(build.String(), func(t *testing.T) {
			t.Parallel()
			var b batch
			b.source.WriteString(plainly)
			g := gen.New("sanitizers")
			list, tried := append(slices.Clone(shipped), sums, firstReplaced), variants
			if isSmoke() {
				list, tried = []*def.Definition{softmax.ForwardDefinition, layernorm.BackwardDefinition, firstReplaced}, variants[1:]
			}
			if isFull() {
				list = append(list, columnDefinitions...)
			}
			for _, d := range list {
				dtypes := onePerFormat(d, d.Formats())[0]
				for _, v := range tried {
					k := b.compile(d, dtypes, v)
					for i, s := range [][2]int{{9, 261}, {2, 2500}, {2, 8201}} {
						l := layout{variant: v, gap: i % 2, inPlace: true}
						b.add(t, fmt.Sprintf("%s %s %v", d.Name, dtypes, s), k, randdef.NewCase(g, d, dtypes, sized(d, v, s)), l)
					}
				}
			}
			b.run(t, build, 32, 11)
		})
	}
}
