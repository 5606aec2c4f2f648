package gpu

import (
	"fmt"
	"slices"

	"tokitai/def"
)

// readRow writes the loads of inputs that are kept in registers from this pass on.
func (w *walk) readRow(s *text, p *rowPass) {
	w.loadKept(s, slices.DeleteFunc(slices.Clone(p.keeps), func(v *keptValue) bool {
		return !v.isInput() || v.First == 0 && w.storage != registers
	}))
}

// readNext writes the prefetch of a group of the next row, into the place of one that
// pass i reads for the last time.
func (w *walk) readNext(s *text, i int) {
	switch w.storage {
	case fused:
		if i != w.lastPass() || len(w.readFirst())+len(w.aheadInputs()) == 0 {
			return
		}
		s.open("{")
		w.nextRow(s)
		if w.hasWhole() {
			s.open("if constexpr (SENT) {")
			for _, n := range w.sentLate() {
				w.declareAt(s, n.Operand)
				w.sendGroup(s, n)
			}
			s.close("} else {")
			s.depth++
		}
		w.declareReadFirst(s)
		for _, v := range w.readFirst() {
			w.loadGroup(s, v.Node, w.k.keptName(v), "columns")
		}
		if len(w.aheadInputs()) > 0 {
			s.open("if (g == 0) {")
			w.nextRowInputs(s)
			s.close("}")
		}
		if w.hasWhole() {
			s.close("}")
		}
		w.readAhead(s)
		s.close("}")
	case streamed:
		s.line("send_next(at);")
		s.line("at = at + 1 == SLOTS ? 0 : at + 1;")
	case staged, partly:
		if done := w.readLast(i); len(done) > 0 {
			s.open("if (!TAKE) {")
			w.sendNext(s, done)
			if i == w.lastSend() {
				s.line("if (g + p.slots == 2 * G - 1) staging_commit();")
			}
			s.close("}")
		}
	}
}

// readLast returns the prefetched inputs that pass i reads for the last time.
func (w *walk) readLast(i int) []*keptValue {
	return slices.DeleteFunc(w.readFirst(), func(v *keptValue) bool { return v.Last != i })
}

// lastSend returns the last pass that frees slots.
func (w *walk) lastSend() int {
	last := 0
	for _, v := range w.readFirst() {
		last = max(last, v.Last)
	}
	return last
}

// loadKept writes loads of inputs into registers, all of them in flight at once.
func (w *walk) loadKept(s *text, kept []*keptValue) {
	if len(kept) == 0 {
		return
	}
	s.open("UNROLL for (u32 g = 0; g < G; g++) {")
	s.line("const u32 c = g * (T * 8) + %s;", w.own())
	for _, v := range kept {
		w.loadGroup(s, v.Node, w.k.keptName(v), "columns")
	}
	s.close("}")
}

// loadGroup writes the load of group g of an input whose rows have so many columns.
func (w *walk) loadGroup(s *text, n *def.Node, into, columns string) {
	s.line("%s[g] = %s;", into, w.fetchInside(n.Operand, columns))
}

// isAheadInput reports whether an input per row is prefetched.
func (w *walk) isAheadInput(n *def.Node) bool {
	return w.storage == fused && n.Op == def.OpInput
}

// loadRowInputs writes the prefetch of inputs per row.
func (w *walk) loadRowInputs(s *text) {
	for _, n := range w.aheadInputs() {
		s.line("if (row < p.rows) %s_next = %s;", name(n), w.k.rowExpression(n))
	}
}

// nextRowInputs writes the same within a row: indices by which lookups are prefetched are known
// already, and those of the row after the next are read.
func (w *walk) nextRowInputs(s *text) {
	for _, n := range w.aheadInputs() {
		if w.isAheadIndex(n) {
			s.line("%[1]s_next = %[1]s_later;", name(n))
		} else {
			s.line("if (row < p.rows) %s_next = %s;", name(n), w.k.rowExpression(n))
		}
	}
	w.loadLater(s)
}

// loadLater writes the loads of the indices of the row after a row.
func (w *walk) loadLater(s *text) {
	for _, n := range w.aheadInputs() {
		if w.isAheadIndex(n) {
			at := fmt.Sprintf("(row + STEPS * p.lane_step) * p.%s_stride", w.k.operands[n.Operand])
			s.line("if (row + STEPS * p.lane_step < p.rows) %s_later = %s;", name(n), w.k.loadOf(n, at))
		}
	}
}

// nextRow declares the row that a thread computes after this one.
func (w *walk) nextRow(s *text) {
	s.line("const i64 row = first + STEPS * p.lane_step + of_slot;")
	s.line("const u32 columns = row < p.rows ? p.cols : 0;")
}

// takeAll writes the wait for the row's inputs, which go to registers if there is room.
func (w *walk) takeAll(s *text) {
	s.line("staging_wait<1>();")
	for _, v := range w.readFirst() {
		s.line("%s %s[TAKE ? G : 1];", groupType(w.k.dtypes[v.Node.Operand]), w.k.keptName(v))
	}
	s.open("if constexpr (TAKE) {")
	s.line("if (p.slots == 2 * G) staging_commit();")
	s.open("UNROLL for (u32 g = 0; g < G; g++) {")
	for _, v := range w.readFirst() {
		s.line("%s[g] = staged%d(%s, T);", w.k.keptName(v), 4*w.wordsOf(v), w.stage(v, "slot_of(base, g, p.slots)"))
	}
	w.sendNext(s, w.readFirst())
	s.line("if (g + p.slots == 2 * G - 1) staging_commit();")
	s.close("}")
	s.line("staging_commit();")
	s.close("}")
}

// takeStaged declares a group of an input, read from shared memory or from registers, and
// returns its name.
func (w *walk) takeStaged(s *text, v *keptValue) string {
	kept := w.k.keptName(v) + "[TAKE ? g : 0]"
	if w.wordsOf(v) == 4 {
		s.line("renew(%s);", kept)
	}
	group := w.k.operands[v.Node.Operand] + "_group"
	s.line("const %s %s = TAKE ? %s : staged%d(%s, T);", groupType(w.k.dtypes[v.Node.Operand]), group, kept, 4*w.wordsOf(v), w.stage(v, "slot_of(base, g, p.slots)"))
	return group
}

// sendNext writes the copies of the group that follows group g in its slot: one of the next
// row or the one after it.
func (w *walk) sendNext(s *text, done []*keptValue) {
	s.line("const bool is_next = g + p.slots < 2 * G;")
	s.line("const i64 row = first + (i64)gridDim.x * (is_next ? 1 : 2);")
	s.open("if (row < p.rows) {")
	s.line("const u32 slot = slot_of(base, g, p.slots);")
	for _, v := range done {
		w.declareAt(s, v.Node.Operand)
	}
	s.line("const u32 of_row = g + p.slots - (is_next ? G : 2 * G);")
	for _, v := range done {
		w.send(s, v, "of_row", "slot")
	}
	s.close("}")
}

// send writes the copy of a group of an input to a slot of shared memory.
func (w *walk) send(s *text, v *keptValue, group, slot string) {
	o := v.Node.Operand
	w.sendInside(s, o, w.stage(v, slot), fmt.Sprintf("%s_at + %s * (T * 8)", w.k.operands[o], group), fmt.Sprintf("%s * (T * 8) + %s", group, w.own()))
}

// stage returns the address of an input's group in a slot of shared memory.
func (w *walk) stage(v *keptValue, slot string) string {
	quads := 0
	for _, o := range w.readFirst() {
		if o == v {
			break
		}
		quads += w.wordsOf(o) / 4
	}
	return fmt.Sprintf("stage + (%s * %d + %d) * T + t", slot, w.stagedWords()/4, quads)
}
