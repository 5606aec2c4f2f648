package gpu

import (
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/lower"
)

// scalarsOf declares single values that are known before the first row.
func (k *rowwise) scalarsOf(s *text, p *lower.Program) {
	for _, step := range p.Once.Scalars.Steps {
		if !isInline(step.Node) {
			k.declare(s, step.Node, k.expression(step.Node))
		}
	}
}

// rowsOf declares row values; reductions are read from scratch memory.
func (k *rowwise) rowsOf(s *text, p *lower.Program) {
	for _, step := range p.Start.Steps {
		n := step.Node
		if step.Action != lower.Receive {
			k.declare(s, n, k.rowExpression(n))
			continue
		}
		v := fmt.Sprintf("p.row_values[%d * p.rows + row]", slices.Index(k.handedOn, n))
		k.declare(s, n, fromScratch(n.Type, v))
	}
}

func (k *rowwise) rowExpression(n *def.Node) string {
	if isLoad(n) {
		return k.loadOf(n, fmt.Sprintf("row * p.%s_stride", k.operands[n.Operand]))
	}
	if n.Op == def.OpLookup {
		return k.lookupRow(n)
	}
	return k.expression(n)
}

// fetchGroups reads the groups of inputs and random words that a pass needs.
func (k *rowwise) fetchGroups(s *text, p *lower.Program, at func(operand int) string, flat string) {
	for _, step := range loadedOperands(p) {
		n := step.Node
		from := k.fetch(step.Format, at(n.Operand), "n")
		if n.Extent == def.PerElement && k.isPassing(p) {
			from = fmt.Sprintf("fetch%d_passing(%s, n)", 8*step.Format.Size(), at(n.Operand))
		}
		s.line("const %s %s_group = %s;", groupType(step.Format), k.operands[n.Operand], from)
	}
	k.findRows(s, lower.Nodes(p.Passes[0].Elements.With(lower.LoadRow)))
	k.fetchLookups(s, p)
	k.wordGroups(s, p, flat)
}

// isPassing reports whether caches should keep the tables of a kernel's lookups rather than its
// other operands, which no thread accesses twice. These consist of whole groups then.
func (k *rowwise) isPassing(p *lower.Program) bool {
	return k.variant == Vector && !k.d.IsFlat() && len(p.Passes[0].Elements.With(lower.LoadRow)) > 0
}

// loadedOperands returns the steps that load elements, one for each operand.
func loadedOperands(p *lower.Program) (loads []lower.Step) {
	for _, l := range p.Passes[0].Elements.With(lower.Load) {
		if !slices.ContainsFunc(loads, func(other lower.Step) bool { return other.Operand == l.Operand }) {
			loads = append(loads, l)
		}
	}
	return loads
}

// wordGroups computes the words of a group whose first element has that flat index.
func (k *rowwise) wordGroups(s *text, p *lower.Program, flat string) {
	for _, step := range p.Passes[0].Elements.Steps {
		if n := step.Node; step.Action == lower.Compute && isWord(n) {
			k.words(s, n, flat)
		}
	}
}

// elementsOf declares the values of element j.
func (k *rowwise) elementsOf(s *text, p *lower.Program, column string) {
	for _, step := range p.Passes[0].Elements.Steps {
		n := step.Node
		switch {
		case step.Action == lower.Load, step.Action == lower.LoadRow:
			k.get(s, n, k.groupName(n))
		case step.Action == lower.Compute && n.Op == def.OpPartner:
			k.getPartner(s, n, k.groupName(n.Args[0]))
		case step.Action == lower.Compute:
			k.compute(s, n, column)
		}
	}
}

// compute declares a value of element j that is not an input.
func (k *rowwise) compute(s *text, n *def.Node, column string) {
	if isWord(n) {
		k.declare(s, n, k.wordOf(n))
		return
	}
	switch n.Op {
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
	k.declare(s, n, k.element(n, group, "j"))
}

// getPartner declares the partner of element j of a group, which is in the same one; outside the row a
// group has zeros.
func (k *rowwise) getPartner(s *text, n *def.Node, group string) {
	k.declare(s, n, k.element(n.Args[0], group, "j ^ 1"))
}

// element returns the expression of an element of the group that n reads.
func (k *rowwise) element(n *def.Node, group, j string) string {
	format := k.dtypes[operandOf(n)].String()
	if n.Op == def.OpStored {
		format = "stored"
	}
	return fmt.Sprintf("get_%s(%s, %s)", format, group, j)
}

// groupName returns the name of the group of an operand or lookup.
func (k *rowwise) groupName(n *def.Node) string {
	if n.Op == def.OpLookup {
		return name(n) + "_values"
	}
	return k.operands[n.Operand] + "_group"
}

// elements writes the kernel that stores element outputs, row by row.
func (k *rowwise) elements(s *text) {
	p := k.elementProgram()
	s.line("")
	s.line("// Element outputs, in groups of eight neighbours of a row.")
	k.entry(s, "elements", 256)
	k.scalarsOf(s, p)
	if len(k.elementOutputs) == 0 {
		s.line("const i64 groups = 1;")
	} else {
		s.line("const i64 groups = ((i64)p.cols + 7) / 8;")
	}
	s.open("for (i64 q = blockIdx.x * 256LL + threadIdx.x; q < p.rows * groups; q += gridDim.x * 256LL) {")
	s.line("const i64 row = quotient(q, groups);")
	s.line("const u32 c = (u32)(q - row * groups) * 8;")
	k.countInside(s)
	k.rowsOf(s, p)
	if !k.hasRows {
		k.storeRows(s, "c == 0")
	}
	if need := k.d.Exec().Need; need != nil {
		s.line("if (%s == 0) continue;", name(need))
	}
	k.fetchGroups(s, p, k.atRow, "row * p.cols + c")
	k.storeGroups(s, p, func(operand int) {
		if d := k.dtypes[operand]; k.isPassing(p) {
			s.line("put%d_passing(%s, n, group_%s(%s_out));", 8*d.Size(), k.atRow(operand), d, k.operands[operand])
		} else {
			k.put(s, operand, k.atRow(operand), "n")
		}
	})
	s.close("}")
	s.close("}")
}

// countInside declares how many elements of the group at column c are inside the row: with vector
// access all eight, unless the division into rows does not matter.
func (k *rowwise) countInside(s *text) {
	if k.variant == Vector && !k.d.IsFlat() {
		s.line("const int n = 8;")
	} else {
		s.line("const int n = inside(c, p.cols);")
	}
}

// elementProgram plans the kernels that store element outputs.
func (k *rowwise) elementProgram() *lower.Program {
	stores := slices.Clone(k.elementOutputs)
	if !k.hasRows {
		stores = append(stores, k.rowOutputs...)
	}
	var values []*def.Node
	if need := k.d.Exec().Need; need != nil {
		values = []*def.Node{need}
	}
	return k.afterRows(stores, values)
}

// atFlat returns the address of an operand's group from element c on, in flat order.
func (k *rowwise) atFlat(operand int) string { return fmt.Sprintf("p.%s + c", k.operands[operand]) }

// atRow returns the address of an operand's group at column c of the row.
func (k *rowwise) atRow(operand int) string { return k.atColumn(operand, "c") }

func (k *rowwise) atColumn(operand int, c string) string {
	if k.d.Operands[operand].Extent == def.PerColumn {
		return fmt.Sprintf("p.%s + %s", k.operands[operand], c)
	}
	return fmt.Sprintf("p.%[1]s + row * p.%[1]s_stride + %[2]s", k.operands[operand], c)
}

// storeGroups computes the elements of a group and stores those that are outputs.
func (k *rowwise) storeGroups(s *text, p *lower.Program, put func(operand int)) {
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
		put(o.Operand)
	}
}

// declareOutputs declares a group of each element output.
func (k *rowwise) declareOutputs(s *text) {
	for _, o := range k.elementOutputs {
		s.line("%s %s_out[8];", typeName(o.Value.Type), k.operands[o.Operand])
	}
}

// storeRows stores the outputs per row.
func (k *rowwise) storeRows(s *text, condition string) {
	for _, o := range k.rowOutputs {
		at := fmt.Sprintf("row * p.%s_stride", k.operands[o.Operand])
		s.line("if (%s) %s", condition, k.store(o.Operand, at, k.value(o.Value)))
	}
}
