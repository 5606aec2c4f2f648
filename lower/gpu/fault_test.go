package gpu_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/op/layernorm"
	"tokitai/op/norm"
	"tokitai/op/softmax"
	"tokitai/trial/randdef"
)

// firstReplaced has the row's first element, which an output replaces, in every row.
var firstReplaced = def.Must(def.Rowwise("first_replaced", func(b *def.Builder) {
	x := b.In("x")
	b.Out("y", x.Sub(x.At(def.IntConst(0))), def.Like("x"))
}))

// findings are the ways in which faults are found.
type findings map[string]bool

// again is whether a fault is found as one before.
func (f findings) again(build simtest.Build, says string) bool {
	kind := build.String() + " " + says
	isKnown := f[kind]
	f[kind] = true
	return isKnown
}

// TestPlantedFaults breaks kernels on purpose. Each fault must be found by the check that
// is made for it, on warps of both widths, and where a message names lines these must
// be the lines of the fault. The unbroken kernel must pass the same calls.
func TestPlantedFaults(t *testing.T) {
	const (
		allParts = "BARRIER(); // all parts are written"
		level    = "BARRIER(); // this level is complete"
		reversed = "DEVICE float reversed(const float* s) { return ((((((s[7] + s[6]) + s[5]) + s[4]) + s[3]) + s[2]) + s[1]) + s[0]; }\n"
	)
	f, b, l, n := softmax.ForwardDefinition, softmax.BackwardDefinition, layernorm.BackwardDefinition, norm.TotalDefinition
	vector, element := gpu.Vector, gpu.Element
	found := findings{}
	for _, x := range []struct {
		name     string
		d        *def.Definition
		variant  gpu.Variant
		build    simtest.Build
		from, to string
		shape    [2]int
		says     string   // part of the message
		lines    []string // parts of the lines that it names
		only     int      // the one warp width that shows it, if there is one
	}{
		// A missing barrier.
		{"parts are read before they are there", f, vector, simtest.Plain, allParts, "", [2]int{3, 2500}, "want 0x", nil, 0},
		{"parts are read before they are there", f, vector, simtest.Race, allParts, "", [2]int{3, 2500}, "race at", []string{"part[0 * parts"}, 0},
		{"terms are added before they are there", l, vector, simtest.Race, "BARRIER(); // all terms are written", "", [2]int{40, 40}, "race at", []string{"put_terms(terms", "add_terms("}, 0},
		{"terms are replaced before they are added", l, vector, simtest.Race, "BARRIER(); // all terms are added, they may be overwritten", "", [2]int{8200, 8}, "race at", []string{"put_terms(terms", "add_terms("}, 0},
		{"a level of the tree is not complete", l, vector, simtest.Race, level, "", [2]int{40, 40}, "race at", []string{"* 8 + x] + part["}, 0},
		{"part is written again too early", l, vector, simtest.Race, "BARRIER(); // all threads have read the sums, part may be overwritten", "", [2]int{40, 40}, "race at", []string{"= part[0 * 256 * 8 + x];", "part[(0 * 256 + i) * 8 + x] ="}, 0},
		{"an element is replaced before all have read it", firstReplaced, vector, simtest.Race, "if (T > 32) BARRIER();", "if (T > 32) {}", [2]int{2, 2500}, "race at", []string{"load_f16(p.x", "put16_vector(y_at"}, 0},
		// A missing syncwarp.
		{"an element is replaced before its warp has read it", firstReplaced, vector, simtest.Race, "else WARP_BARRIER();", "", [2]int{2, 300}, "race at", []string{"load_f16(p.x", "put16_vector(y_at"}, 0},
		// Off by one.
		{"an element beyond the row", f, element, simtest.Plain, "(j < n ? ", "(j <= n ? ", [2]int{3, 300}, "want 0x", nil, 0},
		{"results lie one row too far", f, vector, simtest.Address, "p.y + row * p.y_stride", "p.y + (row + 1) * p.y_stride", [2]int{3, 300}, "heap-buffer-overflow", []string{"put16_vector(y_at"}, 0},
		{"the first lane of the sum is left out", n, vector, simtest.Plain, "for (int j = 0; j < 8; j++) {", "for (int j = 1; j < 8; j++) {", [2]int{3, 2000}, "want 0x", nil, 0},
		{"groups of a row take each other's place", f, vector, simtest.Plain, " * 1 + 0) * T", " * 0) * T", [2]int{2, 8200}, "want 0x", nil, 0},
		{"groups are sent one thread too far", f, vector, simtest.Race, "send16(stage + (n * 1 + 0) * T + t,", "send16(stage + (n * 1 + 0) * T + t + 1,", [2]int{2, 8200}, "race at", []string{"send16(stage", "staged16(stage"}, 0},
		{"groups are sent one thread too far", f, vector, simtest.Address, "send16(stage + (n * 1 + 0) * T + t,", "send16(stage + (n * 1 + 0) * T + t + 1,", [2]int{2, 8200}, "heap-buffer-overflow", []string{"send16(stage"}, 0},
		// A race.
		{"one half of the scratch memory for all passes", f, vector, simtest.Race, "turn ^= 1;", "", [2]int{3, 2500}, "race at", []string{"part[0 * parts"}, 0},
		{"two blocks have the same rows", f, vector, simtest.Race, "(i64)blockIdx.x * ROWS;", "(i64)(blockIdx.x / 2) * ROWS;", [2]int{4, 2500}, "of another block", []string{"put16_vector(y_at"}, 0},
		// Out of bounds.
		{"a group beyond the row is stored", b, vector, simtest.Address, "if (WHOLE || c < columns) {", "if (WHOLE || c <= columns) {", [2]int{3, 300}, "heap-buffer-overflow", []string{"put16_vector(dx_at"}, 0},
		{"a group beyond the row is read", f, vector, simtest.Address, "c < columns);", "c <= columns);", [2]int{3, 300}, "heap-buffer-overflow", []string{"= fetch16_whole(x_at"}, 0},
		{"the last group is stored whole", b, element, simtest.Plain, "put16(dx_at + g * (T * 8), n,", "put16(dx_at + g * (T * 8), n > 0 ? 8 : 0,", [2]int{3, 300}, "it writes between the rows of dx", nil, 0},
		{"the last group is stored whole", b, element, simtest.Address, "put16(dx_at + g * (T * 8), n,", "put16(dx_at + g * (T * 8), n > 0 ? 8 : 0,", [2]int{3, 300}, "heap-buffer-overflow", []string{"put16(dx_at"}, 0},
		{"the last group is read whole", f, element, simtest.Address, "inside(c, columns));", "c < columns ? 8 : 0);", [2]int{3, 300}, "heap-buffer-overflow", []string{"= fetch16(x_at"}, 0},
		{"scratch memory is one word too small", f, vector, simtest.Address, "SHARED(float, scratch, 2 * 1 * ROWS * T / 32);", "SHARED(float, scratch, 2 * 1 * ROWS * T / 32 - 1);", [2]int{3, 2500}, "heap-buffer-overflow", []string{"part[0 * parts"}, 0},
		{"part is one word too small", l, vector, simtest.Address, "SHARED(float, part, 2 * 256 * 8);", "SHARED(float, part, (256 + 8) * 8 - 1);", [2]int{64, 40}, "heap-buffer-overflow", []string{"part[(1 * 256 + i) * 8 + x] = tree("}, 0},
		// A divergent barrier.
		{"half of the block completes a level", l, vector, simtest.Plain, level, "if (y < 4) " + level, [2]int{40, 40}, "barrier divergence: thread 0 waits at", []string{level}, 0},
		{"threads without a column leave", l, element, simtest.Plain, "const bool here = c < p.cols;", "const bool here = c < p.cols; if (!here) return;", [2]int{40, 44}, "32 threads wait, 32 have ended", []string{"BARRIER(); // all chunks are written"}, 0},
		{"only those with a part come to the barrier", f, vector, simtest.Plain, allParts, "if (t % 32 == 0) " + allParts, [2]int{3, 2500}, "divergent shuffle at", []string{"threads_max<parts>", allParts}, 0},
		// Scratch memory shared between rows.
		{"scratch memory is shared between rows", l, vector, simtest.Plain, "(turn * ROWS + slot)", "(turn * ROWS)", [2]int{8, 2500}, "want 0x", nil, 0},
		{"scratch memory is shared between rows", l, vector, simtest.Race, "(turn * ROWS + slot)", "(turn * ROWS)", [2]int{8, 2500}, "race at", []string{"part[0 * parts"}, 0},
		// Others.
		{"lanes in another order", n, vector, simtest.Plain, "T : 32>(tree(", "T : 32>(reversed(", [2]int{3, 2000}, "want 0x", nil, 0},
		{"the first row of a lane is left out", l, vector, simtest.Plain, "for (u32 step = 0; step < STEPS", "for (u32 step = 1; step < STEPS", [2]int{8200, 8}, "want 0x", nil, 0},
		{"threads without a row leave", f, vector, simtest.Plain, "const i64 row = here ? first + slot : first;", "if (!here) return; const i64 row = first + slot;", [2]int{9, 300}, "divergent shuffle at", []string{"threads_max<T < 32"}, 64},
	} {
		if isSmoke() && found.again(x.build, x.says) {
			continue
		}
		t.Run(strings.ReplaceAll(x.name, " ", "_")+"/"+x.build.String(), func(t *testing.T) {
			t.Parallel()
			b := batch{}
			b.source.WriteString(plainly)
			dtypes := onePerFormat(x.d, x.d.Formats())[0]
			k := b.compile(x.d, dtypes, x.variant)
			g := gen.New(x.name)
			c := randdef.NewCase(g, x.d, dtypes, sized(x.d, x.variant, x.shape))
			for _, a := range c.Operands {
				for r := range a.Rows {
					for j := range a.Cols {
						a.Set(r, j, g.Ordinary())
					}
				}
			}
			b.add(t, x.name, k, c, layout{variant: x.variant, gap: 8, inPlace: x.d == firstReplaced})
			// One block sums all columns, so that it uses its memory again.
			b.adjust = func(l *simtest.Launch) {
				if strings.HasSuffix(l.Entry, "_columns") && x.variant == gpu.Vector {
					l.Grid[0] = 1
				}
			}
			source := b.text(t)
			if !strings.Contains(source, x.from) {
				t.Fatalf("the source has no %q", x.from)
			}
			broken := strings.ReplaceAll(source, x.from, x.to)
			broken = strings.Replace(broken, "struct ", reversed+"struct ", 1)
			if !isSmoke() { // where others run the kernels as they are
				right := simtest.Compile(t, source, x.build)
				for _, warp := range []int{32, 64} {
					if text := b.tryProgram(t, right, x.build, warp, 7); text != "" {
						t.Fatalf("the kernel as it is, warp of %d: %s", warp, text)
					}
				}
			}
			wrong := simtest.Compile(t, broken, x.build)
			for _, warp := range []int{32, 64} {
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
