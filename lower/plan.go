package lower

import (
	"maps"
	"math"
	"slices"

	"tokitai/def"
	"tokitai/num"
)

// Part selects what a program computes of its definition.
type Part struct {
	// Stores are the outputs that the program stores.
	Stores []def.Output
	// Values are row values that the program computes for later ones, and sums whose
	// accumulators it fills for them.
	Values []*def.Node
	// Given reports whether an earlier program has left a value in memory. Nil gives none.
	Given func(n *def.Node) bool
}

// Whole returns the part that is all of a definition.
func Whole(d *def.Definition) Part { return Part{Stores: d.Exec().Outputs} }

// Costs are a backend's prices, in a unit of its own. They decide between programs that
// give the same bits.
type Costs interface {
	// Compute returns the price of computing n for an element once more, its arguments
	// not included.
	Compute(n *def.Node) int
	// Keep returns the price of keeping the element value n from one pass to another,
	// besides what is kept already, or Never. A value is kept unless computing it again,
	// with those of its arguments that are not kept, is cheaper.
	Keep(n *def.Node, kept []*Kept) int
	// Hoist reports whether a value per column is computed once a call and kept in
	// memory, rather than computed in every block that uses it.
	Hoist(n *def.Node) bool
}

// Never is the price of what a backend cannot or will not do.
const Never = math.MaxInt

// NewProgram plans a part of a rowwise definition. There is a storage format for each of its operands. A
// definition may have ranks, packed and unpacked values if the costs keep every value, and no other
// orderings: [def.Definition.Stages] divides one that has them.
func NewProgram(d *def.Definition, dtypes []num.DType, part Part, costs Costs) *Program {
	p := &planner{
		Program:  &Program{Definition: d, DTypes: slices.Clone(dtypes)},
		part:     part,
		costs:    costs,
		isRead:   make([]bool, len(d.Exec().Nodes)),
		isGiven:  make([]bool, len(d.Exec().Nodes)),
		level:    make([]int, len(d.Exec().Nodes)),
		computed: map[*def.Node]int{},
		kept:     map[*def.Node]*Kept{},
		hoisted:  map[*def.Node]bool{},
	}
	p.findNodes()
	p.dividePasses()
	p.placeSingles()
	for i := range p.Passes {
		p.planPass(i)
	}
	p.planColumns()
	p.placeStores()
	p.finishKept()
	p.analyze()
	return p.Program
}

// planner carries what is known while a program is planned. Its slices of flags and
// levels are indexed by Node.ID.
type planner struct {
	*Program
	part  Part
	costs Costs

	nodes   []*def.Node // of the part, in the order of the definition
	isRead  []bool      // the part uses the value, not only the accumulators of a sum
	isGiven []bool

	level      []int         // the pass that can compute an element, or before which a row value is known
	reductions [][]*def.Node // by the pass that finds them
	sums       []*def.Node   // that the last pass adds to

	computed map[*def.Node]int // the last pass so far that computes an element value
	kept     map[*def.Node]*Kept
	hoisted  map[*def.Node]bool // values per column
}

func isElement(n *def.Node) bool { return n.Extent == def.PerElement && !n.Late }

// findNodes finds the values of the part: those it is asked for, and all they are
// computed from.
func (p *planner) findNodes() {
	isNeeded := make([]bool, len(p.Definition.Exec().Nodes))
	for _, n := range p.part.Values {
		isNeeded[n.ID] = true
	}
	for _, o := range p.part.Stores {
		isNeeded[o.Value.ID], p.isRead[o.Value.ID] = true, true
	}
	for _, n := range slices.Backward(p.Definition.Exec().Nodes) {
		if !isNeeded[n.ID] {
			continue
		}
		p.nodes = append(p.nodes, n)
		p.isGiven[n.ID] = p.part.Given != nil && p.part.Given(n)
		for _, a := range p.argsOf(n) {
			isNeeded[a.ID], p.isRead[a.ID] = true, true
		}
	}
	slices.Reverse(p.nodes)
}

// argsOf returns the values that n is computed from: none if it is given. A table is no value.
func (p *planner) argsOf(n *def.Node) []*def.Node {
	switch {
	case p.isGiven[n.ID]:
		return nil
	case n.Op == def.OpLookup:
		return n.Args[1:]
	}
	return n.Args
}

// dividePasses finds the level of every value, and with it the number of passes.
func (p *planner) dividePasses() {
	last := 0
	for _, n := range p.nodes {
		level := &p.level[n.ID]
		for _, a := range p.argsOf(n) {
			if a.Extent&def.PerRow != 0 && !a.Late {
				*level = max(*level, p.level[a.ID])
			}
		}
		switch {
		case p.isGiven[n.ID]:
		case IsRowLoad(n), IsSum(n):
			last = max(last, *level)
		case IsRowReduction(n), IsExchange(n):
			last = max(last, *level)
			*level++
		}
	}
	for _, o := range p.elementStores() {
		last = max(last, p.level[o.Value.ID])
	}
	p.Passes = make([]Pass, last+1)
	p.reductions = make([][]*def.Node, last+1)
}

// elementStores returns the outputs of the part with a value per element.
func (p *planner) elementStores() (stores []def.Output) {
	for _, o := range p.part.Stores {
		if isElement(o.Value) || o.Value.Op == def.OpPacked {
			stores = append(stores, o)
		}
	}
	return stores
}

// placeSingles gives single values and row values their blocks, and reductions and sums
// the pass that accumulates them.
func (p *planner) placeSingles() {
	for _, n := range p.nodes {
		if IsSum(n) && !p.isGiven[n.ID] {
			p.sums = append(p.sums, n)
		}
		switch {
		case n.Extent == def.Scalar && !n.Late:
			p.add(&p.Once.Scalars, n)
		case n.Extent == def.Scalar && p.isRead[n.ID]:
			p.add(&p.Late.Scalars, n)
		case n.Extent == def.PerRow && p.level[n.ID] == 0:
			p.add(&p.Start, n)
		case n.Extent == def.PerRow:
			pass := p.level[n.ID] - 1
			p.add(&p.Passes[pass].After, n)
			if IsRowReduction(n) && !IsRowLoad(n) {
				p.reductions[pass] = append(p.reductions[pass], n)
			}
		case IsExchange(n):
			pass := p.level[n.ID] - 1
			p.reductions[pass] = append(p.reductions[pass], n)
		}
	}
}

// add appends the step that defines n.
func (p *planner) add(b *Block, n *def.Node) {
	s := Step{Action: Compute, Node: n}
	switch {
	case p.isGiven[n.ID]:
		s.Action = Receive
	case n.Op == def.OpInput, n.Op == def.OpStored:
		s.Action, s.Operand, s.Format = Load, n.Operand, p.DTypes[n.Operand]
	case IsRowLoad(n):
		s.Action, s.Operand, s.Format = LoadAt, n.Args[0].Operand, p.DTypes[n.Args[0].Operand]
	case n.Op == def.OpLookup:
		s.Action, s.Operand, s.Format = LoadRow, n.Args[0].Operand, p.DTypes[n.Args[0].Operand]
	case IsRowReduction(n), IsSum(n):
		s.Action = Finish
	case n.Op == def.OpRound, n.Op == def.OpSRound:
		s.Format = Format(p.Definition, p.DTypes, n.Storage)
	}
	b.Steps = append(b.Steps, s)
}

// planPass decides what a pass computes and what it takes from earlier passes.
func (p *planner) planPass(pass int) {
	var stores []def.Output
	var sums []*def.Node
	if pass == len(p.Passes)-1 {
		stores, sums = p.elementStores(), p.sums
	}
	var taken, computed []*def.Node
	seen := map[*def.Node]bool{}
	var need func(n *def.Node)
	need = func(n *def.Node) {
		switch {
		case n.Extent&def.PerColumn == 0 && n.Op != def.OpPacked || seen[n]:
			return
		case n.Extent == def.PerColumn && p.hoist(n):
			return
		}
		seen[n] = true
		if p.isTaken(n, pass) {
			taken = append(taken, n)
			return
		}
		computed = append(computed, n)
		for _, a := range p.argsOf(n) {
			need(a)
		}
	}
	for _, n := range p.reductions[pass] {
		need(n.Args[0])
	}
	for _, o := range stores {
		need(o.Value)
	}
	for _, n := range sums {
		need(n.Args[0])
	}

	b := &p.Passes[pass].Elements
	for _, n := range inOrder(taken) {
		b.Steps = append(b.Steps, Step{Action: Take, Node: n})
	}
	for _, n := range inOrder(computed) {
		if n.Op == def.OpPacked {
			continue // its arguments are computed
		}
		p.add(b, n)
		if isElement(n) {
			p.computed[n] = pass
		}
	}
	for _, n := range slices.Concat(p.reductions[pass], sums) {
		b.Steps = append(b.Steps, Step{Action: Accumulate, Node: n})
	}
	p.store(b, stores)
	for _, n := range p.reductions[pass] {
		if IsExchange(n) {
			p.computed[n] = pass
		}
	}
}

// isTaken reports whether a pass reads n as an earlier one has kept it. If so, n is kept
// at least until this pass.
func (p *planner) isTaken(n *def.Node, pass int) bool {
	before, isOld := p.computed[n]
	if !isOld {
		return false
	}
	k := p.kept[n]
	if k == nil {
		if p.priceAgain(n) < p.costs.Keep(n, p.Kept) {
			return false
		}
		k = &Kept{Node: n, First: before}
		p.kept[n] = k
		p.Kept = append(p.Kept, k)
	}
	k.Last = pass
	return true
}

// priceAgain returns the price of computing an element value again.
func (p *planner) priceAgain(n *def.Node) int {
	price := 0
	seen := map[*def.Node]bool{}
	var visit func(n *def.Node)
	visit = func(n *def.Node) {
		if seen[n] || !isElement(n) || p.kept[n] != nil {
			return
		}
		seen[n] = true
		price += p.costs.Compute(n)
		for _, a := range p.argsOf(n) {
			visit(a)
		}
	}
	visit(n)
	return price
}

// hoist reports whether a value per column is computed once. If so, it is listed there.
func (p *planner) hoist(n *def.Node) bool {
	if !n.Late && !p.hoisted[n] && p.costs.Hoist(n) {
		p.hoisted[n] = true
	}
	return p.hoisted[n]
}

// planColumns gives values per column outside passes their blocks.
func (p *planner) planColumns() {
	var late []*def.Node
	seen := map[*def.Node]bool{}
	var need func(n *def.Node)
	need = func(n *def.Node) {
		if n.Extent != def.PerColumn || seen[n] || p.hoist(n) {
			return
		}
		seen[n] = true
		late = append(late, n)
		for _, a := range p.argsOf(n) {
			need(a)
		}
	}
	for _, o := range p.part.Stores {
		need(o.Value)
	}
	for _, n := range inOrder(late) {
		p.add(&p.Late.Columns, n)
	}

	isOnce := maps.Clone(p.hoisted) // and what these are computed from
	for _, n := range slices.Backward(p.nodes) {
		if isOnce[n] {
			for _, a := range p.argsOf(n) {
				isOnce[a] = true
			}
		}
	}
	for _, n := range p.nodes {
		if n.Extent == def.PerColumn && isOnce[n] {
			p.add(&p.Once.Columns, n)
		}
	}
}

// placeStores adds the stores of all values that are not elements.
func (p *planner) placeStores() {
	for _, o := range p.part.Stores {
		switch o.Value.Extent {
		case def.Scalar:
			p.store(&p.Late.Scalars, []def.Output{o})
		case def.PerColumn:
			p.store(&p.Late.Columns, []def.Output{o})
		case def.PerRow:
			p.store(&p.End, []def.Output{o})
		}
	}
}

func (p *planner) store(b *Block, stores []def.Output) {
	for _, o := range stores {
		b.Steps = append(b.Steps, Step{Action: Store, Node: o.Value, Operand: o.Operand, Format: p.DTypes[o.Operand]})
	}
}

func byID(a, b *def.Node) int { return a.ID - b.ID }

// inOrder sorts nodes as the definition has them: arguments first.
func inOrder(nodes []*def.Node) []*def.Node {
	slices.SortFunc(nodes, byID)
	return nodes
}
