package gpu

import (
	"fmt"
	"slices"

	"tokitai/def"
)

// Rows that fit nowhere are read in every pass. As groups of 32 bits they pass through a ring
// in shared memory: each thread copies its own groups, in the order in which the passes of
// row after row read them, so that memory is busy while the threads of a row meet. 16-bit
// rows are read directly: their blocks need so few registers that two share a
// multiprocessor, which measured faster.

// streamedInputs returns the inputs per element that a pass reads.
func (p *rowPass) streamedInputs() (operands []int) {
	for _, n := range p.nodes {
		if isLoad(n) && n.Extent == def.PerElement && !slices.Contains(operands, n.Operand) {
			operands = append(operands, n.Operand)
		}
	}
	slices.Sort(operands)
	return operands
}

// streamed returns the inputs that pass through shared memory, or nil if passes differ in
// what they read.
func (w *walk) streamed() (operands []int, passes int) {
	for i := range w.passes {
		p := &w.passes[i]
		if p.isEmpty() {
			continue
		}
		read := p.streamedInputs()
		if len(read) == 0 || passes > 0 && !slices.Equal(read, operands) {
			return nil, 0
		}
		operands = read
		passes++
	}
	return operands, passes
}

// canStream reports whether the inputs can be streamed.
func (w *walk) canStream() bool {
	operands, _ := w.streamed()
	return len(operands) > 0 && w.isSplit() && w.streamSlots() > 1 && w.k.d.Exec().Need == nil // rows that nothing needs would be copied
}

// streamedQuads returns the quads of a group of all inputs.
func (w *walk) streamedQuads() (quads int) {
	operands, _ := w.streamed()
	for _, o := range operands {
		quads += w.k.dtypes[o].Size() / 2
	}
	return quads
}

// streamSlots returns how many groups of a thread are in shared memory.
func (w *walk) streamSlots() int {
	return min(8, (mostShared-staticShared)/(w.streamedQuads()*16*1024))
}

func (w *walk) streamedWords() int { return w.streamSlots() * w.streamedQuads() * 4 }

// streamSlot returns the address of an input's group in a slot.
func (w *walk) streamSlot(operand int, slot string) string {
	operands, _ := w.streamed()
	at := 0
	for _, o := range operands {
		if o == operand {
			break
		}
		at += w.k.dtypes[o].Size() / 2
	}
	return fmt.Sprintf("stage + (%s * %d + %d) * T + t", slot, w.streamedQuads(), at)
}

// beginStream writes how groups are sent, in the order in which passes read them, and sends
// the first.
func (w *walk) beginStream(s *text) {
	operands, passes := w.streamed()
	s.line("const u32 groups = (p.cols + T * 8 - 1) / (T * 8);")
	s.line("i64 sent_row = blockIdx.x;")
	s.line("u32 sent_pass = 0, sent = 0;")
	s.open("auto send_next = [&](u32 at) {")
	s.open("if (sent_row < p.rows) {")
	s.line("const i64 row = sent_row;")
	s.line("const u32 c = sent * (T * 8) + %s;", w.own())
	for _, o := range operands {
		w.sendInside(s, o, w.streamSlot(o, "at"), w.k.atRow(o), "c")
	}
	s.line("if (++sent == groups) {")
	s.line("    sent = 0;")
	s.line("    if (++sent_pass == %d) sent_pass = 0, sent_row += gridDim.x;", passes)
	s.line("}")
	s.close("}")
	s.line("staging_commit();")
	s.close("};")
	s.line("for (u32 i = 0; i < SLOTS; i++) send_next(i);")
	s.line("u32 at = 0;")
}
