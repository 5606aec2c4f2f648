package gpu

import (
	"fmt"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/lower"
)

// rowEntry is one instance of the rows kernel.
type rowEntry struct {
	name        string
	index       int // among the source's entries
	storage     storage
	threads     int // of a row
	rows        int // of a block
	steps       int // rows of a block that follow each other in a lane of column sums; 0 where there are none
	groups      int // of eight elements that a thread keeps; 0 if any number
	sharedWords int // of dynamic shared memory that a group takes
}

// Threads of a row by the lanes of its sums: each thread owns eight neighbouring lanes.
const lanesPerThread = 8

// Budgets of the rows kernel, in registers of a thread: for what it keeps, the lanes it
// sums up and the operands it has groups of. They leave enough for everything else,
// so that compilers spill nothing.
const (
	shortRegisters = 152 // in blocks of up to 256 threads, which may have 255
	fusedRegisters = 120 // in blocks of up to 512, which may have 128
	longRegisters  = 56  // in blocks of 1,024, which may have 64
	takenRegisters = 16  // of these, for inputs that have arrived in shared memory
)

const (
	maxUnrolled  = 24 << 10 // nodes that a kernel with kept registers computes, loops unrolled
	worthKeeping = 6        // nodes: what costs less is computed again
)

// rowShape is a number of threads for a row.
type rowShape struct {
	threads, rows, budget int
	groups                []int // of instances that keep a row in registers
	longest               int   // groups of the longest row
}

var rowShapes = []rowShape{
	{16, 16, shortRegisters, []int{1}, 0},
	{32, 8, shortRegisters, []int{1, 4, 8}, 8},
	{128, 1, shortRegisters, []int{4, 8}, 8},
	{1024, 1, longRegisters, []int{2, 4, 8}, 1 << 30},
}

// fusedRows is how many rows a block has whose terms of column sums meet in shared
// memory, and how many of them follow each other in a lane; none for the longest rows.
func fusedRows(threads, groups int) (rows, steps int) {
	switch {
	case threads < 128:
		return 8, 4
	case threads == 128:
		return 16 / groups, 16 / groups
	}
	return 0, 0
}

// rows writes the rows kernel in all its instances.
func (k *rowwise) rows(s *text) {
	for _, st := range []storage{fused, staged, registers, shared, inputs, reread} {
		w := k.newWalk(st)
		entries := w.entries()
		if len(entries) == 0 {
			continue
		}
		w.function(s)
		s.line("")
		for _, e := range entries {
			w.instance(s, e)
		}
		k.rowEntries = append(k.rowEntries, entries...)
	}
}

// entries lists the instances of a walk: those that keep rows in registers, and for
// longer rows the others. Where lanes of column sums are kept too, the instances without
// are for devices that have less shared memory, and one does.
func (w *walk) entries() (list []rowEntry) {
	k := w.k
	isFused := len(k.columnSums) > 0 && len(k.totalSums) == 0
	switch {
	case w.storage == fused && !isFused, w.storage == staged && (k.variant != Vector || w.stagedWords() == 0):
		return nil
	case w.storage == inputs && !slices.ContainsFunc(k.newWalk(shared).kept, isComputed):
		return nil
	}
	inRegisters := k.newWalk(registers)
	for _, shape := range rowShapes {
		add := func(groups, sharedWords int) {
			e := rowEntry{storage: w.storage, threads: shape.threads, rows: shape.rows, groups: groups, sharedWords: sharedWords}
			e.name = fmt.Sprintf("%s_rows%d_%s", k.base, shape.threads, w.storage)
			if groups > 0 {
				e.name += fmt.Sprint(groups)
			}
			if w.storage == fused {
				e.rows, e.steps = fusedRows(shape.threads, groups)
			}
			list = append(list, e)
		}
		longest := inRegisters.groups(shape)
		switch w.storage {
		case fused:
			for _, g := range w.groups(shape) {
				add(g, 8*len(w.sums))
			}
		case staged:
			if shape.threads == 1024 {
				for _, g := range w.groups(shape) {
					if g*w.stagedWords()*4*shape.threads+staticShared <= mostShared {
						add(g, w.stagedWords())
					}
				}
			}
		case registers:
			switch {
			case shape.threads == 1024 && len(k.newWalk(staged).entries()) > 0:
				longest = nil
			case isFused:
				longest = longest[max(0, len(longest)-1):]
			}
			for _, g := range longest {
				add(g, 0)
			}
		default:
			isNeeded := len(longest) == 0 || longest[len(longest)-1] < shape.longest
			if isNeeded && (w.storage == reread || w.words > 0 && shape.rows == 1) {
				add(0, w.words)
			}
		}
	}
	return list
}

// groups are the numbers of groups for which a thread has enough registers.
func (w *walk) groups(shape rowShape) []int {
	if w.words+w.stagedWords() == 0 {
		return nil
	}
	budget := shape.budget
	if w.storage == fused {
		budget = min(budget, fusedRegisters)
	}
	return slices.DeleteFunc(slices.Clone(shape.groups), func(g int) bool {
		if rows, _ := fusedRows(shape.threads, g); w.storage == fused && (rows == 0 || w.k.variant == Element && shape.threads > 32) {
			return true
		}
		return g*w.words+w.otherRegisters(shape.threads, g) > budget || w.cost()*g > maxUnrolled
	})
}

func isComputed(v *keptValue) bool { return !v.isInput() }

// otherRegisters is what a thread needs besides what it keeps of g groups: lanes of
// reductions and, to move groups of operands, addresses and room to take 16-bit elements
// apart.
func (w *walk) otherRegisters(threads, g int) int {
	k := w.k
	count := lanesPerThread * k.mostReductions(nil)
	for i, o := range k.d.Operands {
		switch {
		case o.Extent&def.PerColumn == 0 || o.Extent == def.PerColumn && o.IsOut:
		case k.dtypes[i].Size() == 2:
			count += 5
		default:
			count += 4
		}
	}
	if k.variant == Element {
		count += lanesPerThread // elements that are moved one by one
	}
	switch {
	case w.storage == fused:
		_, steps := fusedRows(threads, g)
		count += lanesPerThread * len(w.sums) * max(1, g/max(1, steps))
	case w.storage == registers && slices.ContainsFunc(w.kept, isComputed) && slices.ContainsFunc(w.kept, func(v *keptValue) bool { return v.isInput() && w.wordsOf(v) == 8 }):
		count += 12 // an input is not gone at once when what is computed from it takes its place
	}
	return count
}

// isInPairs reports whether few enough registers are needed that two blocks share a
// multiprocessor: one computes while the other waits for memory.
func (w *walk) isInPairs() bool {
	words := lanesPerThread * w.k.mostReductions(nil)
	for i, o := range w.k.d.Operands {
		if w.isWalked(i) && o.IsIn && o.Extent == def.PerElement {
			words += 2 * w.k.dtypes[i].Size()
		}
		if w.isWalked(i) && w.k.dtypes[i].Size() > 2 {
			return false
		}
	}
	return w.storage == reread && w.k.variant == Vector && words <= 12
}

// instance writes one kernel.
func (w *walk) instance(s *text, e rowEntry) {
	k := w.k
	arguments := fmt.Sprintf("%d, %d", e.threads, e.rows)
	if w.storage.isUnrolled() {
		arguments += fmt.Sprintf(", %d", e.groups)
	}
	if w.storage == fused {
		arguments += fmt.Sprintf(", %d", e.steps)
	}
	k.source.Entries = append(k.source.Entries, e.name)
	kernel := "KERNEL"
	if w.isInPairs() {
		kernel = "KERNEL_IN_PAIRS"
	}
	unless := ""
	if hasIndex(k.d) {
		unless = fmt.Sprintf("if (!%s_is_refused(p.refused)) ", k.base)
	}
	s.line("%s(%s, %d)(const %s_params p) { %s%s_%s<%s>(p); }", kernel, e.name, e.threads*e.rows, k.base, unless, k.base, w.storage, arguments)
}

var storageNotes = [...][]string{
	fused: {"What a later pass needs is kept in registers, G groups of eight elements a", "thread, and the next row is read during the last pass over this one. STEPS rows of a",
		"block follow each other in a lane of column sums: their terms meet in shared memory,", "where the thread that owns a column of the lane adds them in their order."},
	staged: {"Inputs are in shared memory, in words of the thread's own, G groups of eight", "elements; where they are read for the last time, the next row's are sent for. What is",
		"computed and needed later is kept in registers."},
	registers: {"What a later pass needs is kept in registers, G groups of eight elements a", "thread."},
	shared:    {"What a later pass needs is kept in shared memory, in words of the", "thread's own."},
	inputs:    {"Inputs that a later pass needs are kept in shared memory, in words of", "the thread's own."},
	reread:    {"Every pass reads the row."},
}

// function writes the function of which the instances of a walk are made.
func (w *walk) function(s *text) {
	k := w.k
	s.line("")
	s.line("// Rows, T threads each, ROWS of them a block. Thread t owns the columns c with")
	s.line("// c / 8 mod T = t. %s", strings.Join(storageNotes[w.storage], "\n// "))
	switch {
	case w.storage == fused:
		s.line("template <int T, int ROWS, int G, int STEPS>")
	case w.storage.isUnrolled():
		s.line("template <int T, int ROWS, int G>")
	default:
		s.line("template <int T, int ROWS>")
	}
	s.open("DEVICE void %s_%s(const %s_params& p) {", k.base, w.storage, k.base)
	if most := k.mostReductions(nil); most > 0 {
		s.line("SHARED(float, scratch, 2 * %d * ROWS * T / 32);", most)
		s.line("int turn = 0;")
	}
	switch w.storage {
	case shared, inputs:
		s.line("SHARED_DYN(u32, kept);")
	case staged:
		s.line("SHARED_DYN(uint4_aligned, stage);")
		taken := 0
		if !slices.ContainsFunc(w.kept, isComputed) {
			taken = takenRegisters
		}
		s.line("const bool TAKE = G * %d <= %d; // inputs go to registers as soon as they are there", w.stagedWords(), taken)
	case fused:
		s.line("SHARED_DYN(Quad, terms);")
	}
	s.line("const u32 slot = ROWS == 1 ? 0 : threadIdx.x / T, t = ROWS == 1 ? threadIdx.x : threadIdx.x %% T;")
	var all []*def.Node
	for _, p := range w.passes {
		all = append(append(all, p.roots...), p.after...)
	}
	k.scalarsOf(s, closure(append(append(all, w.start...), values(k.rowOutputs)...), nil))
	for i := range k.d.Operands {
		if w.isWalked(i) && k.d.Operands[i].Extent == def.PerColumn {
			w.declareAt(s, i)
		}
	}
	w.beginRows(s)
	k.rowNodes(s, w.start, w.isAheadInput)
	if w.storage.isUnrolled() {
		for _, v := range w.kept {
			switch {
			case v.isInput() && (v.first > 0 || w.storage == registers):
				s.line("%s %s[G];", groupType(k.dtypes[v.node.Operand]), k.keptName(v))
			case !v.isInput():
				s.line("%s %s[G][8];", typeName(v.node.Type), k.keptName(v))
			}
		}
	}
	if w.storage == staged {
		w.takeAll(s)
	}
	for i := range w.passes {
		w.pass(s, &w.passes[i], i)
	}
	k.storeRows(s, "here && t == 0")
	if w.storage != fused {
		for i, n := range k.rowValues {
			s.line("if (here && t == 0) p.row_values[%d * p.rows + row] = %s;", i, name(n))
		}
	}
	if w.storage == fused {
		w.addTerms(s)
	}
	s.close("}")
	if w.storage == fused {
		w.storeLanes(s)
	}
	s.close("}")
}

// beginRows opens the loop over rows, and reads the first one where rows are read ahead.
func (w *walk) beginRows(s *text) {
	k := w.k
	switch w.storage {
	case fused:
		s.line("const u32 owned = G >= STEPS ? G / STEPS : 1; // groups of columns of a lane")
		for _, n := range w.sums {
			s.line("float %s_lane[owned][8];", name(n))
			s.line("UNROLL for (u32 o = 0; o < owned; o++) fill(%s_lane[o], 0.0f);", name(n))
		}
		for _, v := range w.readFirst() {
			s.line("%s %s[G];", groupType(k.dtypes[v.node.Operand]), k.keptName(v))
		}
		for _, n := range w.aheadInputs() {
			s.line("%s %s_next = 0;", typeName(n.Type), name(n))
		}
		s.line("const i64 of_slot = slot / STEPS + slot %% STEPS * p.lane_step;")
		s.open("{")
		s.line("const i64 row = (i64)blockIdx.x * (ROWS / STEPS) + of_slot;")
		s.line("const u32 columns = row < p.rows ? p.cols : 0;")
		w.declareReadFirst(s)
		w.loadKept(s, w.readFirst())
		w.loadRowInputs(s)
		s.close("}")
		s.open("for (i64 first = (i64)blockIdx.x * (ROWS / STEPS); first < p.rows; first += STEPS * p.lane_step) {")
		s.line("const bool here = first + of_slot < p.rows;")
		s.line("const i64 row = here ? first + of_slot : first;")
	case staged:
		s.open("{")
		s.line("const i64 row = blockIdx.x;")
		s.line("const u32 columns = row < p.rows ? p.cols : 0;")
		w.declareReadFirst(s)
		s.open("UNROLL for (u32 g = 0; g < G; g++) {")
		s.line("const u32 c = (g * T + t) * 8;")
		for _, v := range w.readFirst() {
			w.send(s, v)
		}
		s.close("}")
		s.close("}")
		s.open("for (i64 first = blockIdx.x; first < p.rows; first += gridDim.x) {")
		s.line("const bool here = true;")
		s.line("const i64 row = first;")
	default:
		s.open("for (i64 first = (i64)blockIdx.x * ROWS; first < p.rows; first += (i64)gridDim.x * ROWS) {")
		s.line("const bool here = ROWS == 1 || first + slot < p.rows;")
		s.line("const i64 row = here ? first + slot : first;")
	}
	s.line("const u32 columns = here ? p.cols : 0;")
	for i := range w.k.d.Operands {
		if w.isWalked(i) && w.k.d.Operands[i].Extent == def.PerElement {
			w.declareAt(s, i)
		}
	}
}

// isWalked reports whether the walk moves groups of an operand.
func (w *walk) isWalked(operand int) bool {
	o := &w.k.d.Operands[operand]
	if o.Extent&def.PerColumn == 0 {
		return false
	}
	for i := range w.passes {
		p := &w.passes[i]
		if slices.ContainsFunc(p.nodes, func(n *def.Node) bool { return n.Op == def.OpInput && n.Operand == operand }) {
			return true
		}
		if p.stores && slices.ContainsFunc(w.k.elementOutputs, func(o def.Output) bool { return o.Operand == operand }) {
			return true
		}
	}
	return false
}

// declareAt declares where the thread's first group of an operand is, in this row.
func (w *walk) declareAt(s *text, operand int) {
	k := w.k
	pointer := k.dtypes[operand].String() + "*"
	if !k.d.Operands[operand].IsOut {
		pointer = "const " + pointer
	}
	s.line("%s const %s_at = %s;", pointer, k.operands[operand], k.atColumn(operand, "t * 8"))
}

// declareReadFirst declares where the inputs are that are read before their row is begun.
func (w *walk) declareReadFirst(s *text) {
	for _, v := range w.readFirst() {
		w.declareAt(s, v.node.Operand)
	}
}

// at is where group g of an operand is.
func (w *walk) at(operand int) string {
	return fmt.Sprintf("%s_at + g * (T * 8)", w.k.operands[operand])
}

// addTerms adds the terms of the block's rows to lanes of column sums.
func (w *walk) addTerms(s *text) {
	s.line("BARRIER(); // all terms are there")
	w.openOwned(s)
	s.open("UNROLL for (u32 step = 0; step < STEPS; step++) {")
	s.open("if (first + lane + step * p.lane_step < p.rows) {")
	for i, n := range w.sums {
		s.line("add_terms(%s_lane[o], terms + (((lane * STEPS + step) * %d + %d) * G + g) * 2 * T + of, T);", name(n), len(w.sums), i)
	}
	s.close("}")
	s.close("}")
	s.close("}")
	s.close("}")
	s.line("BARRIER(); // everybody has added them, they may be replaced")
}

// openOwned begins the walk over the groups of lanes that a thread owns.
func (w *walk) openOwned(s *text) {
	s.open("UNROLL for (u32 o = 0; o < owned; o++) {")
	s.line("const u32 unit = o * ROWS * T + threadIdx.x, lane = unit / (G * T), g = unit / T %% G, of = unit %% T;")
	s.line("const u32 c = (g * T + of) * 8;")
	s.open("if (lane < ROWS / STEPS && c < p.cols) {")
}

// storeLanes stores the lanes, for the kernel that adds them up.
func (w *walk) storeLanes(s *text) {
	w.openOwned(s)
	s.line("const i64 at = (i64)blockIdx.x * (ROWS / STEPS) + lane;")
	s.open("if (at < p.lanes) {")
	for i, n := range w.sums {
		s.line("put32_vector(p.column_lanes + (%d * p.lanes + at) * p.padded + c, 8, group_f32(%s_lane[o]));", i, name(n))
	}
	s.close("}")
	s.close("}")
	s.close("}")
}

// isAheadInput reports whether a value per row is read before its row is begun.
func (w *walk) isAheadInput(n *def.Node) bool {
	return w.storage == fused && n.Op == def.OpInput
}

func (w *walk) loadRowInputs(s *text) {
	for _, n := range w.aheadInputs() {
		s.line("if (row < p.rows) %s_next = %s;", name(n), w.k.rowExpression(n))
	}
}

// stage is where a group of an input lies in shared memory.
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

// send has a group of an input copied to shared memory.
func (w *walk) send(s *text, v *keptValue) {
	s.line("send%d(%s, T, %s, c < columns);", 4*w.wordsOf(v), w.stage(v), w.at(v.node.Operand))
}

func (k *rowwise) keptName(v *keptValue) string {
	if v.isInput() {
		return k.operands[v.node.Operand] + "_kept"
	}
	return name(v.node) + "_kept"
}

// rowNodes declares values per row; elements of inputs at an index are read here. Those
// that may have been read ahead are taken from there.
func (k *rowwise) rowNodes(s *text, nodes []*def.Node, isAhead func(*def.Node) bool) {
	for _, n := range nodes {
		switch {
		case lower.IsRowLoad(n):
			i, x := k.value(n.Args[1]), n.Args[0].Operand
			at := fmt.Sprintf("row * p.%s_stride + %s", k.operands[x], i)
			k.declare(s, n, fmt.Sprintf("here && %s >= 0 && (u32)%s < p.cols ? %s : 0.0f", i, i, k.load(x, at)))
		case isReduction(n):
		case isAhead(n):
			k.declare(s, n, name(n)+"_next")
		default:
			k.declare(s, n, k.rowExpression(n))
		}
	}
}

func never(*def.Node) bool { return false }

// pass writes one pass over a row and what is known after it.
func (w *walk) pass(s *text, p *rowPass, i int) {
	k := w.k
	if len(p.roots) > 0 {
		var does []string
		for _, n := range p.reductions {
			does = append(does, k.describe(n))
		}
		for _, n := range p.sums {
			does = append(does, k.describe(n))
		}
		if p.stores {
			for _, o := range k.elementOutputs {
				does = append(does, "store "+k.d.Operands[o.Operand].Name)
			}
		}
		s.line("")
		s.line("// pass %d: %s", p.number, strings.Join(does, ", "))
		if p.stores && k.hasRowLoads() {
			s.line("if (T > 32) BARRIER(); // everybody has read the row's elements before any is replaced")
			s.line("else WARP_BARRIER();")
		}
		if w.storage.isUnrolled() {
			w.readRow(s, p)
		}
		for _, n := range p.reductions {
			k.beginReduction(s, n)
		}
		if i == 0 {
			w.fetchFirst(s, p)
		}
		w.openGroups(s)
		w.group(s, p)
		w.closeInside(s)
		w.readNext(s, i)
		s.close("}")
	}
	if i+1 < len(w.passes) {
		w.fetchFirst(s, &w.passes[i+1]) // while the reductions of this one are joined
	}
	for _, n := range p.reductions {
		s.line("float %s = threads_%s<T < 32 ? T : 32>(%s);", name(n), joins[n.Op], k.threadsPart(n))
	}
	if len(p.reductions) > 0 {
		s.open("if constexpr (T > 32) {")
		k.acrossWarps(s, p.reductions, "T", "ROWS")
		s.close("}")
	}
	k.rowNodes(s, p.after, never)
}

// threadsPart is what a thread has found for a reduction.
func (k *rowwise) threadsPart(n *def.Node) string {
	switch {
	case k.isPaired(n):
		return fmt.Sprintf("largest_%s(%s_pairs)", k.dtypes[n.Args[0].Operand], name(n))
	case n.Op == def.OpRowSum:
		return fmt.Sprintf("tree(%s_lane)", name(n))
	case n.Op == def.OpRowMax:
		return fmt.Sprintf("largest(%s_lane)", name(n))
	case n.Op == def.OpRowMin:
		return fmt.Sprintf("smallest(%s_lane)", name(n))
	}
	return name(n) + "_part"
}

func (k *rowwise) hasRowLoads() bool {
	return slices.ContainsFunc(k.d.Exec.Nodes, lower.IsRowLoad)
}

// openGroups begins the walk over a thread's groups, columns c to c + 7 each. What
// comes before closeInside concerns groups that are inside the row, n of whose elements
// are: with vector access, all eight.
func (w *walk) openGroups(s *text) {
	if w.storage.isUnrolled() {
		s.open("UNROLL for (u32 g = 0; g < G; g++) {")
		s.line("const u32 c = (g * T + t) * 8;")
	} else {
		unroll := "ROLLED"
		if w.storage == reread && !w.isInPairs() {
			unroll = "UNROLL_TWICE" // the accesses of two groups overlap
		}
		s.open("%s for (u32 g = 0, c = t * 8; c < columns; g++, c += T * 8) {", unroll)
	}
	switch {
	case w.k.variant == Element:
		s.line("const int n = inside(c, columns);")
	case w.storage.isUnrolled():
		s.open("if (c < columns) {")
	}
}

func (w *walk) closeInside(s *text) {
	if w.k.variant == Vector && w.storage.isUnrolled() {
		s.close("}")
	}
}

// count is how many elements of a group that is inside a row are.
func (k *rowwise) count() string {
	if k.variant == Vector {
		return "8"
	}
	return "n"
}

// only is an element's value where it is inside the row, else an identity.
func (k *rowwise) only(value, identity string) string {
	if k.variant == Vector {
		return value
	}
	return fmt.Sprintf("(j < n ? %s : %s)", value, identity)
}

// readRow reads the inputs that are kept in registers from this pass on.
func (w *walk) readRow(s *text, p *rowPass) {
	w.loadKept(s, slices.DeleteFunc(slices.Clone(p.keeps), func(v *keptValue) bool {
		return !v.isInput() || v.first == 0 && w.storage != registers
	}))
}

// readNext reads, or sends for, a group of the next row in the place of one that is done
// with after pass i.
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
			w.loadGroup(s, v.node, w.k.keptName(v), "columns")
		}
		if len(w.aheadInputs()) > 0 {
			s.open("if (g == 0) {")
			w.loadRowInputs(s)
			s.close("}")
		}
		s.close("}")
	case staged:
		done := slices.DeleteFunc(w.readFirst(), func(v *keptValue) bool { return v.last != i })
		if len(done) > 0 {
			w.sendNext(s, "!TAKE && ", done)
		}
	}
}

// sendNext sends for a group of the next row.
func (w *walk) sendNext(s *text, condition string, done []*keptValue) {
	s.open("if (%sfirst + gridDim.x < p.rows) {", condition)
	s.line("const i64 row = first + gridDim.x;")
	for _, v := range done {
		w.declareAt(s, v.node.Operand)
		w.send(s, v)
	}
	s.close("}")
}

// takeAll waits for the row's inputs, and takes them to registers if there is room.
func (w *walk) takeAll(s *text) {
	s.line("staging_done();")
	for _, v := range w.readFirst() {
		s.line("%s %s[TAKE ? G : 1];", groupType(w.k.dtypes[v.node.Operand]), w.k.keptName(v))
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

// loadKept reads inputs into registers, so that all accesses are under way at once.
func (w *walk) loadKept(s *text, kept []*keptValue) {
	if len(kept) == 0 {
		return
	}
	s.open("UNROLL for (u32 g = 0; g < G; g++) {")
	s.line("const u32 c = (g * T + t) * 8;")
	for _, v := range kept {
		w.loadGroup(s, v.node, w.k.keptName(v), "columns")
	}
	s.close("}")
}

// loadGroup reads group g of an input, of rows with that many columns.
func (w *walk) loadGroup(s *text, n *def.Node, into, columns string) {
	form := "%s[g] = fetch%d_whole(%s, c < %s);"
	if w.k.variant == Element {
		form = "%s[g] = fetch%d(%s, inside(c, %s));"
	}
	s.line(form, into, 8*w.k.dtypes[n.Operand].Size(), w.at(n.Operand), columns)
}

// isPaired reports whether a reduction is the largest of a 16-bit input, which need
// not be widened for that.
func (k *rowwise) isPaired(n *def.Node) bool {
	x := n.Args[0]
	return k.variant == Vector && n.Op == def.OpRowMax && x.Op == def.OpInput && isElement(x) && k.dtypes[x.Operand].Size() == 2
}

func (k *rowwise) beginReduction(s *text, n *def.Node) {
	switch n.Op {
	case def.OpRowSum:
		k.lanes(s, n, "0.0f")
	case def.OpRowMax:
		if k.isPaired(n) {
			s.line("u32 %s_pairs[4];", name(n))
			s.line("lowest_%s(%s_pairs);", k.dtypes[n.Args[0].Operand], name(n))
			return
		}
		k.lanes(s, n, "-INFINITE")
	case def.OpRowMin:
		k.lanes(s, n, "INFINITE")
	case def.OpAt:
		s.line("float %s_part = 0.0f;", name(n))
	}
}

// word is a kept word of shared memory.
func (w *walk) word(v *keptValue, j string) string {
	return fmt.Sprintf("kept[(g * %d + %d + %s) * T + t]", w.words, v.offset, j)
}

func find(list []*keptValue, n *def.Node) *keptValue {
	for _, v := range list {
		if v.node == n {
			return v
		}
	}
	return nil
}

// group writes what a pass does with one group.
func (w *walk) group(s *text, p *rowPass) {
	k := w.k
	groups := w.groupsOf(s, p)
	if p.stores {
		for _, o := range k.elementOutputs {
			s.line("float %s_out[8];", k.operands[o.Operand])
		}
	}
	for _, n := range p.sums {
		s.line("float %s_terms[8];", name(n))
	}
	for _, n := range p.reductions {
		if k.isPaired(n) {
			s.line("enlarge_%s(%s_pairs, %s);", k.dtypes[n.Args[0].Operand], name(n), groups[n.Args[0]])
		}
	}
	s.open("UNROLL for (int j = 0; j < 8; j++) {")
	w.elements(s, p, groups)
	k.reduce(s, p.reductions)
	for _, n := range p.sums {
		s.line("%s_terms[j] = %s;", name(n), k.value(n.Args[0]))
	}
	if p.stores {
		for _, o := range k.elementOutputs {
			s.line("%s_out[j] = %s;", k.operands[o.Operand], k.value(o.Value))
		}
	}
	s.close("}")
	if p.stores {
		for _, o := range k.elementOutputs {
			k.put(s, o.Operand, w.at(o.Operand), k.count())
		}
	}
	for i, n := range p.sums {
		s.line("put_terms(terms + ((slot * %d + %d) * G + g) * 2 * T + t, T, %s_terms);", len(p.sums), i, name(n))
	}
}

// groupsOf declares the groups of inputs that a pass needs, and says how they are called.
// All are read before anything is written.
func (w *walk) groupsOf(s *text, p *rowPass) map[*def.Node]string {
	k := w.k
	groups := map[*def.Node]string{}
	for _, v := range p.takes {
		if !v.isInput() {
			continue
		}
		switch {
		case w.isStaged(v):
			groups[v.node] = w.takeStaged(s, v)
			continue
		case w.storage.isInShared():
			groups[v.node] = k.operands[v.node.Operand] + "_group"
			s.line("%s %s;", groupType(k.dtypes[v.node.Operand]), groups[v.node])
			s.line("UNROLL for (int i = 0; i < %d; i++) %s.w[i] = %s;", w.wordsOf(v), groups[v.node], w.word(v, "i"))
			continue
		}
		groups[v.node] = k.keptName(v) + "[g]"
		if k.dtypes[v.node.Operand].Size() == 2 {
			s.line("renew(%s);", groups[v.node])
		}
	}
	for _, n := range p.nodes {
		v := find(p.keeps, n)
		switch {
		case w.isStaged(v):
			groups[n] = w.takeStaged(s, v)
		case n.Op == def.OpInput && v != nil && w.storage.isUnrolled():
			groups[n] = k.keptName(v) + "[g]"
		case n.Op == def.OpInput:
			d := k.dtypes[n.Operand]
			groups[n] = k.operands[n.Operand] + "_group"
			if w.isFetchedAhead(n) {
				s.line("const %s %s = %s;", groupType(d), groups[n], w.nextName(p, n))
				w.fetchNext(s, p, n, " + (g + 1) * (T * 8)", "c + T * 8")
			} else {
				s.line("const %s %s = %s;", groupType(d), groups[n], k.fetch(d, w.at(n.Operand), k.count()))
			}
			if v != nil {
				s.line("UNROLL for (int i = 0; i < %d; i++) %s = %s.w[i];", w.wordsOf(v), w.word(v, "i"), groups[n])
			}
		case n.Op == def.OpRandom:
			s.line("i32 %s_group[8];", name(n))
			s.line("random_words(%s_group, %s, (u64)(row * p.cols + c));", name(n), k.arguments(n))
		}
	}
	return groups
}

// isFetchedAhead reports whether a pass reads the groups of an input while the one before
// is at work. Where many blocks share a multiprocessor they do that for each other.
func (w *walk) isFetchedAhead(n *def.Node) bool {
	return n.Op == def.OpInput && isElement(n) && w.k.variant == Vector && w.storage.isInShared() && w.k.dtypes[n.Operand].Size() == 2
}

// fetchFirst reads the first groups of the inputs that a pass reads ahead.
func (w *walk) fetchFirst(s *text, p *rowPass) {
	for _, n := range p.nodes {
		if w.isFetchedAhead(n) {
			s.line("%s %s;", groupType(w.k.dtypes[n.Operand]), w.nextName(p, n))
			w.fetchNext(s, p, n, "", "t * 8")
		}
	}
}

func (w *walk) nextName(p *rowPass, n *def.Node) string {
	return fmt.Sprintf("%s_next%d", w.k.operands[n.Operand], p.number)
}

func (w *walk) fetchNext(s *text, p *rowPass, n *def.Node, offset, c string) {
	s.line("%s = fetch%d_whole(%s_at%s, %s < p.cols);", w.nextName(p, n), 8*w.k.dtypes[n.Operand].Size(), w.k.operands[n.Operand], offset, c)
}

// takeStaged reads a group of an input from where it has arrived, or from registers.
func (w *walk) takeStaged(s *text, v *keptValue) string {
	kept := w.k.keptName(v) + "[TAKE ? g : 0]"
	if w.wordsOf(v) == 4 {
		s.line("renew(%s);", kept)
	}
	group := w.k.operands[v.node.Operand] + "_group"
	s.line("const %s %s = TAKE ? %s : staged%d(%s, T);", groupType(w.k.dtypes[v.node.Operand]), group, kept, 4*w.wordsOf(v), w.stage(v))
	return group
}

// elements declares the values of element j: those that were kept, and those that the
// pass computes, of which it keeps some.
func (w *walk) elements(s *text, p *rowPass, groups map[*def.Node]string) {
	k := w.k
	for _, v := range p.takes {
		switch {
		case v.isInput():
			k.get(s, v.node, groups[v.node])
		case w.storage.isUnrolled():
			k.declare(s, v.node, k.keptName(v)+"[g][j]")
		case v.node.Type == def.Float:
			k.declare(s, v.node, "float_of("+w.word(v, "j")+")")
		default:
			k.declare(s, v.node, "(i32)"+w.word(v, "j"))
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
		case w.storage.isUnrolled():
			s.line("%s[g][j] = %s;", k.keptName(v), name(n))
		case n.Type == def.Float:
			s.line("%s = bits_of(%s);", w.word(v, "j"), name(n))
		default:
			s.line("%s = (u32)%s;", w.word(v, "j"), name(n))
		}
	}
}

// reduce takes element j into row reductions.
func (k *rowwise) reduce(s *text, reductions []*def.Node) {
	for _, n := range reductions {
		x := k.value(n.Args[0])
		switch {
		case k.isPaired(n):
		case n.Op == def.OpRowSum:
			s.line("%[1]s_lane[j] = %[1]s_lane[j] + %[2]s;", name(n), k.only(x, "0.0f"))
		case n.Op == def.OpRowMax:
			s.line("%[1]s_lane[j] = larger(%[1]s_lane[j], %[2]s);", name(n), k.only(x, "-INFINITE"))
		case n.Op == def.OpRowMin:
			s.line("%[1]s_lane[j] = smaller(%[1]s_lane[j], %[2]s);", name(n), k.only(x, "INFINITE"))
		case n.Op == def.OpAt:
			s.line("if (c + j == (u32)%s && c + j < columns) %s_part = %s;", k.value(n.Args[1]), name(n), x)
		}
	}
}
