// Package lower plans rowwise definitions for every backend: it decides what is
// computed where. A [Program] lists the steps of each phase (once a call, for each row,
// for each element of each pass over a row, after the last row) in the order in which
// they run, and says for every value whether it is loaded, computed, kept from an
// earlier pass or computed again, and where it is read for the last time.
//
// A definition fixes order and roundings; a program decides only what cannot change a
// bit. Where both ways are right, the backend's [Costs] decide. Registers, loops, vector
// widths and masks belong to the backends: lower/cpu turns programs into vector
// instructions, lower/gpu into the source of kernels.
//
// A [Call] is what all kernels compute with, those of other kinds of definition too.
//
// Start at [NewProgram] and [Program.String].
package lower

import (
	"iter"
	"slices"

	"tokitai/def"
	"tokitai/num"
)

// Program is a rowwise definition, or a part of it, as straight-line code in phases:
//
//	Once      before the first row
//	for each row:
//	    Start         row values that no pass has to find
//	    for each pass:
//	        Elements  for each element of the row
//	        After     row values that are known after the pass
//	    End           stores of row values
//	Late      after the last row: column and total sums and what follows from them
//
// A pass is a walk over the elements of a row. There are as few as the chain of row
// reductions allows. Element outputs, column sums and total sums belong to the last
// one: nothing reads an input after an output may have replaced it.
type Program struct {
	Definition *def.Definition
	DTypes     []num.DType // of the operands

	Once   Phase
	Start  Block
	Passes []Pass
	End    Block
	Late   Phase

	Kept []*Kept // by the pass that computes them, then in the order of the definition
}

// Phase is code that runs once a call: first for single values, then for each column.
type Phase struct {
	Scalars, Columns Block
}

// Pass is one walk over the elements of a row, and the row values it makes known.
type Pass struct {
	Elements, After Block
}

// Block is straight-line code, the body of one loop.
type Block struct {
	Extent def.Extent  // of the loop: Scalar runs once, PerRow once for each row
	Reads  []*def.Node // values of other blocks that the steps use, in the order of the definition
	Steps  []Step
}

// Step is one operation of a block.
type Step struct {
	Action  Action
	Node    *def.Node   // the value that is defined, accumulated or stored
	Operand int         // Load, LoadAt, LoadRow and Store: of the definition
	Format  num.DType   // the storage format of that operand, or the one that a rounding names
	Keep    bool        // another block or a later program reads the value
	Kills   []*def.Node // values of this block that no later step of it uses
}

// Action is what a step does.
type Action uint8

const (
	// Load defines a value by reading an input at the block's row and column: the number, or
	// for a node OpStored the pattern.
	Load Action = iota
	// LoadAt defines a row value by reading an input at a column that is computed.
	LoadAt
	// LoadRow defines a value by reading a table at the block's column, in the row that an
	// index names; +0 if there is none. No output replaces a table.
	LoadRow
	// Receive defines a value that an earlier program has left in memory.
	Receive
	// Take defines an element value that an earlier pass has kept.
	Take
	// Compute defines a value from its arguments.
	Compute
	// Accumulate adds the first argument of a reduction or sum to its accumulators.
	Accumulate
	// Finish defines the value of a reduction or sum from its accumulators.
	Finish
	// Store writes a value to an output.
	Store
)

// Kept is an element value that is kept from the pass that computes it to a later one.
type Kept struct {
	Node        *def.Node
	First, Last int // passes: the one that computes it and the last that reads it
}

// Defines reports whether the step gives its node a value in its block.
func (s *Step) Defines() bool { return s.Action != Accumulate && s.Action != Store }

// Uses returns the values that the step reads.
func (s *Step) Uses() []*def.Node {
	switch s.Action {
	case Compute, Accumulate:
		return s.Node.Args
	case LoadAt, LoadRow:
		return s.Node.Args[1:]
	case Store:
		return []*def.Node{s.Node}
	}
	return nil
}

// With returns the steps that do the given action.
func (b *Block) With(a Action) []Step {
	var steps []Step
	for _, s := range b.Steps {
		if s.Action == a {
			steps = append(steps, s)
		}
	}
	return steps
}

// Nodes returns the nodes of steps.
func Nodes(steps []Step) []*def.Node {
	var nodes []*def.Node
	for i := range steps {
		nodes = append(nodes, steps[i].Node)
	}
	return nodes
}

// Received returns the values that the program expects from earlier ones, in the order
// of their blocks.
func (p *Program) Received() []*def.Node {
	var nodes []*def.Node
	for b := range p.Blocks() {
		nodes = append(nodes, Nodes(b.With(Receive))...)
	}
	return nodes
}

// Blocks yields the blocks in the order in which they run, each with its name.
func (p *Program) Blocks() iter.Seq2[*Block, string] {
	return func(yield func(*Block, string) bool) {
		more := yield(&p.Once.Scalars, "once") && yield(&p.Once.Columns, "once, for each column") && yield(&p.Start, "for each row")
		for i := range p.Passes {
			more = more && yield(&p.Passes[i].Elements, passName("pass %d", i)) && yield(&p.Passes[i].After, passName("after pass %d", i))
		}
		_ = more && yield(&p.End, "end of the row") && yield(&p.Late.Scalars, "after the last row") && yield(&p.Late.Columns, "after the last row, for each column")
	}
}

// IsRowLoad reports whether n is a row's element read straight from an input, for
// which no pass is needed.
func IsRowLoad(n *def.Node) bool { return n.Op == def.OpAt && n.Args[0].Op == def.OpInput }

// IsRowReduction reports whether n is one value of a row, found among its elements.
func IsRowReduction(n *def.Node) bool { return n.Op.IsRowReduction() }

// IsExchange reports whether n is an element value that depends on others of its row: it is accumulated in a
// pass, known after it, and kept.
func IsExchange(n *def.Node) bool { return n.Op == def.OpRank || n.Op == def.OpUnpacked }

// RankLimit returns the number that is all a rank is compared with: a parameter or a constant, below which
// ranks matter. It returns nil if anything else reads the rank.
func RankLimit(g def.Graph, rank *def.Node) *def.Node {
	var limit *def.Node
	for _, n := range g.Nodes {
		if !slices.Contains(n.Args, rank) {
			continue
		}
		if n.Op != def.OpLess || n.Args[0] != rank || limit != nil && n.Args[1] != limit {
			return nil
		}
		limit = n.Args[1]
	}
	isStored := slices.ContainsFunc(g.Outputs, func(o def.Output) bool { return o.Value == rank })
	if isStored || limit == nil || limit.Op != def.OpParam && limit.Op != def.OpInt {
		return nil
	}
	return limit
}

// IsSum reports whether n is a column or total sum.
func IsSum(n *def.Node) bool { return n.Op == def.OpColSum || n.Op == def.OpTotalSum }

// Format returns the storage format that a rounding names, with the operands stored in
// the given formats.
func Format(d *def.Definition, dtypes []num.DType, s def.Storage) num.DType {
	if s.Of != "" {
		return dtypes[d.Operand(s.Of)]
	}
	return s.Fixed
}
