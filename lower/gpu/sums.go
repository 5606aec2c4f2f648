package gpu

import (
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// columnLanes writes the kernel that fills the lanes of column sums: lane l adds the rows
// l, l + step, … in ascending order.
func (k *rowwise) columnLanes(s *text) {
	p := k.afterRows(nil, k.columnSums)
	s.line("")
	s.line("// Lanes of column sums: row r is in lane r mod %d, %d or %d, each lane summed in", num.ColLanes(1), num.ColLanes(257), num.ColLanes(2049))
	s.line("// ascending order by the thread that owns eight of its columns.")
	k.entry(s, "column_lanes", 256)
	k.scalarsOf(s, p)
	s.line("const i64 groups = p.padded / 8;")
	s.open("for (i64 q = blockIdx.x * 256LL + threadIdx.x; q < p.lanes * groups; q += gridDim.x * 256LL) {")
	s.line("const i64 lane = quotient(q, groups);")
	s.line("const u32 c = (u32)(q - lane * groups) * 8;")
	k.countInside(s)
	for _, n := range k.columnSums {
		k.lanes(s, n, zero(n.Type))
	}
	s.open("for (i64 row = lane; row < p.rows; row += p.lane_step) {")
	k.rowsOf(s, p)
	k.fetchGroups(s, p, k.atRow, "row * p.cols + c")
	s.open("UNROLL for (int j = 0; j < 8; j++) {")
	k.elementsOf(s, p, "c + j")
	for _, n := range k.columnSums {
		s.line("%s_lane[j] = %s;", name(n), plus(n.Type, name(n)+"_lane[j]", k.value(n.Args[0])))
	}
	s.close("}")
	s.close("}")
	for i, n := range k.columnSums {
		s.line("UNROLL for (int j = 0; j < 8; j++) p.column_lanes[(%d * p.lanes + lane) * p.padded + c + j] = %s;", i, toScratch(n.Type, name(n)+"_lane[j]"))
	}
	s.close("}")
	s.close("}")
}

// lanes declares the eight lanes of a reduction that a thread owns.
func (k *rowwise) lanes(s *text, n *def.Node, start string) {
	s.line("%s %s_lane[8];", typeName(n.Type), name(n))
	s.line("fill(%s_lane, %s);", name(n), start)
}

// totals writes the kernel that sums flat rows.
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
	if isFlat {
		k.totalOfFlatRow(s, p)
	} else {
		k.openTotal(s)
		s.open("for (int j = 0; j < n; j++) {")
		s.line("const i64 e = start + at + j, row = e / p.cols;")
		s.line("const u32 c = (u32)(e - row * p.cols);")
		k.rowsOf(s, p)
		k.singleElement(s, p)
		for _, n := range k.totalSums {
			s.line("%s_lane[j] = %s;", name(n), plus(n.Type, name(n)+"_lane[j]", k.value(n.Args[0])))
		}
		s.close("}")
		k.closeTotal(s)
	}
	s.close("}")
	s.close("}")
}

// totalOfFlatRow sums a flat row of contiguous operands.
func (k *rowwise) totalOfFlatRow(s *text, p *lower.Program) {
	k.openTotal(s)
	s.line("const i64 c = start + at;")
	k.fetchGroups(s, p, k.atFlat, "c")
	s.open("UNROLL for (int j = 0; j < 8; j++) {")
	k.elementsOf(s, p, "c + j")
	for _, n := range k.totalSums {
		s.line("%s_lane[j] = %s;", name(n), plus(n.Type, name(n)+"_lane[j]", fmt.Sprintf("(j < n ? %s : %s)", k.value(n.Args[0]), zero(n.Type))))
	}
	s.close("}")
	k.closeTotal(s)
}

// openTotal begins a thread's loop over groups of a flat row.
func (k *rowwise) openTotal(s *text) {
	for _, n := range k.totalSums {
		k.lanes(s, n, zero(n.Type))
	}
	s.open("for (u32 at = t * 8; t < threads && at < length; at += threads * 8) {")
	s.line("const int n = inside(at, length);")
}

// closeTotal ends the loop, and stores the sums of the flat row.
func (k *rowwise) closeTotal(s *text) {
	s.close("}")
	for _, n := range k.totalSums {
		s.line("%[2]s %[1]s = threads_sum<32>(tree(%[1]s_lane));", name(n), typeName(n.Type))
	}
	k.acrossWarps(s, k.totalSums, "1024", "1", len(k.totalSums))
	for i, n := range k.totalSums {
		s.line("if (t == 0) p.totals_out[%d * p.total_count + flat] = %s;", i, toScratch(n.Type, name(n)))
	}
}

// openFlatRows begins the loop over flat rows, one per block.
func (k *rowwise) openFlatRows(s *text, sums int, count string) {
	k.flatRowScratch(s, sums)
	s.line("const i64 count = %s;", count)
	s.open("for (i64 flat = blockIdx.x; flat < p.total_count; flat += gridDim.x) {")
	k.flatRow(s)
}

// flatRowScratch declares what a block needs to sum flat rows, one after another.
func (k *rowwise) flatRowScratch(s *text, sums int) {
	s.line("SHARED(float, scratch, %d);", 2*sums*32)
	s.line("const u32 t = threadIdx.x;")
	s.line("int turn = 0;")
}

// flatRow declares the flat row with the number flat, of count elements in all.
func (k *rowwise) flatRow(s *text) {
	s.line("const i64 start = flat * %d;", num.FlatRow)
	s.line("const u32 length = (u32)(count - start < %[1]d ? count - start : %[1]d);", num.FlatRow)
	s.line("const u32 threads = length <= 2048 ? 32 : length <= 8192 ? 128 : 1024; // eight lanes each")
}

// singleElement declares the values of the element in row and column c.
func (k *rowwise) singleElement(s *text, p *lower.Program) {
	for _, step := range p.Passes[0].Elements.Steps {
		n := step.Node
		switch {
		case step.Action == lower.Load, step.Action == lower.LoadRow:
			k.declare(s, n, k.singleLoad(n, "c"))
		case step.Action != lower.Compute:
		case n.Op == def.OpPartner:
			k.declare(s, n, k.singlePartner(n))
		case isWord(n):
			k.declare(s, n, k.singleWord(n))
		case n.Op == def.OpCol:
			k.declare(s, n, "(i32)c")
		case n.Op == def.OpColFloat:
			k.declare(s, n, "(float)c")
		default:
			k.declare(s, n, k.expression(n))
		}
	}
}

// singleLoad returns the expression that reads an operand or a lookup in a column of the row.
func (k *rowwise) singleLoad(n *def.Node, column string) string {
	switch {
	case n.Op == def.OpLookup:
		return k.lookupAt(n, column)
	case n.Extent == def.PerColumn:
		return k.loadOf(n, column)
	}
	return k.loadOf(n, fmt.Sprintf("row * p.%s_stride + %s", k.operands[n.Operand], column))
}

// singlePartner returns the expression of a partner in column c.
func (k *rowwise) singlePartner(n *def.Node) string {
	return fmt.Sprintf("(c ^ 1) < p.cols ? %s : %s", k.singleLoad(n.Args[0], "(c ^ 1)"), zero(n.Type))
}

// totalNext writes the kernel that adds up the sums of flat rows.
func (k *rowwise) totalNext(s *text) {
	s.line("")
	s.line("// Sums of flat rows form rows of %d themselves; a column of blocks for each sum.", num.FlatRow)
	k.entry(s, "total_next", 1024)
	k.openFlatRows(s, 1, "p.total_length")
	k.nextOfFlatRow(s)
	s.close("}")
	s.close("}")
}

// nextOfFlatRow adds up a flat row of sums.
func (k *rowwise) nextOfFlatRow(s *text) {
	s.line("const float* const in = p.totals_in + blockIdx.y * count + start;")
	k.sumsOf(s, "blockIdx.y", func(of def.Type) {
		s.line("%s lane[8];", typeName(of))
		s.line("fill(lane, %s);", zero(of))
		s.open("for (u32 at = t * 8; t < threads && at < length; at += threads * 8) {")
		s.line("const int n = inside(at, length);")
		s.line("UNROLL for (int j = 0; j < 8; j++) lane[j] = %s;", plus(of, "lane[j]", fmt.Sprintf("(j < n ? %s : %s)", fromScratch(of, "in[at + j]"), zero(of))))
		s.close("}")
		s.line("%s sum = threads_sum<32>(tree(lane));", typeName(of))
		s.line("if (t %% 32 == 0) scratch[turn * 32 + t / 32] = %s;", toScratch(of, "sum"))
		s.line("BARRIER(); // all parts are written")
		s.line("sum = threads_sum<32>(%s);", fromScratch(of, "scratch[turn * 32 + t % 32]"))
		s.line("turn ^= 1;")
		s.line("if (t == 0) p.totals_out[blockIdx.y * p.total_count + flat] = %s;", toScratch(of, "sum"))
	})
}

// acrossWarps joins the results of groups of 32 threads through shared memory, room words
// each. One pass and the next use different halves of it, so that one barrier per pass is
// enough.
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
			s.line("if (t %% 32 == 0) part[%d * parts + t / 32] = %s;", at, toScratch(n.Type, name(n)))
		}
		at += words(n)
	}
	s.line("BARRIER(); // all parts are written")
	at = 0
	for _, n := range nodes {
		if isColumnOfExtreme(n) {
			s.line("%s_key = threads_key<parts>((u64)bits_of(part[%d * parts + t %% parts]) << 32 | bits_of(part[%d * parts + t %% parts]));", name(n), at, at+1)
		} else {
			s.line("%s = threads_%s<parts>(%s);", name(n), joins[n.Op], fromScratch(n.Type, fmt.Sprintf("part[%d * parts + t %% parts]", at)))
		}
		at += words(n)
	}
	s.line("turn ^= 1;")
}

func isColumnOfExtreme(n *def.Node) bool { return n.Op == def.OpRowArgMax || n.Op == def.OpRowArgMin }

// words returns how many words a thread's part of a reduction has: a value or a key.
func words(n *def.Node) int {
	if isColumnOfExtreme(n) {
		return 2
	}
	return 1
}

// joins names the functions that join the parts of a reduction.
var joins = map[def.Op]string{
	def.OpRowSum: "sum", def.OpTotalSum: "sum", def.OpRowMax: "max", def.OpRowMin: "min", def.OpAt: "one",
}

// columnsThreads is the largest block of the kernel that adds up lanes: eight columns, and
// eight lanes per thread.
const columnsThreads = 1024

// columns writes the kernel that adds up lanes and stores outputs per column.
func (k *rowwise) columns(s *text) {
	p := k.afterSums(k.columnOutputs)
	sums := lower.Nodes(p.Late.Columns.With(lower.Receive))
	s.line("")
	s.line("// Outputs per column, eight columns per block: adds up neighbouring lanes, then computes")
	s.line("// and stores what follows from the sums.")
	k.entry(s, "columns", columnsThreads)
	s.line("AWAIT_PREVIOUS(); // the launch may be early")
	k.lateScalars(s, p)
	if len(sums) > 0 {
		s.line("SHARED(float, part, %d * 256 * 8);", len(sums))
		s.line("const u32 chunks = (u32)((p.lanes + 7) / 8);")
		s.line("u32 all = 1;")
		s.line("while (all < chunks) all *= 2;")
	}
	s.line("const u32 x = threadIdx.x %% 8, y = threadIdx.x / 8, height = blockDim.x / 8;")
	s.open("for (i64 first = blockIdx.x * 8LL; first < p.cols; first += gridDim.x * 8LL) {")
	s.line("const u32 c = (u32)first + x;")
	s.line("const bool here = c < p.cols;")
	if len(sums) > 0 {
		s.line("// eight neighbouring lanes each, then pairs of neighbours")
		s.open("for (u32 i = y; i < all; i += height) {")
		for j, n := range sums {
			lane := fmt.Sprintf("p.column_lanes[(%d * p.lanes + 8 * i + j) * p.padded + c]", slices.Index(k.columnSums, n))
			s.line("%s %s_lane[8]; // %s", typeName(n.Type), name(n), k.describe(n))
			s.line("UNROLL for (u32 j = 0; j < 8; j++) %s_lane[j] = here && 8 * i + j < p.lanes ? %s : %s;", name(n), fromScratch(n.Type, lane), zero(n.Type))
			s.line("part[(%d * 256 + i) * 8 + x] = %s;", j, toScratch(n.Type, fmt.Sprintf("tree(%s_lane)", name(n))))
		}
		s.close("}")
		s.line("BARRIER(); // all chunks are written")
		s.open("for (u32 d = 1; d < all; d *= 2) {")
		s.open("for (u32 i = 2 * d * y; i < all; i += 2 * d * height) {")
		for j, n := range sums {
			low, high := fmt.Sprintf("part[(%d * 256 + i) * 8 + x]", j), fmt.Sprintf("part[(%d * 256 + i + d) * 8 + x]", j)
			s.line("%s = %s;", low, toScratch(n.Type, plus(n.Type, fromScratch(n.Type, low), fromScratch(n.Type, high))))
		}
		s.close("}")
		s.line("BARRIER(); // this level is complete")
		s.close("}")
		for j, n := range sums {
			k.declare(s, n, fromScratch(n.Type, fmt.Sprintf("part[%d * 256 * 8 + x]", j)))
		}
		s.line("BARRIER(); // all threads have read the sums, part may be overwritten")
	}
	for _, step := range p.Late.Columns.Steps {
		switch n := step.Node; {
		case step.Action == lower.Load:
			k.declare(s, n, fmt.Sprintf("here ? %s : %s", k.loadOf(n, "c"), zero(n.Type)))
		case step.Action == lower.Compute && n.Op == def.OpPartner:
			k.declare(s, n, k.singlePartner(n))
		case step.Action == lower.Compute:
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
	k.lateScalarsOf(s, p, func(sum int) string { return fmt.Sprintf("p.totals_in[%d]", sum) })
}

// lateScalarsOf does so with an expression for each total sum.
func (k *rowwise) lateScalarsOf(s *text, p *lower.Program, total func(sum int) string) {
	steps := slices.Concat(p.Once.Scalars.Steps, p.Late.Scalars.Steps)
	slices.SortStableFunc(steps, func(a, b lower.Step) int { return a.Node.ID - b.Node.ID })
	for _, step := range steps {
		switch n := step.Node; {
		case step.Action == lower.Receive:
			k.declare(s, n, fromScratch(n.Type, total(slices.Index(k.totalSums, n))))
		case step.Action == lower.Compute && !isInline(n):
			k.declare(s, n, k.expression(n))
		}
	}
}

// scalars writes the kernel that stores scalar outputs.
func (k *rowwise) scalars(s *text) {
	p := k.afterSums(k.scalarOutputs)
	s.line("")
	s.line("// Scalar outputs.")
	k.entry(s, "scalars", 32)
	k.lateScalars(s, p)
	s.open("if (threadIdx.x == 0) {")
	k.storeScalars(s)
	s.close("}")
	s.close("}")
}

func (k *rowwise) storeScalars(s *text) {
	for _, o := range k.scalarOutputs {
		s.line("%s", k.store(o.Operand, "0", k.value(o.Value)))
	}
}
