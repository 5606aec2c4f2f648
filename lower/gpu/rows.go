package gpu

import (
	"fmt"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/lower"
)

var storageNotes = [...][]string{
	fused: {"Values that later passes need are kept in registers, G groups of eight", "elements per thread, and the next row is prefetched during the last pass. STEPS rows of a",
		"block are consecutive terms of a lane of column sums: the terms go through shared memory,", "where the thread that owns a column of the lane adds them in order."},
	staged: {"Inputs are in shared memory, each thread in its own words, G groups of eight", "elements; the next row is prefetched where this one is read for the last time. Computed",
		"values that later passes need are kept in registers."},
	partly: {"Inputs that fit are in shared memory, each thread in its own words, G groups of", "eight elements; the next row is prefetched where this one is read for the last time. All",
		"other values are read and computed again."},
	registers: {"Values that later passes need are kept in registers, G groups of eight", "elements per thread."},
	shared:    {"Values that later passes need are kept in shared memory, each thread in its", "own words."},
	streamed:  {"Every pass reads the row through shared memory, where the next groups", "arrive meanwhile, each in the place of one that was read."},
	reread:    {"Every pass reads the row."},
	spread:    {"Every pass reads the row, and is a launch of its own: a row has several", "blocks, whose warps leave their parts of reductions in scratch memory for the next launch."},
}

// function writes the template that the instances of a walk instantiate.
func (w *walk) function(s *text) {
	k := w.k
	s.line("")
	s.line("// Rows, T threads each, ROWS of them per block. Thread t owns the columns c with")
	s.line("// c / 8 mod T = t. %s", strings.Join(storageNotes[w.storage], "\n// "))
	switch {
	case w.storage == fused && w.hasWhole():
		s.line("template <int T, int ROWS, int G, int STEPS, bool WHOLE>")
	case w.storage == fused:
		s.line("template <int T, int ROWS, int G, int STEPS>")
	case w.hasWhole():
		s.line("template <int T, int ROWS, int G, bool WHOLE>")
	case w.storage.isUnrolled():
		s.line("template <int T, int ROWS, int G>")
	case w.storage == streamed:
		s.line("template <int T, int ROWS, int SLOTS>")
	case w.storage == spread:
		s.line("template <int PASS>")
	default:
		s.line("template <int T, int ROWS>")
	}
	s.open("DEVICE void %s_%s(const %s_params& p) {", k.base, w.storage, k.base)
	if w.storage == spread {
		s.line("const int T = %d, ROWS = 1;", spreadThreads)
	} else if most := w.mostReductions(); most > 0 {
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
		s.line("const bool TAKE = G * %d <= %d; // inputs go to registers as soon as they arrive", w.stagedWords(), taken)
	case fused:
		s.line("START_NEXT(); // which adds up the lanes")
		s.line("SHARED_DYN(Quad, terms);")
		w.declareSent(s)
	case streamed:
		s.line("SHARED_DYN(uint4_aligned, stage);")
	}
	if w.storage == spread {
		s.line("const u32 t = blockIdx.y * blockDim.x + threadIdx.x;")
	} else {
		s.line("const u32 slot = ROWS == 1 ? 0 : threadIdx.x / T, t = ROWS == 1 ? threadIdx.x : threadIdx.x %% T;")
	}
	w.declareQuads(s)
	k.scalarsOf(s, w.program)
	for i := range k.d.Operands {
		if w.isWalked(i) && k.d.Operands[i].Extent == def.PerColumn {
			w.declareAt(s, i)
		}
	}
	w.beginRows(s)
	w.rowNodes(s, w.program.Start.Steps, w.isAheadInput)
	if need := k.d.Exec().Need; need != nil {
		s.line("if (%s == 0) columns = 0; // nothing reads the results of this row", name(need))
	}
	k.findRows(s, w.lookups())
	if w.storage != fused {
		w.declareEarly(s)
	}
	w.readEarly(s)
	w.takeSent(s)
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
	if w.firstStore() == len(w.passes) {
		w.returnIfRefused(s)
	}
	k.storeRows(s, "here && t == 0")
	if w.storage != fused {
		for i, n := range k.handedOn {
			s.line("if (here && t == 0) p.row_values[%d * p.rows + row] = %s;", i, toScratch(n.Type, name(n)))
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

// beginRows opens the loop over rows, and loads the first one where rows are prefetched.
func (w *walk) beginRows(s *text) {
	k := w.k
	switch w.storage {
	case fused:
		whole := ""
		if w.hasWhole() {
			whole = "WHOLE || "
		}
		s.line("const u32 owned = G >= STEPS ? G / STEPS : 1; // groups of columns of a lane")
		for _, n := range w.sums {
			s.line("%s %s_lane[owned][8];", typeName(n.Type), name(n))
			s.line("UNROLL for (u32 o = 0; o < owned; o++) fill(%s_lane[o], %s);", name(n), zero(n.Type))
		}
		for _, v := range w.readFirst() {
			s.line("%s %s[G];", groupType(k.dtypes[v.Node.Operand]), k.keptName(v))
		}
		for _, n := range w.aheadInputs() {
			s.line("%s %s_next = 0;", typeName(n.Type), name(n))
			if w.isAheadIndex(n) {
				s.line("%s %s_later = 0;", typeName(n.Type), name(n))
			}
		}
		w.declareEarly(s)
		s.line("const i64 of_slot = slot / STEPS + slot %% STEPS * p.lane_step;")
		s.open("{")
		s.line("const i64 row = (i64)blockIdx.x * (ROWS / STEPS) + of_slot;")
		s.line("const u32 columns = row < p.rows ? p.cols : 0;")
		w.declareReadFirst(s)
		w.sendFirstRow(s)
		w.loadRowInputs(s)
		if w.hasEarly() {
			s.open("UNROLL for (u32 g = 0; g < G; g++) {")
			s.line("const u32 c = g * (T * 8) + %s;", w.own())
			w.readAhead(s)
			s.close("}")
		}
		w.loadLater(s)
		s.close("}")
		s.open("for (i64 first = (i64)blockIdx.x * (ROWS / STEPS); first < p.rows; first += STEPS * p.lane_step) {")
		s.line("const bool here = %sfirst + of_slot < p.rows;", whole)
		s.line("const i64 row = here ? first + of_slot : first;")
	case staged, partly:
		s.open("for (u32 n = 0; n < p.slots; n++) {")
		s.line("const i64 row = (i64)blockIdx.x + (n < G ? 0 : gridDim.x);")
		s.line("const u32 g = n < G ? n : n - G;")
		s.open("if (row < p.rows) {")
		w.declareReadFirst(s)
		for _, v := range w.readFirst() {
			w.send(s, v, "g", "n")
		}
		s.close("}")
		s.line("if (n == G - 1) staging_commit();")
		s.close("}")
		s.line("staging_commit();")
		s.line("u32 base = 0; // the slot of the row's first group")
		s.open("for (i64 first = blockIdx.x; first < p.rows; first += gridDim.x, base = slot_of(base, G, p.slots)) {")
		s.line("const bool here = true;")
		s.line("const i64 row = first;")
	case spread:
		s.open("for (i64 row = blockIdx.x; row < p.rows; row += gridDim.x) {")
		s.line("const bool here = true;")
	case streamed:
		w.beginStream(s)
		s.open("for (i64 first = blockIdx.x; first < p.rows; first += gridDim.x) {")
		s.line("const bool here = true;")
		s.line("const i64 row = first;")
	default:
		s.open("for (i64 first = (i64)blockIdx.x * ROWS; first < p.rows; first += (i64)gridDim.x * ROWS) {")
		if w.hasWhole() {
			s.line("if (WHOLE && ROWS > 1 && first + slot >= p.rows) break; // no thread of the warp has a row")
			s.line("const bool here = WHOLE || ROWS == 1 || first + slot < p.rows;")
		} else {
			s.line("const bool here = ROWS == 1 || first + slot < p.rows;")
		}
		s.line("const i64 row = here ? first + slot : first;")
	}
	if w.k.d.Exec().Need != nil {
		s.line("u32 columns = here ? p.cols : 0;")
	} else {
		s.line("const u32 columns = here ? p.cols : 0;")
	}
	for i := range w.k.d.Operands {
		if w.isWalked(i) && w.k.d.Operands[i].Extent == def.PerElement {
			w.declareAt(s, i)
		}
	}
}

// isWalked reports whether the walk loads or stores groups of an operand.
func (w *walk) isWalked(operand int) bool {
	o := &w.k.d.Operands[operand]
	if o.Extent&def.PerColumn == 0 {
		return false
	}
	for i := range w.passes {
		p := &w.passes[i]
		if slices.ContainsFunc(p.nodes, func(n *def.Node) bool {
			return (isLoad(n) || n.Op == def.OpLookup) && operandOf(n) == operand
		}) {
			return true
		}
		if p.stores && slices.ContainsFunc(w.k.elementOutputs, func(o def.Output) bool { return o.Operand == operand }) {
			return true
		}
	}
	return false
}

// declareAt declares the address of the thread's first group of an operand in this row.
func (w *walk) declareAt(s *text, operand int) {
	k := w.k
	pointer := k.dtypes[operand].String() + "*"
	if !k.d.Operands[operand].IsOut {
		pointer = "const " + pointer
	}
	s.line("%s const %s_at = %s;", pointer, k.operands[operand], k.atColumn(operand, w.own()))
}

// declareReadFirst declares the addresses of the inputs that are prefetched.
func (w *walk) declareReadFirst(s *text) {
	for _, v := range w.readFirst() {
		w.declareAt(s, v.Node.Operand)
	}
}

// at returns the address of group g of an operand.
func (w *walk) at(operand int) string {
	return fmt.Sprintf("%s_at + g * (T * 8)", w.k.operands[operand])
}

// keptName returns the variable of a kept value.
func (k *rowwise) keptName(v *keptValue) string {
	if v.isInput() {
		return k.operands[v.Node.Operand] + "_kept"
	}
	return name(v.Node) + "_kept"
}

// rowNodes declares row values. Those that isAhead names have been prefetched. In code with
// branches, divisions and square roots are computed here and not in every branch.
func (w *walk) rowNodes(s *text, steps []lower.Step, isAhead func(*def.Node) bool) {
	k := w.k
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
		case w.hasWhole() && n.Op == def.OpDiv && n.Args[1].Op == def.OpColumns:
			k.declare(s, n, fmt.Sprintf("pinned(WHOLE ? %s * (1.0f / (T * 8 * G)) : %s)", k.value(n.Args[0]), k.rowExpression(n)))
		case w.storage.isUnrolled() && (n.Op == def.OpDiv || n.Op == def.OpSqrt):
			k.declare(s, n, "pinned("+k.rowExpression(n)+")")
		default:
			k.declare(s, n, k.rowExpression(n))
		}
	}
}

// never prefetches nothing.
func never(*def.Node) bool { return false }

// pass writes one pass over a row and the row values known after it.
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
			for _, o := range slices.Concat(k.elementOutputs, k.slotOutputs) {
				does = append(does, "store "+k.d.Operands[o.Operand].Name)
			}
		}
		s.line("")
		s.line("// pass %d: %s", p.number, strings.Join(does, ", "))
		if p.stores && k.hasRowLoads() && w.storage != spread {
			if w.hasBarrierAfterRowLoads(i) {
				s.line("if (T <= 32) WARP_BARRIER(); // all threads have read the row's elements before any is overwritten")
			} else {
				s.line("if (T > 32) BARRIER(); // all threads have read the row's elements before any is overwritten")
				s.line("else WARP_BARRIER();")
			}
		}
		if w.storage.isUnrolled() {
			w.readRow(s, p)
		}
		w.checkRefusal(s, i)
		for _, n := range p.reductions {
			k.beginReduction(s, n)
		}
		if p.stores {
			w.beginPacked(s)
		}
		isSending := w.storage.isStaged() && i == w.lastSend() && len(w.readLast(i)) > 0
		if isSending {
			s.line("if (!TAKE && p.slots == 2 * G) staging_commit();")
		}
		isLate := i == w.lastPass() && len(w.sentLate()) > 0
		if isLate {
			s.open("if constexpr (SENT) {")
			w.awaitSent(s)
			s.close("}")
		}
		if w.storage == spread {
			s.open("if constexpr (PASS == %d) {", i)
		}
		if condition, rest := w.unneeded(p, i); condition == "" {
			w.loop(s, p, i)
		} else {
			s.open("if (%s) {", condition)
			w.loop(s, p, i)
			s.close("} else {")
			s.depth++
			w.loop(s, rest, i)
			s.close("}")
		}
		if w.storage == spread {
			w.leaveParts(s, p, i)
			s.close("}")
		}
		if isLate {
			s.line("if constexpr (SENT) staging_commit();")
		}
		if isSending {
			s.line("if (!TAKE) staging_commit();")
		}
		if p.stores {
			w.storePacked(s)
		}
	} else {
		w.checkRefusal(s, i)
	}
	if w.storage == spread {
		w.joinParts(s, p, i)
		w.rowNodes(s, p.after, never)
		return
	}
	for _, n := range p.reductions {
		switch {
		case lower.IsExchange(n):
			w.exchange(s, n)
		case isColumnOfExtreme(n):
			s.line("u64 %s_key = %s;", name(n), w.threadsPart(n))
		default:
			s.line("%s %s = %s;", typeName(n.Type), name(n), w.threadsPart(n))
		}
	}
	if len(p.reductions) > 0 && !k.isShort {
		s.open("if constexpr (T > 32) {")
		k.acrossWarps(s, p.reductions, "T", "ROWS", w.mostReductions())
		s.close("}")
	}
	for _, n := range p.reductions {
		if isColumnOfExtreme(n) {
			k.declare(s, n, fmt.Sprintf("column_of(%s_key)", name(n)))
		}
	}
	w.rowNodes(s, p.after, never)
}

// loop writes the loop of pass i over the groups of a row.
func (w *walk) loop(s *text, p *rowPass, i int) {
	w.openGroups(s)
	w.group(s, p)
	w.closeInside(s)
	w.readNext(s, i)
	s.close("}")
}

// worthBranching is the price, in nodes for each element, of values for which a pass has a second loop
// without them.
const worthBranching = 16

// unneeded returns a condition, known before pass i, under which alone some reductions of the pass are needed,
// and the pass without them; or "". Nothing of the pass may be kept.
func (w *walk) unneeded(p *rowPass, i int) (condition string, rest *rowPass) {
	if w.storage < streamed || p.stores || len(p.sums) > 0 {
		return "", nil
	}
	known := slices.Clone(w.program.Start.Steps)
	for j := range w.passes[:i] {
		known = append(known, w.passes[j].after...)
	}
	demands := w.k.d.Exec().Demands()
	demandOf := func(n *def.Node) def.Demand {
		return slices.DeleteFunc(slices.Clone(demands[n.ID]), func(c def.Condition) bool {
			return c.Value.Extent != def.Scalar && !slices.Contains(lower.Nodes(known), c.Value)
		})
	}
	var demand def.Demand
	rest = &rowPass{number: p.number}
	for _, n := range p.reductions {
		d := demandOf(n)
		if demand == nil {
			demand = d
		}
		if len(d) == 0 || !slices.Equal(d, demand) {
			rest.reductions = append(rest.reductions, n)
		}
	}
	if len(demand) == 0 {
		return "", nil
	}
	isRead := map[*def.Node]bool{}
	for _, n := range rest.reductions {
		isRead[n.Args[0]] = true
	}
	for _, n := range slices.Backward(p.nodes) {
		if isRead[n] {
			rest.nodes = append(rest.nodes, n)
			for _, a := range n.Args {
				isRead[a] = true
			}
		}
	}
	slices.Reverse(rest.nodes)
	if len(p.nodes)-len(rest.nodes) < worthBranching {
		return "", nil
	}
	var terms []string
	for _, c := range demand {
		if c.IsTrue {
			terms = append(terms, w.k.value(c.Value))
		} else {
			terms = append(terms, "!"+w.k.value(c.Value))
		}
	}
	return strings.Join(terms, " && "), rest
}

// firstStore returns the first pass that stores elements, or the number of passes.
func (w *walk) firstStore() int {
	if i := slices.IndexFunc(w.passes, func(p rowPass) bool { return p.stores }); i >= 0 {
		return i
	}
	return len(w.passes)
}

// checkRefusal writes, in pass i, the load of what the checking pass found, a pass before
// elements are stored, and the return before that. Kernels with rolled loops, which have no
// registers for it, check at the beginning.
func (w *walk) checkRefusal(s *text, i int) {
	if !hasIndex(w.k.d) || !w.storage.isUnrolled() {
		return
	}
	if i == max(0, w.firstStore()-1) {
		s.line("const u64 refusal = %s_refusal(p.refused);", w.k.base)
	}
	if i == w.firstStore() {
		w.returnIfRefused(s)
	}
}

// returnIfRefused ends the kernel before anything is written.
func (w *walk) returnIfRefused(s *text) {
	if hasIndex(w.k.d) && w.storage.isUnrolled() {
		s.line("if (refusal != ~(u64)0) return;")
	}
}

// hasBarrierAfterRowLoads reports whether the threads of a row meet after they have read
// elements at an index and before pass i: a reduction is a barrier where a row has more than
// a warp.
func (w *walk) hasBarrierAfterRowLoads(i int) bool {
	isMet := false
	for j := range w.passes[:i] {
		p := &w.passes[j]
		isMet = isMet || len(p.reductions) > 0
		if slices.ContainsFunc(p.after, func(s lower.Step) bool { return s.Action == lower.LoadAt }) {
			isMet = false
		}
	}
	return isMet
}

// threadsPart returns a reduction over the threads of a warp.
func (w *walk) threadsPart(n *def.Node) string {
	k, part := w.k, ""
	switch {
	case n.Op == def.OpRowSum:
		return w.threadsSum(n)
	case k.isPaired(n):
		part = fmt.Sprintf("largest_%s(%s_pairs)", k.dtypes[n.Args[0].Operand], name(n))
	case n.Op == def.OpRowMax:
		part = fmt.Sprintf("largest(%s_lane)", name(n))
	case n.Op == def.OpRowMin:
		part = fmt.Sprintf("smallest(%s_lane)", name(n))
	case n.Op == def.OpRowArgMax:
		return fmt.Sprintf("threads_key<T < 32 ? T : 32>(larger_key(%[1]s_best, %[1]s_column))", name(n))
	case n.Op == def.OpRowArgMin:
		return fmt.Sprintf("threads_key<T < 32 ? T : 32>(smaller_key(%[1]s_best, %[1]s_column))", name(n))
	default:
		part = name(n) + "_part"
	}
	return fmt.Sprintf("threads_%s<T < 32 ? T : 32>(%s)", joins[n.Op], part)
}

// hasRowLoads reports whether elements of a row are read at an index.
func (k *rowwise) hasRowLoads() bool {
	return slices.ContainsFunc(k.d.Exec().Nodes, lower.IsRowLoad)
}

// beginReduction declares the accumulators of a row reduction.
func (k *rowwise) beginReduction(s *text, n *def.Node) {
	switch n.Op {
	case def.OpRowSum:
		k.lanes(s, n, zero(n.Type))
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
	case def.OpRank:
		s.line("u32 %s_keys[8];", name(n))
		s.line("UNROLL for (int j = 0; j < 8; j++) %s_keys[j] = 0xffffffffu;", name(n))
	case def.OpUnpacked:
		s.line("u32 %s_mask = 0;", name(n))
	}
}

// beginColumn declares the accumulators of a column of an extreme: column 0, unless a
// value is better than the worst.
func (k *rowwise) beginColumn(s *text, n *def.Node, worst string) {
	s.line("float %s_best = %s;", name(n), worst)
	s.line("i32 %s_column = 0;", name(n))
}
