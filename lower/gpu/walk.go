package gpu

import (
	"slices"

	"tokitai/def"
	"tokitai/lower"
)

// storage is where a row's values are kept between passes.
type storage uint8

const (
	fused  storage = iota // in registers, with the lanes of column sums
	staged                // inputs in shared memory, where the next row's arrive meanwhile; others in registers
	partly                // the same for as many inputs as there is room for; others are read and computed again
	registers
	shared
	streamed // nowhere, as below, but inputs pass through shared memory, several groups ahead
	reread   // nowhere: inputs are read and values computed again
	spread   // the same, by several blocks for each row and a launch for each pass
)

var storageNames = [...]string{"fused", "staged", "partly", "registers", "shared", "streamed", "reread", "spread"}

func (s storage) String() string { return storageNames[s] }

func (s storage) isUnrolled() bool { return s == fused || s.isStaged() || s == registers }
func (s storage) isStaged() bool   { return s == staged || s == partly }

// costs are the prices of a way of keeping values, in nodes of a definition.
type costs struct {
	k       *rowwise
	storage storage
}

// worthKeeping is the price of keeping a computed value, in nodes.
const worthKeeping = 6

// Compute implements lower.Costs. Random words are expensive, inputs, lookups and columns free.
func (c costs) Compute(n *def.Node) int {
	switch {
	case lower.IsExchange(n):
		return 1 << 20
	case n.Op == def.OpRandom || n.Op == def.OpRandomRow:
		return worthKeeping
	case n.Op == def.OpLookup:
		return 0
	case len(n.Args) > 0:
		return 1
	}
	return 0
}

// Keep implements lower.Costs.
func (c costs) Keep(n *def.Node, kept []*lower.Kept) int {
	switch {
	case c.storage >= streamed || n.Op == def.OpLookup:
		return lower.Never
	case n.Op == def.OpInput && (c.storage != partly || c.k.hasRoom(n, kept)):
		return 0
	case n.Op == def.OpInput || n.Type == def.Bool || c.storage == partly:
		return lower.Never
	}
	return worthKeeping
}

// Hoist implements lower.Costs.
func (costs) Hoist(*def.Node) bool { return false }

// walk is the program of the rows kernel for one way of keeping values, and where they
// are kept.
type walk struct {
	k       *rowwise
	storage storage
	program *lower.Program
	passes  []rowPass
	kept    []*keptValue // in the order in which they are computed
	slots   int          // of kept values
	words   int          // of a group that are kept between passes
	sums    []*def.Node  // column sums whose lanes grow in the last pass
}

// rowPass is one pass of the program, its steps by kind.
type rowPass struct {
	number     int // from 1 on
	reductions []*def.Node
	sums       []*def.Node
	nodes      []*def.Node // that are loaded or computed, values per column among them
	takes      []*keptValue
	keeps      []*keptValue
	stores     bool
	after      []lower.Step
}

// isEmpty reports whether the pass leaves the elements alone.
func (p *rowPass) isEmpty() bool { return len(p.reductions)+len(p.sums) == 0 && !p.stores }

// keptValue is an element value that is kept between passes: an input as it is stored,
// anything else as 32 bits.
type keptValue struct {
	*lower.Kept
	slot   int // kept values with disjoint lifetimes share a slot of shared memory
	offset int // of the slot, in words of a group
}

func (v *keptValue) isInput() bool { return v.Node.Op == def.OpInput }

// walk returns the rows kernel with one way of keeping values.
func (k *rowwise) walk(st storage) *walk {
	if k.walks[st] == nil {
		k.walks[st] = k.newWalk(st)
	}
	return k.walks[st]
}

func (k *rowwise) newWalk(st storage) *walk {
	w := &walk{k: k, storage: st}
	part := lower.Part{Stores: slices.Clone(k.rowOutputs)}
	if !k.isSplit || st == fused {
		part.Stores = slices.Concat(part.Stores, k.elementOutputs, k.slotOutputs)
	} else {
		part.Values = k.handedOn
	}
	if st == fused {
		w.sums = k.columnSums
		part.Values = w.sums
	}
	if need := k.d.Exec().Need; need != nil {
		part.Values = append(slices.Clone(part.Values), need)
	}
	w.program = lower.NewProgram(k.d, k.dtypes, part, costs{k, st})
	for _, v := range w.program.Kept {
		w.kept = append(w.kept, &keptValue{Kept: v})
	}
	for i := range w.program.Passes {
		w.passes = append(w.passes, w.newPass(i))
	}
	w.assignSlots()
	return w
}

// newPass sorts the steps of a pass.
func (w *walk) newPass(i int) rowPass {
	p := rowPass{number: i + 1, after: w.program.Passes[i].After.Steps}
	for _, s := range w.program.Passes[i].Elements.Steps {
		switch s.Action {
		case lower.Take:
			p.takes = append(p.takes, find(w.kept, s.Node))
		case lower.Accumulate:
			if lower.IsSum(s.Node) {
				p.sums = append(p.sums, s.Node)
			} else {
				p.reductions = append(p.reductions, s.Node)
			}
		case lower.Store:
			p.stores = true
		default:
			p.nodes = append(p.nodes, s.Node)
			if s.Keep {
				p.keeps = append(p.keeps, find(w.kept, s.Node))
			}
		}
	}
	return p
}

// partlyGroups returns how many groups a thread has of rows that are staged partly.
func (k *rowwise) partlyGroups() int {
	for i, o := range k.d.Operands {
		if o.Extent == def.PerElement && o.IsIn && k.dtypes[i].Size() > 2 {
			return 4
		}
	}
	return 8
}

// hasRoom reports whether one more input fits into shared memory.
func (k *rowwise) hasRoom(n *def.Node, kept []*lower.Kept) bool {
	words := k.wordsOf(n)
	for _, v := range kept {
		words += k.wordsOf(v.Node)
	}
	return k.partlyGroups()*words*4*1024+staticShared <= mostShared
}

// wordsOf returns how many 32-bit words a group of a kept value takes.
func (k *rowwise) wordsOf(n *def.Node) int {
	if n.Op == def.OpInput || n.Op == def.OpLookup {
		return 2 * k.dtypes[operandOf(n)].Size()
	}
	return 8
}

// assignSlots lets kept values share slots. A value may take the slot of one that is
// read for the last time in the pass that computes it: a thread reads an element of
// the one before it writes that of the other, and an input before all elements.
func (w *walk) assignSlots() {
	var slots [][]*keptValue
	for _, v := range w.kept {
		v.slot = slices.IndexFunc(slots, func(others []*keptValue) bool {
			return !slices.ContainsFunc(others, func(o *keptValue) bool {
				return o.Last > v.First || o.Last == v.First && v.isInput() || w.isStaged(o) || w.isStaged(v)
			})
		})
		if v.slot < 0 {
			v.slot = len(slots)
			slots = append(slots, nil)
		}
		slots[v.slot] = append(slots[v.slot], v)
	}
	w.slots = len(slots)
	for _, sharing := range slots {
		if w.storage.isStaged() {
			sharing = slices.DeleteFunc(sharing, w.isStaged)
		}
		size := 0
		for _, v := range sharing {
			v.offset = w.words
			size = max(size, w.wordsOf(v))
		}
		w.words += size
	}
}

func (w *walk) wordsOf(v *keptValue) int { return w.k.wordsOf(v.Node) }

// hasWhole reports whether the walk has instances for rows that consist of whole groups for
// every thread. Nothing is then conditional on columns, and a division by their number, a
// power of two, is a multiplication.
func (w *walk) hasWhole() bool {
	return w.k.variant == Vector && w.storage.isUnrolled() && (w.storage != fused || len(w.readFirst()) > 0)
}

// readFirst returns the inputs that are read for the first pass and kept.
func (w *walk) readFirst() []*keptValue {
	return slices.DeleteFunc(slices.Clone(w.kept), func(v *keptValue) bool { return !v.isInput() || v.First != 0 })
}

// isStaged reports whether a kept value is in shared memory before its row is begun.
func (w *walk) isStaged(v *keptValue) bool {
	return w.storage.isStaged() && v != nil && v.isInput() && v.First == 0
}

// stagedWords returns the words of a group of all inputs that are staged.
func (w *walk) stagedWords() (words int) {
	for _, v := range w.kept {
		if w.isStaged(v) {
			words += w.wordsOf(v)
		}
	}
	return words
}

// aheadInputs returns the inputs per row that are read before their row is begun.
func (w *walk) aheadInputs() (nodes []*def.Node) {
	for _, s := range w.program.Start.With(lower.Load) {
		if w.isAheadInput(s.Node) {
			nodes = append(nodes, s.Node)
		}
	}
	return nodes
}

// rowValues returns the number of row values.
func (w *walk) rowValues() int {
	count := len(w.program.Start.Steps)
	for _, p := range w.passes {
		count += len(p.after)
	}
	return count
}

// cost returns how many nodes are computed for one group of a row.
func (w *walk) cost() int {
	nodes := 0
	for _, p := range w.passes {
		nodes += len(p.nodes)
	}
	return nodes * lanesPerThread
}

// lastPass returns the last pass that is not empty, or 0.
func (w *walk) lastPass() int {
	last := 0
	for i := range w.passes {
		if !w.passes[i].isEmpty() {
			last = i
		}
	}
	return last
}

// mostReductions returns the words of scratch memory that the reductions of any pass
// need.
func (w *walk) mostReductions() int {
	most := 0
	for _, p := range w.passes {
		count := 0
		for _, n := range p.reductions {
			count += words(n)
		}
		most = max(most, count)
	}
	return most
}
