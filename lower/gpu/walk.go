package gpu

import (
	"slices"

	"tokitai/def"
)

// storage is where a row's values are kept between passes.
type storage uint8

const (
	fused  storage = iota // in registers, with the lanes of column sums
	staged                // inputs in shared memory, where the next row's arrive meanwhile; others in registers
	partly                // the same for as many inputs as there is room for; others are read and computed again
	registers
	shared
	reread // nowhere: inputs are read and values computed again
)

var storageNames = [...]string{"fused", "staged", "partly", "registers", "shared", "reread"}

func (s storage) String() string { return storageNames[s] }

func (s storage) isUnrolled() bool { return s == fused || s.isStaged() || s == registers }
func (s storage) isStaged() bool   { return s == staged || s == partly }

// walk is how the rows kernel goes over a row, for one way of keeping values.
type walk struct {
	k       *rowwise
	storage storage
	passes  []rowPass
	start   []*def.Node  // values per row that are known before the first pass
	kept    []*keptValue // in the order in which they are computed
	words   int          // that are kept of each group between passes
	sums    []*def.Node  // column sums whose lanes grow in the last pass
}

// rowPass is one walk over a row by the rows kernel.
type rowPass struct {
	number     int // from 1 on
	roots      []*def.Node
	reductions []*def.Node
	sums       []*def.Node
	stores     bool
	nodes      []*def.Node // that are computed, inputs and values per column among them
	takes      []*keptValue
	keeps      []*keptValue
	after      []*def.Node
}

// keptValue is an element value that is kept from the pass that computes it to the
// last that reads it: an input as it is stored, anything else as 32 bits.
type keptValue struct {
	node        *def.Node
	first, last int // passes
	slot        int // kept values whose lives do not meet share a slot of shared memory
	offset      int // of the slot, in words of a group
}

func (v *keptValue) isInput() bool { return v.node.Op == def.OpInput }

// newWalk plans the passes of the rows kernel.
func (k *rowwise) newWalk(st storage) *walk {
	w := &walk{k: k, storage: st}
	stores := !k.isSplit || st == fused
	roots := values(k.rowOutputs)
	if stores {
		roots = append(roots, values(k.elementOutputs)...)
	} else {
		roots = append(roots, k.rowValues...)
	}
	if st == fused {
		w.sums = k.columnSums
		roots = append(roots, arguments(w.sums)...)
	}
	needed := map[*def.Node]bool{}
	for _, n := range closure(roots, nil) {
		needed[n] = true
	}
	only := func(nodes []*def.Node) []*def.Node {
		return slices.DeleteFunc(slices.Clone(nodes), func(n *def.Node) bool { return !needed[n] })
	}
	w.start = only(k.schedule.Start)
	for i := range k.schedule.Passes {
		plan := &k.schedule.Passes[i]
		p := rowPass{number: i + 1, reductions: only(plan.Reductions), after: only(plan.After)}
		p.stores = stores && len(plan.Stores) > 0
		p.roots = arguments(p.reductions)
		if p.stores {
			p.roots = append(p.roots, values(plan.Stores)...)
		}
		if st == fused && len(plan.Sums) > 0 {
			p.sums = w.sums
			p.roots = append(p.roots, arguments(w.sums)...)
		}
		w.passes = append(w.passes, p)
	}
	w.keep()
	w.assignSlots()
	return w
}

// arguments are the first ones of nodes.
func arguments(nodes []*def.Node) (args []*def.Node) {
	for _, n := range nodes {
		args = append(args, n.Args[0])
	}
	return args
}

// keep decides what every pass computes, what it takes from earlier ones, and what it
// keeps for later ones.
func (w *walk) keep() {
	kept := map[*def.Node]*keptValue{}
	computed := map[*def.Node]int{}
	for i := range w.passes {
		p := &w.passes[i]
		seen := map[*def.Node]bool{}
		var need func(n *def.Node)
		need = func(n *def.Node) {
			if seen[n] || !isElement(n) && !isColumn(n) {
				return
			}
			seen[n] = true
			first, isOld := computed[n]
			if isOld && isElement(n) && w.isWorthKeeping(n, kept) {
				v := kept[n]
				if v == nil {
					v = &keptValue{node: n, first: first}
					kept[n] = v
					w.kept = append(w.kept, v)
				}
				v.last = i
				p.takes = append(p.takes, v)
				return
			}
			p.nodes = append(p.nodes, n)
			for _, a := range n.Args {
				need(a)
			}
		}
		for _, n := range p.roots {
			need(n)
		}
		byID := func(a, b *def.Node) int { return a.ID - b.ID }
		slices.SortFunc(p.nodes, byID)
		slices.SortFunc(p.takes, func(a, b *keptValue) int { return byID(a.node, b.node) })
		for _, n := range p.nodes {
			if _, ok := computed[n]; !ok {
				computed[n] = i
			}
		}
	}
	slices.SortFunc(w.kept, func(a, b *keptValue) int {
		return (a.first-b.first)*len(w.k.d.Exec.Nodes) + a.node.ID - b.node.ID
	})
	for _, v := range w.kept {
		w.passes[v.first].keeps = append(w.passes[v.first].keeps, v)
	}
}

// isWorthKeeping reports whether a value that an earlier pass has computed is kept
// rather than computed again.
func (w *walk) isWorthKeeping(n *def.Node, kept map[*def.Node]*keptValue) bool {
	switch {
	case w.storage == reread:
		return false
	case n.Op == def.OpInput:
		return w.storage != partly || kept[n] != nil || w.hasRoom(n)
	case n.Type == def.Bool || w.storage == partly:
		return false
	}
	cost := 0
	for _, a := range closure([]*def.Node{n}, func(a *def.Node) bool { return a != n && (!isElement(a) || kept[a] != nil) }) {
		switch {
		case a.Op == def.OpRandom:
			cost += worthKeeping
		case isElement(a) && len(a.Args) > 0 && kept[a] == nil:
			cost++
		}
	}
	return cost >= worthKeeping
}

// partlyGroups is how many groups a thread has of rows that are staged partly.
func (k *rowwise) partlyGroups() int {
	for i, o := range k.d.Operands {
		if o.Extent == def.PerElement && o.IsIn && k.dtypes[i].Size() > 2 {
			return 4
		}
	}
	return 8
}

// hasRoom reports whether one more input fits into shared memory.
func (w *walk) hasRoom(n *def.Node) bool {
	words := 2 * w.k.dtypes[n.Operand].Size()
	for _, v := range w.kept {
		words += w.wordsOf(v)
	}
	return w.k.partlyGroups()*words*4*1024+staticShared <= mostShared
}

// assignSlots lets kept values share slots. A value may take the slot of one that is
// read for the last time in the pass that computes it: a thread reads an element of
// the one before it writes that of the other, and an input before all elements.
func (w *walk) assignSlots() {
	var slots [][]*keptValue
	for _, v := range w.kept {
		v.slot = slices.IndexFunc(slots, func(others []*keptValue) bool {
			return !slices.ContainsFunc(others, func(o *keptValue) bool {
				return o.last > v.first || o.last == v.first && v.isInput() || w.isStaged(o) || w.isStaged(v)
			})
		})
		if v.slot < 0 {
			v.slot = len(slots)
			slots = append(slots, nil)
		}
		slots[v.slot] = append(slots[v.slot], v)
	}
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

// wordsOf is how many 32-bit words a group of a kept value takes.
func (w *walk) wordsOf(v *keptValue) int {
	if v.isInput() {
		return 2 * w.k.dtypes[v.node.Operand].Size()
	}
	return 8
}

// readFirst are the inputs that are read for the first pass and kept.
func (w *walk) readFirst() []*keptValue {
	return slices.DeleteFunc(slices.Clone(w.kept), func(v *keptValue) bool { return !v.isInput() || v.first != 0 })
}

// isStaged reports whether a kept value is among those that are in shared memory before
// their row is begun.
func (w *walk) isStaged(v *keptValue) bool {
	return w.storage.isStaged() && v != nil && v.isInput() && v.first == 0
}

// stagedWords are those of a group of all inputs that are staged.
func (w *walk) stagedWords() (words int) {
	for _, v := range w.kept {
		if w.isStaged(v) {
			words += w.wordsOf(v)
		}
	}
	return words
}

// aheadInputs are the inputs per row that are read before their row is begun.
func (w *walk) aheadInputs() []*def.Node {
	return slices.DeleteFunc(slices.Clone(w.start), func(n *def.Node) bool { return !w.isAheadInput(n) })
}

// rowValues is how many values per row there are.
func (w *walk) rowValues() int {
	count := len(w.start)
	for _, p := range w.passes {
		count += len(p.after)
	}
	return count
}

// cost is how many nodes one group of a row takes.
func (w *walk) cost() int {
	nodes := 0
	for _, p := range w.passes {
		nodes += len(p.nodes)
	}
	return nodes * lanesPerThread
}

// lastPass is the last pass that walks over the row.
func (w *walk) lastPass() int {
	last := 0
	for i := range w.passes {
		if len(w.passes[i].roots) > 0 {
			last = i
		}
	}
	return last
}
