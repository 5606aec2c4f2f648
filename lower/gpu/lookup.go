package gpu

import (
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/lower"
)

// A table is read in the row that an index names, so a kernel finds the address of that row
// where it knows its own row, and loads groups from there as it does of other operands. A row
// that the table does not have is zeros. Neighbouring rows often have the same index, and tables
// are small, so that caches hold what is read: a pass reads it again. Only a thread with few
// groups reads them before its first pass, and keeps them.

// isInTable returns the condition under which an index names a row of its table: a negative
// one is a large number.
func (k *rowwise) isInTable(n *def.Node) string {
	return fmt.Sprintf("(u32)%s < p.%s_rows", k.value(n.Args[1]), k.operands[n.Args[0].Operand])
}

// lookupRow returns the expression of a lookup with one value per row.
func (k *rowwise) lookupRow(n *def.Node) string { return k.lookupAt(n, "0") }

// lookupAt returns the expression that looks up one element.
func (k *rowwise) lookupAt(n *def.Node, column string) string {
	table := n.Args[0].Operand
	at := fmt.Sprintf("%s * p.%s_stride + %s", k.value(n.Args[1]), k.operands[table], column)
	return fmt.Sprintf("%s ? %s : 0.0f", k.isInTable(n), k.load(table, at))
}

// findRows declares the rows that the lookups among element values read.
func (k *rowwise) findRows(s *text, nodes []*def.Node) {
	for _, n := range nodes {
		if n.Op != def.OpLookup {
			continue
		}
		table := n.Args[0].Operand
		s.line("const bool %s_in = %s;", name(n), k.isInTable(n))
		s.line("const %s* const %s_row = p.%s + (%[2]s_in ? %[4]s * p.%[3]s_stride : 0);", k.dtypes[table], name(n), k.operands[table], k.value(n.Args[1]))
	}
}

// fetchRow declares the group of a lookup whose first column is c.
func (k *rowwise) fetchRow(s *text, n *def.Node, fetch string) string {
	group, t := name(n)+"_values", groupType(k.dtypes[n.Args[0].Operand])
	s.line("const %s %s = %s_in ? %s : %[1]s{};", t, group, name(n), fetch)
	return group
}

// fetchLookups declares the groups of lookups at column c. n of their elements are inside the row.
func (k *rowwise) fetchLookups(s *text, p *lower.Program) {
	for _, step := range p.Passes[0].Elements.With(lower.LoadRow) {
		k.fetchRow(s, step.Node, k.fetch(step.Format, name(step.Node)+"_row + c", "n"))
	}
}

// fetchLookup declares group g of a lookup, which is inside the row.
func (w *walk) fetchLookup(s *text, n *def.Node) string {
	at := name(n) + "_row + c"
	from := w.k.fetch(w.k.dtypes[n.Args[0].Operand], at, w.k.count())
	if w.isSplit() {
		from = fmt.Sprintf("fetch32_quads<STEP>(%s, true, second)", at)
	}
	if !w.hasEarly() {
		return w.k.fetchRow(s, n, from)
	}
	group, t := name(n)+"_values", groupType(w.k.dtypes[n.Args[0].Operand])
	s.line("const %s %s = EARLY ? %s_early[EARLY ? g : 0] : %[3]s_in ? %s : %[1]s{};", t, group, name(n), from)
	return group
}

// earlyRegisters is the most that a thread which reads lookups before its first pass takes for
// them and for kept values.
const earlyRegisters = 40

// lookupWords returns the words of a group of all lookups.
func (w *walk) lookupWords() (words int) {
	for _, n := range w.lookups() {
		words += w.k.wordsOf(n)
	}
	return words
}

// hasEarly reports whether threads of few groups read lookups before the first pass.
func (w *walk) hasEarly() bool {
	return (w.storage == registers || w.storage == fused) && len(w.lookups()) > 0 && w.hasWhole()
}

// isAhead reports whether a lookup is prefetched: its index is.
func (w *walk) isAhead(lookup *def.Node) bool {
	return w.hasEarly() && w.storage == fused && lookup.Args[1].Op == def.OpInput
}

// isAheadIndex reports whether an input per row is read two rows ahead: lookups are prefetched by it.
func (w *walk) isAheadIndex(n *def.Node) bool {
	return slices.ContainsFunc(w.lookups(), func(l *def.Node) bool { return w.isAhead(l) && l.Args[1] == n })
}

// declareEarly declares the lookups that threads of few groups read before the first pass.
func (w *walk) declareEarly(s *text) {
	if !w.hasEarly() {
		return
	}
	whole := ""
	if w.storage == fused {
		whole = "WHOLE && "
	}
	s.line("const bool EARLY = %sG * %d <= %d; // rows of tables are read before the first pass", whole, w.words+w.lookupWords(), earlyRegisters)
	for _, n := range w.lookups() {
		s.line("%s %s_early[EARLY ? G : 1];", groupType(w.k.dtypes[n.Args[0].Operand]), name(n))
	}
}

// readEarly writes the loads of lookups whose rows are known.
func (w *walk) readEarly(s *text) {
	nodes := slices.DeleteFunc(w.lookups(), w.isAhead)
	if !w.hasEarly() || len(nodes) == 0 {
		return
	}
	s.open("UNROLL for (u32 g = 0; EARLY && g < G; g++) {")
	s.line("const u32 c = g * (T * 8) + %s;", w.own())
	for _, n := range nodes {
		s.line("if (%[1]s_in) %[1]s_early[EARLY ? g : 0] = %[2]s;", name(n), w.wholeAt(operandOf(n), name(n)+"_row + c", "columns"))
		s.line("else %s_early[EARLY ? g : 0] = {};", name(n))
	}
	s.close("}")
}

// readAhead writes the prefetch of group g of lookups in the next row.
func (w *walk) readAhead(s *text) {
	for _, n := range w.lookups() {
		if w.isAhead(n) {
			index, table := name(n.Args[1])+"_next", w.k.operands[operandOf(n)]
			from := w.wholeAt(operandOf(n), fmt.Sprintf("p.%s + %s * p.%[1]s_stride + c", table, index), "columns")
			s.open("if constexpr (EARLY) {")
			s.line("%s_early[EARLY ? g : 0] = (u32)%s < p.%s_rows ? %s : %s{};", name(n), index, table, from, groupType(w.k.dtypes[operandOf(n)]))
			s.close("}")
		}
	}
}

// lookups returns the lookups with one value per element that any pass reads.
func (w *walk) lookups() (nodes []*def.Node) {
	seen := map[*def.Node]bool{}
	for i := range w.passes {
		for _, n := range w.passes[i].nodes {
			if n.Op == def.OpLookup && !seen[n] {
				seen[n] = true
				nodes = append(nodes, n)
			}
		}
	}
	return nodes
}

// operandOf returns the operand that an input or a lookup reads.
func operandOf(n *def.Node) int {
	if n.Op == def.OpLookup {
		return n.Args[0].Operand
	}
	return n.Operand
}
