package lower_test

import (
	"fmt"
	"math"
	"slices"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/trial/randdef"
)

// machine executes programs one value at a time, and trusts nothing: a block sees the
// values that its Reads name and those it has defined, until they are killed. Values
// are patterns; bools are 0 and 1.
type machine struct {
	c          *randdef.Case
	rows, cols int
	cells      map[cell]uint32        // values that outlive their block
	terms      map[cell][]float32     // accumulated so far, by row, by column or all
	isStored   bool                   // this row's outputs may have replaced inputs
	registers  map[*def.Node]register // of the block that runs
}

// cell is a place in memory: a node's value for a row and a column, 0 where it has one
// value for all.
type cell struct {
	node     *def.Node
	row, col int
}

type register struct {
	value  uint32
	killed bool
}

func newMachine(c *randdef.Case) *machine {
	m := &machine{c: c, cells: map[cell]uint32{}, terms: map[cell][]float32{}}
	for i, o := range c.Definition.Operands {
		if o.Extent == def.PerElement {
			m.rows, m.cols = c.Operands[i].Rows, c.Operands[i].Cols
		}
	}
	return m
}

// place returns the cell of a value of some extent.
func place(n *def.Node, row, col int) cell {
	if n.Extent&def.PerRow == 0 {
		row = 0
	}
	if n.Extent&def.PerColumn == 0 {
		col = 0
	}
	return cell{n, row, col}
}

// run executes a program.
func (m *machine) run(p *lower.Program) error {
	if err := checkKept(p); err != nil {
		return err
	}
	if err := m.block(&p.Once.Scalars, 0); err != nil {
		return fmt.Errorf("once: %w", err)
	}
	if err := m.block(&p.Once.Columns, 0); err != nil {
		return fmt.Errorf("once, columns: %w", err)
	}
	for row := range m.rows {
		m.isStored = false
		if err := m.block(&p.Start, row); err != nil {
			return fmt.Errorf("start: %w", err)
		}
		for i := range p.Passes {
			if m.isStored {
				return fmt.Errorf("pass %d follows one that stores", i+1)
			}
			if err := m.block(&p.Passes[i].Elements, row); err != nil {
				return fmt.Errorf("pass %d: %w", i+1, err)
			}
			if err := m.block(&p.Passes[i].After, row); err != nil {
				return fmt.Errorf("after pass %d: %w", i+1, err)
			}
		}
		if err := m.block(&p.End, row); err != nil {
			return fmt.Errorf("end: %w", err)
		}
	}
	if err := m.block(&p.Late.Scalars, 0); err != nil {
		return fmt.Errorf("late: %w", err)
	}
	if err := m.block(&p.Late.Columns, 0); err != nil {
		return fmt.Errorf("late, columns: %w", err)
	}
	return nil
}

// checkKept compares the list of kept values with the steps that keep and take them.
func checkKept(p *lower.Program) error {
	last := map[*def.Node]int{}
	for _, k := range p.Kept {
		if k.First < 0 || k.First >= k.Last || k.Last >= len(p.Passes) {
			return fmt.Errorf("%s is kept from pass %d to %d", label(k.Node), k.First+1, k.Last+1)
		}
		if !slices.ContainsFunc(p.Passes[k.First].Elements.Steps, func(s lower.Step) bool { return s.Node == k.Node && s.Defines() && s.Keep }) {
			return fmt.Errorf("pass %d does not keep %s", k.First+1, label(k.Node))
		}
		last[k.Node] = k.Last
	}
	for i := range p.Passes {
		for _, s := range p.Passes[i].Elements.Steps {
			switch end, ok := last[s.Node]; {
			case s.Action == lower.Take && (!ok || end < i):
				return fmt.Errorf("pass %d takes %s, which is kept until pass %d", i+1, label(s.Node), end+1)
			case s.Action == lower.Take && end == i:
				delete(last, s.Node)
			case s.Defines() && s.Keep && !ok:
				return fmt.Errorf("pass %d keeps %s, which is not listed", i+1, label(s.Node))
			}
		}
	}
	for n, end := range last {
		return fmt.Errorf("%s is kept until pass %d, which does not take it", label(n), end+1)
	}
	return nil
}

// block runs a block in its row: once, or for every column.
func (m *machine) block(b *lower.Block, row int) error {
	count := 1
	if b.Extent&def.PerColumn != 0 {
		count = m.cols
	}
	for col := range count {
		m.registers = map[*def.Node]register{}
		for _, n := range b.Reads {
			v, ok := m.cells[place(n, row, col)]
			if !ok {
				return fmt.Errorf("%s is read before it is kept", label(n))
			}
			m.registers[n] = register{value: v}
		}
		isUsed := map[*def.Node]bool{}
		for i := range b.Steps {
			s := &b.Steps[i]
			if err := m.step(b, s, row, col); err != nil {
				return err
			}
			for _, n := range s.Uses() {
				isUsed[n] = true
			}
			for _, n := range s.Kills {
				r, ok := m.registers[n]
				if !ok || r.killed {
					return fmt.Errorf("%s ends, but is not alive", label(n))
				}
				m.registers[n] = register{killed: true}
			}
		}
		for _, s := range b.Steps {
			switch r := m.registers[s.Node]; {
			case !s.Defines():
			case !isUsed[s.Node] && !s.Keep:
				return fmt.Errorf("%s is defined and never used", label(s.Node))
			case isUsed[s.Node] && !r.killed:
				return fmt.Errorf("%s never ends", label(s.Node))
			}
		}
		for _, n := range b.Reads {
			if !isUsed[n] {
				return fmt.Errorf("%s is read and never used", label(n))
			}
			if m.registers[n].killed {
				return fmt.Errorf("%s ends, but belongs to another block", label(n))
			}
		}
	}
	return nil
}

func label(n *def.Node) string { return fmt.Sprintf("%%%d %s", n.ID, n.Op) }

// step executes one step.
func (m *machine) step(b *lower.Block, s *lower.Step, row, col int) error {
	n := s.Node
	var args []uint32
	for _, a := range s.Uses() {
		r, ok := m.registers[a]
		if !ok || r.killed {
			return fmt.Errorf("%s of %s uses %s, which is not alive", s.Action, label(n), label(a))
		}
		args = append(args, r.value)
	}
	if _, ok := m.registers[n]; ok && s.Defines() {
		return fmt.Errorf("%s is defined again", label(n))
	}
	if s.Defines() && n.Extent != b.Extent && (n.Extent != def.PerColumn || b.Extent != def.PerElement) {
		return fmt.Errorf("%s has %s, its block %s", label(n), n.Extent, b.Extent)
	}
	if s.Action == lower.Load || s.Action == lower.LoadAt || s.Action == lower.LoadRow || s.Action == lower.Store {
		if got := m.c.Operands[s.Operand].DType; s.Format != got {
			return fmt.Errorf("%s of %s in %s, want %s", s.Action, label(n), s.Format, got)
		}
	}
	var v uint32
	switch s.Action {
	case lower.Load:
		if m.isStored && n.Extent == def.PerElement && b.Extent != def.PerElement {
			return fmt.Errorf("%s is read after outputs may have replaced it", label(n))
		}
		at := place(n, row, col)
		v = m.load(n, s.Operand, at.row, at.col)
	case lower.LoadAt:
		if m.isStored {
			return fmt.Errorf("%s is read after outputs may have replaced it", label(n))
		}
		if k := int(int32(args[0])); k >= 0 && k < m.cols {
			v = m.load(n.Args[0], s.Operand, row, k)
		}
	case lower.LoadRow:
		if k := int(int32(args[0])); k >= 0 && k < m.c.Operands[s.Operand].Rows {
			v = m.load(n, s.Operand, k, place(n, row, col).col)
		}
	case lower.Receive, lower.Take:
		kept, ok := m.cells[place(n, row, col)]
		if !ok {
			return fmt.Errorf("%s %s, which nothing has kept", s.Action, label(n))
		}
		v = kept
	case lower.Compute:
		v = m.compute(s, args, row, col)
	case lower.Accumulate:
		m.accumulate(n, args, row, col)
		return nil
	case lower.Finish:
		if got, want := len(m.terms[place(n, row, col)]), m.termsOf(n); got != want && n.Op != def.OpAt {
			return fmt.Errorf("%s has %d terms, want %d", label(n), got, want)
		}
		v = m.finish(n, row, col)
	case lower.Store:
		m.isStored = m.isStored || n.Extent == def.PerElement
		at, a := place(n, row, col), m.c.Operands[s.Operand]
		if n.Type == def.Int {
			a.SetBits(at.row, at.col, args[0])
		} else {
			a.Set(at.row, at.col, math.Float32frombits(args[0]))
		}
		return nil
	}
	m.registers[n] = register{value: v}
	if s.Keep {
		m.cells[place(n, row, col)] = v
	}
	return nil
}

func (m *machine) load(n *def.Node, operand, row, col int) uint32 {
	if n.Type == def.Int { // OpStored too
		return m.c.Operands[operand].Bits(row, col)
	}
	return math.Float32bits(m.c.Operands[operand].At(row, col))
}

// accumulate remembers a term.
func (m *machine) accumulate(n *def.Node, args []uint32, row, col int) {
	if n.Op == def.OpAt && int(int32(args[1])) != col {
		return
	}
	at := place(n, row, col)
	m.terms[at] = append(m.terms[at], math.Float32frombits(args[0]))
}

// termsOf returns how many terms a reduction or sum has.
func (m *machine) termsOf(n *def.Node) int {
	switch n.Op {
	case def.OpColSum:
		return m.rows
	case def.OpTotalSum:
		return m.rows * m.cols
	}
	return m.cols
}

// finish computes a reduction or sum from its terms.
func (m *machine) finish(n *def.Node, row, col int) uint32 {
	at := place(n, row, col)
	x := m.terms[at]
	best := 0
	better := func(a, b float32) bool { return false }
	if n.Type == def.Int && (lower.IsSum(n) || n.Op == def.OpRowSum) {
		sum := uint32(0)
		for _, v := range x {
			sum += math.Float32bits(v)
		}
		return sum
	}
	switch n.Op {
	case def.OpRowSum:
		return math.Float32bits(num.LaneSum(x, num.RowLanes(m.cols)))
	case def.OpColSum:
		return math.Float32bits(num.LaneSum(x, num.ColLanes(m.cols)))
	case def.OpTotalSum:
		for {
			var sums []float32
			for first := 0; first < len(x); first += num.FlatRow {
				part := x[first:min(first+num.FlatRow, len(x))]
				sums = append(sums, num.LaneSum(part, num.RowLanes(len(part))))
			}
			if x = sums; len(x) == 1 {
				return math.Float32bits(x[0])
			}
		}
	case def.OpAt:
		if len(x) == 0 {
			return 0
		}
		return math.Float32bits(x[0])
	case def.OpRowMax, def.OpRowMin:
		v := x[0]
		for _, w := range x[1:] {
			if n.Op == def.OpRowMax {
				v = num.Max(v, w)
			} else {
				v = num.Min(v, w)
			}
		}
		return math.Float32bits(v)
	case def.OpRowArgMax:
		better = func(a, b float32) bool { return a > b }
	case def.OpRowArgMin:
		better = func(a, b float32) bool { return a < b }
	}
	for i, v := range x {
		if v != v {
			return uint32(i)
		}
		if better(v, x[best]) {
			best = i
		}
	}
	return uint32(best)
}

// compute evaluates a node from its arguments.
func (m *machine) compute(s *lower.Step, args []uint32, row, col int) uint32 {
	n := s.Node
	f := func(k int) float32 { return math.Float32frombits(args[k]) }
	i := func(k int) int32 { return int32(args[k]) }
	float := math.Float32bits
	truth := func(b bool) uint32 {
		if b {
			return 1
		}
		return 0
	}
	switch n.Op {
	case def.OpParam:
		if n.Type == def.Int {
			return uint32(int32(m.c.Params[n.Param]))
		}
		return float(float32(m.c.Params[n.Param]))
	case def.OpConst:
		return float(n.Real.F32())
	case def.OpInt:
		return uint32(n.Int)
	case def.OpColumns:
		return float(float32(m.cols))
	case def.OpRows:
		return float(float32(m.rows))
	case def.OpCol:
		return uint32(col)
	case def.OpColFloat:
		return float(float32(col))
	case def.OpRandom:
		e := uint64(row)*uint64(m.cols) + uint64(col)
		if len(args) > 4 {
			e += uint64(args[4]) | uint64(args[5])<<32
		}
		return num.RandomWord(uint64(args[0])|uint64(args[1])<<32, args[2], args[3], e)
	case def.OpRandomRow:
		return num.Philox(uint64(args[0])|uint64(args[1])<<32, [4]uint32{uint32(col / 4), args[2], args[3], args[4]})[col%4]
	case def.OpElement, def.OpElementHigh:
		e := uint64(row)*uint64(m.cols) + uint64(col) + (uint64(args[0]) | uint64(args[1])<<32)
		if n.Op == def.OpElementHigh {
			e >>= 32
		}
		return uint32(e)
	case def.OpPartner:
		return m.partner(n.Args[0], row, col)
	case def.OpAdd:
		return float(f(0) + f(1))
	case def.OpSub:
		return float(f(0) - f(1))
	case def.OpMul:
		return float(f(0) * f(1))
	case def.OpDiv:
		return float(f(0) / f(1))
	case def.OpSqrt:
		return float(num.Sqrt(f(0)))
	case def.OpFMA:
		return float(num.FMA(f(0), f(1), f(2)))
	case def.OpNeg:
		return float(-f(0))
	case def.OpAbs:
		return args[0] &^ (1 << 31)
	case def.OpMin:
		return float(num.Min(f(0), f(1)))
	case def.OpMax:
		return float(num.Max(f(0), f(1)))
	case def.OpRint:
		return float(num.Rint(f(0)))
	case def.OpScale:
		return float(num.Scale(f(0), f(1)))
	case def.OpRound:
		return float(num.Round(s.Format, f(0)))
	case def.OpSRound:
		return float(num.StochasticRound(s.Format, f(0), args[1]))
	case def.OpLess, def.OpLessEqual, def.OpEqual, def.OpNotEqual:
		if n.Args[0].Type == def.Int {
			return truth(compare(n.Op, i(0), i(1)))
		}
		return truth(compare(n.Op, f(0), f(1)))
	case def.OpInside:
		return truth(i(0) >= 0 && int(i(0)) < m.cols)
	case def.OpSelect:
		if args[0] != 0 {
			return args[1]
		}
		return args[2]
	case def.OpBits, def.OpFloat:
		return args[0]
	case def.OpIToF:
		return float(float32(i(0)))
	case def.OpFToI:
		return uint32(num.FToI(f(0)))
	case def.OpIAdd:
		return args[0] + args[1]
	case def.OpISub:
		return args[0] - args[1]
	case def.OpIMul:
		return args[0] * args[1]
	case def.OpUMulHigh:
		return uint32(uint64(args[0]) * uint64(args[1]) >> 32)
	case def.OpIXor:
		return args[0] ^ args[1]
	case def.OpShrU:
		return args[0] >> (args[1] & 31)
	case def.OpIAnd:
		return args[0] & args[1]
	case def.OpIOr:
		return args[0] | args[1]
	case def.OpShl:
		return args[0] << (args[1] & 31)
	case def.OpShr:
		return uint32(i(0) >> (args[1] & 31))
	}
	panic("no meaning for " + n.Op.String())
}

// partner reads what n reads in the other column of the pair.
func (m *machine) partner(n *def.Node, row, col int) uint32 {
	if col ^= 1; col >= m.cols {
		return 0
	}
	operand, at := n.Operand, place(n, row, col).row
	if n.Op == def.OpLookup {
		index := n.Args[1]
		operand, at = n.Args[0].Operand, int(int32(m.load(index, index.Operand, row, 0)))
		if at < 0 || at >= m.c.Operands[operand].Rows {
			return 0
		}
	}
	return m.load(n, operand, at, col)
}

func compare[T int32 | float32](op def.Op, x, y T) bool {
	switch op {
	case def.OpLess:
		return x < y
	case def.OpLessEqual:
		return x <= y
	case def.OpEqual:
		return x == y
	}
	return x != y
}
