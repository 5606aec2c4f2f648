package jit

import (
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// entries are the offsets of a program's functions; -1 for one that it does not need.
type entries struct {
	once        int // values of the call
	onceColumns int // values per column
	rows        int // a range of rows
	streamed    int // the same, storing outputs past the caches
	join        int // adds column sums to column sums
	late        int // values of the call that follow from sums
	lateColumns int

	// The functions of one row in parts, in order, for rows that take too long for one call.
	parts         []part
	streamedParts []part // storing outputs past the caches
}

// part is a function that computes a part of a row: columns of a pass, or what comes
// between passes.
type part struct {
	entry     int
	isColumns bool // it computes a range of columns, and may be called for one after the other
}

// generator makes the code of a program.
type generator struct {
	selector
	allocator
	work int // that a vector of elements takes in all passes
}

// elementsPerCall returns how many elements code may compute in one call, for which the
// garbage collector waits: about a millisecond of work at the most. A flat row is enough to
// make the call itself cost nothing.
func (g *generator) elementsPerCall() int {
	const (
		nanoseconds = 1_000_000
		perWork     = 1 // and less on every processor of today
	)
	n := nanoseconds / perWork / max(1, g.work) * g.target.lanes()
	return min(num.FlatRow, max(1, n/partColumns)*partColumns)
}

// partColumns divides the number of columns of all parts of a pass but the last: they have no
// tail, and begin where memory is as aligned as at the first column.
const partColumns = 256

// generate makes all functions of a plan.
func generate(plan *lower.Program, isFlat bool, class Class, l *layout, t target) (*generator, entries, error) {
	g := &generator{
		selector: selector{
			plan: plan, isFlat: isFlat, roundsHigh: t.roundsHigh(), layout: l, lanes: t.lanes(),
			uniform: map[*def.Node]place{}, carried: map[*def.Node][]*carriedState{},
			rowSums: map[*def.Node]int{}, colSums: map[*def.Node]int{}, totals: map[*def.Node]int{}, intTotals: map[*def.Node]place{},
			kept: map[*def.Node]int{}, lookups: map[[2]int]int{}, columns: map[*def.Node]int{}, params: map[int]place{},
		},
		allocator: allocator{target: t, layout: l},
	}
	var e entries
	e.once = g.straight("once", &plan.Once.Scalars)
	e.onceColumns = g.perColumn("once, for each column", &plan.Once.Columns)
	e.rows = g.rows("rows")
	e.streamed = -1
	inParts := class&Long != 0 || g.elementsPerCall() < num.FlatRow && (!isFlat || len(g.rowSums) > 0)
	if inParts {
		e.parts = g.parts("row in parts")
	}
	if class&Streamed != 0 {
		t.stream(true)
		e.streamed = g.rows("rows, outputs past the caches")
		if inParts {
			e.streamedParts = g.parts("row in parts, outputs past the caches")
		}
		t.stream(false)
	}
	e.join = g.join()
	e.late = g.straight("after the last row", &plan.Late.Scalars)
	e.lateColumns = g.perColumn("after the last row, for each column", &plan.Late.Columns)
	if l.words > maxWords {
		return nil, e, fmt.Errorf("%s: its operands and sums take %d words, want at most %d", plan.Definition.Name, l.words, maxWords)
	}
	return g, e, nil
}

// straight makes a function of a block of single values.
func (g *generator) straight(name string, b *lower.Block) int {
	g.selector.begin()
	g.steps(b)
	if len(g.block.instructions) == 0 {
		return -1
	}
	at := g.target.function(name)
	g.emitBlock()
	g.target.endFunction()
	return at
}

// emitBlock makes the code of the selected block, outside of loops.
func (g *generator) emitBlock() {
	g.allocator.begin(&g.block.code)
	g.run(whole)
}

// perColumn makes a function of a block of values per column.
func (g *generator) perColumn(name string, b *lower.Block) int {
	g.selector.begin()
	g.steps(b)
	if len(g.block.instructions) == 0 {
		return -1
	}
	at := g.target.function(name)
	g.emitLoop(nil)
	g.target.endFunction()
	return at
}

// rows makes the function that computes rows.
func (g *generator) rows(name string) int {
	p := g.plan
	clear(g.selector.carried)
	g.work = 0
	// While one row is computed, the next one is fetched: in the longest pass but the first.
	var first []int // arrays that the first pass reads
	fetching := 0
	for i := 1; i < len(p.Passes); i++ {
		if fetching == 0 || len(p.Passes[i].Elements.Steps) > len(p.Passes[fetching].Elements.Steps) {
			fetching = i
		}
	}
	at := g.target.function(name)
	g.target.rows(func() {
		g.selector.begin()
		g.steps(&p.Start)
		g.findRows()
		g.emitBlock()
		for i := range p.Passes {
			g.target.note(fmt.Sprintf("pass %d", i+1))
			g.selector.begin()
			g.steps(&p.Passes[i].Elements)
			var next []int
			if i == fetching {
				next = first
			}
			g.work += g.block.code.work()
			g.emitLoop(next)
			if i == 0 {
				first = g.rowsRead()
			}
			g.selector.begin()
			g.steps(&p.Passes[i].After)
			g.emitBlock()
		}
		g.selector.begin()
		g.steps(&p.End)
		g.finishTotals()
		g.nextElements()
		g.emitBlock()
	})
	g.target.endFunction()
	return at
}

// parts makes the functions of one row that is computed in parts.
func (g *generator) parts(name string) (parts []part) {
	p := g.plan
	clear(g.selector.carried)
	begin := func(what string, isColumns bool) {
		parts = append(parts, part{g.target.function(name + what), isColumns})
	}
	begin("", false)
	g.selector.begin()
	g.steps(&p.Start)
	g.findRows()
	g.emitBlock()
	for i := range p.Passes {
		g.selector.begin()
		g.steps(&p.Passes[i].Elements)
		copies := g.prepareLoop()
		g.beginStates(copies)
		g.target.endFunction()
		begin(fmt.Sprintf(", pass %d", i+1), true)
		g.runLoop(copies, nil, true)
		g.target.endFunction()
		begin(fmt.Sprintf(", after pass %d", i+1), false)
		g.selector.begin()
		g.steps(&p.Passes[i].After)
		g.emitBlock()
	}
	g.selector.begin()
	g.steps(&p.End)
	g.finishTotals()
	g.emitBlock()
	g.target.endFunction()
	return parts
}

// rowsRead returns the arrays with rows that the selected code reads.
func (g *generator) rowsRead() (arrays []int) {
	for i := range g.block.instructions {
		in := &g.block.instructions[i]
		if in.op == opLoad && g.selector.layout.arrays[in.array].stride != 0 && !slices.Contains(arrays, in.array) {
			arrays = append(arrays, in.array)
		}
	}
	return arrays
}

// join makes the function that adds column sums to column sums.
func (g *generator) join() int {
	if len(g.colSums) == 0 {
		return -1
	}
	g.selector.begin()
	for i := range len(g.colSums) {
		isInt := byNumber(g.colSums)[i].Type == def.Int
		addend := g.loadFrom(g.selector.layout.array(addendArray, i, num.F32, false), num.F32, "")
		g.addWith(instruction{op: opAddTo, isInt: isInt, array: g.selector.layout.array(sumArray, i, num.F32, false)}, addend)
	}
	at := g.target.function("add column sums")
	g.emitLoop(nil)
	g.target.endFunction()
	return at
}

// finishTotals selects the code that adds up the lanes of a flat row, and total sums of int32.
func (g *generator) finishTotals() {
	g.addTotals()
	if !g.isFlat {
		return
	}
	for _, n := range g.plan.Definition.Exec().Nodes {
		if sum, ok := g.rowSums[n]; ok && n.Op == def.OpTotalSum {
			v := g.addWith(instruction{op: opTree, imm: int32(sum), note: n.Name})
			g.keepUniform(n, v)
		}
	}
}

// leastFree is how many registers an instruction may need for its arguments and result.
const leastFree = 6

// copiesOf returns how often a loop is unrolled: as often as its values fit into
// registers, and not if the code is long.
func (g *generator) copiesOf(c *code) int {
	n := 1
	for n < maxCopies && len(c.instructions)*2*n <= maxUnrolled {
		if 2*n*(c.pressure()+len(c.carried))+reserve > g.target.registers() {
			break
		}
		n *= 2
	}
	return n
}

const (
	maxCopies   = 4
	maxUnrolled = 400 // instructions of an unrolled loop
)

// emitLoop makes the loop over the columns of a row: whole vectors, then the tail. It
// fetches the next row of some arrays.
func (g *generator) emitLoop(next []int) { g.runLoop(g.prepareLoop(), next, false) }

// prepareLoop makes what comes before a loop, and returns how often it is unrolled.
func (g *generator) prepareLoop() (copies int) {
	c := &g.block.code
	g.hoist(c)
	copies = g.copiesOf(c)
	for i := range c.carried {
		for range copies {
			c.carried[i].left = append(c.carried[i].left, g.selector.layout.slot())
		}
	}
	for _, states := range g.selector.carried {
		for _, s := range states {
			if s.left == nil {
				s.left = c.carried[s.index].left
			}
		}
	}
	_, sums := c.memory()
	for _, s := range sums {
		g.target.clear(s)
	}
	return copies
}

// beginStates stores the first states of reductions where a loop over a part of the columns
// finds them, and leaves them for the next part.
func (g *generator) beginStates(copies int) {
	for _, x := range g.block.carried {
		g.target.load(0, x.start)
		for copy := range copies {
			g.target.save(x.left[copy], 0)
		}
	}
}

// runLoop makes the loop over the columns of a row, or over a part of them.
func (g *generator) runLoop(copies int, next []int, isPart bool) {
	c := &g.block.code
	arrays, sums := c.memory()
	g.target.loop(arrays, sums, next, isPart)
	r := g.loopRegisters(c, copies, isPart)
	if copies > 1 {
		u := c.unrolled(copies)
		g.target.turns(copies, func() { g.turn(u, r, whole) })
	}
	g.target.turns(1, func() { g.turn(c, r, whole) })
	g.target.tail(func(m mode) { g.turn(c, r, m) })
	for copy := range copies {
		for i, register := range r.states[copy] {
			if register != noRegister {
				g.target.save(c.carried[i].left[copy], register)
			}
		}
	}
}

// loopRegisters are the registers that keep their values in a loop.
type loopRegisters struct {
	states [][]int // of the carried values, by copy
	places []place // by register: of the uniform value that it holds
}

// loopRegisters gives the states of reductions and the uniform values that are read most
// registers, and loads them. In a part of a pass, states are what the part before left.
func (g *generator) loopRegisters(c *code, copies int, isPart bool) loopRegisters {
	free := g.target.registers()
	r := loopRegisters{make([][]int, copies), make([]place, free)}
	for copy := range copies {
		for i := range c.carried {
			x := &c.carried[i]
			if free <= leastFree { // it stays in memory
				r.states[copy] = append(r.states[copy], noRegister)
				c.places[x.values[0]] = x.left[copy]
				if !isPart {
					g.target.load(0, x.start)
					g.target.save(x.left[copy], 0)
				}
				continue
			}
			free--
			r.states[copy] = append(r.states[copy], free)
			if isPart {
				g.target.load(free, x.left[copy])
			} else {
				g.target.load(free, x.start)
			}
		}
	}
	for _, v := range c.popular() {
		if free <= max(copies*c.pressure()+reserve, leastFree) {
			break
		}
		if slices.ContainsFunc(c.carried, func(x carried) bool { return x.values[0] == v }) {
			continue
		}
		free--
		g.target.load(free, c.places[v])
		r.places[free] = c.places[v]
	}
	return r
}

// turn makes the code of a turn of a loop, or of several turns.
func (g *generator) turn(c *code, r loopRegisters, m mode) {
	g.allocator.begin(c)
	for register, p := range r.places {
		if p != 0 {
			g.fix(c.at[p], register)
		}
	}
	for copy, states := range r.states {
		for i, register := range states {
			switch {
			case register == noRegister:
			case copy < len(c.carried[i].values):
				g.fix(c.carried[i].values[copy], register)
			default:
				g.fix(reserved, register)
			}
		}
	}
	g.states = r.states
	g.run(m)
}

// hoist moves what every turn of a loop would compute alike out of it.
func (g *generator) hoist(c *code) {
	isInvariant := func(v value) bool { return v == none || c.places[v] != 0 }
	var inside []instruction
	outside := code{places: c.places, at: c.at}
	for _, in := range c.instructions {
		hasArgs := in.args[0] != none
		if in.isPure() && hasArgs && !slices.ContainsFunc(in.args[:], func(v value) bool { return !isInvariant(v) }) {
			in.keep = g.selector.layout.slot()
			c.places[in.dst] = in.keep
			c.at[in.keep] = in.dst
			outside.instructions = append(outside.instructions, in)
			continue
		}
		inside = append(inside, in)
	}
	if len(outside.instructions) == 0 {
		return
	}
	c.instructions = inside
	g.allocator.begin(&outside)
	g.run(whole)
}

// memory returns the arrays and row sums that code uses, each once.
func (c *code) memory() (arrays, sums []int) {
	for i := range c.instructions {
		in := &c.instructions[i]
		switch in.op {
		case opLoad, opLoadPartner, opStore, opAddTo:
			if !slices.Contains(arrays, in.array) {
				arrays = append(arrays, in.array)
			}
		case opAddLane:
			if !slices.Contains(sums, int(in.imm)) {
				sums = append(sums, int(in.imm))
			}
		}
	}
	return arrays, sums
}
