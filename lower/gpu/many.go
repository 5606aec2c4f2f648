package gpu

import (
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// Many is a flat definition lowered to kernels that compute many calls in one launch. Each
// kernel does what the one of [Kernel] with the same name does, for a table of calls instead
// of one:
//
//	many_total_flat  the sums of the flat rows of all calls
//	many_total_next  adds up those of calls that have very many
//	many_flat        element outputs
//	many_scalars     adds up the last sums, and stores scalar outputs
//
// A block finds the call that it works for in an index: the number of the first block of
// every call. It then reads the parameters of that call, which the table has as the other
// kernels take them.
type Many struct {
	Source Source
	k      *rowwise

	totalFlat, totalNext, flat, scalars int // entries, or -1
	maxHints                            uint64
}

// CompileMany lowers a definition for many calls on operands stored in the given formats. It
// returns an error for definitions that are not flat: their calls have too little in common.
func CompileMany(d *def.Definition, dtypes []num.DType, v Variant) (*Many, error) {
	return compileMany(d, dtypes, v, identifier(d.Name))
}

func compileMany(d *def.Definition, dtypes []num.DType, v Variant, base string) (*Many, error) {
	switch {
	case len(dtypes) != len(d.Operands):
		return nil, fmt.Errorf("%s: got %d formats, want %d", d.Name, len(dtypes), len(d.Operands))
	case !TakesMany(d):
		return nil, fmt.Errorf("%s is not flat: no kernel computes many of its calls", d.Name)
	}
	k := &rowwise{d: d, dtypes: slices.Clone(dtypes), variant: v, base: base}
	k.nameOperands()
	k.classify()
	k.layout()
	k.source.Name = base
	m := &Many{k: k, totalFlat: -1, totalNext: -1, flat: -1, scalars: -1, maxHints: maxHints}
	var s text
	k.header(&s)
	m.index(&s)
	if len(k.totalSums) > 0 {
		m.totalFlat = m.totals(&s)
		m.totalNext = m.next(&s)
	}
	if k.storesElements() {
		m.flat = m.elements(&s)
	}
	if len(k.scalarOutputs) > 0 {
		m.scalars = m.single(&s)
	}
	k.source.Text = s.String()
	m.Source = k.source
	return m, nil
}

// TakesMany reports whether [CompileMany] lowers a definition.
func TakesMany(d *def.Definition) bool { return d.IsFlat() && !hasIndex(d) }

// Joins reports whether a call can be one of many: its operands are contiguous, and aligned
// as the variant needs it.
func (m *Many) Joins(c *lower.Call) bool {
	d := m.k.d
	if len(c.Operands) != len(d.Operands) || !isContiguous(d, c.Operands) {
		return false
	}
	return m.k.variant == Element || VariantOf(d, c) == Vector
}

// index writes the structs that describe many calls, and the search for a block's call.
func (m *Many) index(s *text) {
	k := m.k
	calls := func(name, of string) {
		s.line("")
		s.open("struct %s_%s {", k.base, name)
		s.line("const %s_%s* calls;", k.base, of)
		s.line("const u32* first; // the first block of every call")
		s.line("const u32* hints; // the calls of the blocks 0, 2^shift, …, and the last call")
		s.line("u32 count;        // of calls")
		s.line("u32 blocks;       // of all calls")
		s.line("u32 shift;")
		s.line("u32 pad;")
		s.close("};")
	}
	calls("many", "params")
	if len(k.totalSums) > 0 {
		s.line("")
		s.open("struct %s_sums {", k.base)
		s.line("const float* totals_in;")
		s.line("float* totals_out;")
		s.line("i64 total_length;")
		s.line("i64 total_count;")
		s.close("};")
		calls("many_sums", "sums")
	}
	s.line("")
	s.line("// Returns the call that a block works for.")
	s.open("template <class M> DEVICE u32 %s_call_of(const M& m, u32 block) {", k.base)
	s.line("u32 low = m.hints[block >> m.shift], high = m.hints[(block >> m.shift) + 1];")
	s.open("while (low < high) {")
	s.line("const u32 middle = (low + high + 1) / 2;")
	s.line("if (m.first[middle] <= block) low = middle;")
	s.line("else high = middle - 1;")
	s.close("}")
	s.line("return low;")
	s.close("}")
}

// entry begins a kernel of many calls and returns its number.
func (m *Many) entry(s *text, suffix, of string, threads int) int {
	k := m.k
	name := k.base + "_many_" + suffix
	k.source.Entries = append(k.source.Entries, name)
	s.open("KERNEL(%s, %d)(const %s_%s m) {", name, threads, k.base, of)
	return len(k.source.Entries) - 1
}

// openBlocks begins the loop over blocks: p is the call of a block, and own its number among
// the call's.
func (m *Many) openBlocks(s *text, of string) {
	s.open("for (u32 block = blockIdx.x; block < m.blocks; block += gridDim.x) {")
	s.line("const u32 call = %s_call_of(m, block);", m.k.base)
	s.line("const %s_%s p = m.calls[call];", m.k.base, of)
	s.line("const u32 own = block - m.first[call];")
}

// elements writes the kernel that stores element outputs.
func (m *Many) elements(s *text) int {
	k := m.k
	p := k.afterRows(k.elementOutputs, nil)
	s.line("")
	s.line("// Element outputs of many calls, %d to a block.", manyElements)
	entry := m.entry(s, "flat", "many", flatThreads)
	m.openBlocks(s, "params")
	k.scalarsOf(s, p)
	s.line("const i64 count = p.rows * p.cols, start = own * %dLL;", manyElements)
	s.line("const i64 end = count - start < %[1]d ? count : start + %[1]d;", manyElements)
	groups := min(k.flatGroups(p), manyElements/flatChunk)
	k.flatChunks(s, p, groups, fmt.Sprintf("own * %dLL", manyElements/(groups*flatChunk)), "end", "1")
	s.close("}")
	s.close("}")
	return entry
}

// manyElements is how many elements of a call a block of many_flat computes.
const manyElements = 4 * flatChunk

// totals writes the kernel that sums flat rows.
func (m *Many) totals(s *text) int {
	k := m.k
	p := k.afterRows(nil, k.totalSums)
	s.line("")
	s.line("// Sums of flat rows of many calls, one to a block.")
	entry := m.entry(s, "total_flat", "many", 1024)
	k.flatRowScratch(s, len(k.totalSums))
	m.openBlocks(s, "params")
	k.scalarsOf(s, p)
	s.line("const i64 count = p.rows * p.cols, flat = own;")
	k.flatRow(s)
	k.totalOfFlatRow(s, p)
	s.close("}")
	s.close("}")
	return entry
}

// next writes the kernel that adds up sums of flat rows.
func (m *Many) next(s *text) int {
	k := m.k
	s.line("")
	s.line("// Sums of flat rows of many calls form rows themselves; a column of blocks for each sum.")
	entry := m.entry(s, "total_next", "many_sums", 1024)
	k.flatRowScratch(s, 1)
	m.openBlocks(s, "sums")
	s.line("const i64 count = p.total_length, flat = own;")
	k.flatRow(s)
	k.nextOfFlatRow(s)
	s.close("}")
	s.close("}")
	return entry
}

// lastSums is the longest row of sums that a group of 32 threads adds up, with eight lanes
// each: shorter rows have no more.
const lastSums = 2048

// single writes the kernel that stores scalar outputs: a group of threads for each call adds
// up the last row of its sums.
func (m *Many) single(s *text) int {
	k := m.k
	s.line("")
	s.line("// Scalar outputs of many calls, 32 threads for each.")
	entry := m.entry(s, "scalars", "many", 256)
	s.line("const u32 t = threadIdx.x %% 32;")
	s.open("for (u32 first = blockIdx.x * 8; first < m.count; first += gridDim.x * 8) {")
	s.line("const u32 call = first + threadIdx.x / 32;")
	s.line("const bool here = call < m.count;")
	s.line("const %s_params p = m.calls[here ? call : 0];", k.base)
	if n := len(k.totalSums); n > 0 {
		s.line("float total[%d];", n)
		s.open("for (int i = 0; i < %d; i++) {", n)
		s.line("const float* const in = p.totals_in + i * p.total_length;")
		s.line("const u32 length = (u32)p.total_length;")
		k.sumsOf(s, "i", func(of def.Type) {
			s.line("%s lane[8];", typeName(of))
			s.line("fill(lane, %s);", zero(of))
			s.open("for (u32 at = t * 8; at < length; at += 256) {")
			s.line("const int n = inside(at, length);")
			s.line("UNROLL for (int j = 0; j < 8; j++) lane[j] = %s;", plus(of, "lane[j]", fmt.Sprintf("(j < n ? %s : %s)", fromScratch(of, "in[at + j]"), zero(of))))
			s.close("}")
			s.line("total[i] = %s;", toScratch(of, "threads_sum<32>(tree(lane))"))
		})
		s.close("}")
	}
	k.lateScalarsOf(s, k.afterSums(k.scalarOutputs), func(sum int) string { return fmt.Sprintf("total[%d]", sum) })
	s.open("if (here && t == 0) {")
	k.storeScalars(s)
	s.close("}")
	s.close("}")
	s.close("}")
	return entry
}
