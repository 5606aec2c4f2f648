package gpu

import (
	"fmt"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/lower"
)

// keptValue is an element value that is kept from the pass that computes it to the
// last that reads it: an input as it is stored, anything else as 32 bits.
type keptValue struct {
	node        *def.Node
	first, last int // passes
	slot        int // kept values whose lives do not meet share a slot of shared memory
	offset      int // of the slot, in words of a group
}

func (v *keptValue) isInput() bool { return v.node.Op == def.OpInput }

// rowPass is one walk over a row by the rows kernel.
type rowPass struct {
	roots      []*def.Node
	reductions []*def.Node
	stores     bool
	nodes      []*def.Node // that are computed, inputs and values per column among them
	takes      []*keptValue
	keeps      []*keptValue
	after      []*def.Node
}

// rowPasses are the passes of the rows kernel. With keep, what is worth it is kept
// between passes.
func (k *rowwise) rowPasses(keep bool) (passes []rowPass, start []*def.Node) {
	roots := append(values(k.rowOutputs), k.rowValues...)
	if !k.isSplit {
		roots = append(roots, values(k.elementOutputs)...)
	}
	needed := map[*def.Node]bool{}
	for _, n := range closure(roots, nil) {
		needed[n] = true
	}
	only := func(nodes []*def.Node) []*def.Node {
		return slices.DeleteFunc(slices.Clone(nodes), func(n *def.Node) bool { return !needed[n] })
	}
	for i := range k.schedule.Passes {
		plan := &k.schedule.Passes[i]
		p := rowPass{reductions: only(plan.Reductions), after: only(plan.After)}
		p.stores = !k.isSplit && len(plan.Stores) > 0
		for _, n := range p.reductions {
			p.roots = append(p.roots, n.Args[0])
		}
		if p.stores {
			p.roots = append(p.roots, values(plan.Stores)...)
		}
		passes = append(passes, p)
	}
	k.kept = nil
	kept := map[*def.Node]*keptValue{}
	computed := map[*def.Node]int{}
	for i := range passes {
		p := &passes[i]
		seen := map[*def.Node]bool{}
		var need func(n *def.Node)
		need = func(n *def.Node) {
			if seen[n] || !isElement(n) && !isColumn(n) {
				return
			}
			seen[n] = true
			first, isOld := computed[n]
			if keep && isOld && isElement(n) && k.isWorthKeeping(n, kept) {
				v := kept[n]
				if v == nil {
					v = &keptValue{node: n, first: first}
					kept[n] = v
					k.kept = append(k.kept, v)
				}
				v.last = i
				p.takes = append(p.takes, v)
				return
			}
			p.nodes = append(p.nodes, n)
			for _, a := range n.Args {
				need(a)
			}
		}
		for _, n := range p.roots {
			need(n)
		}
		byID := func(a, b *def.Node) int { return a.ID - b.ID }
		slices.SortFunc(p.nodes, byID)
		slices.SortFunc(p.takes, func(a, b *keptValue) int { return byID(a.node, b.node) })
		for _, n := range p.nodes {
			if _, ok := computed[n]; !ok {
				computed[n] = i
			}
		}
	}
	slices.SortFunc(k.kept, func(a, b *keptValue) int { return (a.first-b.first)*len(k.d.Exec.Nodes) + a.node.ID - b.node.ID })
	for _, v := range k.kept {
		passes[v.first].keeps = append(passes[v.first].keeps, v)
	}
	k.assignSlots()
	return passes, only(k.schedule.Start)
}

// isWorthKeeping reports whether a value that an earlier pass has computed is kept
// rather than computed again.
func (k *rowwise) isWorthKeeping(n *def.Node, kept map[*def.Node]*keptValue) bool {
	if n.Op == def.OpInput {
		return true
	}
	if n.Type == def.Bool {
		return false
	}
	cost := 0
	for _, a := range closure([]*def.Node{n}, func(a *def.Node) bool { return a != n && (!isElement(a) || kept[a] != nil) }) {
		switch {
		case a.Op == def.OpRandom:
			cost += worthKeeping
		case isElement(a) && len(a.Args) > 0 && kept[a] == nil:
			cost++
		}
	}
	return cost >= worthKeeping
}

// assignSlots lets kept values share slots. A value may take the slot of one that is
// read for the last time in the pass that computes it: a thread reads an element of
// the one before it writes that of the other, and an input before all elements.
func (k *rowwise) assignSlots() {
	var slots [][]*keptValue
	for _, v := range k.kept {
		v.slot = slices.IndexFunc(slots, func(others []*keptValue) bool {
			return !slices.ContainsFunc(others, func(o *keptValue) bool {
				return o.last > v.first || o.last == v.first && v.isInput()
			})
		})
		if v.slot < 0 {
			v.slot = len(slots)
			slots = append(slots, nil)
		}
		slots[v.slot] = append(slots[v.slot], v)
	}
	k.words = 0
	for _, sharing := range slots {
		size := 0
		for _, v := range sharing {
			v.offset = k.words
			size = max(size, k.wordsOf(v))
		}
		k.words += size
	}
}

// wordsOf is how many 32-bit words a group of a kept value takes.
func (k *rowwise) wordsOf(v *keptValue) int {
	if v.isInput() {
		return 2 * k.dtypes[v.node.Operand].Size()
	}
	return 8
}

// planRows lists the instances of the rows kernel.
func (k *rowwise) planRows(passes []rowPass) {
	nodes := 0
	for _, p := range passes {
		nodes += len(p.nodes)
	}
	add := func(st storage, threads, rows, groups int) {
		e := rowEntry{storage: st, threads: threads, rows: rows, groups: groups}
		ahead := 0
		for _, v := range k.readFirst() {
			ahead += groups * k.wordsOf(v)
		}
		e.isAhead = threads == 1024 && st == registers && ahead > 0 && ahead <= aheadRegisters
		e.name = fmt.Sprintf("%s_rows%d_%s", k.base, threads, st)
		if st == registers {
			e.name += fmt.Sprint(groups)
		}
		k.rowEntries = append(k.rowEntries, e)
	}
	for _, c := range []struct {
		threads, rows, budget int
		groups                []int
		longest               int // groups of the longest row
	}{
		{32, 8, shortRegisters, []int{1, 4, 8}, 8},
		{128, 1, shortRegisters, []int{4, 8}, 8},
		{1024, 1, longRegisters, []int{2, 4}, 1 << 30},
	} {
		reached := 0
		for _, g := range c.groups {
			kept := g*k.words + lanesPerThread*k.mostReductions(nil) + k.accessRegisters()
			if k.words > 0 && kept <= c.budget && nodes*lanesPerThread*g <= maxUnrolled {
				add(registers, c.threads, c.rows, g)
				reached = g
			}
		}
		if reached >= c.longest {
			continue
		}
		if k.words > 0 && c.rows == 1 {
			add(shared, c.threads, c.rows, 0)
		}
		add(reread, c.threads, c.rows, 0)
	}
}

// accessRegisters is what a thread needs to move groups of operands: addresses, and
// room to take 16-bit elements apart.
func (k *rowwise) accessRegisters() int {
	count := 0
	for i, o := range k.d.Operands {
		switch {
		case o.Extent&def.PerColumn == 0 || o.Extent == def.PerColumn && o.IsOut:
		case k.dtypes[i].Size() == 2:
			count += 5
		default:
			count += 4
		}
	}
	return count
}

// readFirst are the inputs that are read for the first pass and kept.
func (k *rowwise) readFirst() (inputs []*keptValue) {
	for _, v := range k.kept {
		if v.isInput() && v.first == 0 {
			inputs = append(inputs, v)
		}
	}
	return inputs
}

// rows writes the rows kernel in all its instances.
func (k *rowwise) rows(s *text) {
	passes, start := k.rowPasses(true)
	k.planRows(passes)
	for _, st := range []storage{registers, shared, reread} {
		if !slices.ContainsFunc(k.rowEntries, func(e rowEntry) bool { return e.storage == st }) {
			continue
		}
		if st == reread && k.words > 0 {
			saved, words := k.kept, k.words
			passes, start = k.rowPasses(false)
			k.kept, k.words = saved, words
		}
		k.rowFunction(s, st, passes, start)
		s.line("")
		for _, e := range k.rowEntries {
			if e.storage != st {
				continue
			}
			arguments := fmt.Sprintf("%d, %d", e.threads, e.rows)
			if st == registers {
				arguments += fmt.Sprintf(", %d, %t", e.groups, e.isAhead)
			}
			k.source.Entries = append(k.source.Entries, e.name)
			unless := ""
			if hasIndex(k.d) {
				unless = fmt.Sprintf("if (!%s_is_refused(p.refused)) ", k.base)
			}
			s.line("KERNEL(%s, %d)(const %s_params p) { %s%s_%s<%s>(p); }", e.name, e.threads*e.rows, k.base, unless, k.base, st, arguments)
		}
	}
}

var storageNotes = map[storage]string{
	registers: "What a later pass needs is kept in registers, G groups of eight elements a\n// thread. With AHEAD, the next row is read during the last pass over this one.",
	shared:    "What a later pass needs is kept in shared memory, in words of the\n// thread's own.",
	reread:    "Every pass reads the row.",
}

// rowFunction writes the function of which the instances for one storage are made.
func (k *rowwise) rowFunction(s *text, st storage, passes []rowPass, start []*def.Node) {
	s.line("")
	s.line("// Rows, T threads each, ROWS of them a block. Thread t owns the columns c with")
	s.line("// c / 8 mod T = t. %s", storageNotes[st])
	if st == registers {
		s.line("template <int T, int ROWS, int G, bool AHEAD>")
	} else {
		s.line("template <int T, int ROWS>")
	}
	s.open("DEVICE void %s_%s(const %s_params& p) {", k.base, st, k.base)
	if most := k.mostReductions(nil); most > 0 {
		s.line("SHARED(float, scratch, 2 * %d * ROWS * T / 32);", most)
		s.line("int turn = 0;")
	}
	if st == shared {
		s.line("SHARED_DYN(u32, kept);")
	}
	s.line("const u32 slot = ROWS == 1 ? 0 : threadIdx.x / T, t = ROWS == 1 ? threadIdx.x : threadIdx.x %% T;")
	var all []*def.Node
	for _, p := range passes {
		all = append(append(all, p.roots...), p.after...)
	}
	k.scalarsOf(s, closure(append(append(all, start...), values(k.rowOutputs)...), nil))
	first := k.readFirst()
	if st == registers && len(first) > 0 {
		for _, v := range first {
			s.line("%s %s[G];", groupType(k.dtypes[v.node.Operand]), k.keptName(v))
		}
		s.open("if constexpr (AHEAD) {")
		s.line("const i64 row = blockIdx.x;")
		s.line("const u32 columns = row < p.rows ? p.cols : 0;")
		k.loadKept(s, first)
		s.close("}")
	}
	s.open("for (i64 first = (i64)blockIdx.x * ROWS; first < p.rows; first += (i64)gridDim.x * ROWS) {")
	s.line("const bool here = ROWS == 1 || first + slot < p.rows;")
	s.line("const i64 row = here ? first + slot : first;")
	s.line("const u32 columns = here ? p.cols : 0;")
	k.rowNodes(s, start)
	if st == registers {
		for _, v := range k.kept {
			if slices.Contains(first, v) {
				continue
			}
			if v.isInput() {
				s.line("%s %s[G];", groupType(k.dtypes[v.node.Operand]), k.keptName(v))
			} else {
				s.line("%s %s[G][8];", typeName(v.node.Type), k.keptName(v))
			}
		}
	}
	for i := range passes {
		k.rowPass(s, st, &passes[i], i, passes)
	}
	k.storeRows(s, "here && t == 0")
	for i, n := range k.rowValues {
		s.line("if (here && t == 0) p.row_values[%d * p.rows + row] = %s;", i, name(n))
	}
	s.close("}")
	s.close("}")
}

func (k *rowwise) keptName(v *keptValue) string {
	if v.isInput() {
		return k.operands[v.node.Operand] + "_kept"
	}
	return name(v.node) + "_kept"
}

// rowNodes declares values per row; elements of inputs at an index are read here.
func (k *rowwise) rowNodes(s *text, nodes []*def.Node) {
	for _, n := range nodes {
		switch {
		case lower.IsRowLoad(n):
			i, x := k.value(n.Args[1]), n.Args[0].Operand
			at := fmt.Sprintf("row * p.%s_stride + %s", k.operands[x], i)
			k.declare(s, n, fmt.Sprintf("here && %s >= 0 && (u32)%s < p.cols ? %s : 0.0f", i, i, k.load(x, at)))
		case isReduction(n):
		default:
			k.declare(s, n, k.rowExpression(n))
		}
	}
}

// rowPass writes one pass over a row and what is known after it.
func (k *rowwise) rowPass(s *text, st storage, p *rowPass, i int, passes []rowPass) {
	if len(p.roots) > 0 {
		var does []string
		for _, n := range p.reductions {
			does = append(does, k.describe(n))
		}
		if p.stores {
			for _, o := range k.elementOutputs {
				does = append(does, "store "+k.d.Operands[o.Operand].Name)
			}
		}
		s.line("")
		s.line("// pass %d: %s", i+1, strings.Join(does, ", "))
		if p.stores && k.hasRowLoads() {
			s.line("if (T > 32) BARRIER(); // everybody has read the row's elements before any is replaced")
			s.line("else WARP_BARRIER();")
		}
		if st == registers {
			k.readRow(s, p)
		}
		for _, n := range p.reductions {
			k.beginReduction(s, n)
		}
		k.openGroups(s, st)
		k.rowGroup(s, st, p)
		isLast := st == registers && i == lastPass(passes)
		if isLast {
			k.readNext(s, true)
		}
		s.close("}")
		if isLast {
			k.readNext(s, false)
		}
	}
	for _, n := range p.reductions {
		switch n.Op {
		case def.OpRowSum:
			s.line("float %[1]s = threads_sum<32>(tree(%[1]s_lane));", name(n))
		case def.OpRowMax:
			s.line("float %[1]s = threads_max<32>(largest(%[1]s_lane));", name(n))
		case def.OpRowMin:
			s.line("float %[1]s = threads_min<32>(smallest(%[1]s_lane));", name(n))
		case def.OpAt:
			s.line("float %[1]s = threads_one<32>(%[1]s_part);", name(n))
		}
	}
	if len(p.reductions) > 0 {
		s.open("if constexpr (T > 32) {")
		k.acrossWarps(s, p.reductions, "T", "ROWS")
		s.close("}")
	}
	k.rowNodes(s, p.after)
}

// lastPass is the last pass that walks over the row.
func lastPass(passes []rowPass) int {
	last := 0
	for i := range passes {
		if len(passes[i].roots) > 0 {
			last = i
		}
	}
	return last
}

func (k *rowwise) hasRowLoads() bool {
	return slices.ContainsFunc(k.d.Exec.Nodes, lower.IsRowLoad)
}

func (k *rowwise) openGroups(s *text, st storage) {
	if st == registers {
		s.open("UNROLL for (u32 g = 0; g < G; g++) {")
	} else {
		s.open("for (u32 g = 0; g * T * 8 < p.cols; g++) {")
	}
	s.line("const u32 c = (g * T + t) * 8;")
	s.line("const int n = inside(c, columns);")
}

// readRow reads the inputs that are kept from this pass on.
func (k *rowwise) readRow(s *text, p *rowPass) {
	var early, late []*keptValue
	for _, v := range p.keeps {
		switch {
		case v.isInput() && v.first == 0:
			early = append(early, v)
		case v.isInput():
			late = append(late, v)
		}
	}
	if len(late) > 0 {
		k.loadKept(s, late)
	}
	if len(early) > 0 {
		s.open("if constexpr (!AHEAD) {")
		k.loadKept(s, early)
		s.close("}")
	}
}

// readNext reads a group of the next row in the place of one that is done with; after
// the last group, what is left of the row.
func (k *rowwise) readNext(s *text, isGroup bool) {
	first := k.readFirst()
	if len(first) == 0 || !isGroup && k.variant == Element {
		return
	}
	s.open("if constexpr (AHEAD) {")
	s.line("const i64 row = first + gridDim.x;")
	s.line("const u32 columns = row < p.rows ? p.cols : 0;")
	if isGroup {
		s.line("const int n = inside(c, columns);")
		k.loadGroups(s, first)
	} else {
		k.loadTail(s, first)
	}
	s.close("}")
}

// loadKept reads inputs into registers: whole groups first, so that all accesses are
// under way at once, then what is left of the row.
func (k *rowwise) loadKept(s *text, inputs []*keptValue) {
	k.openGroups(s, registers)
	k.loadGroups(s, inputs)
	s.close("}")
	if k.variant == Vector {
		k.loadTail(s, inputs)
	}
}

func (k *rowwise) loadGroups(s *text, inputs []*keptValue) {
	suffix := ""
	if k.variant == Vector {
		suffix = "_whole"
	}
	for _, v := range inputs {
		s.line("%s[g] = fetch%d%s(%s, n);", k.keptName(v), 8*k.dtypes[v.node.Operand].Size(), suffix, k.atRow(v.node.Operand))
	}
}

// loadTail reads the last elements of a row whose length is no multiple of eight. One
// thread has them, in one of its groups.
func (k *rowwise) loadTail(s *text, inputs []*keptValue) {
	s.open("if (p.cols %% 8 != 0 && p.cols / 8 %% T == t) {")
	s.line("const u32 c = p.cols / 8 * 8;")
	s.line("const int n = inside(c, columns);")
	for _, v := range inputs {
		d := k.dtypes[v.node.Operand]
		s.line("const %s %s_tail = fetch%d(%s, n);", groupType(d), k.operands[v.node.Operand], 8*d.Size(), k.atRow(v.node.Operand))
		s.open("UNROLL for (u32 g = 0; g < G; g++) {")
		s.line("if (g * T + t == p.cols / 8) %s[g] = %s_tail;", k.keptName(v), k.operands[v.node.Operand])
		s.close("}")
	}
	s.close("}")
}

func (k *rowwise) beginReduction(s *text, n *def.Node) {
	switch n.Op {
	case def.OpRowSum:
		k.lanes(s, n, "0.0f")
	case def.OpRowMax:
		k.lanes(s, n, "-INFINITE")
	case def.OpRowMin:
		k.lanes(s, n, "INFINITE")
	case def.OpAt:
		s.line("float %s_part = 0.0f;", name(n))
	}
}

// rowGroup writes what a pass does with one group.
func (k *rowwise) rowGroup(s *text, st storage, p *rowPass) {
	find := func(list []*keptValue, n *def.Node) *keptValue {
		if st == reread {
			return nil
		}
		for _, v := range list {
			if v.node == n {
				return v
			}
		}
		return nil
	}
	word := func(v *keptValue, j string) string {
		return fmt.Sprintf("kept[(g * %d + %d + %s) * T + t]", k.words, v.offset, j)
	}
	groups := map[*def.Node]string{}
	// Inputs first: all are read before anything is written.
	for _, v := range p.takes {
		if !v.isInput() {
			continue
		}
		if groups[v.node] = k.keptName(v) + "[g]"; st == registers && k.dtypes[v.node.Operand].Size() == 2 {
			s.line("renew(%s);", groups[v.node])
		}
		if st == shared {
			groups[v.node] = k.operands[v.node.Operand] + "_group"
			s.line("%s %s;", groupType(k.dtypes[v.node.Operand]), groups[v.node])
			s.line("UNROLL for (int i = 0; i < %d; i++) %s.w[i] = %s;", k.wordsOf(v), groups[v.node], word(v, "i"))
		}
	}
	for _, n := range p.nodes {
		v := find(p.keeps, n)
		switch {
		case n.Op == def.OpInput && v != nil && st == registers:
			groups[n] = k.keptName(v) + "[g]"
		case n.Op == def.OpInput:
			d := k.dtypes[n.Operand]
			groups[n] = k.operands[n.Operand] + "_group"
			s.line("const %s %s = %s;", groupType(d), groups[n], k.fetch(d, k.atRow(n.Operand), "n"))
			if v != nil {
				s.line("UNROLL for (int i = 0; i < %d; i++) %s = %s.w[i];", k.wordsOf(v), word(v, "i"), groups[n])
			}
		case n.Op == def.OpRandom:
			s.line("i32 %s_group[8];", name(n))
			s.line("random_words(%s_group, %s, (u64)(row * p.cols + c));", name(n), k.arguments(n))
		}
	}
	if p.stores {
		for _, o := range k.elementOutputs {
			s.line("%s %s_out;", groupType(k.dtypes[o.Operand]), k.operands[o.Operand])
		}
	}
	s.open("UNROLL for (int j = 0; j < 8; j++) {")
	for _, v := range p.takes {
		switch {
		case v.isInput():
			k.get(s, v.node, groups[v.node])
		case st == registers:
			k.declare(s, v.node, k.keptName(v)+"[g][j]")
		case v.node.Type == def.Float:
			k.declare(s, v.node, "float_of("+word(v, "j")+")")
		default:
			k.declare(s, v.node, "(i32)"+word(v, "j"))
		}
	}
	for _, n := range p.nodes {
		if n.Op == def.OpInput {
			k.get(s, n, groups[n])
			continue
		}
		k.elementsOf(s, []*def.Node{n}, "c + j")
		switch v := find(p.keeps, n); {
		case v == nil:
		case st == registers:
			s.line("%s[g][j] = %s;", k.keptName(v), name(n))
		case n.Type == def.Float:
			s.line("%s = bits_of(%s);", word(v, "j"), name(n))
		default:
			s.line("%s = (u32)%s;", word(v, "j"), name(n))
		}
	}
	for _, n := range p.reductions {
		x := k.value(n.Args[0])
		switch n.Op {
		case def.OpRowSum:
			s.line("%[1]s_lane[j] = %[1]s_lane[j] + (j < n ? %[2]s : 0.0f);", name(n), x)
		case def.OpRowMax:
			s.line("%[1]s_lane[j] = larger(%[1]s_lane[j], j < n ? %[2]s : -INFINITE);", name(n), x)
		case def.OpRowMin:
			s.line("%[1]s_lane[j] = smaller(%[1]s_lane[j], j < n ? %[2]s : INFINITE);", name(n), x)
		case def.OpAt:
			s.line("if (j < n && c + j == (u32)%s) %s_part = %s;", k.value(n.Args[1]), name(n), x)
		}
	}
	if p.stores {
		for _, o := range k.elementOutputs {
			s.line("set_%s(%s_out, j, %s);", k.dtypes[o.Operand], k.operands[o.Operand], k.value(o.Value))
		}
	}
	s.close("}")
	if p.stores {
		for _, o := range k.elementOutputs {
			k.put(s, k.dtypes[o.Operand], k.atRow(o.Operand), "n", k.operands[o.Operand]+"_out")
		}
	}
}
