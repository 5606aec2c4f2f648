package gpu_test

import (
	"regexp"
	"slices"
	"strconv"
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

// TestPlantedFaults breaks kernels on purpose. Each fault must be found by the check that
// is made for it, on warps of both widths, and where a message names lines these must
// be the lines of the fault. The unbroken kernel must pass the same calls.
func TestPlantedFaults(t *testing.T) {
	const (
		allParts = "BARRIER(); // all parts are there"
		level    = "BARRIER(); // this level is complete"
		reversed = "DEVICE float reversed(const float* s) { return ((((((s[7] + s[6]) + s[5]) + s[4]) + s[3]) + s[2]) + s[1]) + s[0]; }\n"
	)
	f, b, l, n := softmax.ForwardDefinition, softmax.BackwardDefinition, layernorm.BackwardDefinition, norm.TotalDefinition
	for _, x := range []struct {
		name     string
		d        *def.Definition
		build    simtest.Build
		from, to string
		shape    [2]int
		says     string   // part of the message
		lines    []string // parts of the lines that it names
		only     int      // the one warp width that shows it, if there is one
	}{
		// A missing barrier.
		{"parts are read before they are there", f, simtest.Plain, allParts, "", [2]int{3, 2500}, "want 0x", nil, 0},
		{"parts are read before they are there", f, simtest.Race, allParts, "", [2]int{3, 2500}, "race at", []string{"part[0 * parts"}, 0},
		{"a level of the tree is not complete", l, simtest.Race, level, "", [2]int{40, 40}, "race at", []string{"part[i * 32 + x] +", "part["}, 0},
		{"part is written again too early", l, simtest.Race, "BARRIER(); // everybody has the sum, part may be written again", "", [2]int{40, 40}, "race at", []string{"= part[x];", "part[i * 32 + x] ="}, 0},
		{"an element is replaced before all have read it", firstReplaced, simtest.Race, "if (T > 32) BARRIER();", "if (T > 32) {}", [2]int{2, 2500}, "race at", []string{"load_f16(p.x", "put16_vector(p.y"}, 0},
		// A missing syncwarp.
		{"an element is replaced before its warp has read it", firstReplaced, simtest.Race, "else WARP_BARRIER();", "", [2]int{2, 300}, "race at", []string{"load_f16(p.x", "put16_vector(p.y"}, 0},
		// Off by one.
		{"a lane beyond the row", f, simtest.Plain, "(j < n ? ", "(j <= n ? ", [2]int{3, 300}, "want 0x", nil, 0},
		{"results lie one row too far", f, simtest.Address, "p.y + row * p.y_stride", "p.y + (row + 1) * p.y_stride", [2]int{3, 300}, "heap-buffer-overflow", []string{"put16_vector(p.y"}, 0},
		{"the first lane of the sum is left out", n, simtest.Plain, "for (int j = 0; j < 8; j++) {", "for (int j = 1; j < 8; j++) {", [2]int{3, 2000}, "want 0x", nil, 0},
		// A race.
		{"one half of the scratch memory for all passes", f, simtest.Race, "turn ^= 1;", "", [2]int{3, 2500}, "race at", []string{"part[0 * parts"}, 0},
		{"two blocks have the same rows", f, simtest.Race, "(i64)blockIdx.x * ROWS;", "(i64)(blockIdx.x / 2) * ROWS;", [2]int{4, 2500}, "of another block", []string{"put16_vector(p.y"}, 0},
		// Out of bounds.
		{"the last group is stored whole", b, simtest.Plain, "put16_vector(p.dx + row * p.dx_stride + c, n,", "put16_vector(p.dx + row * p.dx_stride + c, n > 0 ? 8 : 0,", [2]int{3, 300}, "which is no output", nil, 0},
		{"the last group is stored whole", b, simtest.Address, "put16_vector(p.dx + row * p.dx_stride + c, n,", "put16_vector(p.dx + row * p.dx_stride + c, n > 0 ? 8 : 0,", [2]int{3, 300}, "heap-buffer-overflow", []string{"put16_vector(p.dx"}, 0},
		{"the last group is read whole", f, simtest.Address, "= fetch16(p.x + row * p.x_stride + c, n);", "= fetch16(p.x + row * p.x_stride + c, n > 0 ? 8 : 0);", [2]int{3, 300}, "heap-buffer-overflow", []string{"= fetch16(p.x"}, 0},
		{"scratch memory is one word too small", f, simtest.Address, "SHARED(float, scratch, 2 * 1 * ROWS * T / 32);", "SHARED(float, scratch, 2 * 1 * ROWS * T / 32 - 1);", [2]int{3, 2500}, "heap-buffer-overflow", []string{"part[0 * parts"}, 0},
		// A divergent barrier.
		{"half of the block completes a level", l, simtest.Plain, level, "if (y < 4) " + level, [2]int{40, 40}, "barrier divergence: thread 0 waits at", []string{level}, 0},
		{"threads without a column leave", l, simtest.Plain, "const bool here = c < p.cols;", "const bool here = c < p.cols; if (!here) return;", [2]int{40, 40}, "64 threads wait, 192 have ended", []string{"BARRIER(); // all chunks are there"}, 0},
		{"only those with a part come to the barrier", f, simtest.Plain, allParts, "if (t % 32 == 0) " + allParts, [2]int{3, 2500}, "divergent shuffle at", []string{"threads_max<parts>", allParts}, 0},
		// Scratch memory shared between rows.
		{"scratch memory is shared between rows", f, simtest.Plain, "(turn * ROWS + slot)", "(turn * ROWS)", [2]int{8, 2500}, "want 0x", nil, 0},
		{"scratch memory is shared between rows", f, simtest.Race, "(turn * ROWS + slot)", "(turn * ROWS)", [2]int{8, 2500}, "race at", []string{"part[0 * parts"}, 0},
		// Others.
		{"lanes in another order", n, simtest.Plain, "threads_sum<32>(tree(", "threads_sum<32>(reversed(", [2]int{3, 2000}, "want 0x", nil, 0},
		{"threads without a row leave", f, simtest.Plain, "const i64 row = here ? first + slot : first;", "if (!here) return; const i64 row = first + slot;", [2]int{9, 300}, "divergent shuffle at", []string{"threads_max<32>"}, 64},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "_")+"/"+x.build.String(), func(t *testing.T) {
			t.Parallel()
			b := batch{}
			b.source.WriteString(plainly)
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
			b.add(t, x.name, k, c, layout{variant: gpu.Vector, gap: 8, inPlace: x.d == firstReplaced})
			source := b.text(t)
			if strings.Contains(x.name, "between rows") {
				source = twoRows(&b, source)
			}
			if !strings.Contains(source, x.from) {
				t.Fatalf("the source has no %q", x.from)
			}
			broken := strings.ReplaceAll(source, x.from, x.to)
			broken = strings.Replace(broken, "struct ", reversed+"struct ", 1)
			right, wrong := simtest.Compile(t, source, x.build), simtest.Compile(t, broken, x.build)
			for _, warp := range []int{32, 64} {
				if text := b.tryProgram(t, right, x.build, warp, 7); text != "" {
					t.Fatalf("the kernel as it is, warp of %d: %s", warp, text)
				}
				found := b.tryProgram(t, wrong, x.build, warp, 7)
				t.Logf("warp of %d: %.200s", warp, found)
				switch {
				case x.only != 0 && x.only != warp:
					if found != "" {
						t.Errorf("warp of %d: got %q, want nothing", warp, found)
					}
				case found == "" || !strings.Contains(found, x.says):
					t.Errorf("warp of %d: got %q, want %q", warp, found, x.says)
				default:
					checkLines(t, found, broken, x.lines)
				}
			}
		})
	}
}

var namedLine = regexp.MustCompile(`kernel\.cu:(\d+)`)

// checkLines wants each part in a line of the source that the message names.
func checkLines(t *testing.T, message, source string, parts []string) {
	t.Helper()
	lines := strings.Split(source, "\n")
	var named []string
	for _, m := range namedLine.FindAllStringSubmatch(message, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil && 1 <= n && n <= len(lines) {
			named = append(named, lines[n-1])
		}
	}
	for _, part := range parts {
		if !slices.ContainsFunc(named, func(line string) bool { return strings.Contains(line, part) }) {
			t.Errorf("no line that is named has %q: %s\n%s", part, message, strings.Join(named, "\n"))
		}
	}
}

// twoRows gives blocks of 128 threads a second row, with another 128.
func twoRows(b *batch, source string) string {
	b.adjust = func(l *gpu.Launch) { l.Block[0], l.Grid[0] = 256, (l.Grid[0]+1)/2 }
	return strings.NewReplacer("<128, 1, ", "<128, 2, ", "_registers4, 128)", "_registers4, 256)").Replace(source)
}
