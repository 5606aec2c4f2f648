package gpu

import (
	"slices"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// Rows of at most shortRow columns belong to threads of one warp, which have eight neighbouring columns each. Such
// threads exchange keys and counts by shuffles: ranks, packed and unpacked values need no memory, and
// a definition with them is one kernel.

// shortRow is the number of columns that a warp has in registers, eight for each of 32 threads.
const shortRow = 256

// compileShort returns the kernel of a definition with orderings for short rows, or nil if it has others
// than those above, or sums over rows.
func compileShort(d *def.Definition, dtypes []num.DType, v Variant, base string) *Kernel {
	isOther := func(n *def.Node) bool { return n.Op == def.OpRowKth || n.Op == def.OpRowNucleus || lower.IsSum(n) }
	if slices.ContainsFunc(d.Exec().Nodes, isOther) {
		return nil
	}
	return (&rowwise{d: d, dtypes: slices.Clone(dtypes), variant: v, base: base, isShort: true}).compile()
}

// exchange computes ranks or unpacked values when the pass over their arguments is done.
func (w *walk) exchange(s *text, n *def.Node) {
	v := find(w.kept, n)
	if v == nil {
		return // nothing reads it
	}
	if n.Op == def.OpRank {
		call := "ranks<T>("
		if limit := lower.RankLimit(w.k.d.Exec(), n); limit != nil {
			call = "ranks_below<T>(" + w.k.value(limit) + ", "
		}
		s.line("%s%s[0], %s_keys, t, (p.cols + 7) / 8);", call, w.k.keptName(v), name(n))
		return
	}
	slots := n.Args[1]
	at := w.k.operands[slots.Operand]
	s.open("{")
	s.line("u32 n = count_before<T>(%s_mask, t);", name(n))
	s.open("UNROLL for (int j = 0; j < 8; j++) {")
	s.line("const bool is_kept = %s_mask >> j & 1;", name(n))
	s.line("%s[0][j] = is_kept && n < p.%s_slots ? %s : %s;", w.k.keptName(v), at, w.k.load(slots.Operand, "row * p."+at+"_stride + n"), zero(n.Type))
	s.line("n += is_kept;")
	s.close("}")
	s.close("}")
}

// beginPacked declares a thread's elements of packed outputs, and which of them are kept.
func (w *walk) beginPacked(s *text) {
	for _, o := range w.k.slotOutputs {
		at := w.k.operands[o.Operand]
		s.line("u32 %s_mask = 0;", at)
		s.line("%s %s_out[8];", typeName(o.Value.Type), at)
	}
}

// storePacked stores packed outputs, and what slots without an element have.
func (w *walk) storePacked(s *text) {
	for i, o := range w.k.slotOutputs {
		at, rest := w.k.operands[o.Operand], "0.0f"
		if o.Value.Type == def.Int {
			rest = "-1"
		}
		same := slices.IndexFunc(w.k.slotOutputs, func(other def.Output) bool { return other.Value.Args[0] == o.Value.Args[0] })
		if same == i {
			s.line("const u32 before%d = count_before<T>(%s_mask, t), all%[1]d = count_all<T>(%[2]s_mask);", i, at)
		}
		s.open("{")
		s.line("u32 n = before%d;", same)
		s.open("UNROLL for (int j = 0; j < 8; j++) {")
		s.line("const bool is_kept = %s_mask >> j & 1;", at)
		s.line("if (is_kept && n < p.%s_slots) %s", at, w.k.store(o.Operand, "row * p."+at+"_stride + n", at+"_out[j]"))
		s.line("n += is_kept;")
		s.close("}")
		s.line("if (here)")
		s.line("    for (i64 i = all%d + t; i < p.%s_slots; i += T) %s", same, at, w.k.store(o.Operand, "row * p."+at+"_stride + i", rest))
		s.close("}")
	}
}
