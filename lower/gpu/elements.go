package gpu

import (
	"fmt"
	"slices"
	"strings"

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
	for _, step := range p.Passes[0].Elements.With(lower.Load) {
		n := step.Node
		s.line("const %s %s_group = %s;", groupType(step.Format), k.operands[n.Operand], k.fetch(step.Format, at(n.Operand), "n"))
	}
	k.randomGroups(s, p, flat)
}

// randomGroups draws the random words of a group whose first element has that flat index.
func (k *rowwise) randomGroups(s *text, p *lower.Program, flat string) {
	for _, step := range p.Passes[0].Elements.Steps {
		if n := step.Node; step.Action == lower.Compute && n.Op == def.OpRandom {
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

// elements writes the kernel that stores element outputs, row by row.
func (k *rowwise) elements(s *text) {
	p := k.elementProgram()
	s.line("")
	s.line("// Element outputs, in groups of eight neighbours of a row.")
	k.entry(s, "elements", 256)
	k.scalarsOf(s, p)
	s.line("const i64 groups = ((i64)p.cols + 7) / 8;")
	s.open("for (i64 q = blockIdx.x * 256LL + threadIdx.x; q < p.rows * groups; q += gridDim.x * 256LL) {")
	s.line("const i64 row = q / groups;")
	s.line("const u32 c = (u32)(q %% groups) * 8;")
	s.line("const int n = inside(c, p.cols);")
	k.rowsOf(s, p)
	k.fetchGroups(s, p, k.atRow, "row * p.cols + c")
	k.storeGroups(s, p, func(operand int) { k.put(s, operand, k.atRow(operand), "n") })
	if !k.hasRows {
		k.storeRows(s, "c == 0")
	}
	s.close("}")
	s.close("}")
}

// elementProgram plans the kernels that store element outputs.
func (k *rowwise) elementProgram() *lower.Program {
	stores := slices.Clone(k.elementOutputs)
	if !k.hasRows {
		stores = append(stores, k.rowOutputs...)
	}
	return k.afterRows(stores, nil)
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
