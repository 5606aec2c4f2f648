package gpu_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/trial"
	"tokitai/trial/randdef"
)

// batch is a program of many kernels, and the calls that are made of it.
type batch struct {
	source  strings.Builder
	kernels int
	calls   []*call
	adjust  func(l *simtest.Launch) // changes launches, if there is one
}

// call is one execution of a kernel: its operands, and what they must be afterwards.
type call struct {
	label        string
	kernel       *gpu.Kernel
	before, want *trial.Operands
	params       []float64
	limits       gpu.Limits
	tile         int // of kernels/mma.cu
}

// compile adds a kernel to the program.
func (b *batch) compile(d *def.Definition, dtypes []num.DType, v gpu.Variant) *gpu.Kernel {
	b.kernels++
	k := gpu.CompileNamed(d, dtypes, v, fmt.Sprintf("%s_%d", strings.ReplaceAll(d.Name, ".", "_"), b.kernels))
	b.source.WriteString(k.Source.Text)
	return k
}

// layout is how a call's operands lie in memory.
type layout struct {
	variant gpu.Variant
	gap     int  // elements between rows, in multiples of 16 bytes for the vector variant
	inPlace bool // element outputs take the place of element inputs
}

// sized are the sizes of rows and columns, of which vector access takes whole groups.
func sized(d *def.Definition, v gpu.Variant, shape [2]int) map[string]int {
	if v == gpu.Vector && !d.IsFlat() {
		shape[1] = (shape[1] + 7) / 8 * 8
	}
	return map[string]int{"R": shape[0], "C": shape[1]}
}

// add makes a call on operands with the given values.
func (b *batch) add(t testing.TB, label string, k *gpu.Kernel, c *randdef.Case, l layout) {
	t.Helper()
	d := c.Definition
	before := trial.CopyOf(d, c.Operands, func(i int) trial.Layout {
		if l.variant == gpu.Vector {
			return trial.Layout{Gap: alignedGap(c.Operands[i], l.gap)}
		}
		return trial.Layout{Offset: 1, Gap: l.gap}
	})
	x := &call{label: label, kernel: k, params: c.Params, limits: gpu.Limits{WarpWidth: 32, Multiprocessors: 1, SharedBytes: 227 << 10}}
	x.before, x.want = before, answered(t, before, c.Params)
	for i := range d.Operands {
		for _, name := range d.InPlacePartners(&d.Operands[i]) {
			if l.inPlace && before.Replace(i, d.Operand(name)) {
				break
			}
		}
	}
	b.calls = append(b.calls, x)
}

// run compiles the program and makes all calls, then compares every byte.
func (b *batch) run(t testing.TB, build simtest.Build, warp int, seed uint64) {
	t.Helper()
	if text := b.tryRun(t, build, warp, seed); text != "" {
		t.Fatal(text)
	}
}

// tryRun returns what is wrong, if anything.
func (b *batch) tryRun(t testing.TB, build simtest.Build, warp int, seed uint64) string {
	t.Helper()
	return b.tryProgram(t, simtest.Compile(t, b.text(t), build), build, warp, seed)
}

// text is the program's source, as far as it is launched with warps of either width.
func (b *batch) text(t testing.TB) string {
	t.Helper()
	narrow, _ := b.plan(t, 32, false)
	wide, _ := b.plan(t, 64, false)
	return withoutUnused(b.source.String(), slices.Concat(narrow.Launches, wide.Launches))
}

// tryProgram makes all calls of a program.
func (b *batch) tryProgram(t testing.TB, program *simtest.Program, build simtest.Build, warp int, seed uint64) string {
	t.Helper()
	run, placed := b.plan(t, warp, build == simtest.Address)
	run.Seed = seed
	if err := program.Run(run); err != nil {
		return err.Error()
	}
	for i, c := range b.calls {
		text := readBack(&run, c.before, placed[i].pieces).Fault(c.want)
		scratch := run.Buffers[placed[i].scratch]
		if guard := scratch[placed[i].scratchBytes:]; text == "" && bytes.Count(guard, []byte{trial.GuardByte}) != len(guard) {
			text = "it writes behind its scratch memory"
		}
		if text != "" {
			return c.label + ": " + text
		}
	}
	return ""
}

// placedCall is where a call lies in the buffers of a run.
type placedCall struct {
	pieces                []piece
	scratch, scratchBytes int // the buffer, and what of it may be written
}

// plan lists the launches. If isBare, buffers end with what may be used, so that
// AddressSanitizer sees their bounds.
func (b *batch) plan(t testing.TB, warp int, isBare bool) (run simtest.Run, placed []placedCall) {
	t.Helper()
	run.Warp = warp
	var plan gpu.Plan
	for _, c := range b.calls {
		pieces, operands := lay(&run, c.before, isBare)
		limits := c.limits
		limits.WarpWidth = warp
		if err := c.kernel.Plan(&plan, newCall(c.before.Definition, operands, c.params), limits); err != nil {
			t.Fatalf("%s: %v", c.label, err)
		}
		// Scratch memory begins as NaN and ends in a guard, or in nothing.
		plan.Place(simtest.Pointer(len(run.Buffers)), 0)
		memory := bytes.Repeat([]byte{0xff}, int(plan.ScratchBytes))
		if !isBare {
			memory = append(memory, bytes.Repeat([]byte{trial.GuardByte}, trial.GuardBytes)...)
		}
		placed = append(placed, placedCall{pieces, len(run.Buffers), int(plan.ScratchBytes)})
		run.Buffers = append(run.Buffers, memory)
		run.Launches = append(run.Launches, simtest.LaunchesOf(c.kernel, &plan)...)
	}
	for i := range run.Launches {
		if b.adjust != nil {
			b.adjust(&run.Launches[i])
		}
	}
	return run, placed
}

// instance is a kernel in one line, an instance of a function template.
var instance = regexp.MustCompile(`^KERNEL(?:_BLOCKS)?\((\w+), .*}\n$`)

// withoutUnused leaves out instances of kernels that nothing launches: they take most of
// the compiler's time.
func withoutUnused(source string, launches []simtest.Launch) string {
	used := map[string]bool{}
	for _, l := range launches {
		used[l.Entry] = true
	}
	var kept []string
	for line := range strings.Lines(source) {
		if m := instance.FindStringSubmatch(line); m == nil || used[m[1]] {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// Levels: smoke has every kind of kernel and of fault once, as compilers take long.
func isSmoke() bool { return testlevel.Current() == testlevel.Smoke }
func isFull() bool  { return testlevel.Current() >= testlevel.Full }

func TestMain(m *testing.M) {
	code := m.Run()
	simtest.Clean()
	os.Exit(code)
}

var variants = []gpu.Variant{gpu.Element, gpu.Vector}

// plainly asks for no optimisation: bits do not depend on it, and the compiler takes
// a fraction of the time.
const plainly = "#pragma GCC optimize (\"O0\")\n"

// TestRandomDefinitions compares kernels of expressions that nobody thought of with
// the reference.
func TestRandomDefinitions(t *testing.T) {
	units, perUnit := testlevel.Pick(1, 8, 200), testlevel.Pick(12, 25)
	for u := range units {
		t.Run(fmt.Sprintf("unit=%d", u), func(t *testing.T) {
			t.Parallel()
			var b batch
			b.source.WriteString(plainly)
			for i := range perUnit {
				seed := u*perUnit + i
				g := gen.Seeded(uint64(seed))
				d, err := randdef.Sized(g, 1+g.Below(1+g.Below(randdef.MaxSteps)))
				if err != nil {
					t.Fatal(err)
				}
				dtypes := randdef.DTypes(g, d)
				v := variants[g.Below(2)]
				k := b.compile(d, dtypes, v)
				work := 40_000
				if seed%20 == 0 {
					work *= 40 // rows beyond 65,536 columns, column sums beyond their lanes
				}
				for n := range 3 {
					sizes := randdef.Sizes(g, d, work)
					sizes = sized(d, v, [2]int{sizes["R"], sizes["C"]})
					l := layout{variant: v, gap: g.Below(3) * 3, inPlace: n%2 == 1}
					b.add(t, fmt.Sprintf("seed %d, %s, sizes %v, %+v\n%s", seed, dtypes, sizes, l, d.Text()), k, randdef.NewCase(g, d, dtypes, sizes), l)
				}
			}
			b.run(t, simtest.Plain, 32<<(u%2), uint64(u))
		})
	}
}
