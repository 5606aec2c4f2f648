package gpu

import (
	"fmt"
	"slices"

	"tokitai/def"
)

// openGroups begins the loop over a thread's groups, columns c to c + 7 each. Code before
// closeInside runs for groups that begin inside the row; n of their elements are inside,
// with vector access all eight.
func (w *walk) openGroups(s *text) {
	if w.storage == streamed {
		s.open("ROLLED for (u32 g = 0, c = %s; g < groups; g++, c += T * 8) {", w.own())
		s.line("staging_wait<SLOTS - 1>();")
		s.open("if (c < columns) {")
		w.declareSecond(s)
		return
	}
	if w.storage.isUnrolled() {
		s.open("UNROLL for (u32 g = 0; g < G; g++) {")
		if w.k.usesColumns() {
			s.line("u32 c = g * (T * 8) + %s;", w.own())
			s.line("RENEW(c); // column numbers are cheap: recomputed in every pass")
		} else {
			s.line("const u32 c = g * (T * 8) + %s;", w.own())
		}
	} else {
		unroll := "UNROLL_TWICE" // the accesses of two groups overlap
		if w.isInPairs() {
			unroll = "ROLLED"
		}
		s.open("%s for (u32 g = 0, c = t * 8; c < columns; g++, c += T * 8) {", unroll)
	}
	switch {
	case w.k.variant == Element:
		s.line("const int n = inside(c, columns);")
	case w.storage.isUnrolled():
		s.open("if (%s) {", w.inside("c", "columns"))
		w.declareSecond(s)
	}
}

// usesColumns reports whether column numbers are used as floats or compared with those of
// extremes.
func (k *rowwise) usesColumns() bool {
	return slices.ContainsFunc(k.d.Exec().Nodes, func(n *def.Node) bool { return n.Op == def.OpColFloat || isColumnOfExtreme(n) })
}

// closeInside ends the code for groups inside the row.
func (w *walk) closeInside(s *text) {
	if w.k.variant == Vector && (w.storage.isUnrolled() || w.storage == streamed) {
		s.close("}")
	}
}

// count returns how many elements of a group are inside the row.
func (k *rowwise) count() string {
	if k.variant == Vector {
		return "8"
	}
	return "n"
}

// isPaired reports whether a reduction is the maximum of a 16-bit input, which is found
// two elements at a time, without widening.
func (k *rowwise) isPaired(n *def.Node) bool {
	x := n.Args[0]
	return k.variant == Vector && n.Op == def.OpRowMax && x.Op == def.OpInput && x.Extent == def.PerElement && k.dtypes[x.Operand].Size() == 2
}

// word returns a kept word of shared memory.
func (w *walk) word(v *keptValue, j string) string {
	return fmt.Sprintf("kept[(g * %d + %d + %s) * T + t]", w.words, v.offset, j)
}

// find returns the kept value of a node, or nil.
func find(list []*keptValue, n *def.Node) *keptValue {
	for _, v := range list {
		if v.Node == n {
			return v
		}
	}
	return nil
}

// group writes the steps of a pass for one group.
func (w *walk) group(s *text, p *rowPass) {
	k := w.k
	groups := w.groupsOf(s, p)
	if p.stores {
		k.declareOutputs(s)
	}
	for _, n := range p.sums {
		s.line("%s %s_terms[8];", typeName(n.Type), name(n))
	}
	for _, n := range p.reductions {
		if k.isPaired(n) {
			s.line("enlarge_%s(%s_pairs, %s);", k.dtypes[n.Args[0].Operand], name(n), groups[n.Args[0]])
		}
	}
	s.open("UNROLL for (int j = 0; j < 8; j++) {")
	w.elements(s, p, groups)
	w.reduce(s, p.reductions)
	for _, n := range p.sums {
		s.line("%s_terms[j] = %s;", name(n), k.value(n.Args[0]))
	}
	if p.stores {
		for _, o := range k.elementOutputs {
			s.line("%s_out[j] = %s;", k.operands[o.Operand], k.value(o.Value))
		}
		for _, o := range k.slotOutputs {
			s.line("%s_mask |= (u32)%s << j;", k.operands[o.Operand], w.only(k.value(o.Value.Args[0]), "false"))
			s.line("%s_out[j] = %s;", k.operands[o.Operand], k.value(o.Value.Args[1]))
		}
	}
	s.close("}")
	if p.stores {
		for _, o := range k.elementOutputs {
			w.put(s, o.Operand)
		}
	}
	for i, n := range p.sums {
		s.line("if constexpr (ROWS == 1) add_own(%[1]s_lane[g], %[1]s_terms);", name(n))
		s.line("else put_terms(terms + ((slot * %d + %d) * G + g) * 2 * T + t, T, %s_terms);", len(p.sums), i, name(n))
	}
}

// groupsOf declares the groups of inputs that a pass needs and returns their names. All
// are read before anything is written.
func (w *walk) groupsOf(s *text, p *rowPass) map[*def.Node]string {
	k := w.k
	groups := map[*def.Node]string{}
	for _, v := range p.takes {
		if !v.isInput() {
			continue
		}
		switch {
		case w.isStaged(v):
			groups[v.Node] = w.takeStaged(s, v)
			continue
		case w.storage == shared:
			groups[v.Node] = k.operands[v.Node.Operand] + "_group"
			s.line("%s %s;", groupType(k.dtypes[v.Node.Operand]), groups[v.Node])
			s.line("UNROLL for (int i = 0; i < %d; i++) %s.w[i] = %s;", w.wordsOf(v), groups[v.Node], w.word(v, "i"))
			continue
		}
		groups[v.Node] = k.keptName(v) + "[g]"
		if k.dtypes[v.Node.Operand].Size() == 2 {
			s.line("if (G > 1) renew(%s);", groups[v.Node])
		}
	}
	for _, n := range p.nodes {
		v := find(p.keeps, n)
		switch {
		case n.Op == def.OpStored: // below
		case w.isStaged(v):
			groups[n] = w.takeStaged(s, v)
		case n.Op == def.OpInput && v != nil && w.storage.isUnrolled():
			groups[n] = k.keptName(v) + "[g]"
		case n.Op == def.OpInput:
			groups[n] = w.fetchGroup(s, n)
			if v != nil && w.storage != streamed {
				s.line("UNROLL for (int i = 0; i < %d; i++) %s = %s.w[i];", w.wordsOf(v), w.word(v, "i"), groups[n])
			}
		case n.Op == def.OpLookup:
			groups[n] = w.fetchLookup(s, n)
		case isWord(n):
			k.words(s, n, "row * p.cols + c")
		}
	}
	for _, n := range p.nodes {
		if n.Op != def.OpStored {
			continue
		}
		for other, group := range groups {
			if other.Op != def.OpLookup && other.Operand == n.Operand {
				groups[n] = group
			}
		}
		if groups[n] == "" {
			groups[n] = w.fetchGroup(s, n)
		}
	}
	return groups
}

// fetchGroup declares the group of an input that is not kept, and returns its name.
func (w *walk) fetchGroup(s *text, n *def.Node) string {
	d, group := w.k.dtypes[n.Operand], w.k.operands[n.Operand]+"_group"
	from := w.fetch(n.Operand)
	if slices.Contains(w.sentLate(), n) {
		from = fmt.Sprintf("SENT ? %s : %s", w.sentGroup(n), from)
	}
	if w.storage == streamed && n.Extent == def.PerElement {
		from = fmt.Sprintf("staged%d(%s, T)", 8*d.Size(), w.streamSlot(n.Operand, "at"))
	}
	s.line("const %s %s = %s;", groupType(d), group, from)
	return group
}

// elements declares the values of element j, taken or computed, and keeps those that later
// passes take.
func (w *walk) elements(s *text, p *rowPass, groups map[*def.Node]string) {
	k := w.k
	for _, v := range p.takes {
		switch {
		case v.isInput():
			k.get(s, v.Node, groups[v.Node])
		case w.storage.isUnrolled():
			k.declare(s, v.Node, k.keptName(v)+"[g][j]")
		case v.Node.Type == def.Float:
			k.declare(s, v.Node, "float_of("+w.word(v, "j")+")")
		default:
			k.declare(s, v.Node, "(i32)"+w.word(v, "j"))
		}
	}
	for _, n := range p.nodes {
		if isLoad(n) || n.Op == def.OpLookup {
			k.get(s, n, groups[n])
			continue
		}
		if n.Op == def.OpPartner {
			k.getPartner(s, n, groups[n.Args[0]])
		} else {
			k.compute(s, n, w.column())
		}
		switch v := find(p.keeps, n); {
		case v == nil:
		case w.storage.isUnrolled():
			s.line("%s[g][j] = %s;", k.keptName(v), name(n))
		case n.Type == def.Float:
			s.line("%s = bits_of(%s);", w.word(v, "j"), name(n))
		default:
			s.line("%s = (u32)%s;", w.word(v, "j"), name(n))
		}
	}
}

// reduce accumulates element j into row reductions.
func (w *walk) reduce(s *text, reductions []*def.Node) {
	k := w.k
	for _, n := range reductions {
		x := k.value(n.Args[0])
		switch {
		case k.isPaired(n):
		case n.Op == def.OpRowSum:
			first := ""
			if w.hasWhole() {
				first = fmt.Sprintf("WHOLE && g == 0 ? %s : ", x)
			}
			s.line("%s_lane[j] = %s%s;", name(n), first, plus(n.Type, name(n)+"_lane[j]", w.only(x, zero(n.Type))))
		case n.Op == def.OpRowMax:
			s.line("%[1]s_lane[j] = larger(%[1]s_lane[j], %[2]s);", name(n), w.only(x, "-INFINITE"))
		case n.Op == def.OpRowMin:
			s.line("%[1]s_lane[j] = smaller(%[1]s_lane[j], %[2]s);", name(n), w.only(x, "INFINITE"))
		case n.Op == def.OpRowArgMax:
			s.line("take_larger(%[1]s_best, %[1]s_column, %[2]s, %[3]s);", name(n), w.only(x, "-INFINITE"), w.column())
		case n.Op == def.OpRowArgMin:
			s.line("take_smaller(%[1]s_best, %[1]s_column, %[2]s, %[3]s);", name(n), w.only(x, "INFINITE"), w.column())
		case n.Op == def.OpRank:
			s.line("%s_keys[j] = %s;", name(n), w.only("order_key("+x+")", "0xffffffffu"))
		case n.Op == def.OpUnpacked:
			s.line("%s_mask |= (u32)%s << j;", name(n), w.only(x, "false"))
		case n.Op == def.OpAt:
			s.line("if (%[4]s == (u32)%[1]s && %[4]s < columns) %[2]s_part = %[3]s;", k.value(n.Args[1]), name(n), x, w.column())
		}
	}
}

// addTerms adds the terms of the block's rows to the lanes of column sums. In a block of one row,
// every thread has added those of its own columns.
func (w *walk) addTerms(s *text) {
	s.open("if constexpr (ROWS > 1) {")
	s.line("BARRIER(); // all terms are written")
	w.openOwned(s)
	s.open("UNROLL for (u32 step = 0; step < STEPS; step++) {")
	s.open("if (%s) {", w.inside("first + lane + step * p.lane_step", "p.rows"))
	for i, n := range w.sums {
		s.line("add_terms(%s_lane[o], terms + (((lane * STEPS + step) * %d + %d) * G + g) * 2 * T + of, T);", name(n), len(w.sums), i)
	}
	s.close("}")
	s.close("}")
	s.close("}")
	s.close("}")
	s.line("BARRIER(); // all terms are added, they may be overwritten")
	s.close("}")
}

// openOwned begins the loop over the groups of lanes that a thread owns.
func (w *walk) openOwned(s *text) {
	s.open("UNROLL for (u32 o = 0; o < owned; o++) {")
	s.line("const u32 unit = o * ROWS * T + threadIdx.x, lane = unit / (G * T), g = unit / T %% G, of = unit %% T;")
	s.line("const u32 c = (g * T + of) * 8;")
	s.open("if (lane < ROWS / STEPS && (%s)) {", w.inside("c", "p.cols"))
}

// storeLanes stores the lanes for the kernel that adds them up.
func (w *walk) storeLanes(s *text) {
	w.openOwned(s)
	s.line("const i64 at = (i64)blockIdx.x * (ROWS / STEPS) + lane;")
	s.open("if (at < p.lanes) {")
	for i, n := range w.sums {
		s.line("put32_vector(p.column_lanes + (%d * p.lanes + at) * p.padded + c, 8, group_%s(%s_lane[o]));", i, [...]string{"f32", "i32"}[n.Type], name(n))
	}
	s.close("}")
	s.close("}")
	s.close("}")
}
