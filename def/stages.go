package def

import (
	"fmt"
	"slices"

	"tokitai/num"
)

// Stages is a rowwise definition divided at the operations that need rows in memory: its orderings, packed
// and unpacked. The stages run one after another and share values of 32 bits. Together
// they have the bits of the definition.
type Stages struct {
	Values []StageValue
	List   []Stage
}

// StageValue is a value that one stage leaves in memory for others: a float or an int32.
type StageValue struct {
	Type   Type
	Extent Extent
}

// DType returns the format in which the value is stored.
func (v StageValue) DType() num.DType {
	if v.Type == Int {
		return num.I32
	}
	return num.F32
}

// Stage is one step: a rowwise definition without orderings, or one ordering.
type Stage struct {
	Part     *Definition // or nil; its parameters are those of the definition
	Ordering *Node       // of the definition, if Part is nil

	// Operands lists those of the part, or the arguments of the ordering and then its result:
	// operands of the definition, or from len(Definition.Operands) on the values. What is ordered, the
	// first argument of an ordering, may be an input in any format; all other arguments are values.
	Operands []int

	// Need is a value, an int32 per row, that is 0 where nothing needs the result of the stage, or 0. Only lazy
	// stages have it for a part.
	Need int
}

// Stages divides a definition at its orderings, for operands stored in the given formats. It returns
// nil for a definition without orderings.
func (d *Definition) Stages(dtypes []num.DType) *Stages { return d.divide(dtypes, false) }

// LazyStages is Stages for lowerings that leave out the rows of a part that nothing needs. Which rows are needed is
// the result of the first stage, and reductions that not all rows need are parts of their own, as the noise of
// tokens is that are not drawn.
func (d *Definition) LazyStages(dtypes []num.DType) *Stages { return d.divide(dtypes, true) }

func (d *Definition) divide(dtypes []num.DType, isLazy bool) *Stages {
	f := d.Expression()
	if f == nil {
		return nil
	}
	b := &stager{d: d, dtypes: dtypes, isLazy: isLazy, stages: new(Stages), given: map[*Node]int{}, stored: map[*Node]int{}, depth: make([]int, len(f.Exec.Nodes))}
	b.demands = f.Exec.Demands()
	deepest := 0
	for _, n := range f.Exec.Nodes {
		for _, a := range n.Args {
			b.depth[n.ID] = max(b.depth[n.ID], b.depth[a.ID])
		}
		if n.Op.NeedsRow() {
			b.depth[n.ID]++
			deepest = max(deepest, b.depth[n.ID])
		}
	}
	if deepest == 0 {
		return nil
	}
	for depth := 1; depth <= deepest; depth++ {
		b.order(depth)
	}
	b.apart()
	b.finish()
	if len(b.first) > 0 {
		b.part(b.first)
		last := len(b.stages.List) - 1
		b.stages.List = slices.Insert(b.stages.List[:last], 0, b.stages.List[last])
	}
	return b.stages
}

// stager divides a definition.
type stager struct {
	d      *Definition
	dtypes []num.DType
	stages *Stages
	depth  []int         // by Node.ID: how many orderings a value depends on, one after another
	given  map[*Node]int // results of orderings
	stored map[*Node]int // arguments of orderings

	demands []Demand // by Node.ID
	needs   []need

	isLazy bool
	first  []Output // of the first of lazy stages: which rows are needed
}

// need is a value that says which rows need something.
type need struct {
	demand Demand
	at     int
}

// need returns the value that says which rows meet a demand, or 0, and the output that stores it, if none has yet.
func (b *stager) need(d Demand) (at int, outputs []Output) {
	for _, n := range b.needs {
		if slices.Equal(n.demand, d) {
			return n.at, nil
		}
	}
	if v := d.node(); v != nil {
		at = b.value(Int, PerRow)
		outputs = []Output{{at, v}}
	}
	b.needs = append(b.needs, need{d, at})
	return at, outputs
}

// value adds a value between stages.
func (b *stager) value(t Type, e Extent) int {
	b.stages.Values = append(b.stages.Values, StageValue{t, e})
	return len(b.d.Operands) + len(b.stages.Values) - 1
}

// order adds the operations of one depth, after the part that computes their arguments.
func (b *stager) order(depth int) {
	var arguments []Output
	var orderings []Stage
	for _, n := range b.d.Exec().Nodes {
		if !n.Op.NeedsRow() || b.depth[n.ID] != depth {
			continue
		}
		s := Stage{Ordering: n}
		for _, a := range n.Args {
			if a.Extent == PerSlot || isOrdered(n, a) { // an input
				s.Operands = append(s.Operands, a.Operand)
				continue
			}
			if _, ok := b.stored[a]; !ok {
				t := a.Type
				if t == Bool {
					t = Int
				}
				b.stored[a] = b.value(t, a.Extent)
				arguments = append(arguments, Output{b.stored[a], a})
			}
			s.Operands = append(s.Operands, b.stored[a])
		}
		if n.Op == OpPacked { // it goes to outputs alone
			for _, o := range b.d.Exec().Outputs {
				if o.Value == n {
					orderings = append(orderings, Stage{Ordering: n, Operands: append(slices.Clone(s.Operands), o.Operand)})
				}
			}
			continue
		}
		b.given[n] = b.result(n)
		s.Operands = append(s.Operands, b.given[n])
		if n.Op.IsOrdering() {
			at, outputs := b.need(b.demands[n.ID])
			s.Need = at
			if b.isLazy {
				b.first = append(b.first, outputs...)
			} else {
				arguments = append(arguments, outputs...)
			}
		}
		orderings = append(orderings, s)
	}
	if len(arguments) > 0 {
		b.part(arguments)
	}
	b.stages.List = append(b.stages.List, orderings...)
}

// apart adds parts for the reductions that lazy stages need not compute for every row: one part for each demand.
func (b *stager) apart() {
	if !b.isLazy {
		return
	}
	var groups [][]Output
	var demands []Demand
	for _, n := range b.d.Exec().Nodes {
		d := b.demands[n.ID]
		if _, isGiven := b.given[n]; isGiven || !n.Op.IsRowReduction() || n.Op == OpAt || !d.dependsOnRow() {
			continue
		}
		i := slices.IndexFunc(demands, func(other Demand) bool { return slices.Equal(other, d) })
		if i < 0 {
			i = len(demands)
			demands, groups = append(demands, d), append(groups, nil)
		}
		groups[i] = append(groups[i], Output{b.value(n.Type, n.Extent), n})
	}
	for _, outputs := range groups {
		b.part(outputs)
		for _, o := range outputs {
			b.given[o.Value] = o.Operand
		}
	}
}

// isOrdered reports whether n is an ordering of an input as it is stored.
func isOrdered(n, of *Node) bool {
	return n.Op.IsOrdering() && of == n.Args[0] && of.Op == OpInput && of.Extent == PerElement
}

// result returns where the result of a row operation goes: to the output that alone needs it, or to
// a value.
func (b *stager) result(n *Node) int {
	for _, other := range b.d.Exec().Nodes {
		if slices.Contains(other.Args, n) {
			return b.value(n.Type, n.Extent)
		}
	}
	at := -1
	for _, o := range b.d.Exec().Outputs {
		switch {
		case o.Value != n:
		case at >= 0 || n.Extent == PerElement || b.d.Operands[o.Operand].IsIn: // it may share the memory of an input
			return b.value(n.Type, n.Extent)
		default:
			at = o.Operand
		}
	}
	return at
}

// finish adds the part that stores all outputs that no ordering has stored.
func (b *stager) finish() {
	var outputs []Output
	for _, o := range b.d.Exec().Outputs {
		if at, ok := b.given[o.Value]; o.Value.Op != OpPacked && (!ok || at != o.Operand) {
			outputs = append(outputs, o)
		}
	}
	if len(outputs) > 0 {
		b.part(outputs)
	}
}

// part adds the definition that computes some values from what is known so far. An Output's
// operand is one of the definition's or a value.
func (b *stager) part(outputs []Output) {
	p := &Definition{Name: fmt.Sprintf("%s.part%d", b.d.Name, len(b.stages.List)+1), Params: b.d.Params}
	s := Stage{Part: p}
	use := func(at int) int {
		if i := slices.Index(s.Operands, at); i >= 0 {
			return i
		}
		s.Operands = append(s.Operands, at)
		if at < len(b.d.Operands) {
			o := b.d.Operands[at]
			o.IsIn, o.IsOut, o.DTypes = o.IsIndex, false, Only(b.dtypes[at])
			p.Operands = append(p.Operands, o)
		} else {
			v := b.stages.Values[at-len(b.d.Operands)]
			p.Operands = append(p.Operands, Operand{Name: b.nameOf(at), Extent: v.Extent, Dims: dimsOf(v.Extent), DTypes: Only(v.DType())})
		}
		return len(p.Operands) - 1
	}
	for i := range b.d.Operands { // a checking pass comes before all parts
		if b.d.Operands[i].IsIndex {
			use(i)
		}
	}
	var g Graph
	copies := map[*Node]*Node{}
	add := func(n *Node) *Node {
		n.ID = len(g.Nodes)
		g.Nodes = append(g.Nodes, n)
		return n
	}
	input := func(op Op, at int, t Type) *Node {
		i := use(at)
		p.Operands[i].IsIn = true
		return add(&Node{Op: op, Name: p.Operands[i].Name, Type: t, Extent: p.Operands[i].Extent, Operand: i})
	}
	var visit func(n *Node) *Node
	// at returns the value of n in a column, or nil if it is not computed from inputs in that column alone.
	at := func(n, column *Node) *Node {
		inColumn := map[*Node]*Node{}
		var of func(n *Node) *Node
		of = func(n *Node) *Node {
			if c := inColumn[n]; c != nil {
				return c
			}
			given, isGiven := b.given[n]
			switch {
			case n.Extent&PerColumn == 0:
				return visit(n)
			case n.Op == OpInput && n.Extent == PerElement && n.Type == Float:
				inColumn[n] = add(&Node{Op: OpAt, Extent: PerRow, Args: []*Node{visit(n), column}})
			case isGiven && n.Type == Float:
				inColumn[n] = add(&Node{Op: OpAt, Extent: PerRow, Args: []*Node{input(OpInput, given, Float), column}})
			case n.Op == OpCol:
				return column
			case n.Op == OpColFloat:
				inColumn[n] = add(&Node{Op: OpIToF, Extent: PerRow, Args: []*Node{column}})
			case len(n.Args) == 0 || isGiven || n.Op.ReadsRow() || n.Op == OpLookup || n.Op == OpPartner || n.Op == OpRandom || n.Op == OpRandomRow || n.Op == OpElement || n.Op == OpElementHigh || n.Op == OpStored:
				return nil
			default:
				own := *n
				own.Extent, own.Args = PerRow, make([]*Node, len(n.Args))
				for i, a := range n.Args {
					if own.Args[i] = of(a); own.Args[i] == nil {
						return nil
					}
				}
				if n.Storage.Of != "" {
					use(b.d.Operand(n.Storage.Of))
				}
				inColumn[n] = add(&own)
			}
			return inColumn[n]
		}
		return of(n)
	}
	visit = func(n *Node) *Node {
		if c := copies[n]; c != nil {
			return c
		}
		var c *Node
		if n.Op == OpAt && n.Args[0].Op != OpInput {
			column := visit(n.Args[1])
			if v := at(n.Args[0], column); v != nil { // +0 outside of the row
				inside := add(&Node{Op: OpInside, Type: Bool, Extent: PerRow, Args: []*Node{column}})
				c = add(&Node{Op: OpSelect, Name: n.Name, Extent: PerRow, Args: []*Node{inside, v, visit(Zero.node)}})
				copies[n] = c
				return c
			}
		}
		if at, ok := b.given[n]; ok {
			c = input(OpInput, at, n.Type)
		} else if n.Op == OpInput || n.Op == OpStored {
			c = input(n.Op, n.Operand, n.Type)
		} else {
			own := *n
			own.Args = make([]*Node, len(n.Args))
			for i, a := range n.Args {
				own.Args[i] = visit(a)
			}
			if n.Storage.Of != "" {
				use(b.d.Operand(n.Storage.Of))
			}
			c = add(&own)
		}
		copies[n] = c
		return c
	}
	demand := b.neededBy(outputs)
	if b.isLazy {
		var first []Output
		s.Need, first = b.need(demand)
		b.first = append(b.first, first...)
	} else if n := demand.node(); n != nil {
		g.Need = visit(n)
	}
	for _, o := range outputs {
		v := visit(o.Value)
		if v.Type == Bool {
			one, zero := add(&Node{Op: OpInt, Type: Int, Int: 1}), add(&Node{Op: OpInt, Type: Int})
			v = add(&Node{Op: OpSelect, Type: Int, Extent: v.Extent, Args: []*Node{v, one, zero}})
		}
		i := use(o.Operand)
		p.Operands[i].IsOut = true
		g.Outputs = append(g.Outputs, Output{i, v})
	}
	if !slices.ContainsFunc(p.Operands, func(o Operand) bool { return o.Extent == PerElement }) {
		use(slices.IndexFunc(b.d.Operands, func(o Operand) bool { return o.Extent == PerElement }))
	}
	f := &Expression{Math: g, Exec: g}
	p.Form = f
	p.flat, p.axes, p.sums = f.isFlat(p), f.axes(p), f.sums(p)
	p.identify()
	b.stages.List = append(b.stages.List, s)
}

// neededBy returns the conditions under which all outputs of a part are needed that depend on the elements of a row.
func (b *stager) neededBy(outputs []Output) Demand {
	var common Demand
	isFirst := true
	for _, o := range outputs {
		if isRowInput(o.Value) {
			continue
		}
		d := b.demands[o.Value.ID]
		if o.Operand < len(b.d.Operands) {
			d = nil
		}
		if isFirst {
			common, isFirst = d, false
		}
		common = slices.DeleteFunc(slices.Clone(common), func(t Condition) bool { return !slices.Contains(d, t) })
	}
	return common
}

// nameOf names a value that no operand has the name of.
func (b *stager) nameOf(at int) string {
	name := fmt.Sprintf("value%d", at-len(b.d.Operands))
	for b.d.Operand(name) >= 0 {
		name += "_"
	}
	return name
}

// DTypes returns the formats in which a part's operands are stored: each has one.
func (s *Stage) DTypes() []num.DType {
	dtypes := make([]num.DType, len(s.Part.Operands))
	for i := range dtypes {
		dtypes[i] = s.Part.Operands[i].DTypes.Allowed[0]
	}
	return dtypes
}
