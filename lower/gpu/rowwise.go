package gpu

import (
	"fmt"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// rowwise is a rowwise definition as a handful of kernels. Where the rows kernel adds up
// lanes of column sums as it goes, it is followed by columns and scalars; otherwise they are
// launched in this order:
//
//	rows           row reductions, what is stored per row and, unless sums need them first, per element
//	column_lanes   the lanes of column sums
//	total_flat     the sums of flat rows of 65,536 elements (total_rows where rows lie apart); total_next adds those up
//	rows           here, if no sum depends on a row reduction: sums read what this replaces
//	flat, elements what is stored per element, where it is not stored by rows
//	columns        lanes are added up; what is stored per column
//	scalars        what is stored once
type rowwise struct {
	d       *def.Definition
	dtypes  []num.DType
	variant Variant
	base    string

	operands []string // identifiers of operands and parameters
	params   []string

	columnSums []*def.Node
	totalSums  []*def.Node
	handedOn   []*def.Node // row reductions that later kernels read from scratch memory
	walks      [reread + 1]*walk

	elementOutputs, rowOutputs, columnOutputs, scalarOutputs []def.Output

	hasRows    bool // there are row reductions
	isSplit    bool // sums depend on row reductions: rows stores nothing per element
	rowEntries []rowEntry
	fields     []field
	source     Source
	entries    rowwiseEntries
}

func compileRowwise(d *def.Definition, dtypes []num.DType, v Variant, base string) *Kernel {
	k := &rowwise{d: d, dtypes: slices.Clone(dtypes), variant: v, base: base}
	k.nameOperands()
	k.classify()
	k.layout()
	k.source.Name = base
	var s text
	k.header(&s)
	if hasIndex(d) {
		s.WriteString("\n" + checkSource(d, base))
		k.source.Entries = append(k.source.Entries, base+"_check")
	}
	if k.hasRows {
		k.rows(&s)
	}
	if len(k.columnSums) > 0 {
		k.columnLanes(&s)
	}
	if len(k.totalSums) > 0 {
		if d.IsFlat() {
			k.totals(&s, true)
		}
		k.totals(&s, false)
		k.totalNext(&s)
	}
	if k.storesElements() {
		if d.IsFlat() {
			k.elements(&s, true)
		}
		k.elements(&s, false)
	}
	if len(k.columnOutputs) > 0 {
		k.columns(&s)
	}
	if len(k.scalarOutputs) > 0 {
		k.scalars(&s)
	}
	k.source.Text = s.String()
	k.number()
	return &Kernel{Source: k.source, d: d, planner: k, check: k.entries.check}
}

func (k *rowwise) nameOperands() {
	var names []string
	for _, o := range k.d.Operands {
		names = append(names, o.Name)
	}
	for _, p := range k.d.Params {
		names = append(names, p.Name)
	}
	ids := uniqueIdentifiers(names, "_stride")
	k.operands, k.params = ids[:len(k.d.Operands)], ids[len(k.d.Operands):]
}

// classify finds out which kernels the definition needs.
func (k *rowwise) classify() {
	for _, o := range k.d.Exec.Outputs {
		switch o.Value.Extent {
		case def.PerElement:
			k.elementOutputs = append(k.elementOutputs, o)
		case def.PerRow:
			k.rowOutputs = append(k.rowOutputs, o)
		case def.PerColumn:
			k.columnOutputs = append(k.columnOutputs, o)
		default:
			k.scalarOutputs = append(k.scalarOutputs, o)
		}
	}
	for _, n := range k.d.Exec.Nodes {
		switch {
		case n.Op == def.OpColSum:
			k.columnSums = append(k.columnSums, n)
		case n.Op == def.OpTotalSum:
			k.totalSums = append(k.totalSums, n)
		case lower.IsRowReduction(n):
			k.hasRows = true
		}
	}
	sums := slices.Concat(k.columnSums, k.totalSums)
	k.isSplit = len(k.afterRows(nil, sums).Received()) > 0
	if k.isSplit {
		k.handedOn = k.afterRows(k.elementOutputs, sums).Received()
	}
}

// afterRows plans a kernel that stores outputs and adds up sums when row reductions are
// known.
func (k *rowwise) afterRows(stores []def.Output, sums []*def.Node) *lower.Program {
	return lower.NewProgram(k.d, k.dtypes, lower.Part{Stores: stores, Values: sums, Given: lower.IsRowReduction}, costs{k, reread})
}

// afterSums plans a kernel that stores outputs when column and total sums are known.
func (k *rowwise) afterSums(stores []def.Output) *lower.Program {
	return lower.NewProgram(k.d, k.dtypes, lower.Part{Stores: stores, Given: lower.IsSum}, costs{k, reread})
}

// storesElements reports whether what is stored per element, or per row without a
// reduction, has a kernel of its own.
func (k *rowwise) storesElements() bool {
	if k.hasRows {
		return k.isSplit && len(k.elementOutputs) > 0
	}
	return len(k.elementOutputs)+len(k.rowOutputs) > 0
}

// header writes the comment on top and the struct of parameters.
func (k *rowwise) header(s *text) {
	s.line("// %s, %s access", k.d.Name, k.variant)
	for _, f := range k.d.Contract().Formula {
		s.line("//   %s", f)
	}
	s.line("//")
	var stored []string
	for i, o := range k.d.Operands {
		stored = append(stored, o.Name+" "+k.dtypes[i].String())
	}
	s.line("// Operands    %s", strings.Join(stored, ", "))
	s.line("// Definition  sha256 %s", k.d.Hash())
	s.line("")
	s.open("struct %s_params {", k.base)
	for _, f := range k.fields {
		s.line("%s %s;%s", f.typeName, f.name, f.note)
	}
	s.close("};")
}

// entry begins a kernel.
func (k *rowwise) entry(s *text, suffix string, threads int) {
	name := k.base + "_" + suffix
	k.source.Entries = append(k.source.Entries, name)
	s.open("KERNEL(%s, %d)(const %s_params p) {", name, threads, k.base)
	if hasIndex(k.d) {
		s.line("if (%s_is_refused(p.refused)) return;", k.base)
	}
}

// scalarsOf declares single values that are known before the first row.
func (k *rowwise) scalarsOf(s *text, p *lower.Program) {
	for _, step := range p.Once.Scalars.Steps {
		if !isInline(step.Node) {
			k.declare(s, step.Node, k.expression(step.Node))
		}
	}
}

// rowsOf declares row values, reductions read from scratch memory.
func (k *rowwise) rowsOf(s *text, p *lower.Program) {
	for _, step := range p.Start.Steps {
		n := step.Node
		if step.Action != lower.Receive {
			k.declare(s, n, k.rowExpression(n))
			continue
		}
		v := fmt.Sprintf("p.row_values[%d * p.rows + row]", slices.Index(k.handedOn, n))
		if n.Type == def.Int {
			v = "(i32)bits_of(" + v + ")"
		}
		k.declare(s, n, v)
	}
}

func (k *rowwise) rowExpression(n *def.Node) string {
	if n.Op == def.OpInput {
		return k.load(n.Operand, fmt.Sprintf("row * p.%s_stride", k.operands[n.Operand]))
	}
	return k.expression(n)
}

// fetchGroups reads the groups of inputs and random words that a pass needs.
func (k *rowwise) fetchGroups(s *text, p *lower.Program, at func(operand int) string, flat string) {
	for _, step := range p.Passes[0].Elements.Steps {
		n := step.Node
		switch {
		case step.Action == lower.Load:
			s.line("const %s %s_group = %s;", groupType(step.Format), k.operands[n.Operand], k.fetch(step.Format, at(n.Operand), "n"))
		case step.Action == lower.Compute && n.Op == def.OpRandom:
			s.line("i32 %s_group[8];", name(n))
			s.line("random_words(%s_group, %s, (u64)(%s));", name(n), k.arguments(n), flat)
		}
	}
}

func (k *rowwise) arguments(n *def.Node) string {
	var args []string
	for _, a := range n.Args {
		args = append(args, k.value(a))
	}
	return strings.Join(args, ", ")
}

// elementsOf declares the values of element j.
func (k *rowwise) elementsOf(s *text, p *lower.Program, column string) {
	for _, step := range p.Passes[0].Elements.Steps {
		switch step.Action {
		case lower.Load:
			k.get(s, step.Node, k.operands[step.Operand]+"_group")
		case lower.Compute:
			k.compute(s, step.Node, column)
		}
	}
}

// compute declares a value of element j that is not an input.
func (k *rowwise) compute(s *text, n *def.Node, column string) {
	switch n.Op {
	case def.OpRandom:
		k.declare(s, n, name(n)+"_group[j]")
	case def.OpCol:
		k.declare(s, n, "(i32)("+column+")")
	case def.OpColFloat:
		k.declare(s, n, "(float)("+column+")")
	default:
		k.declare(s, n, k.expression(n))
	}
}

// get declares element j of a group.
func (k *rowwise) get(s *text, n *def.Node, group string) {
	k.declare(s, n, fmt.Sprintf("get_%s(%s, j)", k.dtypes[n.Operand], group))
}

// elements writes the kernel of what is stored per element: over groups of eight in
// flat order where all operands are contiguous, row by row otherwise.
func (k *rowwise) elements(s *text, isFlat bool) {
	stores := slices.Clone(k.elementOutputs)
	if !k.hasRows {
		stores = append(stores, k.rowOutputs...)
	}
	p := k.afterRows(stores, nil)
	s.line("")
	if isFlat {
		s.line("// Every element, in flat order: operands without gaps between their rows.")
		k.entry(s, "flat", 256)
	} else {
		s.line("// Every element, in groups of eight neighbours of a row.")
		k.entry(s, "elements", 256)
	}
	k.scalarsOf(s, p)
	at := func(operand int) string { return fmt.Sprintf("p.%s + c", k.operands[operand]) }
	flat := "c"
	if isFlat {
		s.line("const i64 count = p.rows * p.cols, groups = (count + 7) / 8;")
		s.open("for (i64 q = blockIdx.x * 256LL + threadIdx.x; q < groups; q += gridDim.x * 256LL) {")
		s.line("const i64 c = q * 8;")
		s.line("const int n = count - c < 8 ? (int)(count - c) : 8;")
	} else {
		s.line("const i64 groups = ((i64)p.cols + 7) / 8;")
		s.open("for (i64 q = blockIdx.x * 256LL + threadIdx.x; q < p.rows * groups; q += gridDim.x * 256LL) {")
		s.line("const i64 row = q / groups;")
		s.line("const u32 c = (u32)(q %% groups) * 8;")
		s.line("const int n = inside(c, p.cols);")
		at, flat = k.atRow, "row * p.cols + c"
		k.rowsOf(s, p)
	}
	k.fetchGroups(s, p, at, flat)
	k.storeGroups(s, p, at)
	if !k.hasRows {
		k.storeRows(s, "c == 0")
	}
	s.close("}")
	s.close("}")
}

// atRow is the address of a group of an operand, from column c on.
func (k *rowwise) atRow(operand int) string { return k.atColumn(operand, "c") }

func (k *rowwise) atColumn(operand int, c string) string {
	if k.d.Operands[operand].Extent == def.PerColumn {
		return fmt.Sprintf("p.%s + %s", k.operands[operand], c)
	}
	return fmt.Sprintf("p.%[1]s + row * p.%[1]s_stride + %[2]s", k.operands[operand], c)
}

// storeGroups computes the elements of a group and stores those that are outputs.
func (k *rowwise) storeGroups(s *text, p *lower.Program, at func(operand int) string) {
	if len(k.elementOutputs) == 0 {
		return
	}
	k.declareOutputs(s)
	s.open("UNROLL for (int j = 0; j < 8; j++) {")
	k.elementsOf(s, p, "c + j")
	for _, o := range k.elementOutputs {
		s.line("%s_out[j] = %s;", k.operands[o.Operand], k.value(o.Value))
	}
	s.close("}")
	for _, o := range k.elementOutputs {
		k.put(s, o.Operand, at(o.Operand), "n")
	}
}

// declareOutputs declares a group of what is stored per element.
func (k *rowwise) declareOutputs(s *text) {
	for _, o := range k.elementOutputs {
		s.line("%s %s_out[8];", typeName(o.Value.Type), k.operands[o.Operand])
	}
}

// storeRows stores what is an output per row.
func (k *rowwise) storeRows(s *text, condition string) {
	for _, o := range k.rowOutputs {
		at := fmt.Sprintf("row * p.%s_stride", k.operands[o.Operand])
		s.line("if (%s) %s", condition, k.store(o.Operand, at, k.value(o.Value)))
	}
}

// columnLanes writes the kernel of the lanes of column sums: lane l adds the rows l,
// l + step, … in ascending order.
func (k *rowwise) columnLanes(s *text) {
	p := k.afterRows(nil, k.columnSums)
	s.line("")
	s.line("// Lanes of column sums: row r is in lane r mod %d, %d or %d, each lane summed in", num.ColLanes(1), num.ColLanes(257), num.ColLanes(2049))
	s.line("// ascending order by the thread that owns eight of its columns.")
	k.entry(s, "column_lanes", 256)
	k.scalarsOf(s, p)
	s.line("const i64 groups = p.padded / 8;")
	s.open("for (i64 q = blockIdx.x * 256LL + threadIdx.x; q < p.lanes * groups; q += gridDim.x * 256LL) {")
	s.line("const i64 lane = q / groups;")
	s.line("const u32 c = (u32)(q %% groups) * 8;")
	s.line("const int n = inside(c, p.cols);")
	for _, n := range k.columnSums {
		k.lanes(s, n, "0.0f")
	}
	s.open("for (i64 row = lane; row < p.rows; row += p.lane_step) {")
	k.rowsOf(s, p)
	k.fetchGroups(s, p, k.atRow, "row * p.cols + c")
	s.open("UNROLL for (int j = 0; j < 8; j++) {")
	k.elementsOf(s, p, "c + j")
	for _, n := range k.columnSums {
		s.line("%[1]s_lane[j] = %[1]s_lane[j] + %[2]s;", name(n), k.value(n.Args[0]))
	}
	s.close("}")
	s.close("}")
	for i, n := range k.columnSums {
		s.line("UNROLL for (int j = 0; j < 8; j++) p.column_lanes[(%d * p.lanes + lane) * p.padded + c + j] = %s_lane[j];", i, name(n))
	}
	s.close("}")
	s.close("}")
}

// lanes declares the eight lanes of a reduction that a thread owns.
func (k *rowwise) lanes(s *text, n *def.Node, start string) {
	s.line("float %s_lane[8];", name(n))
	s.line("fill(%s_lane, %s);", name(n), start)
}

// totals writes the kernel of the sums of flat rows.
func (k *rowwise) totals(s *text, isFlat bool) {
	p := k.afterRows(nil, k.totalSums)
	s.line("")
	s.line("// Sums of flat rows of %d elements, the last one shorter: each is a row sum.", num.FlatRow)
	suffix := "total_rows"
	if isFlat {
		suffix = "total_flat"
	}
	k.entry(s, suffix, 1024)
	k.scalarsOf(s, p)
	k.openFlatRows(s, len(k.totalSums), "p.rows * p.cols")
	for _, n := range k.totalSums {
		k.lanes(s, n, "0.0f")
	}
	s.open("for (u32 at = t * 8; t < threads && at < length; at += threads * 8) {")
	s.line("const int n = inside(at, length);")
	if isFlat {
		s.line("const i64 c = start + at;")
		k.fetchGroups(s, p, func(operand int) string { return fmt.Sprintf("p.%s + c", k.operands[operand]) }, "c")
		s.open("UNROLL for (int j = 0; j < 8; j++) {")
		k.elementsOf(s, p, "c + j")
		for _, n := range k.totalSums {
			s.line("%[1]s_lane[j] = %[1]s_lane[j] + (j < n ? %[2]s : 0.0f);", name(n), k.value(n.Args[0]))
		}
	} else {
		s.open("for (int j = 0; j < n; j++) {")
		s.line("const i64 e = start + at + j, row = e / p.cols;")
		s.line("const u32 c = (u32)(e - row * p.cols);")
		k.rowsOf(s, p)
		k.singleElement(s, p)
		for _, n := range k.totalSums {
			s.line("%[1]s_lane[j] = %[1]s_lane[j] + %[2]s;", name(n), k.value(n.Args[0]))
		}
	}
	s.close("}")
	s.close("}")
	for _, n := range k.totalSums {
		s.line("float %[1]s = threads_sum<32>(tree(%[1]s_lane));", name(n))
	}
	k.acrossWarps(s, k.totalSums, "1024", "1", len(k.totalSums))
	for i, n := range k.totalSums {
		s.line("if (t == 0) p.totals_out[%d * p.total_count + flat] = %s;", i, name(n))
	}
	s.close("}")
	s.close("}")
}

// openFlatRows begins the loop over flat rows, one a block.
func (k *rowwise) openFlatRows(s *text, sums int, count string) {
	s.line("SHARED(float, scratch, %d);", 2*sums*32)
	s.line("const u32 t = threadIdx.x;")
	s.line("const i64 count = %s;", count)
	s.line("int turn = 0;")
	s.open("for (i64 flat = blockIdx.x; flat < p.total_count; flat += gridDim.x) {")
	s.line("const i64 start = flat * %d;", num.FlatRow)
	s.line("const u32 length = (u32)(count - start < %[1]d ? count - start : %[1]d);", num.FlatRow)
	s.line("const u32 threads = length <= 2048 ? 32 : length <= 8192 ? 128 : 1024; // eight lanes each")
}

// singleElement declares the values of the element in row and column c.
func (k *rowwise) singleElement(s *text, p *lower.Program) {
	for _, step := range p.Passes[0].Elements.Steps {
		n := step.Node
		switch {
		case step.Action == lower.Load && n.Extent == def.PerColumn:
			k.declare(s, n, k.load(n.Operand, "c"))
		case step.Action == lower.Load:
			k.declare(s, n, k.load(n.Operand, fmt.Sprintf("row * p.%s_stride + c", k.operands[n.Operand])))
		case step.Action != lower.Compute:
		case n.Op == def.OpRandom:
			k.declare(s, n, fmt.Sprintf("random_word(%s, (u64)e)", k.arguments(n)))
		case n.Op == def.OpCol:
			k.declare(s, n, "(i32)c")
		case n.Op == def.OpColFloat:
			k.declare(s, n, "(float)c")
		default:
			k.declare(s, n, k.expression(n))
		}
	}
}

// totalNext writes the kernel that adds up the sums of flat rows.
func (k *rowwise) totalNext(s *text) {
	s.line("")
	s.line("// Sums of flat rows form rows of %d themselves; a column of blocks for each sum.", num.FlatRow)
	k.entry(s, "total_next", 1024)
	k.openFlatRows(s, 1, "p.total_length")
	s.line("const float* const in = p.totals_in + blockIdx.y * count + start;")
	s.line("float lane[8];")
	s.line("fill(lane, 0.0f);")
	s.open("for (u32 at = t * 8; t < threads && at < length; at += threads * 8) {")
	s.line("const int n = inside(at, length);")
	s.line("UNROLL for (int j = 0; j < 8; j++) lane[j] = lane[j] + (j < n ? in[at + j] : 0.0f);")
	s.close("}")
	s.line("float sum = threads_sum<32>(tree(lane));")
	s.line("if (t %% 32 == 0) scratch[turn * 32 + t / 32] = sum;")
	s.line("BARRIER(); // all parts are there")
	s.line("sum = threads_sum<32>(scratch[turn * 32 + t %% 32]);")
	s.line("turn ^= 1;")
	s.line("if (t == 0) p.totals_out[blockIdx.y * p.total_count + flat] = sum;")
	s.close("}")
	s.close("}")
}

// acrossWarps joins what groups of 32 threads have found, in shared memory. Parts of
// one pass and of the next lie in different halves of it, so that one barrier a pass
// is enough.
func (k *rowwise) acrossWarps(s *text, nodes []*def.Node, threads, rows string, room int) {
	parts := threads + " / 32"
	slot := " + slot"
	if rows == "1" {
		slot = ""
	}
	s.line("const int parts = %s;", parts)
	s.line("float* const part = scratch + (turn * %s%s) * %d * parts;", rows, slot, room)
	at := 0
	for _, n := range nodes {
		if isColumnOfExtreme(n) {
			s.line("if (t %% 32 == 0) part[%d * parts + t / 32] = float_of((u32)(%s_key >> 32));", at, name(n))
			s.line("if (t %% 32 == 0) part[%d * parts + t / 32] = float_of((u32)%s_key);", at+1, name(n))
		} else {
			s.line("if (t %% 32 == 0) part[%d * parts + t / 32] = %s;", at, name(n))
		}
		at += words(n)
	}
	s.line("BARRIER(); // all parts are there")
	at = 0
	for _, n := range nodes {
		if isColumnOfExtreme(n) {
			s.line("%s_key = threads_key<parts>((u64)bits_of(part[%d * parts + t %% parts]) << 32 | bits_of(part[%d * parts + t %% parts]));", name(n), at, at+1)
		} else {
			s.line("%s = threads_%s<parts>(part[%d * parts + t %% parts]);", name(n), joins[n.Op], at)
		}
		at += words(n)
	}
	s.line("turn ^= 1;")
}

func isColumnOfExtreme(n *def.Node) bool { return n.Op == def.OpRowArgMax || n.Op == def.OpRowArgMin }

// words is how many words a thread's part of a reduction has: a value, or a key.
func words(n *def.Node) int {
	if isColumnOfExtreme(n) {
		return 2
	}
	return 1
}

// joins names how the parts of a reduction are joined.
var joins = map[def.Op]string{
	def.OpRowSum: "sum", def.OpTotalSum: "sum", def.OpRowMax: "max", def.OpRowMin: "min", def.OpAt: "one",
}

// mostReductions returns the words of scratch memory that the reductions of any pass
// need.
func (w *walk) mostReductions() int {
	most := 0
	for _, p := range w.passes {
		count := 0
		for _, n := range p.reductions {
			count += words(n)
		}
		most = max(most, count)
	}
	return most
}

// columns writes the kernel that adds up lanes and stores what is known per column.
func (k *rowwise) columns(s *text) {
	p := k.afterSums(k.columnOutputs)
	sums := lower.Nodes(p.Late.Columns.With(lower.Receive))
	s.line("")
	s.line("// Every column, eight a block: lanes are added up as neighbours, then what follows is")
	s.line("// computed and stored.")
	k.entry(s, "columns", 256)
	k.lateScalars(s, p)
	if len(sums) > 0 {
		s.line("SHARED(float, part, %d * 256 * 8);", len(sums))
		s.line("const u32 chunks = (u32)((p.lanes + 7) / 8);")
		s.line("u32 all = 1;")
		s.line("while (all < chunks) all *= 2;")
	}
	s.line("const u32 x = threadIdx.x %% 8, y = threadIdx.x / 8;")
	s.open("for (i64 first = blockIdx.x * 8LL; first < p.cols; first += gridDim.x * 8LL) {")
	s.line("const u32 c = (u32)first + x;")
	s.line("const bool here = c < p.cols;")
	if len(sums) > 0 {
		s.line("// eight neighbouring lanes each, then pairs of neighbours")
		s.open("for (u32 i = y; i < all; i += 32) {")
		for j, n := range sums {
			s.line("float %s_lane[8]; // %s", name(n), k.describe(n))
			s.line("UNROLL for (u32 j = 0; j < 8; j++) %s_lane[j] = here && 8 * i + j < p.lanes ? p.column_lanes[(%d * p.lanes + 8 * i + j) * p.padded + c] : 0.0f;", name(n), slices.Index(k.columnSums, n))
			s.line("part[(%d * 256 + i) * 8 + x] = tree(%s_lane);", j, name(n))
		}
		s.close("}")
		s.line("BARRIER(); // all chunks are there")
		s.open("for (u32 d = 1; d < all; d *= 2) {")
		s.open("for (u32 i = 2 * d * y; i < all; i += 64 * d) {")
		for j := range sums {
			s.line("part[(%[1]d * 256 + i) * 8 + x] = part[(%[1]d * 256 + i) * 8 + x] + part[(%[1]d * 256 + i + d) * 8 + x];", j)
		}
		s.close("}")
		s.line("BARRIER(); // this level is complete")
		s.close("}")
		for j, n := range sums {
			s.line("const float %s = part[%d * 256 * 8 + x];", name(n), j)
		}
		s.line("BARRIER(); // everybody has the sums, part may be written again")
	}
	for _, step := range p.Late.Columns.Steps {
		switch n := step.Node; step.Action {
		case lower.Load:
			k.declare(s, n, fmt.Sprintf("here ? %s : 0.0f", k.load(n.Operand, "c")))
		case lower.Compute:
			k.declare(s, n, k.expression(n))
		}
	}
	s.open("if (here && y == 0) {")
	for _, o := range k.columnOutputs {
		s.line("%s", k.store(o.Operand, "c", k.value(o.Value)))
	}
	s.close("}")
	s.close("}")
	s.close("}")
}

// lateScalars declares single values, total sums among them.
func (k *rowwise) lateScalars(s *text, p *lower.Program) {
	steps := slices.Concat(p.Once.Scalars.Steps, p.Late.Scalars.Steps)
	slices.SortStableFunc(steps, func(a, b lower.Step) int { return a.Node.ID - b.Node.ID })
	for _, step := range steps {
		switch n := step.Node; {
		case step.Action == lower.Receive:
			k.declare(s, n, fmt.Sprintf("p.totals_in[%d]", slices.Index(k.totalSums, n)))
		case step.Action == lower.Compute && !isInline(n):
			k.declare(s, n, k.expression(n))
		}
	}
}

// scalars writes the kernel of what is stored once.
func (k *rowwise) scalars(s *text) {
	p := k.afterSums(k.scalarOutputs)
	s.line("")
	s.line("// What there is one of.")
	k.entry(s, "scalars", 32)
	k.lateScalars(s, p)
	s.open("if (threadIdx.x == 0) {")
	for _, o := range k.scalarOutputs {
		s.line("%s", k.store(o.Operand, "0", k.value(o.Value)))
	}
	s.close("}")
	s.close("}")
}

// describe shows a node in a comment: max = rowmax(x).
func (k *rowwise) describe(n *def.Node) string {
	var args []string
	for _, a := range n.Args {
		switch {
		case a.Op == def.OpConst:
			args = append(args, a.Real.String())
		case a.Op == def.OpInt:
			args = append(args, fmt.Sprint(a.Int))
		case a.Name != "":
			args = append(args, a.Name)
		default:
			args = append(args, name(a))
		}
	}
	text := fmt.Sprintf("%s(%s)", n.Op, strings.Join(args, ", "))
	if n.Name != "" {
		text = n.Name + " = " + text
	}
	return text
}
