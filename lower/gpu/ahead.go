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
		s.line("const i64 row = first + STEPS * p.lane_step + of_slot;")
		s.line("const u32 columns = row < p.rows ? p.cols : 0;")
		w.declareReadFirst(s)
		for _, v := range w.readFirst() {
			w.loadGroup(s, v.Node, w.k.keptName(v), "columns")
		}
		if len(w.aheadInputs()) > 0 {
			s.open("if (g == 0) {")
			w.loadRowInputs(s)
			s.close("}")
		}
		s.close("}")
	case staged, partly:
		done := slices.DeleteFunc(w.readFirst(), func(v *keptValue) bool { return v.Last != i })
		if len(done) > 0 {
			w.sendNext(s, "!TAKE && ", done)
		}
	}
}

// loadKept writes loads of inputs into registers, all of them in flight at once.
func (w *walk) loadKept(s *text, kept []*keptValue) {
	if len(kept) == 0 {
		return
	}
	s.open("UNROLL for (u32 g = 0; g < G; g++) {")
	s.line("const u32 c = (g * T + t) * 8;")
	for _, v := range kept {
		w.loadGroup(s, v.Node, w.k.keptName(v), "columns")
	}
	s.close("}")
}

// loadGroup writes the load of group g of an input whose rows have so many columns.
func (w *walk) loadGroup(s *text, n *def.Node, into, columns string) {
	form := "%s[g] = fetch%d_whole(%s, c < %s);"
	if w.k.variant == Element {
		form = "%s[g] = fetch%d(%s, inside(c, %s));"
	}
	s.line(form, into, 8*w.k.dtypes[n.Operand].Size(), w.at(n.Operand), columns)
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

// takeAll writes the wait for the row's inputs, which go to registers if there is room.
func (w *walk) takeAll(s *text) {
	s.line("staging_done();")
	for _, v := range w.readFirst() {
		s.line("%s %s[TAKE ? G : 1];", groupType(w.k.dtypes[v.Node.Operand]), w.k.keptName(v))
	}
	s.open("if constexpr (TAKE) {")
	s.open("UNROLL for (u32 g = 0; g < G; g++) {")
	s.line("const u32 c = (g * T + t) * 8;")
	for _, v := range w.readFirst() {
		s.line("%s[g] = staged%d(%s, T);", w.k.keptName(v), 4*w.wordsOf(v), w.stage(v))
	}
	w.sendNext(s, "", w.readFirst())
	s.close("}")
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
	s.line("const %s %s = TAKE ? %s : staged%d(%s, T);", groupType(w.k.dtypes[v.Node.Operand]), group, kept, 4*w.wordsOf(v), w.stage(v))
	return group
}

// sendNext writes the copies of a group of the next row to shared memory.
func (w *walk) sendNext(s *text, condition string, done []*keptValue) {
	s.open("if (%sfirst + gridDim.x < p.rows) {", condition)
	s.line("const i64 row = first + gridDim.x;")
	for _, v := range done {
		w.declareAt(s, v.Node.Operand)
		w.send(s, v)
	}
	s.close("}")
}

// send writes the copy of a group of an input to shared memory.
func (w *walk) send(s *text, v *keptValue) {
	s.line("send%d(%s, T, %s, c < columns);", 4*w.wordsOf(v), w.stage(v), w.at(v.Node.Operand))
}

// stage returns the address of a group of an input in shared memory.
func (w *walk) stage(v *keptValue) string {
	quads := 0
	for _, o := range w.readFirst() {
		if o == v {
			break
		}
		quads += w.wordsOf(o) / 4
	}
	return fmt.Sprintf("stage + (%d * G + g * %d) * T + t", quads, w.wordsOf(v)/4)
}
