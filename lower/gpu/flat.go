package gpu

import (
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/lower"
)

const (
	flatThreads = 256
	flatChunk   = 8 * flatThreads // elements of a block for each group of a thread
)

// flatGroups returns how many groups of each input a thread loads before it computes
// anything. 16-bit inputs are computed on longer than they take to load, and eight groups in
// flight hide that best; more registers than these take would leave too few threads.
func (k *rowwise) flatGroups(p *lower.Program) int {
	loads := loadedOperands(p)
	if len(loads) == 0 || slices.ContainsFunc(loads, func(s lower.Step) bool { return s.Format.Size() != 2 }) {
		return 1
	}
	return max(1, 8/len(loads))
}

// flat writes the kernel that stores element outputs where all operands are contiguous: the
// division into rows does not matter.
func (k *rowwise) flat(s *text) {
	p := k.elementProgram()
	k.flatU = k.flatGroups(p)
	s.line("")
	s.line("// Element outputs, in flat order: the rows of operands are contiguous. A thread loads U")
	s.line("// groups of eight before it computes anything.")
	k.entry(s, "flat", flatThreads)
	k.scalarsOf(s, p)
	s.line("const i64 count = p.rows * p.cols;")
	k.flatChunks(s, p, k.flatU, "(i64)blockIdx.x", "count", "(i64)gridDim.x")
	s.close("}")
}

// flatChunks writes the loop over chunks of U groups per thread: from so many chunks on, in
// such steps. Elements from count on are outside.
func (k *rowwise) flatChunks(s *text, p *lower.Program, groups int, from, end, step string) {
	s.line("const int U = %d;", groups)
	s.open("for (i64 first = %s * (U * %[2]d); first < %[3]s; first += %[4]s * (U * %[2]d)) {", from, flatChunk, end, step)
	s.open("if (count - first >= U * %d) {", flatChunk)
	k.flatWhole(s, p)
	s.close("} else {")
	s.depth++
	s.open("ROLLED for (i64 c = first + threadIdx.x * 8; c < count; c += %d) {", flatChunk)
	s.line("const int n = count - c < 8 ? (int)(count - c) : 8;")
	k.fetchGroups(s, p, k.atFlat, "c")
	k.storeGroups(s, p, func(operand int) { k.put(s, operand, k.atFlat(operand), "n") })
	s.close("}")
	s.close("}")
	s.close("}")
}

// flatWhole writes the code for U whole groups per thread. Groups of 32 bits consist of two
// quads, those of neighbouring threads being neighbours, as in quads.go.
func (k *rowwise) flatWhole(s *text, p *lower.Program) {
	isSplit := k.isSplitFlat(p)
	own, step := "threadIdx.x * 8", fmt.Sprintf("<%d>", flatChunk/2)
	if isSplit {
		own = "threadIdx.x * 4"
	}
	loads := loadedOperands(p)
	for _, l := range loads {
		s.line("%s %s_groups[U];", groupType(l.Format), k.operands[l.Node.Operand])
	}
	s.open("UNROLL for (int u = 0; u < U; u++) {")
	s.line("const i64 c = first + u * %d + %s;", flatChunk, own)
	for _, l := range loads {
		o := l.Node.Operand
		group := k.fetch(l.Format, k.atFlat(o), "8")
		if isSplit {
			group = fmt.Sprintf("fetch32_quads%s(%s, true, true)", step, k.atFlat(o))
		}
		s.line("%s_groups[u] = %s;", k.operands[o], group)
	}
	s.close("}")
	for _, l := range loads {
		s.line("load_together<U>(%s_groups);", k.operands[l.Node.Operand])
	}
	s.open("UNROLL for (int u = 0; u < U; u++) {")
	s.line("const i64 c = first + u * %d + %s;", flatChunk, own)
	for _, l := range loads {
		s.line("const %s %s_group = %[2]s_groups[u];", groupType(l.Format), k.operands[l.Node.Operand])
	}
	k.wordGroups(s, p, "c")
	k.storeGroups(s, p, func(operand int) {
		if isSplit {
			s.line("put32_quads%s(%s, true, group_%s(%s_out));", step, k.atFlat(operand), k.dtypes[operand], k.operands[operand])
		} else {
			k.put(s, operand, k.atFlat(operand), "8")
		}
	})
	s.close("}")
}

// isSplitFlat reports whether all groups that the flat kernel accesses have 32 bits per
// element, and none needs neighbours.
func (k *rowwise) isSplitFlat(p *lower.Program) bool {
	for _, step := range p.Passes[0].Elements.Steps {
		if step.Action == lower.Load && step.Format.Size() != 4 || isWord(step.Node) {
			return false
		}
	}
	return k.variant == Vector && !slices.ContainsFunc(k.elementOutputs, func(o def.Output) bool { return k.dtypes[o.Operand].Size() != 4 })
}
