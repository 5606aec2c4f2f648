package jit

import (
	"math"
	"slices"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// selector turns the blocks of a plan into code.
type selector struct {
	plan       *lower.Program
	isFlat     bool
	roundsHigh bool // the target has opRoundHigh
	layout     *layout
	lanes      int                 // of a vector
	uniform    map[*def.Node]place // values of the call and of the row that other blocks read
	carried    map[*def.Node][]*carriedState
	rowSums    map[*def.Node]int
	colSums    map[*def.Node]int
	totals     map[*def.Node]int
	intTotals  map[*def.Node]place // of int32, as far as rows are computed
	kept       map[*def.Node]int
	lookups    map[[2]int]int    // by the operands of a table and of an index
	columns    map[*def.Node]int // values per column that are computed once, or summed up

	// Places that the job fills in before a call.
	params            map[int]place // by parameter
	cols, rows        place         // as binary32; 0 if nobody reads them
	intCols           place
	elementLow        place // the flat index of the row's first element
	elementHigh       place
	stepLow, stepHigh place // from one row to the next

	*block
}

// carriedState is a state of a reduction, as the code after its loop finds it.
type carriedState struct {
	index int // among the carried values of the loop
	left  []place
}

// block is the code of one block while it is selected.
type block struct {
	code
	values map[*def.Node]value
	bools  map[*def.Node]comparison // bools that nothing keeps
}

type comparison struct {
	pred predicate
	a, b value
}

func (s *selector) begin() *code {
	s.block = &block{values: map[*def.Node]value{}, bools: map[*def.Node]comparison{}}
	return &s.block.code
}

// constant returns a pattern in all lanes.
func (s *selector) constant(bits uint32) value { return s.block.uniform(s.layout.constant(bits)) }

func (s *selector) float(x float32) value { return s.constant(math.Float32bits(x)) }

// at returns the uniform value at a place. A place of 0 gets a new slot.
func (s *selector) at(p *place) value {
	if *p == 0 {
		*p = s.layout.slot()
	}
	return s.block.uniform(*p)
}

// placeOf returns the place of a uniform value.
func (s *selector) placeOf(n *def.Node) place {
	p, ok := s.uniform[n]
	if !ok {
		p = s.layout.slot()
		s.uniform[n] = p
	}
	return p
}

// value returns the value of a node that this block has defined or that is uniform.
func (s *selector) value(n *def.Node) value {
	if v, ok := s.values[n]; ok {
		return v
	}
	var v value
	_, isKept := s.uniform[n]
	at, isColumn := s.columns[n]
	switch {
	case isKept:
		v = s.block.uniform(s.uniform[n])
	case isColumn: // computed once a call
		v = s.loadFrom(s.layout.array(columnArray, at, num.F32, false), num.F32, n.Name)
	case n.Op == def.OpBits || n.Op == def.OpFloat: // the same pattern
		v = s.value(n.Args[0])
	case n.Op == def.OpConst:
		v = s.float(n.Real.F32())
	case n.Op == def.OpInt:
		v = s.constant(uint32(n.Int))
	case n.Op == def.OpParam:
		p := s.params[n.Param]
		v = s.at(&p)
		s.params[n.Param] = p
	case n.Op == def.OpColumns:
		v = s.at(&s.cols)
	case n.Op == def.OpRows:
		v = s.at(&s.rows)
	case n.Type == def.Bool && s.hasComparison(n):
		k := s.bools[n]
		v = s.mask(k.pred, k.a, k.b)
	case n.Extent&def.PerColumn != 0:
		panic("jit: no value for " + n.Op.String())
	default:
		v = s.block.uniform(s.placeOf(n))
	}
	s.values[n] = v
	return v
}

func (s *selector) hasComparison(n *def.Node) bool {
	_, ok := s.bools[n]
	return ok
}

func (s *selector) loadFrom(array int, format num.DType, note string) value {
	return s.addWith(instruction{op: opLoad, array: array, format: format, note: note})
}

// operandArray returns the array of an operand.
func (s *selector) operandArray(i int) int {
	o := &s.plan.Definition.Operands[i]
	return s.layout.array(operandArray, i, s.plan.DTypes[i], o.Extent&def.PerRow != 0)
}

// rowArray returns the array of a lookup: a row of a table.
func (s *selector) rowArray(n *def.Node, format num.DType) int {
	key := [2]int{n.Args[0].Operand, n.Args[1].Operand}
	at, ok := s.lookups[key]
	if !ok {
		at = len(s.lookups)
		s.lookups[key] = at
	}
	return s.layout.array(rowArray, at, format, false)
}

// findRow makes the array of a lookup the row that the index names.
func (s *selector) findRow(n *def.Node, array int) {
	operand := n.Args[0].Operand
	s.layout.table(operand)
	s.addWith(instruction{op: opFindRow, array: array, imm: int32(operand), note: n.Args[0].Name}, s.value(n.Args[1]))
}

// findRows finds the rows of the tables that the passes over a row read.
func (s *selector) findRows() {
	var found []int
	for i := range s.plan.Passes {
		for _, t := range s.plan.Passes[i].Elements.With(lower.LoadRow) {
			if array := s.rowArray(t.Node, t.Format); !slices.Contains(found, array) {
				s.findRow(t.Node, array)
				found = append(found, array)
			}
		}
	}
}

// isUniformLeaf reports whether a node is known before any code runs.
func isUniformLeaf(n *def.Node) bool {
	switch n.Op {
	case def.OpConst, def.OpInt, def.OpParam, def.OpColumns, def.OpRows:
		return true
	}
	return false
}

// steps selects the code of a block.
func (s *selector) steps(b *lower.Block) {
	for i := range b.Steps {
		s.step(b, &b.Steps[i])
	}
}

func (s *selector) step(b *lower.Block, t *lower.Step) {
	n := t.Node
	isVector := b.Extent&def.PerColumn != 0
	switch t.Action {
	case lower.Load:
		in := instruction{op: opLoad, array: s.operandArray(t.Operand), format: t.Format, isInt: n.Op == def.OpStored, note: n.Name}
		if !isVector {
			in.op = opLoadOne
		}
		s.define(t, b, s.addWith(in))
	case lower.LoadAt:
		in := instruction{op: opLoadAt, array: s.operandArray(t.Operand), format: t.Format, note: n.Name}
		s.define(t, b, s.addWith(in, s.value(n.Args[1])))
	case lower.LoadRow:
		array := s.rowArray(n, t.Format)
		in := instruction{op: opLoad, array: array, format: t.Format, note: n.Name}
		if !isVector {
			s.findRow(n, array)
			in.op = opLoadOne
		}
		s.define(t, b, s.addWith(in))
	case lower.Take:
		s.values[n] = s.loadFrom(s.layout.array(keptArray, s.kept[n], num.F32, false), num.F32, n.Name)
	case lower.Compute:
		s.compute(b, t)
	case lower.Accumulate:
		s.accumulate(n)
	case lower.Finish:
		s.finish(b, t)
	case lower.Store:
		s.store(t, isVector)
	case lower.Receive:
		panic("jit: a program on its own receives nothing")
	}
}

// define records a node's value, and keeps it if others read it.
func (s *selector) define(t *lower.Step, b *lower.Block, v value) {
	s.values[t.Node] = v
	if !t.Keep {
		return
	}
	switch {
	case b.Extent == def.PerElement:
		at, ok := s.kept[t.Node]
		if !ok {
			at = len(s.kept)
			s.kept[t.Node] = at
		}
		s.addWith(instruction{op: opStore, array: s.layout.array(keptArray, at, num.F32, false), format: num.F32, note: t.Node.Name}, v)
	case b.Extent == def.PerColumn:
		at := s.column(t.Node)
		s.addWith(instruction{op: opStore, array: s.layout.array(columnArray, at, num.F32, false), format: num.F32, note: t.Node.Name}, v)
	default:
		s.keepUniform(t.Node, v)
	}
}

// column returns the number of a value per column that lies in memory.
func (s *selector) column(n *def.Node) int {
	at, ok := s.columns[n]
	if !ok {
		at = len(s.columns)
		s.columns[n] = at
	}
	return at
}

// keepUniform makes code store a uniform value in its place, where other blocks find it.
func (s *selector) keepUniform(n *def.Node, v value) {
	last := len(s.instructions) - 1
	if last < 0 || s.instructions[last].dst != v || s.instructions[last].keep != 0 { // a pattern that another node has defined
		v = s.add(opMove, v)
		last++
	}
	s.instructions[last].keep = s.placeOf(n)
	s.values[n] = v
}

// compute selects the code of an arithmetic node.
func (s *selector) compute(b *lower.Block, t *lower.Step) {
	n := t.Node
	if isUniformLeaf(n) {
		return // found where it is used
	}
	if n.Type == def.Bool && n.Op != def.OpSelect {
		s.bools[n] = s.comparison(n)
		if t.Keep {
			k := s.bools[n]
			s.define(t, b, s.mask(k.pred, k.a, k.b))
		}
		return
	}
	before := len(s.instructions)
	v := s.arithmetic(n, t.Format)
	if n.Name != "" && len(s.instructions) > before {
		s.instructions[len(s.instructions)-1].note = n.Name
	}
	s.define(t, b, v)
}

// comparison returns the comparison that a bool stands for.
func (s *selector) comparison(n *def.Node) comparison {
	a := s.value(n.Args[0])
	if n.Op == def.OpInside {
		return comparison{belowUnsigned, a, s.at(&s.intCols)}
	}
	p := map[def.Op]predicate{def.OpLess: less, def.OpLessEqual: lessEqual, def.OpEqual: equal, def.OpNotEqual: notEqual}[n.Op]
	if n.Args[0].Type == def.Int {
		p += intLess
	}
	return comparison{p, a, s.value(n.Args[1])}
}

// opcodes are those of nodes that are one instruction.
var opcodes = map[def.Op]opcode{
	def.OpAdd: opAdd, def.OpSub: opSub, def.OpMul: opMul, def.OpDiv: opDiv, def.OpSqrt: opSqrt, def.OpFMA: opFMA,
	def.OpMin: opMin, def.OpMax: opMax, def.OpRint: opRint, def.OpIToF: opIntToFloat, def.OpFToI: opFloatToInt,
	def.OpIAdd: opIntAdd, def.OpISub: opIntSub, def.OpIMul: opIntMul, def.OpUMulHigh: opMulHigh,
	def.OpIAnd: opAnd, def.OpIOr: opOr, def.OpIXor: opXor,
}

const signBit = 1 << 31

// arithmetic selects the code that computes a node.
func (s *selector) arithmetic(n *def.Node, format num.DType) value {
	if v, ok := s.limit(n); ok {
		return v
	}
	if op, ok := opcodes[n.Op]; ok {
		var args []value
		for _, a := range n.Args {
			args = append(args, s.value(a))
		}
		return s.add(op, args...)
	}
	arg := func(i int) value { return s.value(n.Args[i]) }
	switch n.Op {
	case def.OpNeg:
		return s.add(opXor, arg(0), s.constant(signBit))
	case def.OpAbs:
		return s.add(opAnd, arg(0), s.constant(signBit-1))
	case def.OpBits, def.OpFloat:
		return arg(0)
	case def.OpShl:
		return s.shifted(n, opShl, opShlBy)
	case def.OpShr:
		return s.shifted(n, opShr, opShrBy)
	case def.OpShrU:
		return s.shifted(n, opShrU, opShrUBy)
	case def.OpScale:
		return s.scale(arg(0), arg(1))
	case def.OpRound:
		return s.round(format, arg(0))
	case def.OpSRound:
		return s.stochasticRound(format, arg(0), arg(1))
	case def.OpSelect:
		if v, ok := s.clamp(n); ok {
			return v
		}
		if k, ok := s.bools[n.Args[0]]; ok {
			return s.choose(k.pred, k.a, k.b, arg(1), arg(2))
		}
		return s.add(opBlend, arg(0), arg(1), arg(2))
	case def.OpPartner:
		return s.partner(n.Args[0])
	case def.OpCol:
		return s.add(opColumn)
	case def.OpColFloat:
		return s.add(opIntToFloat, s.add(opColumn))
	case def.OpRandom:
		var first []value
		for i := 4; i < len(n.Args); i++ {
			first = append(first, arg(i))
		}
		return s.random(arg(0), arg(1), arg(2), arg(3), first...)
	case def.OpRandomRow:
		return s.randomRow(arg(0), arg(1), arg(2), arg(3), arg(4))
	case def.OpElement:
		return s.add(opIntAdd, s.add(opIntAdd, s.at(&s.elementLow), arg(0)), s.add(opColumn))
	case def.OpElementHigh:
		_, high := s.element(arg(0), arg(1))
		return high
	}
	panic("jit: no code for " + n.Op.String())
}

// partner selects the load of what n reads, in the other column of each pair.
func (s *selector) partner(n *def.Node) value {
	in := instruction{op: opLoadPartner, isInt: n.Op == def.OpStored, note: n.Name}
	if n.Op == def.OpLookup {
		in.format = s.plan.DTypes[n.Args[0].Operand]
		in.array = s.rowArray(n, in.format)
	} else {
		in.format = s.plan.DTypes[n.Operand]
		in.array = s.operandArray(n.Operand)
	}
	return s.addWith(in)
}

// limit selects a minimum or maximum with a constant, for which processors need fewer
// instructions.
func (s *selector) limit(n *def.Node) (value, bool) {
	op := opMinOf
	switch n.Op {
	case def.OpMin:
	case def.OpMax:
		op = opMaxOf
	default:
		return none, false
	}
	for i, a := range n.Args {
		if isLimit(a) {
			return s.add(op, s.value(a), s.value(n.Args[1-i])), true
		}
	}
	return none, false
}

// clamp selects a choice between a value and a constant that limits it: one instruction
// instead of two.
func (s *selector) clamp(n *def.Node) (value, bool) {
	if n.Args[0].Op != def.OpLess || n.Args[0].Args[0].Type != def.Float {
		return none, false
	}
	a, b := n.Args[0].Args[0], n.Args[0].Args[1]
	switch limit, x := n.Args[1], n.Args[2]; {
	case !isLimit(limit):
	case sameConst(b, limit) && a == x: // x < limit ? limit : x
		return s.add(opMaxOf, s.value(limit), s.value(x)), true
	case sameConst(a, limit) && b == x: // limit < x ? limit : x
		return s.add(opMinOf, s.value(limit), s.value(x)), true
	}
	return none, false
}

// isLimit reports whether n is a constant with which opMinOf and opMaxOf compare.
func isLimit(n *def.Node) bool {
	return n.Op == def.OpConst && n.Real.F32() != 0 && n.Real.F32() == n.Real.F32()
}

// sameConst reports whether n is a constant with the value of another one.
func sameConst(n, other *def.Node) bool {
	return n.Op == def.OpConst && n.Real.F32() == other.Real.F32()
}

// shifted selects a shift, whose count is taken modulo 32.
func (s *selector) shifted(n *def.Node, op, by opcode) value {
	if n.Args[1].Op == def.OpInt {
		return s.shift(by, s.value(n.Args[0]), n.Args[1].Int&31)
	}
	return s.add(op, s.value(n.Args[0]), s.add(opAnd, s.value(n.Args[1]), s.constant(31)))
}

// accumulate selects a step of a reduction or sum.
func (s *selector) accumulate(n *def.Node) {
	x := s.value(n.Args[0])
	if n.Type == def.Int && (n.Op == def.OpRowSum || n.Op == def.OpTotalSum) {
		s.setCarried(n, 0, s.add(opAddOnce, s.carry(n, 0), x))
		return
	}
	switch n.Op {
	case def.OpRowSum:
		s.addWith(instruction{op: opAddLane, imm: int32(s.rowSum(n)), note: n.Name}, x)
	case def.OpTotalSum:
		if s.isFlat {
			s.addWith(instruction{op: opAddLane, imm: int32(s.rowSum(n)), note: n.Name}, x)
			return
		}
		at := indexIn(s.totals, n)
		s.addWith(instruction{op: opStore, array: s.layout.array(totalArray, at, num.F32, false), format: num.F32, note: n.Name}, x)
	case def.OpColSum:
		at := indexIn(s.colSums, n)
		s.addWith(instruction{op: opAddTo, isInt: n.Type == def.Int, array: s.layout.array(sumArray, at, num.F32, false), note: n.Name}, x)
	case def.OpRowMax:
		m := s.carry(n, bitsOf(float32(math.Inf(-1))))
		s.setCarried(n, 0, s.add(opMax, m, x))
	case def.OpRowMin:
		m := s.carry(n, bitsOf(float32(math.Inf(1))))
		s.setCarried(n, 0, s.add(opMin, m, x))
	case def.OpAt:
		m := s.carry(n, 0)
		s.setCarried(n, 0, s.choose(intEqual, s.add(opColumn), s.value(n.Args[1]), x, m))
	case def.OpRowArgMax, def.OpRowArgMin:
		start := float32(math.Inf(-1))
		if n.Op == def.OpRowArgMin {
			start = -start
		}
		m := s.carry(n, bitsOf(start))
		at := s.carry(n, 0)
		best := s.better(n.Op, x, m)
		s.setCarried(n, 0, s.add(opBlend, best, x, m))
		s.setCarried(n, 1, s.add(opBlend, best, s.add(opColumn), at))
	}
}

func indexIn(m map[*def.Node]int, n *def.Node) int {
	at, ok := m[n]
	if !ok {
		at = len(m)
		m[n] = at
	}
	return at
}

// rowSum returns the number of a sum whose lanes are the worker's.
func (s *selector) rowSum(n *def.Node) int {
	at := indexIn(s.rowSums, n)
	for len(s.layout.sums) <= at {
		s.layout.sums = append(s.layout.sums, s.layout.word())
	}
	return at
}

// carry adds a carried value to the loop.
func (s *selector) carry(n *def.Node, start uint32) value {
	v := s.newValue()
	s.carried[n] = append(s.carried[n], &carriedState{index: len(s.block.carried)})
	s.block.carried = append(s.block.carried, carried{values: []value{v}, start: s.layout.constant(start)})
	return v
}

func (s *selector) setCarried(n *def.Node, i int, v value) {
	s.addWith(instruction{op: opCarry, imm: int32(s.carried[n][i].index), note: n.Name}, v)
}

// better returns a mask of the lanes in which x replaces the extreme m: it is greater (or
// less), or the first NaN.
func (s *selector) better(op def.Op, x, m value) value {
	a, b := m, x
	if op == def.OpRowArgMin {
		a, b = x, m
	}
	isFirstNaN := s.add(opAndNot, s.mask(notEqual, x, x), s.mask(notEqual, m, m))
	return s.add(opOr, s.mask(less, a, b), isFirstNaN)
}

// finish selects the code that finds the value of a reduction after its loop.
func (s *selector) finish(b *lower.Block, t *lower.Step) {
	n := t.Node
	switch n.Op {
	case def.OpRowSum:
		if n.Type == def.Int {
			break
		}
		s.define(t, b, s.addWith(instruction{op: opTree, imm: int32(s.rowSum(n)), note: n.Name}))
		return
	case def.OpColSum:
		s.values[n] = s.loadFrom(s.layout.array(columnArray, s.column(n), num.F32, false), num.F32, n.Name)
		return
	case def.OpTotalSum: // the job puts it there
		s.values[n] = s.block.uniform(s.placeOf(n))
		return
	}
	s.define(t, b, s.joined(n))
}

// joined selects the code that joins the states in which a loop leaves a reduction.
func (s *selector) joined(n *def.Node) value {
	var states [2][]value // of each carried value, by copy of the loop
	for i, c := range s.carried[n] {
		for _, p := range c.left {
			states[i] = append(states[i], s.block.uniform(p))
		}
	}
	// Join the copies, then ever nearer lanes: in the end all lanes hold the result.
	x, at := states[0][0], none
	if len(states[1]) > 0 {
		at = states[1][0]
	}
	join := func(y, yAt value) {
		switch n.Op {
		case def.OpRowMax:
			x = s.add(opMax, x, y)
		case def.OpRowMin:
			x = s.add(opMin, x, y)
		case def.OpAt:
			x = s.add(opOr, x, y)
		case def.OpRowSum, def.OpTotalSum: // of int32
			x = s.add(opIntAdd, x, y)
		default:
			x, at = s.joinArg(n.Op, x, at, y, yAt)
		}
	}
	for i := 1; i < len(states[0]); i++ {
		if at != none {
			join(states[0][i], states[1][i])
		} else {
			join(states[0][i], none)
		}
	}
	for d := s.lanes / 2; d > 0; d /= 2 {
		y, yAt := s.shift(opSwap, x, int32(d)), none
		if at != none {
			yAt = s.shift(opSwap, at, int32(d))
		}
		join(y, yAt)
	}
	if at != none {
		x = at
	}
	return x
}

// addTotals selects the code that adds a row's sums to the total sums of int32, which have no order.
func (s *selector) addTotals() {
	for _, n := range s.plan.Definition.Exec().Nodes {
		if n.Type != def.Int || n.Op != def.OpTotalSum {
			continue
		}
		at := s.intTotals[n]
		sum := s.add(opIntAdd, s.at(&at), s.joined(n))
		s.addWith(instruction{op: opMove, keep: at, note: n.Name}, sum)
		s.intTotals[n] = at
	}
}

// joinArg returns the better of two extremes with its column: of equals, which NaNs are
// too, the one in the earlier column.
func (s *selector) joinArg(op def.Op, x, at, y, yAt value) (value, value) {
	bothNaN := s.add(opAnd, s.mask(notEqual, x, x), s.mask(notEqual, y, y))
	same := s.add(opOr, s.mask(equal, x, y), bothNaN)
	earlier := s.add(opAnd, same, s.mask(intLess, yAt, at))
	takes := s.add(opOr, s.better(op, y, x), earlier)
	return s.add(opBlend, takes, y, x), s.add(opBlend, takes, yAt, at)
}

// store selects the store of an output.
func (s *selector) store(t *lower.Step, isVector bool) {
	v := s.value(t.Node)
	if t.Format == num.BF16 && t.Node.Type == def.Float {
		v = s.roundHigh(v)
	}
	in := instruction{op: opStore, array: s.operandArray(t.Operand), format: t.Format, note: s.plan.Definition.Operands[t.Operand].Name}
	if !isVector {
		in.op = opStoreOne
	}
	s.addWith(in, v)
}
