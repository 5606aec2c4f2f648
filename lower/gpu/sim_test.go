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
	"tokitai/internal/randdef"
	"tokitai/internal/testlevel"
	"tokitai/lower"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/reference"
)

// batch is a program of many kernels, and the calls that are made of it.
type batch struct {
	source  strings.Builder
	kernels int
	calls   []*call
	adjust  func(l *simtest.Launch) // changes launches, if there is one
}

// call is one execution of a kernel: operands in one buffer, with guards around them
// and gaps between rows, the expected buffer beside it.
type call struct {
	label    string
	kernel   *gpu.Kernel
	d        *def.Definition
	operands []num.Array // views of the buffer, in the order of the definition
	starts   []int
	buffer   []byte
	want     []byte
	params   []float64
	scratch  int // where scratch memory begins in the buffer
	limits   gpu.Limits
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

const (
	guardByte  = 0xa5
	guardBytes = 64 // after scratch memory
)

// add makes a call on operands with the given values.
func (b *batch) add(t testing.TB, label string, k *gpu.Kernel, c *randdef.Case, l layout) {
	t.Helper()
	d := c.Definition
	x := &call{label: label, kernel: k, d: d, params: c.Params, limits: gpu.Limits{WarpWidth: 32, Multiprocessors: 1, SharedBytes: 227 << 10}}
	partner := make([]int, len(d.Operands))
	taken := map[int]bool{}
	for i := range d.Operands {
		partner[i] = i
		for _, name := range d.InPlacePartners(&d.Operands[i]) {
			if j := d.Operand(name); l.inPlace && partner[i] == i && !taken[j] && c.Operands[j].DType == c.Operands[i].DType {
				partner[i], taken[j] = j, true
			}
		}
	}
	size := 0
	for i, a := range c.Operands {
		x.operands = append(x.operands, num.Array{DType: a.DType, Rows: a.Rows, Cols: a.Cols, Stride: a.Cols})
		x.starts = append(x.starts, 0)
		if partner[i] != i {
			continue
		}
		p := &x.operands[i]
		bytes := a.DType.Size()
		if d.Operands[i].Extent == def.PerElement {
			p.Stride += l.gap
		}
		size += 32
		if l.variant == gpu.Vector {
			size = (size + 15) / 16 * 16
			if d.Operands[i].Extent == def.PerElement && a.Rows > 1 {
				p.Stride = (p.Stride*bytes + 15) / 16 * 16 / bytes
			}
		} else {
			size = (size+15)/16*16 + bytes
		}
		x.starts[i] = size
		size += ((a.Rows-1)*p.Stride + a.Cols) * bytes
	}
	x.scratch = (size + 32 + 255) / 256 * 256
	x.buffer = make([]byte, x.scratch)
	for i := range x.buffer {
		x.buffer[i] = guardByte
	}
	for i := range x.operands {
		if p := partner[i]; p != i {
			x.operands[i], x.starts[i] = x.operands[p], x.starts[p]
		}
		x.operands[i].Data = x.buffer[x.starts[i]:]
	}
	for i, a := range c.Operands {
		if partner[i] == i {
			copyValues(x.operands[i], a)
		}
	}
	// The answer is computed on operands of its own.
	answer := c.Clone()
	if err := reference.Run(d, answer.Operands, reference.Options{Params: c.Params}); err != nil {
		t.Fatal(err)
	}
	x.want = slices.Clone(x.buffer)
	for i, a := range answer.Operands {
		if d.Operands[i].IsOut {
			w := x.operands[i]
			w.Data = x.want[x.starts[i]:]
			copyValues(w, a)
		}
	}
	b.calls = append(b.calls, x)
}

func copyValues(to, from num.Array) {
	for r := range from.Rows {
		for c := range from.Cols {
			to.SetBits(r, c, from.Bits(r, c))
		}
	}
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

// text is the program's source, as far as it is launched.
func (b *batch) text(t testing.TB) string {
	t.Helper()
	run, _ := b.plan(t, 32, false)
	return withoutUnused(b.source.String(), run.Launches)
}

// tryProgram makes all calls of a program.
func (b *batch) tryProgram(t testing.TB, program *simtest.Program, build simtest.Build, warp int, seed uint64) string {
	t.Helper()
	run, readBack := b.plan(t, warp, build == simtest.Address)
	run.Seed = seed
	if err := program.Run(run); err != nil {
		return err.Error()
	}
	for i, c := range b.calls {
		if text := c.compare(readBack(i)); text != "" {
			return c.label + ": " + text
		}
	}
	return ""
}

// plan lists the launches. A call has one buffer, or one for each operand, which ends
// with its last element so that AddressSanitizer sees its bounds. readBack is the one
// buffer of a call, after it was run.
func (b *batch) plan(t testing.TB, warp int, isApart bool) (run simtest.Run, readBack func(call int) []byte) {
	t.Helper()
	run.Warp = warp
	type piece struct{ call, start, end, buffer int } // of a call's buffer
	var pieces []piece
	var plan gpu.Plan
	for i, c := range b.calls {
		at := map[int]uint64{} // where an operand that starts there lies
		add := func(start, end int) uint64 {
			pieces = append(pieces, piece{i, start, end, len(run.Buffers)})
			run.Buffers = append(run.Buffers, slices.Clone(c.buffer[start:end]))
			return simtest.Pointer(len(run.Buffers) - 1)
		}
		if isApart {
			for o, a := range c.operands {
				if start := c.starts[o]; at[start] == 0 {
					aligned := start / 16 * 16
					at[start] = add(aligned, start+((a.Rows-1)*a.Stride+a.Cols)*a.DType.Size()) + uint64(start-aligned)
				}
			}
		} else {
			base := add(0, len(c.buffer))
			for _, start := range c.starts {
				at[start] = base + uint64(start)
			}
		}
		var operands []lower.Operand
		for o, a := range c.operands {
			operands = append(operands, lower.Operand{Array: num.Array{DType: a.DType, Rows: a.Rows, Cols: a.Cols, Stride: a.Stride}, Pointer: at[c.starts[o]]})
		}
		// Scratch memory begins as NaN and ends in a guard, or in nothing.
		limits := c.limits
		limits.WarpWidth = warp
		if err := c.kernel.Plan(&plan, newCall(c.d, operands, c.params), limits); err != nil {
			t.Fatalf("%s: %v", c.label, err)
		}
		plan.Place(simtest.Pointer(len(run.Buffers)), 0)
		memory := bytes.Repeat([]byte{0xff}, int(plan.ScratchBytes))
		if !isApart {
			memory = append(memory, bytes.Repeat([]byte{guardByte}, guardBytes)...)
		}
		pieces = append(pieces, piece{i, len(c.buffer), len(c.buffer) + len(memory), len(run.Buffers)})
		run.Buffers = append(run.Buffers, memory)
		run.Launches = append(run.Launches, simtest.LaunchesOf(c.kernel, &plan)...)
	}
	for i := range run.Launches {
		if b.adjust != nil {
			b.adjust(&run.Launches[i])
		}
	}
	return run, func(call int) []byte {
		buffer := slices.Clone(b.calls[call].buffer)
		for _, p := range pieces {
			switch {
			case p.call != call:
			case p.start == len(buffer):
				buffer = append(buffer, run.Buffers[p.buffer]...)
			default:
				copy(buffer[p.start:], run.Buffers[p.buffer])
			}
		}
		if isApart {
			buffer = append(buffer, bytes.Repeat([]byte{guardByte}, guardBytes)...)
		}
		return buffer
	}
}

// instance is a kernel in one line, an instance of a function template.
var instance = regexp.MustCompile(`^KERNEL(?:_BLOCKS)?\((\w+), .*}\n$`)

// withoutUnused leaves out instances of the rows kernel that nothing launches: they
// take most of the compiler's time.
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

// compare says where a buffer differs from the expected one.
func (c *call) compare(got []byte) string {
	isOutput := make([]bool, len(c.buffer))
	for i := range c.d.Operands {
		if !c.d.Operands[i].IsOut {
			continue
		}
		g, w := c.operands[i], c.operands[i]
		g.Data, w.Data = got[c.starts[i]:], c.want[c.starts[i]:]
		for r := range g.Rows {
			for col := range g.Cols {
				a, b := num.Canonical(g.DType, g.Bits(r, col)), num.Canonical(g.DType, w.Bits(r, col))
				if a != b {
					return fmt.Sprintf("%s[%d,%d] of [%d %d] %s: got 0x%x, want 0x%x (%v, %v)", c.d.Operands[i].Name, r, col, g.Rows, g.Cols, g.DType,
						a, b, num.Widen(g.DType, a), num.Widen(g.DType, b))
				}
				at := c.starts[i] + (r*g.Stride+col)*g.DType.Size()
				for k := range g.DType.Size() {
					isOutput[at+k] = true
				}
			}
		}
	}
	for i := range c.buffer {
		if !isOutput[i] && got[i] != c.want[i] {
			return fmt.Sprintf("byte %d, which is no output, is 0x%02x, want 0x%02x", i, got[i], c.want[i])
		}
	}
	for i := len(got) - guardBytes; i < len(got); i++ {
		if got[i] != guardByte {
			return fmt.Sprintf("byte %d after scratch memory has changed", i-len(got)+guardBytes)
		}
	}
	return ""
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

// TestRandomDefinitions holds kernels of expressions that nobody thought of against
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
