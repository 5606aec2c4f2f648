package gpu

import (
	"fmt"
	"slices"

	"tokitai/def"
)

// Threads of a warp that each access a group of 32-bit elements, 32 bytes, touch every line
// twice, half of it each time. So groups of 32 bits consist of two quads: the first quads of
// the threads of a warp are neighbours, and so are the second quads, which follow them. A
// thread owns other lanes of a sum then, in the same order over all: first quads, added up
// over threads, are the lower half of a warp's lanes.

// isSplit reports whether groups consist of two quads: all operands have 32 bits.
func (w *walk) isSplit() bool {
	k := w.k
	if k.variant != Vector || w.storage == fused || !w.hasWhole() && w.storage != streamed {
		return false
	}
	if w.storage == partly && w.reductionRegisters() > lanesPerThread {
		return false // the condition of second quads takes registers, which are few there
	}
	for i := range k.d.Operands {
		if w.isWalked(i) && k.dtypes[i].Size() != 4 {
			return false
		}
	}
	return !slices.ContainsFunc(k.d.Exec().Nodes, func(n *def.Node) bool { return isWord(n) || n.Op.NeedsRow() })
}

// declareQuads declares the distance of a group's quads and the thread's first column.
func (w *walk) declareQuads(s *text) {
	if w.isSplit() {
		s.line("const int STEP = 4 * (T < 32 ? T : 32); // from a thread's first quad of a group to its second")
		s.line("const u32 own = t / (STEP / 4) * (STEP * 2) + t %% (STEP / 4) * 4;")
	}
}

// own returns the thread's first column of a row.
func (w *walk) own() string {
	if w.isSplit() {
		return "own"
	}
	return "t * 8"
}

// column returns the column of element j.
func (w *walk) column() string {
	if w.isSplit() {
		return "c + j + (j < 4 ? 0 : STEP - 4)"
	}
	return "c + j"
}

// inside returns the condition under which a group, or its first quad, that begins at column
// c is inside a row.
func (w *walk) inside(c, columns string) string {
	if w.hasWhole() {
		return fmt.Sprintf("WHOLE || %s < %s", c, columns)
	}
	return c + " < " + columns
}

// insideRow is inside where there may be no row, which has no columns then.
func (w *walk) insideRow(c, columns string) string {
	if w.hasWhole() && w.storage == fused {
		return fmt.Sprintf("(WHOLE ? 0 : %s) < %s", c, columns)
	}
	return w.inside(c, columns)
}

// declareSecond declares whether the second quad of a group inside the row is inside too.
func (w *walk) declareSecond(s *text) {
	if w.isSplit() {
		s.line("const bool second = %s;", w.inside("c + STEP", "columns"))
	}
}

// only returns an element's value if it is inside the row, and the identity otherwise.
func (w *walk) only(value, identity string) string {
	switch {
	case w.isSplit():
		return fmt.Sprintf("(j < 4 || second ? %s : %s)", value, identity)
	case w.k.variant == Vector:
		return value
	}
	return fmt.Sprintf("(j < n ? %s : %s)", value, identity)
}

// fetch returns the expression that loads group g of an operand, which is inside the row.
func (w *walk) fetch(operand int) string {
	if w.isSplit() {
		return fmt.Sprintf("fetch32_quads<STEP>(%s, true, second)", w.at(operand))
	}
	return w.k.fetch(w.k.dtypes[operand], w.at(operand), w.k.count())
}

// put writes the rounding and store of group g of results.
func (w *walk) put(s *text, operand int) {
	if w.isSplit() {
		k := w.k
		s.line("put32_quads<STEP>(%s, second, group_%s(%s_out));", w.at(operand), k.dtypes[operand], k.operands[operand])
		return
	}
	w.k.put(s, operand, w.at(operand), w.k.count())
}

// fetchInside returns the expression that loads the group at column c if it is inside a row
// of so many columns.
func (w *walk) fetchInside(operand int, columns string) string {
	return w.wholeAt(operand, w.at(operand), columns)
}

// wholeAt is fetchInside of a group at an address.
func (w *walk) wholeAt(operand int, at, columns string) string {
	bits := 8 * w.k.dtypes[operand].Size()
	switch {
	case w.isSplit():
		return fmt.Sprintf("fetch32_quads<STEP>(%s, %s, %s)", at, w.inside("c", columns), w.inside("c + STEP", columns))
	case w.k.variant == Element:
		return fmt.Sprintf("fetch%d(%s, inside(c, %s))", bits, at, columns)
	}
	return fmt.Sprintf("fetch%d_whole(%s, %s)", bits, at, w.insideRow("c", columns))
}

// sendInside writes the copy of the group at an address to shared memory, if its column c is
// inside the row.
func (w *walk) sendInside(s *text, operand int, to, at, c string) {
	if w.isSplit() {
		s.line("send32_quads<STEP>(%s, T, %s, %s, %s);", to, at, w.inside(c, "p.cols"), w.inside(c+" + STEP", "p.cols"))
		return
	}
	s.line("send%d(%s, T, %s, %s);", 8*w.k.dtypes[operand].Size(), to, at, w.inside(c, "p.cols"))
}

// threadsSum returns the sum of a row's lanes over the threads of a warp.
func (w *walk) threadsSum(n *def.Node) string {
	switch {
	case w.isSplit():
		return fmt.Sprintf("threads_sum_quads<STEP / 4>(%s_lane)", name(n))
	case w.hasWhole():
		return fmt.Sprintf("threads_sum<T < 32 ? T : 32>(tree_from_terms(%s_lane))", name(n))
	}
	return fmt.Sprintf("threads_sum<T < 32 ? T : 32>(tree(%s_lane))", name(n))
}
