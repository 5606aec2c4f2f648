package cpu

import (
	"sync"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// chunk is how many elements an instruction handles at once: a dozen live
// registers of it fit a first-level cache of 32 KiB.
const chunk = 512

// slot is a place that instructions read and write: a slice of the worker's
// frame, set for each piece of a row.
type slot int

const noSlot slot = -1

// what an instruction does.
type action uint8

const (
	actApply     action = iota // dst = run(a, b, c)
	actLoad                    // dst = operand, widened
	actCol                     // dst = column numbers
	actColFloat                // dst = column numbers, rounded
	actRandom                  // dst = random words
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
	operand int       // actLoad, actStore
	sum     int       // reductions: index of its lanes
}

// where a slot's memory is.
type memory uint8

const (
	temporary memory = iota // a chunk of the worker's own
	broadcast               // a chunk filled with a row's or a call's single value
	keptRow                 // a whole row of the worker's own, kept between passes
	perColumn               // a value per column, shared by all workers
	inputView               // an f32 input, read where it lies; never a stored value, which might replace it
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

	slots  []slotPlan
	single []primitive   // by Node.ID: how a single value of the row or call is computed
	once   []instruction // values per column
	fills  []slot        // broadcasts of the call's values
	start  rowValues     // before the first pass
	passes []pass
	// after the last row
	columns       []instruction // per column
	lateScalars   []*def.Node
	lateFills     []slot
	rowSums       int // arrays of lanes that a worker needs
	columnSums    []*def.Node
	totalSums     []*def.Node
	rowOutputs    []def.Output
	scalarOutputs []def.Output

	jobs sync.Pool
}

type pass struct {
	code       []instruction
	reductions []*def.Node
	after      rowValues
}

// rowValues are single values of a row that become known together, and the
// broadcasts to fill with them.
type rowValues struct {
	nodes []*def.Node
	fills []slot
}

// compiler carries what is known while a program is put together.
type compiler struct {
	p        *rowwise
	at       map[*def.Node]slot // of values with a fixed place
	free     []slot             // temporaries not in use
	kept     map[*def.Node]bool
	sumIndex map[*def.Node]int
}

func compileRowwise(d *def.Definition, dtypes []num.DType, class Class) *rowwise {
	s := lower.NewSchedule(d)
	p := &rowwise{d: d, dtypes: append([]num.DType(nil), dtypes...), flat: d.IsFlat(), start: rowValues{nodes: s.Start}}
	c := &compiler{p: p, at: map[*def.Node]slot{}, sumIndex: map[*def.Node]int{}}

	for _, n := range s.Once {
		if n.Extent == def.PerColumn {
			c.emitColumnar(&p.once, n)
		}
	}
	elements := c.planPasses(s, class == Short)
	for i := range s.Passes {
		p.passes = append(p.passes, c.pass(&s.Passes[i], elements[i]))
	}
	for _, n := range s.Late {
		switch {
		case n.Op == def.OpColSum:
			p.columnSums = append(p.columnSums, n)
			c.place(n, perColumn)
		case n.Op == def.OpTotalSum:
			p.totalSums = append(p.totalSums, n)
		case n.Extent == def.PerColumn:
			c.emitColumnar(&p.columns, n)
		default:
			p.lateScalars = append(p.lateScalars, n)
		}
	}
	for _, n := range d.Exec.Nodes {
		var f primitive
		if n.Extent&def.PerColumn == 0 && len(n.Args) > 0 && n.Op != def.OpInside && !isReduction(n) {
			f = primitiveOf(d, dtypes, n)
		}
		p.single = append(p.single, f)
	}
	for _, o := range d.Exec.Outputs {
		switch o.Value.Extent {
		case def.PerRow:
			p.rowOutputs = append(p.rowOutputs, o)
		case def.PerColumn:
			p.columns = append(p.columns, instruction{action: actStore, a: c.operand(o.Value), node: o.Value, operand: o.Operand, dst: noSlot})
		case def.Scalar:
			p.scalarOutputs = append(p.scalarOutputs, o)
		}
	}
	p.fills = c.fillsOf(s.Once)
	p.lateFills = c.fillsOf(s.Late)
	p.start.fills = c.fillsOf(s.Start)
	for i := range p.passes {
		p.passes[i].after.fills = c.fillsOf(p.passes[i].after.nodes)
	}
	return p
}

// fillsOf are the broadcasts of the given values.
func (c *compiler) fillsOf(nodes []*def.Node) []slot {
	var fills []slot
	for _, n := range nodes {
		if s, ok := c.at[n]; ok && c.p.slots[s].memory == broadcast {
			fills = append(fills, s)
		}
	}
	return fills
}

func isReduction(n *def.Node) bool {
	return n.Op.IsRowReduction() || n.Op == def.OpColSum || n.Op == def.OpTotalSum
}

// planPasses decides which element values each pass computes. With keep, a value
// computed in an earlier pass is kept in a row of memory instead of computed
// again; inputs are always read again.
func (c *compiler) planPasses(s lower.Schedule, keep bool) [][]*def.Node {
	c.kept = map[*def.Node]bool{}
	elements := make([][]*def.Node, len(s.Passes))
	computed := map[*def.Node]bool{}
	for i := range s.Passes {
		needed := map[*def.Node]bool{}
		var need func(n *def.Node)
		need = func(n *def.Node) {
			if n.Extent != def.PerElement || needed[n] {
				return
			}
			if keep && computed[n] && len(n.Args) > 0 {
				c.kept[n] = true
				return
			}
			needed[n] = true
			for _, a := range n.Args {
				need(a)
			}
		}
		for _, n := range s.Passes[i].Reductions {
			need(n.Args[0])
		}
		for _, n := range s.Passes[i].Sums {
			need(n.Args[0])
		}
		for _, o := range s.Passes[i].Stores {
			need(o.Value)
		}
		for _, n := range s.Passes[i].Elements {
			if needed[n] {
				elements[i] = append(elements[i], n)
			}
		}
		for _, n := range elements[i] {
			computed[n] = true
		}
	}
	return elements
}

// pass emits the code of one walk over a row.
func (c *compiler) pass(plan *lower.Pass, elements []*def.Node) pass {
	p := pass{reductions: plan.Reductions, after: rowValues{nodes: plan.After}}
	stored := map[*def.Node]bool{}
	for _, o := range plan.Stores {
		stored[root(o.Value)] = true
	}
	uses := map[*def.Node]int{}
	count := func(n *def.Node) { uses[root(n)]++ }
	for _, n := range elements {
		if !isReinterpretation(n) || c.kept[n] {
			for _, a := range n.Args {
				count(a)
			}
		}
	}
	for _, n := range plan.Reductions {
		count(n.Args[0])
	}
	for _, n := range plan.Sums {
		count(n.Args[0])
	}
	for _, o := range plan.Stores {
		count(o.Value)
	}
	release := func(n *def.Node) {
		n = root(n)
		if uses[n]--; uses[n] == 0 {
			if s, ok := c.at[n]; ok && c.p.slots[s].memory == temporary && n.Extent == def.PerElement {
				c.free = append(c.free, s)
				delete(c.at, n)
			}
		}
	}
	for _, n := range elements {
		if isReinterpretation(n) && !c.kept[n] {
			continue // the same pattern, read as another type
		}
		in := c.instruction(n)
		for _, a := range n.Args {
			release(a)
		}
		switch {
		case c.kept[n]:
			c.place(n, keptRow)
		case n.Op == def.OpInput && c.p.dtypes[n.Operand] == num.F32 && !stored[n]:
			if _, ok := c.at[n]; !ok {
				c.place(n, inputView)
				c.p.slots[c.at[n]].operand = n.Operand
			}
			continue
		default:
			c.place(n, temporary)
		}
		in.dst = c.at[n]
		p.code = append(p.code, in)
	}
	for _, n := range plan.Reductions {
		c.p.emitReduction(&p.code, c, n)
	}
	for _, n := range plan.Sums {
		act := actColSum
		if n.Op == def.OpTotalSum {
			act = actTotalSum
		}
		p.code = append(p.code, instruction{action: act, a: c.operand(n.Args[0]), dst: noSlot, node: n, sum: c.sum(n)})
	}
	for _, o := range plan.Stores {
		p.code = append(p.code, instruction{action: actStore, a: c.operand(o.Value), dst: noSlot, node: o.Value, operand: o.Operand})
	}
	// Temporaries do not outlive a pass.
	for n, s := range c.at {
		if c.p.slots[s].memory == temporary {
			delete(c.at, n)
		}
	}
	c.free = c.free[:0]
	for s := range c.p.slots {
		if c.p.slots[s].memory == temporary {
			c.free = append(c.free, slot(s))
		}
	}
	return p
}

func (p *rowwise) emitReduction(code *[]instruction, c *compiler, n *def.Node) {
	in := instruction{a: c.operand(n.Args[0]), dst: noSlot, node: n}
	switch n.Op {
	case def.OpRowSum:
		in.action, in.sum = actRowSum, p.rowSums
		c.sumIndex[n] = p.rowSums
		p.rowSums++
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
	*code = append(*code, in)
}

// sum numbers the column and total sums, each kind by itself.
func (c *compiler) sum(n *def.Node) int {
	i, ok := c.sumIndex[n]
	if !ok {
		for other := range c.sumIndex {
			if other.Op == n.Op {
				i++
			}
		}
		c.sumIndex[n] = i
	}
	return i
}

// isReinterpretation reports whether a node is its argument's pattern as another type.
func isReinterpretation(n *def.Node) bool { return n.Op == def.OpBits || n.Op == def.OpFloat }

// root follows reinterpretations to the value whose pattern it is.
func root(n *def.Node) *def.Node {
	for isReinterpretation(n) {
		n = n.Args[0]
	}
	return n
}

// operand is the slot in which an instruction finds a value.
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
	c.place(n, broadcast)
	return c.at[n]
}

// place gives a value a slot.
func (c *compiler) place(n *def.Node, m memory) {
	if m == temporary && len(c.free) > 0 {
		c.at[n] = c.free[len(c.free)-1]
		c.free = c.free[:len(c.free)-1]
		return
	}
	c.at[n] = slot(len(c.p.slots))
	c.p.slots = append(c.p.slots, slotPlan{memory: m, node: n})
}

// emitColumnar emits the code of a value per column.
func (c *compiler) emitColumnar(code *[]instruction, n *def.Node) {
	in := c.instruction(n)
	c.place(n, perColumn)
	in.dst = c.at[n]
	*code = append(*code, in)
}

// instruction translates a node that is neither a reduction nor a single value.
func (c *compiler) instruction(n *def.Node) instruction {
	in := instruction{node: n, dst: noSlot, a: noSlot, b: noSlot, c: noSlot}
	switch n.Op {
	case def.OpInput:
		in.action, in.operand = actLoad, n.Operand
		return in
	case def.OpCol:
		in.action = actCol
		return in
	case def.OpColFloat:
		in.action = actColFloat
		return in
	case def.OpRandom:
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

// primitiveOf is the loop that computes a node.
func primitiveOf(d *def.Definition, dtypes []num.DType, n *def.Node) primitive {
	storage := func() num.DType {
		if n.Storage.Of != "" {
			return dtypes[d.Operand(n.Storage.Of)]
		}
		return n.Storage.Fixed
	}
	switch n.Op {
	case def.OpRound:
		return rounds[storage()]
	case def.OpSRound:
		return srounds[storage()]
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
