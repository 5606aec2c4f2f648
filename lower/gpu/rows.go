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
}

// function writes the template that the instances of a walk instantiate.
func (w *walk) function(s *text) {
	k := w.k
	s.line("")
	s.line("// Rows, T threads each, ROWS of them per block. Thread t owns the columns c with")
	s.line("// c / 8 mod T = t. %s", strings.Join(storageNotes[w.storage], "\n// "))
	switch {
	case w.storage == fused:
		s.line("template <int T, int ROWS, int G, int STEPS>")
	case w.hasWhole():
		s.line("template <int T, int ROWS, int G, bool WHOLE>")
	case w.storage.isUnrolled():
		s.line("template <int T, int ROWS, int G>")
	case w.storage == streamed:
		s.line("template <int T, int ROWS, int SLOTS>")
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
		s.line("const bool TAKE = G * %d <= %d; // inputs go to registers as soon as they arrive", w.stagedWords(), taken)
	case fused:
		s.line("SHARED_DYN(Quad, terms);")
	case streamed:
		s.line("SHARED_DYN(uint4_aligned, stage);")
	}
	s.line("const u32 slot = ROWS == 1 ? 0 : threadIdx.x / T, t = ROWS == 1 ? threadIdx.x : threadIdx.x %% T;")
	w.declareQuads(s)
	k.scalarsOf(s, w.program)
	for i := range k.d.Operands {
		if w.isWalked(i) && k.d.Operands[i].Extent == def.PerColumn {
			w.declareAt(s, i)
		}
	}
	w.beginRows(s)
	w.rowNodes(s, w.program.Start.Steps, w.isAheadInput)
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

// beginRows opens the loop over rows, and loads the first one where rows are prefetched.
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
	s.line("const u32 columns = here ? p.cols : 0;")
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
		if slices.ContainsFunc(p.nodes, func(n *def.Node) bool { return n.Op == def.OpInput && n.Operand == operand }) {
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
			for _, o := range k.elementOutputs {
				does = append(does, "store "+k.d.Operands[o.Operand].Name)
			}
		}
		s.line("")
		s.line("// pass %d: %s", p.number, strings.Join(does, ", "))
		if p.stores && k.hasRowLoads() {
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
		isSending := w.storage.isStaged() && i == w.lastSend() && len(w.readLast(i)) > 0
		if isSending {
			s.line("if (!TAKE && p.slots == 2 * G) staging_commit();")
		}
		w.openGroups(s)
		w.group(s, p)
		w.closeInside(s)
		w.readNext(s, i)
		s.close("}")
		if isSending {
			s.line("if (!TAKE) staging_commit();")
		}
	} else {
		w.checkRefusal(s, i)
	}
	for _, n := range p.reductions {
		if isColumnOfExtreme(n) {
			s.line("u64 %s_key = %s;", name(n), w.threadsPart(n))
		} else {
			s.line("float %s = %s;", name(n), w.threadsPart(n))
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
	w.rowNodes(s, p.after, never)
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

// beginColumn declares the accumulators of a column of an extreme: column 0, unless a
// value is better than the worst.
func (k *rowwise) beginColumn(s *text, n *def.Node, worst string) {
	s.line("float %s_best = %s;", name(n), worst)
	s.line("i32 %s_column = 0;", name(n))
}
