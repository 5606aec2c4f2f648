package gpu_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/lower"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/norm"
	"tokitai/op/softmax"
	"tokitai/reference"
	"tokitai/trial"
	"tokitai/trial/randdef"
)

// mixed is a flat definition with every kind of kernel: elements, scalars, several sums.
var mixed = def.Must(def.Rowwise("mixed", func(b *def.Builder) {
	x, y, by := b.In("x"), b.In("y", def.Only(num.F32)), b.Param("by")
	b.Out("y", x.Mul(by).Add(y))
	first, second := def.TotalSum(x.Mul(y)), def.TotalSum(x.Abs())
	b.OutScalar("first", first, def.Only(num.F32))
	b.OutScalar("ratio", first.Div(second.Add(by)), def.Only(num.F32))
}))

// manyRun is calls of one definition in a run, all made together.
type manyRun struct {
	simtest.Run
	before, want []*trial.Operands
	pieces       [][]piece
	scratch      int // the buffer of scratch memory, and what of it may be written
	scratchBytes int
}

// newManyRun plans calls of the given sizes on random operands, with the addresses that the
// variant needs.
func newManyRun(t testing.TB, m *gpu.Many, d *def.Definition, dtypes []num.DType, v gpu.Variant, shapes [][2]int, isBare bool) *manyRun {
	t.Helper()
	r := &manyRun{}
	g := gen.New(d.Name)
	var calls []*lower.Call
	for i, shape := range shapes {
		if v == gpu.Vector && shape[1]%8 != 0 { // rows would not be aligned
			shape = [2]int{1, shape[0] * shape[1]}
		}
		c := randdef.NewCase(g, d, dtypes, map[string]int{"R": shape[0], "C": shape[1]})
		for k := range d.Operands {
			if shape[0]*shape[1] > 100 && d.Operands[k].IsIn { // special values would decide every sum
				trial.Fill(c.Operands[k], func(int, int) float32 { return g.Ordinary() })
			}
		}
		before := trial.CopyOf(d, c.Operands, func(int) trial.Layout { return trial.Layout{Offset: (i%3 + 1) * int(1-v)} })
		pieces, operands := lay(&r.Run, before, isBare)
		r.before, r.want, r.pieces = append(r.before, before), append(r.want, answered(t, before, c.Params)), append(r.pieces, pieces)
		calls = append(calls, newCall(d, operands, c.Params))
		if !m.Joins(calls[i]) {
			t.Fatalf("%s: a call of %v does not join", d.Name, shape)
		}
	}
	var plan gpu.Plan
	if err := m.Plan(&plan, calls); err != nil {
		t.Fatal(err)
	}
	guard := bytes.Repeat([]byte{trial.GuardByte}, trial.GuardBytes)
	if isBare {
		guard = nil
	}
	r.scratch, r.scratchBytes = len(r.Buffers), int(plan.ScratchBytes)
	plan.Place(simtest.Pointer(r.scratch), 0)
	r.Buffers = append(r.Buffers, append(bytes.Repeat([]byte{0xff}, r.scratchBytes), guard...))
	r.Table = len(r.Buffers) + 1
	r.Buffers = append(r.Buffers, append(bytes.Clone(plan.PlaceTable(simtest.Pointer(len(r.Buffers)))), guard...))
	for _, l := range plan.Launches {
		r.Launches = append(r.Launches, simtest.Launch{Entry: m.Source.Entries[l.Entry], Grid: l.Grid, Block: l.Block, Shared: l.Shared, Params: bytes.Clone(l.Params)})
	}
	return r
}

// fault says what is wrong after the run, if anything.
func (r *manyRun) fault() string {
	for i := range r.before {
		if text := readBack(&r.Run, r.before[i], r.pieces[i]).Fault(r.want[i]); text != "" {
			return fmt.Sprintf("call %d: %s", i, text)
		}
	}
	if guard := r.Buffers[r.scratch][r.scratchBytes:]; bytes.Count(guard, []byte{trial.GuardByte}) != len(guard) {
		return "it writes behind its scratch memory"
	}
	return ""
}

// manyShapes reach all tails: of groups, of blocks and of flat rows.
var manyShapes = [][2]int{
	{1, 1}, {1, 7}, {3, 3}, {1, 8}, {257, 1}, {1, gpu.ManyElements - 1}, {2, gpu.ManyElements / 2}, {1, gpu.ManyElements + 1}, {1, 1},
	{5, 2048}, {1, num.FlatRow}, {1, num.FlatRow + 1}, {3, num.FlatRow - 7}, {1, 2}, {1, 1},
}

// TestMany compares calls that are made together with the reference, in grids of one block
// for each part and of two.
func TestMany(t *testing.T) {
	t.Parallel()
	for _, d := range []*def.Definition{mixed, adamw.StochasticDefinition, norm.SquareSumDefinition} {
		for _, v := range variants {
			if isSmoke() && (d != mixed && v == gpu.Element || d == norm.SquareSumDefinition) {
				continue
			}
			dtypes := onePerFormat(d, d.Formats())[0]
			base := fmt.Sprintf("many_%v", v)
			m, err := gpu.CompileManyNamed(d, dtypes, v, base)
			if err != nil {
				t.Fatal(err)
			}
			m.SetMaxHints(4) // so that blocks search for their calls, as where there are very many
			t.Run(d.Name+"/"+v.String(), func(t *testing.T) {
				t.Parallel()
				for _, build := range testlevel.Pick([]simtest.Build{simtest.Plain}, []simtest.Build{simtest.Plain, simtest.Address, simtest.Race}) {
					program := simtest.Compile(t, plainly+m.Source.Text, build)
					for _, grid := range []uint32{0, 2} {
						r := newManyRun(t, m, d, dtypes, v, manyShapes, build == simtest.Address)
						r.Warp, r.Seed = 32<<(grid/2), uint64(grid)
						for i := range r.Launches {
							if grid > 0 {
								r.Launches[i].Grid[0] = min(r.Launches[i].Grid[0], grid)
							}
						}
						if err := program.Run(r.Run); err != nil {
							t.Fatal(err)
						}
						if text := r.fault(); text != "" {
							t.Fatalf("%v, %d blocks: %s", build, grid, text)
						}
					}
				}
			})
		}
	}
}

// TestManyPlan holds what no test can run: calls of 2⁴⁰ elements, whose sums have several
// levels, and indices with hints.
func TestManyPlan(t *testing.T) {
	d := norm.SquareSumDefinition
	dtypes := onePerFormat(d, d.Formats())[0]
	m, err := gpu.CompileMany(d, dtypes, gpu.Element)
	if err != nil {
		t.Fatal(err)
	}
	sizes := []int{1 << 40, 1, 1<<32 + 1, 65536, 65537, 1 << 31, 5}
	var calls []*lower.Call
	for _, n := range sizes {
		calls = append(calls, newCall(d, operandsOf(d, dtypes, max(1, n>>20), min(n, 1<<20)), nil))
	}
	calls[2], calls[4] = newCall(d, operandsOf(d, dtypes, 641, 6700417), nil), newCall(d, operandsOf(d, dtypes, 1, 65537), nil)
	var plan gpu.Plan
	if err := m.Plan(&plan, calls); err != nil {
		t.Fatal(err)
	}
	plan.Place(1<<50, 0)
	table := plan.PlaceTable(1 << 52)
	levels := [][]int{{1 << 24, 1, 1<<16 + 1, 1, 2, 1 << 15, 1}, {256, 2, 1}} // blocks of each call that has some
	if len(plan.Launches) != len(levels)+1 {
		t.Fatalf("got %d launches, want sums on %d levels and the scalars", len(plan.Launches), len(levels))
	}
	written := map[uint64]bool{}
	for level, want := range levels {
		x := index(t, &plan.Launches[level], table)
		if x.calls != len(want) {
			t.Fatalf("level %d: got %d calls, want %d", level, x.calls, len(want))
		}
		block := 0
		for call, n := range want {
			if got := x.callOf(block); got != call {
				t.Errorf("level %d: block %d is of call %d, want %d", level, block, got, call)
			}
			if got := x.callOf(block + n - 1); got != call {
				t.Errorf("level %d: block %d is of call %d, want %d", level, block+n-1, got, call)
			}
			block += n
		}
		if grid := min(block, 1<<21); x.blocks != block || int(plan.Launches[level].Grid[0]) != grid { // kernels loop over the rest
			t.Errorf("level %d: got %d blocks in a grid of %v, want %d in %d", level, x.blocks, plan.Launches[level].Grid, block, grid)
		}
		if level == 0 {
			continue
		}
		for call, n := range want { // struct: totals_in, totals_out, total_length, total_count
			at := func(k int) uint64 { return binary.LittleEndian.Uint64(table[x.at+32*call+8*k:]) }
			if at(3) != uint64(n) || (at(2)+65535)/65536 != uint64(n) || at(1) != at(0)+4*at(2) || written[at(1)] {
				t.Errorf("level %d, call %d: sums %d elements at %#x to %d at %#x", level, call, at(2), at(0), at(3), at(1))
			}
			written[at(1)] = true
			if at(1) < 1<<50 || at(1)+4*at(3) > 1<<50+uint64(plan.ScratchBytes) {
				t.Errorf("level %d, call %d: sums at %#x are outside of the %d bytes of scratch memory", level, call, at(1), plan.ScratchBytes)
			}
		}
	}
	if x := index(t, &plan.Launches[len(levels)], table); x.calls != len(calls) {
		t.Errorf("got scalars of %d calls, want %d", x.calls, len(calls))
	}
}

// TestManyScalars adds up the last sums of calls that are too large to be run: those that the
// kernel before has left are made up.
func TestManyScalars(t *testing.T) {
	t.Parallel()
	d := norm.SquareSumDefinition
	dtypes := onePerFormat(d, d.Formats())[0]
	m, err := gpu.CompileManyNamed(d, dtypes, gpu.Vector, "scalars")
	if err != nil {
		t.Fatal(err)
	}
	var r simtest.Run
	var calls []*lower.Call
	counts := []int{1, 2, 8, 9, 255, 256, 257, 1000, 2047, 2048}
	for i, n := range counts {
		operands := operandsOf(d, dtypes, n, num.FlatRow)
		operands[1].Pointer = simtest.Pointer(i)
		r.Buffers = append(r.Buffers, make([]byte, 4))
		calls = append(calls, newCall(d, operands, nil))
	}
	var plan gpu.Plan
	if err := m.Plan(&plan, calls); err != nil {
		t.Fatal(err)
	}
	if len(plan.Launches) != 2 {
		t.Fatalf("got %d launches, want those of flat rows and of scalars", len(plan.Launches))
	}
	plan.Place(simtest.Pointer(len(r.Buffers)), 0)
	scratch := make([]byte, plan.ScratchBytes)
	g := gen.New("sums")
	var want []num.Array
	for at, i := 0, 0; i < len(counts); i++ {
		sums, total := num.NewArray(num.F32, 1, counts[i]), num.NewArray(num.F32, 1, 1)
		trial.Fill(sums, func(int, int) float32 { return g.Ordinary() })
		at += copy(scratch[at:], sums.Data)
		if err := reference.Run(norm.TotalDefinition, []num.Array{sums, total}, reference.Options{}); err != nil {
			t.Fatal(err)
		}
		want = append(want, total)
	}
	r.Buffers = append(r.Buffers, scratch)
	r.Table = len(r.Buffers) + 1
	r.Buffers = append(r.Buffers, bytes.Clone(plan.PlaceTable(simtest.Pointer(len(r.Buffers)))))
	l := plan.Launches[1]
	r.Launches = []simtest.Launch{{Entry: m.Source.Entries[l.Entry], Grid: l.Grid, Block: l.Block, Params: l.Params}}
	if err := simtest.Compile(t, plainly+m.Source.Text, simtest.Plain).Run(r); err != nil {
		t.Fatal(err)
	}
	for i, n := range counts {
		if !bytes.Equal(r.Buffers[i], want[i].Data) {
			t.Errorf("%d sums: got %x, want %x", n, r.Buffers[i], want[i].Data)
		}
	}
}

// tableIndex is the parameters of a launch of many calls.
type tableIndex struct {
	at, calls, blocks, shift int
	first, hints             []byte
}

func index(t *testing.T, l *gpu.Launch, table []byte) tableIndex {
	t.Helper()
	offset := func(k int) int { return int(binary.LittleEndian.Uint64(l.Params[8*k:]) - 1<<52) }
	half := func(k int) int { return int(binary.LittleEndian.Uint32(l.Params[24+4*k:])) }
	return tableIndex{offset(0), half(0), half(1), half(2), table[offset(1):], table[offset(2):]}
}

// callOf does what a kernel does.
func (x *tableIndex) callOf(block int) int {
	half := func(b []byte, i int) int { return int(binary.LittleEndian.Uint32(b[4*i:])) }
	low, high := half(x.hints, block>>x.shift), half(x.hints, block>>x.shift+1)
	for low < high {
		if middle := (low + high + 1) / 2; half(x.first, middle) <= block {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

// TestManyRefuses holds what cannot be computed together.
func TestManyRefuses(t *testing.T) {
	if _, err := gpu.CompileMany(softmax.ForwardDefinition, []num.DType{num.F16, num.F16}, gpu.Vector); err == nil || !strings.Contains(err.Error(), "softmax.forward is not flat") {
		t.Errorf("a definition with rows: %v", err)
	}
	d := norm.SquareSumDefinition
	dtypes := onePerFormat(d, d.Formats())[0]
	if _, err := gpu.CompileMany(d, dtypes[:1], gpu.Vector); err == nil {
		t.Error("a format too few is not refused")
	}
	m, err := gpu.CompileMany(d, dtypes, gpu.Vector)
	if err != nil {
		t.Fatal(err)
	}
	var plan gpu.Plan
	if err := m.Plan(&plan, nil); err != nil || len(plan.Launches) != 0 {
		t.Errorf("no calls: %d launches, %v", len(plan.Launches), err)
	}
	for name, change := range map[string]func(o []lower.Operand){
		"strided rows":   func(o []lower.Operand) { o[0].Stride += 8 },
		"unaligned base": func(o []lower.Operand) { o[0].Pointer += 2 },
	} {
		operands := operandsOf(d, dtypes, 4, 64)
		change(operands)
		call := newCall(d, operands, nil)
		if m.Joins(call) || m.Plan(&plan, []*lower.Call{call}) == nil {
			t.Errorf("%s: the call joins", name)
		}
	}
}

// TestManyPlanAllocatesNothing holds for a plan that is used again.
func TestManyPlanAllocatesNothing(t *testing.T) {
	for _, d := range []*def.Definition{adamw.InPlaceDefinition, norm.SquareSumDefinition} {
		dtypes := onePerFormat(d, d.Formats())[0]
		m, err := gpu.CompileMany(d, dtypes, gpu.Vector)
		if err != nil {
			t.Fatal(err)
		}
		var calls []*lower.Call
		for i := range 20 {
			calls = append(calls, newCall(d, operandsOf(d, dtypes, 100, 8+8192*i), make([]float64, len(d.Params))))
		}
		var plan gpu.Plan
		if n := testing.AllocsPerRun(100, func() { err = m.Plan(&plan, calls); plan.Place(1<<40, 0); plan.PlaceTable(1 << 50) }); n != 0 || err != nil {
			t.Errorf("%s: %v allocations, error %v", d.Name, n, err)
		}
	}
}
