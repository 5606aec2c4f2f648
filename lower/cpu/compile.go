package cpu

import (
	"sync"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// chunk is how many elements an instruction handles at once: a dozen slots of that size
// fit a first-level cache of 32 KiB.
const chunk = 512

// slot is a register of instructions: a slice in the worker's frame, set for each piece of
// a row.
type slot int

const noSlot slot = -1

// action is what an instruction does.
type action uint8

const (
	actApply     action = iota // dst = run(a, b, c)
	actLoad                    // dst = operand, widened
	actStored                  // dst = operand, its patterns
	actLookup                  // dst = the row of a table that an index names, widened
	actCol                     // dst = column numbers
	actColFloat                // dst = column numbers, rounded
	actRandom                  // dst = random words, or the numbers of elements
	actInside                  // dst = 0 ≤ a < C
	actRowSum                  // lanes += a
	actRowMax                  // row value = max
	actRowMin                  // row value = min
	actRowArgMax               // row value = the column of max
	actRowArgMin               // row value = the column of min
	actAt                      // row value = a at the index b, if it is in this piece
	actColSum                  // the row's lane of every column += a
	actTotalSum                // lanes of the flat row += a
	actStore                   // operand = a, narrowed
)

type instruction struct {
	action  action
	run     primitive
	dst     slot
	a, b, c slot
	node    *def.Node // whose value this is, or that is stored
	operand int       // actLoad, actLookup, actStore
	sum     int       // reductions: index of its lanes
}

// memory is where the values of a slot are.
type memory uint8

const (
	temporary memory = iota // a chunk of the worker's own
	broadcast               // a chunk filled with a row's or a call's single value
	keptRow                 // a whole row of the worker's own, kept between passes
	perColumn               // a value per column, shared by all workers
	inputView               // an input of 32 bits, read in place; never one that is stored, as an output may overwrite it
)

type slotPlan struct {
	memory  memory
	node    *def.Node // broadcast, perColumn
	operand int       // inputView
}

// rowwise is a vector program.
type rowwise struct {
	d      *def.Definition
	dtypes []num.DType
	flat   bool

	slots   []slotPlan
	scalars singles       // of the call
	once    []instruction // values per column
	start   singles       // of a row, before its first pass
	passes  []pass
	// after the last row
	lateScalars singles
	columns     []instruction // per column

	rowSums       int // arrays of lanes that a worker needs
	sumLanes      int // of row sums; 0 if the length of a row decides
	columnSums    []*def.Node
	totalSums     []*def.Node
	rowOutputs    []lower.Step
	scalarOutputs []lower.Step

	jobs sync.Pool
}

// pass is one walk over a row.
type pass struct {
	code       []instruction
	reductions []*def.Node
	after      singles
}

// singles are single values of a row or of the call that become known together.
type singles struct {
	nodes  []*def.Node // all of them, found by reductions and sums or computed
	values []single    // those that are computed
	fills  []slot      // broadcasts of them
}

// single is a single value and how it is computed.
type single struct {
	node *def.Node
	run  primitive // nil for what evaluateSingle computes itself
}

// costs are the prices of vector programs. A computed value costs nothing to keep as long
// as rows stay in the cache; inputs are read again.
type costs struct{ keepsRows bool }

// Compute implements lower.Costs.
func (costs) Compute(*def.Node) int { return 1 }

// Keep implements lower.Costs.
func (c costs) Keep(n *def.Node, _ []*lower.Kept) int {
	if !c.keepsRows || len(n.Args) == 0 || n.Op == def.OpLookup {
		return lower.Never
	}
	return 0
}

// Hoist implements lower.Costs.
func (costs) Hoist(*def.Node) bool { return true }

// compiler selects the instructions of a program, and gives its values slots.
type compiler struct {
	p     *rowwise
	at    map[*def.Node]slot
	users []int  // by slot: values that share a temporary
	free  []slot // temporaries not in use
}

// compileRowwise turns the plan of a definition into instructions.
func compileRowwise(d *def.Definition, dtypes []num.DType, class Class) (Program, error) {
	if stages := d.LazyStages(dtypes); stages != nil {
		return CompileStages(d, stages, nil, func(part *def.Definition, dtypes []num.DType) (Program, error) {
			return compileRowwise(part, dtypes, class)
		})
	}
	if d.IsFlat() {
		class = Short
	}
	plan := lower.NewProgram(d, dtypes, lower.Whole(d), costs{keepsRows: class == Short})
	p := &rowwise{d: d, dtypes: plan.DTypes, flat: d.IsFlat()}
	c := &compiler{p: p, at: map[*def.Node]slot{}}
	p.once = c.columnar(&plan.Once.Columns)
	for i := range plan.Passes {
		p.passes = append(p.passes, c.pass(&plan.Passes[i].Elements))
	}
	p.columns = c.columnar(&plan.Late.Columns)
	// Only now is it known which single values are broadcast.
	p.scalars = c.singles(&plan.Once.Scalars)
	p.start = c.singles(&plan.Start)
	for i := range plan.Passes {
		p.passes[i].after = c.singles(&plan.Passes[i].After)
	}
	p.lateScalars = c.singles(&plan.Late.Scalars)
	p.rowOutputs = plan.End.With(lower.Store)
	p.scalarOutputs = plan.Late.Scalars.With(lower.Store)
	return p, nil
}

// CompilePiece lowers a part of a definition, as [Compile] does the whole.
func CompilePiece(part lower.Piece, dtypes []num.DType) (Program, error) {
	p, err := Compile(part.Definition, dtypes, Short)
	if rows, ok := p.(*rowwise); ok {
		rows.sumLanes = part.SumLanes
	}
	return p, err
}

// singles translates a block of single values.
func (c *compiler) singles(b *lower.Block) (all singles) {
	for i := range b.Steps {
		s := &b.Steps[i]
		if !s.Defines() {
			continue
		}
		n := s.Node
		all.nodes = append(all.nodes, n)
		if s.Action != lower.Finish {
			v := single{node: n}
			if s.Action == lower.Compute && len(n.Args) > 0 && n.Op != def.OpInside {
				v.run = primitiveOf(c.p.d, c.p.dtypes, n)
			}
			all.values = append(all.values, v)
		}
		if at, ok := c.at[n]; ok {
			all.fills = append(all.fills, at)
		}
	}
	return all
}

// columnar translates a block of values per column.
func (c *compiler) columnar(b *lower.Block) (code []instruction) {
	for i := range b.Steps {
		switch s := &b.Steps[i]; s.Action {
		case lower.Finish:
			c.place(s.Node, perColumn)
		case lower.Store:
			code = append(code, c.store(s))
		default:
			in := c.instruction(s.Node)
			in.dst = c.place(s.Node, perColumn)
			code = append(code, in)
		}
	}
	return code
}

// pass translates the steps of one walk over a row.
func (c *compiler) pass(b *lower.Block) (p pass) {
	isStored := map[*def.Node]bool{}
	for _, n := range lower.Nodes(b.With(lower.Store)) {
		isStored[root(n)] = true
	}
	for i := range b.Steps {
		s := &b.Steps[i]
		n := s.Node
		switch {
		case s.Action == lower.Take: // it is in the row where an earlier pass has put it
		case s.Action == lower.Accumulate:
			p.code = append(p.code, c.accumulate(n))
			if n.Op.IsRowReduction() {
				p.reductions = append(p.reductions, n)
			}
		case s.Action == lower.Store:
			p.code = append(p.code, c.store(s))
		case s.Action == lower.Load && s.Format.Size() == 4 && !isStored[n]:
			if _, ok := c.at[n]; !ok {
				c.p.slots[c.place(n, inputView)].operand = s.Operand
			}
		case isReinterpretation(n) && !s.Keep: // the same pattern, read as another type
			c.share(n, n.Args[0])
			c.release(s.Kills)
		default:
			in := c.instruction(n)
			c.release(s.Kills)
			if s.Keep {
				in.dst = c.place(n, keptRow)
			} else {
				in.dst = c.place(n, temporary)
			}
			p.code = append(p.code, in)
		}
	}
	c.endPass()
	return p
}

// accumulate translates a step of a reduction or sum. Sums number their lanes, each kind
// by itself.
func (c *compiler) accumulate(n *def.Node) instruction {
	in := instruction{a: c.operand(n.Args[0]), dst: noSlot, node: n}
	switch n.Op {
	case def.OpRowSum:
		in.action, in.sum = actRowSum, c.p.rowSums
		c.p.rowSums++
	case def.OpColSum:
		in.action, in.sum = actColSum, len(c.p.columnSums)
		c.p.columnSums = append(c.p.columnSums, n)
	case def.OpTotalSum:
		in.action, in.sum = actTotalSum, len(c.p.totalSums)
		c.p.totalSums = append(c.p.totalSums, n)
	case def.OpRowMax:
		in.action = actRowMax
	case def.OpRowMin:
		in.action = actRowMin
	case def.OpRowArgMax:
		in.action = actRowArgMax
	case def.OpRowArgMin:
		in.action = actRowArgMin
	case def.OpAt:
		in.action = actAt
	}
	return in
}

func (c *compiler) store(s *lower.Step) instruction {
	return instruction{action: actStore, a: c.operand(s.Node), dst: noSlot, node: s.Node, operand: s.Operand}
}

// isReinterpretation reports whether a node is its argument's pattern as another type.
func isReinterpretation(n *def.Node) bool { return n.Op == def.OpBits || n.Op == def.OpFloat }

// root returns the value whose pattern n is.
func root(n *def.Node) *def.Node {
	for isReinterpretation(n) {
		n = n.Args[0]
	}
	return n
}

// operand returns the slot in which an instruction finds a value. Single values are
// broadcast when an instruction first needs them.
func (c *compiler) operand(n *def.Node) slot {
	if s, ok := c.at[n]; ok {
		return s
	}
	if isReinterpretation(n) {
		return c.operand(n.Args[0])
	}
	if n.Extent == def.PerElement || n.Extent == def.PerColumn {
		panic("cpu: no value for " + n.Op.String())
	}
	return c.place(n, broadcast)
}

// place gives a value a slot of its own.
func (c *compiler) place(n *def.Node, m memory) slot {
	s := slot(len(c.p.slots))
	if last := len(c.free) - 1; m == temporary && last >= 0 {
		s, c.free = c.free[last], c.free[:last]
	} else {
		c.p.slots = append(c.p.slots, slotPlan{memory: m, node: n})
		c.users = append(c.users, 0)
	}
	c.at[n] = s
	c.users[s]++
	return s
}

// share gives n the slot of a value with the same pattern.
func (c *compiler) share(n, other *def.Node) {
	s := c.operand(other)
	c.at[n] = s
	c.users[s]++
}

// release frees the temporaries of values that are not used again.
func (c *compiler) release(nodes []*def.Node) {
	for _, n := range nodes {
		s := c.at[n]
		if c.p.slots[s].memory != temporary {
			continue
		}
		delete(c.at, n)
		if c.users[s]--; c.users[s] == 0 {
			c.free = append(c.free, s)
		}
	}
}

// endPass frees all temporaries: they do not outlive a pass.
func (c *compiler) endPass() {
	for n, s := range c.at {
		if c.p.slots[s].memory == temporary {
			delete(c.at, n)
		}
	}
	c.free = c.free[:0]
	for s := range c.p.slots {
		if c.p.slots[s].memory == temporary {
			c.users[s] = 0
			c.free = append(c.free, slot(s))
		}
	}
}

// instruction translates a node that is neither a reduction nor a single value.
func (c *compiler) instruction(n *def.Node) instruction {
	in := instruction{node: n, dst: noSlot, a: noSlot, b: noSlot, c: noSlot}
	switch n.Op {
	case def.OpInput:
		in.action, in.operand = actLoad, n.Operand
		return in
	case def.OpLookup:
		in.action, in.operand = actLookup, n.Args[0].Operand
		return in
	case def.OpCol:
		in.action = actCol
		return in
	case def.OpColFloat:
		in.action = actColFloat
		return in
	case def.OpStored:
		in.action, in.operand = actStored, n.Operand
		return in
	case def.OpRandom, def.OpRandomRow, def.OpElement, def.OpElementHigh:
		in.action = actRandom
		return in
	case def.OpInside:
		in.action = actInside
	default:
		in.run = primitiveOf(c.p.d, c.p.dtypes, n)
	}
	slots := [...]*slot{&in.a, &in.b, &in.c}
	for i, a := range n.Args {
		*slots[i] = c.operand(a)
	}
	return in
}

// primitiveOf returns the loop that computes a node.
func primitiveOf(d *def.Definition, dtypes []num.DType, n *def.Node) primitive {
	switch n.Op {
	case def.OpRound:
		return rounds[lower.Format(d, dtypes, n.Storage)]
	case def.OpSRound:
		return srounds[lower.Format(d, dtypes, n.Storage)]
	case def.OpLess, def.OpLessEqual, def.OpEqual, def.OpNotEqual:
		if n.Args[0].Type == def.Int {
			return intComparisons[n.Op]
		}
		return floatComparisons[n.Op]
	case def.OpBits, def.OpFloat:
		return copyValues
	}
	f, ok := primitives[n.Op]
	if !ok {
		panic("cpu: no primitive for " + n.Op.String())
	}
	return f
}
