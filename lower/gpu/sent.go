package gpu

import (
	"fmt"
	"slices"

	"tokitai/def"
)

// A kernel that adds up columns has few threads, because the lanes of a sum are few. In whole
// rows the inputs of the next row are sent to shared memory, each thread's to its own place, as
// soon as this row's are in registers, so that they have the time of a whole row to arrive. An
// input that the last pass alone reads is read there, and replaced there by that of the next row.

// sentRegisters is the budget of a thread that computes whole rows, in the same terms as other
// budgets: without branches compilers compute several groups at once.
const sentRegisters = 100

// sentThreads is the least number of threads of rows that are sent: shorter rows are faster
// without.
const sentThreads = 32

// hasWholeLanes reports whether a walk that adds up columns has an instance for rows that
// consist of so many whole groups for each of so many threads, and fill all lanes. Short rows
// gain by it where lookups are prefetched.
func (w *walk) hasWholeLanes(threads, groups int) bool {
	if threads < sentThreads && (!w.hasEarly() || groups*(w.words+w.lookupWords()) > earlyRegisters) {
		return false
	}
	return w.hasWhole() && groups*w.words+w.otherRegisters(threads, groups) <= sentRegisters
}

// sentFirst returns the inputs that are in registers from the beginning of a row.
func (w *walk) sentFirst() (inputs []*def.Node) {
	for _, v := range w.readFirst() {
		inputs = append(inputs, v.Node)
	}
	return inputs
}

// sentLate returns the inputs that the last pass alone reads.
func (w *walk) sentLate() (inputs []*def.Node) {
	last := w.lastPass()
	if w.storage != fused || !w.hasWhole() || last == 0 {
		return nil
	}
	for _, n := range w.passes[last].nodes {
		if n.Op == def.OpInput && n.Extent == def.PerElement {
			inputs = append(inputs, n)
		}
	}
	return inputs
}

// sentWords returns the words of a group that are sent.
func (w *walk) sentWords() (words int) {
	for _, n := range slices.Concat(w.sentFirst(), w.sentLate()) {
		words += w.k.wordsOf(n)
	}
	return words
}

// sent returns the place of an input's group g.
func (w *walk) sent(input *def.Node) string {
	quads := 0
	for _, n := range slices.Concat(w.sentFirst(), w.sentLate()) {
		if n == input {
			break
		}
		quads += w.k.wordsOf(n) / 4
	}
	return fmt.Sprintf("sent + (g * %d + %d) * (ROWS * T)", w.sentWords()/4, quads)
}

// sentGroup returns the expression that reads group g of an input.
func (w *walk) sentGroup(n *def.Node) string {
	return fmt.Sprintf("staged%d(%s, ROWS * T)", 4*w.k.wordsOf(n), w.sent(n))
}

// declareSent declares the thread's place, which follows the terms of column sums.
func (w *walk) declareSent(s *text) {
	if w.hasWhole() {
		s.line("const bool SENT = WHOLE && T >= %d; // inputs go through shared memory", sentThreads)
		s.line("uint4_aligned* const sent = reinterpret_cast<uint4_aligned*>(terms + (ROWS > 1 ? %d * G * 2 * ROWS * T : 0)) + threadIdx.x;", len(w.sums))
	}
}

// sendGroup writes the copy of group g of an input.
func (w *walk) sendGroup(s *text, n *def.Node) {
	s.line("send%d(%s, ROWS * T, %s, %s);", 4*w.k.wordsOf(n), w.sent(n), w.at(n.Operand), w.insideRow("c", "columns"))
}

// sendRow writes the copies of inputs of a row.
func (w *walk) sendRow(s *text, inputs []*def.Node) {
	if len(inputs) == 0 {
		return
	}
	s.open("UNROLL for (u32 g = 0; g < G; g++) {")
	s.line("const u32 c = g * (T * 8) + %s;", w.own())
	for _, n := range inputs {
		w.sendGroup(s, n)
	}
	s.close("}")
	s.line("staging_commit();")
}

// sendFirstRow writes the copies of the first row's inputs, or their loads into registers.
func (w *walk) sendFirstRow(s *text) {
	if !w.hasWhole() {
		w.loadKept(s, w.readFirst())
		return
	}
	s.open("if constexpr (SENT) {")
	for _, n := range w.sentLate() {
		w.declareAt(s, n.Operand)
	}
	w.sendRow(s, w.sentFirst())
	w.sendRow(s, w.sentLate())
	s.close("} else {")
	s.depth++
	w.loadKept(s, w.readFirst())
	s.close("}")
}

// takeSent writes the wait for the row's inputs, which go to registers, and the copies of the next
// row's to their places.
func (w *walk) takeSent(s *text) {
	if w.storage != fused || !w.hasWhole() {
		return
	}
	s.open("if constexpr (SENT) {")
	w.awaitSent(s)
	s.open("UNROLL for (u32 g = 0; g < G; g++) {")
	for _, v := range w.readFirst() {
		s.line("%s[g] = %s;", w.k.keptName(v), w.sentGroup(v.Node))
	}
	s.close("}")
	w.nextRow(s)
	w.declareReadFirst(s)
	w.sendRow(s, w.sentFirst())
	w.nextRowInputs(s)
	s.line("WARP_BARRIER(); // compilers would send the next row after the first pass")
	s.close("}")
}

// awaitSent writes the wait for inputs: those that the last pass alone reads are sent after the
// others, and read after the others of the next row are sent.
func (w *walk) awaitSent(s *text) { s.line("staging_wait<%d>();", min(1, len(w.sentLate()))) }
