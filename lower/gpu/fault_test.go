package gpu_test

import (
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/randdef"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/op/layernorm"
	"tokitai/op/norm"
	"tokitai/op/softmax"
)

// firstReplaced has the row's first element, which an output replaces, in every row.
var firstReplaced = def.Must(def.Rowwise("first_replaced", func(b *def.Builder) {
	x := b.In("x")
	b.Out("y", x.Sub(x.At(def.IntConst(0))), def.Like("x"))
}))

// TestPlantedFaults breaks kernels on purpose. Each fault must be found, by the bits
// or by the simulator, and the unbroken kernel must pass the same calls.
func TestPlantedFaults(t *testing.T) {
	const reversed = "DEVICE float reversed(const float* s) { return ((((((s[7] + s[6]) + s[5]) + s[4]) + s[3]) + s[2]) + s[1]) + s[0]; }\n"
	for _, x := range []struct {
		name     string
		d        *def.Definition
		build    simtest.Build
		from, to string
		shape    [2]int
		inPlace  bool
	}{
		{"parts are read before they are there", softmax.ForwardDefinition, simtest.Plain, "BARRIER(); // all parts are there", "", [2]int{3, 2500}, false},
		{"one half of the scratch memory for all passes", softmax.ForwardDefinition, simtest.Race, "turn ^= 1;", "", [2]int{3, 2500}, false},
		{"scratch memory shared between rows", softmax.ForwardDefinition, simtest.Plain, "(turn * ROWS + slot)", "(turn * ROWS)", [2]int{8, 2500}, false},
		{"a level of the tree is not complete", layernorm.BackwardDefinition, simtest.Race, "BARRIER(); // this level is complete", "", [2]int{40, 40}, false},
		{"part is written again too early", layernorm.BackwardDefinition, simtest.Race, "BARRIER(); // everybody has the sum, part may be written again", "", [2]int{40, 40}, false},
		{"lanes in another order", norm.TotalDefinition, simtest.Plain, "threads_sum<32>(tree(", "threads_sum<32>(reversed(", [2]int{3, 2000}, false},
		{"a lane beyond the row", softmax.ForwardDefinition, simtest.Plain, "(j < n ? ", "(j <= n ? ", [2]int{3, 300}, false},
		{"the last group is stored whole", softmax.BackwardDefinition, simtest.Plain, "put16_vector(p.dx + row * p.dx_stride + c, n,", "put16_vector(p.dx + row * p.dx_stride + c, n > 0 ? 8 : 0,", [2]int{3, 300}, false},
		{"an element is replaced before all have read it", firstReplaced, simtest.Race, "if (T > 32) BARRIER();", "if (T > 32) {}", [2]int{2, 2500}, true},
		{"an element is replaced before its warp has read it", firstReplaced, simtest.Race, "else WARP_BARRIER();", "", [2]int{2, 300}, true},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			b := batch{}
			dtypes := onePerFormat(x.d, x.d.Formats())[0]
			k := b.compile(x.d, dtypes, gpu.Vector)
			g := gen.New(x.name)
			c := randdef.NewCase(g, x.d, dtypes, map[string]int{"R": x.shape[0], "C": x.shape[1]})
			for _, a := range c.Operands {
				for r := range a.Rows {
					for j := range a.Cols {
						a.Set(r, j, g.Ordinary())
					}
				}
			}
			b.add(t, x.name, k, c, layout{variant: gpu.Vector, gap: 8, inPlace: x.inPlace})
			if text := b.tryRun(t, x.build, 32, 7, twoRows(&b, x.name)); text != "" {
				t.Fatalf("the kernel as it is: %s", text)
			}
			if !strings.Contains(b.source.String(), x.from) {
				t.Fatalf("the source has no %q", x.from)
			}
			found := b.tryRun(t, x.build, 32, 7, twoRows(&b, x.name, x.from, x.to, "struct "+k.Source.Name+"_params {", reversed+"struct "+k.Source.Name+"_params {"))
			if found == "" {
				t.Error("nothing was found")
			}
			t.Logf("%.150s", found)
		})
	}
}

// twoRows is a change of the source. For the fault that needs them, it gives blocks of
// 128 threads a second row, with another 128.
func twoRows(b *batch, fault string, change ...string) *strings.Replacer {
	if strings.Contains(fault, "between rows") {
		b.adjust = func(l *simtest.Launch) { l.Block[0], l.Grid[0] = 256, (l.Grid[0]+1)/2 }
		change = append(change, "<128, 1, ", "<128, 2, ", "_registers4, 128)", "_registers4, 256)")
	}
	return strings.NewReplacer(change...)
}
