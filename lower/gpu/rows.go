package gpu

import (
	"fmt"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/lower"
)

var storageNotes = [...][]string{
	fused: {"What a later pass needs is kept in registers, G groups of eight elements a", "thread, and the next row is read during the last pass over this one. STEPS rows of a",
		"block follow each other in a lane of column sums: their terms meet in shared memory,", "where the thread that owns a column of the lane adds them in their order."},
	staged: {"Inputs are in shared memory, in words of the thread's own, G groups of eight", "elements; where they are read for the last time, the next row's are sent for. What is",
		"computed and needed later is kept in registers."},
	partly: {"Inputs for which there is room are in shared memory, in words of the thread's", "own, G groups of eight elements; where they are read for the last time, the next row's",
		"are sent for. All else is read and computed again."},
	registers: {"What a later pass needs is kept in registers, G groups of eight elements a", "thread."},
	shared:    {"What a later pass needs is kept in shared memory, in words of the", "thread's own."},
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
	if most := w.mostReductions(); most > 0 {
		s.line("SHARED(float, scratch, 2 * %d * ROWS * T / 32);", most)
		s.line("int turn = 0;")
	}
	switch w.storage {
	case shared:
		s.line("SHARED_DYN(u32, kept);")
	case staged, partly:
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
	k.scalarsOf(s, w.program)
	for i := range k.d.Operands {
		if w.isWalked(i) && k.d.Operands[i].Extent == def.PerColumn {
			w.declareAt(s, i)
		}
	}
	w.beginRows(s)
	k.rowNodes(s, w.program.Start.Steps, w.isAheadInput)
	if w.storage.isUnrolled() {
		for _, v := range w.kept {
			switch {
			case v.isInput() && (v.First > 0 || w.storage == registers):
				s.line("%s %s[G];", groupType(k.dtypes[v.Node.Operand]), k.keptName(v))
			case !v.isInput():
				s.line("%s %s[G][8];", typeName(v.Node.Type), k.keptName(v))
			}
		}
	}
	if w.storage.isStaged() {
		w.takeAll(s)
	}
	for i := range w.passes {
		w.pass(s, &w.passes[i], i)
	}
	k.storeRows(s, "here && t == 0")
	if w.storage != fused {
		for i, n := range k.handedOn {
			v := name(n)
			if n.Type == def.Int {
				v = "float_of((u32)" + v + ")"
			}
			s.line("if (here && t == 0) p.row_values[%d * p.rows + row] = %s;", i, v)
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
			s.line("%s %s[G];", groupType(k.dtypes[v.Node.Operand]), k.keptName(v))
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
	case staged, partly:
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
		w.declareAt(s, v.Node.Operand)
	}
}

// at is where group g of an operand is.
func (w *walk) at(operand int) string {
	return fmt.Sprintf("%s_at + g * (T * 8)", w.k.operands[operand])
}

func (k *rowwise) keptName(v *keptValue) string {
	if v.isInput() {
		return k.operands[v.Node.Operand] + "_kept"
	}
	return name(v.Node) + "_kept"
}

// rowNodes declares row values; elements of inputs at an index are read here. Those that
// may have been read ahead are taken from there.
func (k *rowwise) rowNodes(s *text, steps []lower.Step, isAhead func(*def.Node) bool) {
	for _, step := range steps {
		n := step.Node
		switch {
		case step.Action == lower.LoadAt:
			i := k.value(n.Args[1])
			at := fmt.Sprintf("row * p.%s_stride + %s", k.operands[step.Operand], i)
			k.declare(s, n, fmt.Sprintf("here && %s >= 0 && (u32)%s < p.cols ? %s : 0.0f", i, i, k.load(step.Operand, at)))
		case step.Action == lower.Finish:
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
	if !p.isEmpty() {
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
		w.openGroups(s)
		w.group(s, p)
		w.closeInside(s)
		w.readNext(s, i)
		s.close("}")
	}
	for _, n := range p.reductions {
		if isColumnOfExtreme(n) {
			s.line("u64 %s_key = threads_key<T < 32 ? T : 32>(%s);", name(n), k.threadsPart(n))
		} else {
			s.line("float %s = threads_%s<T < 32 ? T : 32>(%s);", name(n), joins[n.Op], k.threadsPart(n))
		}
	}
	if len(p.reductions) > 0 {
		s.open("if constexpr (T > 32) {")
		k.acrossWarps(s, p.reductions, "T", "ROWS", w.mostReductions())
		s.close("}")
	}
	for _, n := range p.reductions {
		if isColumnOfExtreme(n) {
			k.declare(s, n, fmt.Sprintf("column_of(%s_key)", name(n)))
		}
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
	case n.Op == def.OpRowArgMax:
		return fmt.Sprintf("larger_key(%[1]s_best, %[1]s_column)", name(n))
	case n.Op == def.OpRowArgMin:
		return fmt.Sprintf("smaller_key(%[1]s_best, %[1]s_column)", name(n))
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
		if w.k.usesColumns() {
			s.line("u32 c = (g * T + t) * 8;")
			s.line("RENEW(c); // numbers of columns are cheap: none is kept from pass to pass")
		} else {
			s.line("const u32 c = (g * T + t) * 8;")
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
		s.open("if (c < columns) {")
	}
}

// usesColumns reports whether columns of extremes or columns as floats are computed.
func (k *rowwise) usesColumns() bool {
	return slices.ContainsFunc(k.d.Exec.Nodes, func(n *def.Node) bool { return n.Op == def.OpColFloat || isColumnOfExtreme(n) })
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

// isPaired reports whether a reduction is the largest of a 16-bit input, which need
// not be widened for that.
func (k *rowwise) isPaired(n *def.Node) bool {
	x := n.Args[0]
	return k.variant == Vector && n.Op == def.OpRowMax && x.Op == def.OpInput && x.Extent == def.PerElement && k.dtypes[x.Operand].Size() == 2
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
	case def.OpRowArgMax:
		k.beginColumn(s, n, "-INFINITE")
	case def.OpRowArgMin:
		k.beginColumn(s, n, "INFINITE")
	case def.OpAt:
		s.line("float %s_part = 0.0f;", name(n))
	}
}

// beginColumn declares what a thread has found: where all are the worst, column 0 is
// the first.
func (k *rowwise) beginColumn(s *text, n *def.Node, worst string) {
	s.line("float %s_best = %s;", name(n), worst)
	s.line("i32 %s_column = 0;", name(n))
}

// word is a kept word of shared memory.
func (w *walk) word(v *keptValue, j string) string {
	return fmt.Sprintf("kept[(g * %d + %d + %s) * T + t]", w.words, v.offset, j)
}

func find(list []*keptValue, n *def.Node) *keptValue {
	for _, v := range list {
		if v.Node == n {
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
		k.declareOutputs(s)
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
			s.line("renew(%s);", groups[v.Node])
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
			s.line("const %s %s = %s;", groupType(d), groups[n], k.fetch(d, w.at(n.Operand), k.count()))
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

// elements declares the values of element j: those that were kept, and those that the
// pass computes, of which it keeps some.
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
		if n.Op == def.OpInput {
			k.get(s, n, groups[n])
			continue
		}
		k.compute(s, n, "c + j")
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
		case n.Op == def.OpRowArgMax:
			s.line("take_larger(%[1]s_best, %[1]s_column, %[2]s, c + j);", name(n), k.only(x, "-INFINITE"))
		case n.Op == def.OpRowArgMin:
			s.line("take_smaller(%[1]s_best, %[1]s_column, %[2]s, c + j);", name(n), k.only(x, "INFINITE"))
		case n.Op == def.OpAt:
			s.line("if (c + j == (u32)%s && c + j < columns) %s_part = %s;", k.value(n.Args[1]), name(n), x)
		}
	}
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
