package gpu

import (
	"fmt"
	"slices"

	"tokitai/def"
)

// rowEntry is one instance of the rows kernel.
type rowEntry struct {
	name        string
	index       int // among the source's entries
	storage     storage
	threads     int  // of a row
	rows        int  // of a block
	steps       int  // rows of a block that follow each other in a lane of column sums; 0 where there are none
	groups      int  // of eight elements that a thread keeps; 0 for any number
	isWhole     bool // only for rows that consist of exactly so many groups
	sharedWords int  // of dynamic shared memory that a group takes
}

// lanesPerThread is how many neighbouring lanes of a row's sums a thread owns.
const lanesPerThread = 8

// Budgets of the rows kernel, in registers per thread: for kept values, lanes of sums and
// groups of operands. They leave enough for everything else, so that compilers spill
// nothing.
const (
	shortRegisters = 152 // in blocks of up to 256 threads, which may have 255
	fusedRegisters = 120 // in blocks of up to 512, which may have 128
	longRegisters  = 56  // in blocks of 1,024, which may have 64
	takenRegisters = 16  // of these, for inputs that have arrived in shared memory

	columnRegisters = 24 // for a column of an extreme: two hold it, compilers compare many elements at once
)

// maxUnrolled is how many nodes a kernel with unrolled loops computes at most.
const maxUnrolled = 24 << 10

// rowShape is a number of threads for a row.
type rowShape struct {
	threads, rows, budget int
	groups                []int // of instances that keep a row in registers
	longest               int   // groups of the longest row
}

var rowShapes = []rowShape{
	{8, 16, shortRegisters, []int{1}, 0},
	{16, 8, shortRegisters, []int{1}, 0},
	{32, 2, shortRegisters, []int{1, 4, 8}, 8},
	{128, 1, shortRegisters, []int{4, 8}, 8},
	{1024, 1, longRegisters, []int{2, 4, 8}, 1 << 30},
}

// fusedRows returns how many rows a block has whose terms of column sums are added in the same
// kernel, and how many of them are consecutive terms of a lane; none for the longest rows. The
// terms of several rows go through shared memory, 8 bytes of each element and sum, which takes a
// third of the time that its inputs take to arrive. A block of one row adds them in registers,
// which pays where inputs have 32 bits: there are no more blocks than lanes, and rows of 16 bits or
// of fewer threads would leave multiprocessors without enough loads in flight. Small blocks are
// better, as two share a multiprocessor, but their threads own more columns, which takes registers.
func (w *walk) fusedRows(threads, groups int) (rows, steps int) {
	switch {
	case threads < 32:
		return 8, 4
	case threads == 32:
		return 4, 4
	case threads == 128 && !w.hasHalves() && groups*w.words+w.plainRegisters()+lanesPerThread*len(w.sums)*groups <= shortRegisters:
		return 1, 1
	case threads == 128 && w.words <= 8:
		return 8 / groups, 8 / groups
	case threads == 128:
		return 16 / groups, 16 / groups
	}
	return 0, 0
}

// hasHalves reports whether an input of the rows has elements of 16 bits.
func (w *walk) hasHalves() bool {
	for i, o := range w.k.d.Operands {
		if o.IsIn && o.Extent == def.PerElement && w.k.dtypes[i].Size() == 2 {
			return true
		}
	}
	return false
}

// rows writes the rows kernel in all its instances.
func (k *rowwise) rows(s *text) {
	for st := range spread + 1 {
		w := k.walk(st)
		entries := w.entries()
		if len(entries) == 0 {
			continue
		}
		w.function(s)
		s.line("")
		for _, e := range entries {
			w.instance(s, e)
		}
		k.rowEntries = append(k.rowEntries, entries...)
	}
}

// entries lists the instances of a walk: those that keep rows in registers, and for
// longer rows the others. Where the lanes of column sums are kept as well, one instance
// without them serves devices with less shared memory.
func (w *walk) entries() (list []rowEntry) {
	k := w.k
	isFused := len(k.columnSums) > 0 && len(k.totalSums) == 0
	switch {
	case w.storage == fused && !isFused, w.storage.isStaged() && (k.variant != Vector || w.stagedWords() == 0):
		return nil
	case k.isShort && w.storage != registers:
		return nil
	case w.storage == spread:
		return w.spreadEntries()
	}
	inRegisters := k.walk(registers)
	for _, shape := range rowShapes {
		if k.isShort {
			shape.groups = slices.DeleteFunc(slices.Clone(shape.groups), func(g int) bool { return shape.threads > 32 || g > 1 })
		}
		add := func(groups, sharedWords int) {
			e := rowEntry{storage: w.storage, threads: shape.threads, rows: shape.rows, groups: groups, sharedWords: sharedWords}
			e.name = fmt.Sprintf("%s_rows%d_%s", k.base, shape.threads, w.storage)
			if groups > 0 {
				e.name += fmt.Sprint(groups)
			}
			if w.storage == fused {
				if e.rows, e.steps = w.fusedRows(shape.threads, groups); e.rows == 1 {
					e.sharedWords = 0
				}
			}
			if w.hasWhole() && (w.storage != fused || w.hasWholeLanes(shape.threads, groups)) {
				whole := e
				whole.name += "_whole"
				whole.isWhole = true
				if w.storage == fused && shape.threads >= sentThreads {
					whole.sharedWords += w.sentWords()
				}
				list = append(list, whole)
			}
			list = append(list, e)
		}
		longest := inRegisters.groups(shape)
		switch w.storage {
		case fused:
			for _, g := range w.groups(shape) {
				add(g, 8*len(w.sums))
			}
		case staged:
			if shape.threads == 1024 {
				for _, g := range w.groups(shape) {
					if g*w.stagedWords()*4*shape.threads+staticShared <= mostShared {
						add(g, w.stagedWords())
					}
				}
			}
		case partly:
			g := k.partlyGroups()
			if shape.threads == 1024 && slices.Contains(w.groups(shape), g) && !k.walk(staged).hasInstance(g) {
				add(g, w.stagedWords())
			}
		case registers:
			switch {
			case shape.threads == 1024 && len(k.walk(staged).entries()) > 0:
				longest = nil
			case isFused:
				longest = longest[max(0, len(longest)-1):]
			}
			for _, g := range longest {
				add(g, 0)
			}
		case streamed:
			if shape.threads == 1024 && w.canStream() {
				add(0, w.streamedWords())
			}
		default:
			isNeeded := len(longest) == 0 || longest[len(longest)-1] < shape.longest
			if isNeeded && (w.storage == reread || w.words > 0 && shape.rows == 1) {
				add(0, w.words)
			}
		}
	}
	return list
}

// hasInstance reports whether an instance keeps so many groups.
func (w *walk) hasInstance(groups int) bool {
	return slices.ContainsFunc(w.entries(), func(e rowEntry) bool { return e.groups == groups })
}

// groups returns the numbers of groups for which a thread has enough registers.
func (w *walk) groups(shape rowShape) []int {
	if w.words+w.stagedWords() == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(shape.groups), func(g int) bool {
		budget := shape.budget
		if rows, _ := w.fusedRows(shape.threads, g); w.storage == fused {
			if rows == 0 || w.k.variant == Element && shape.threads > 32 {
				return true
			}
			if rows > 1 {
				budget = min(budget, fusedRegisters)
			}
		}
		return g*w.words+w.otherRegisters(shape.threads, g) > budget || w.cost()*g > maxUnrolled
	})
}

// reductionRegisters returns the registers of a thread for the reductions of any pass.
func (w *walk) reductionRegisters() int {
	most := 0
	for _, p := range w.passes {
		count := 0
		for _, n := range p.reductions {
			switch {
			case isColumnOfExtreme(n):
				count += columnRegisters
			case n.Op == def.OpUnpacked:
				count++
			default:
				count += lanesPerThread
			}
		}
		most = max(most, count)
	}
	return most
}

// isComputed reports whether a kept value is not an input.
func isComputed(v *keptValue) bool { return !v.isInput() }

// otherRegisters returns the registers of a thread that do not hold kept values of its g
// groups: lanes of reductions, addresses of operands, and room to unpack 16-bit elements.
func (w *walk) otherRegisters(threads, g int) int {
	count := w.plainRegisters()
	switch {
	case w.storage == fused:
		_, steps := w.fusedRows(threads, g)
		count += lanesPerThread * len(w.sums) * max(1, g/max(1, steps))
	case w.storage == registers && slices.ContainsFunc(w.kept, isComputed) && slices.ContainsFunc(w.kept, func(v *keptValue) bool { return v.isInput() && w.wordsOf(v) == 8 }):
		count += 12 // an input is not gone at once when what is computed from it takes its place
	}
	return count
}

// plainRegisters returns those that do not depend on where rows and lanes of column sums are kept.
func (w *walk) plainRegisters() int {
	k := w.k
	count := w.reductionRegisters()
	for i, o := range k.d.Operands {
		switch {
		case o.Extent&def.PerColumn == 0 || o.Extent == def.PerColumn && o.IsOut:
		case k.dtypes[i].Size() == 2:
			count += 5
		default:
			count += 4
		}
	}
	if k.variant == Element {
		count += lanesPerThread // elements that are moved one by one
	}
	return count
}

// isInPairs reports whether a block needs so few registers that two share a
// multiprocessor: one computes while the other waits for memory.
func (w *walk) isInPairs() bool {
	words := w.reductionRegisters()
	for i, o := range w.k.d.Operands {
		if w.isWalked(i) && o.IsIn && o.Extent == def.PerElement {
			words += 2 * w.k.dtypes[i].Size()
		}
		if w.isWalked(i) && w.k.dtypes[i].Size() > 2 {
			return false
		}
	}
	return w.storage == reread && w.k.variant == Vector && words <= 12
}

// wholeThreads returns how many threads of an instance for whole rows share a multiprocessor;
// 0 leaves it to the compiler. Without branches, elements are kept as 32 bits once they are
// widened.
func (w *walk) wholeThreads(e *rowEntry) int {
	kept := e.groups * 8 * w.slots
	if w.otherRegisters(e.threads, e.groups) > 32 || w.k.isShort {
		kept *= 2
	}
	switch {
	case kept <= 16 && !w.isSplit():
		return 2048
	case kept <= 32:
		return 1024
	case kept <= 64:
		return 512
	}
	return 0
}

// blocks returns how many blocks of an instance share a multiprocessor: as many as there
// are registers for; 0 leaves it to the compiler.
func (w *walk) blocks(e *rowEntry) int {
	threads := e.threads * e.rows
	if e.isWhole && e.threads < 1024 && w.storage != fused {
		return w.wholeThreads(e) / threads
	}
	need := e.groups*w.words + w.otherRegisters(e.threads, e.groups) + w.rowValues()
	if w.isSplit() {
		need += lanesPerThread // the second quad has a condition of its own
	}
	switch {
	case w.storage == spread:
		return 2
	case w.isInPairs():
		return 2
	case e.threads == 1024:
		return 1
	case w.k.variant == Element && w.storage == fused:
		return 1
	case w.k.variant == Element || w.storage == reread:
		return 0
	case w.storage == fused && e.rows == 1:
		return 2 // lanes are few
	case w.storage == fused:
		return 512 / threads
	case need <= 54: // of 64
		return 1024 / threads
	case need <= 66: // of 80
		return 768 / threads
	case need <= 88: // of 128
		return 512 / threads
	}
	return 0
}

// instance writes one kernel.
func (w *walk) instance(s *text, e rowEntry) {
	k := w.k
	arguments := fmt.Sprintf("%d, %d", e.threads, e.rows)
	if w.storage.isUnrolled() {
		arguments += fmt.Sprintf(", %d", e.groups)
	}
	if w.storage == fused {
		arguments += fmt.Sprintf(", %d", e.steps)
	}
	if w.hasWhole() {
		arguments += fmt.Sprintf(", %v", e.isWhole)
	}
	if w.storage == spread {
		arguments = fmt.Sprint(e.groups)
	}
	if w.storage == streamed {
		arguments += fmt.Sprintf(", %d", w.streamSlots())
	}
	k.source.Entries = append(k.source.Entries, e.name)
	threads := e.threads * e.rows
	if w.storage == spread {
		threads /= leastSpread
	}
	kernel := fmt.Sprintf("KERNEL(%s, %d)", e.name, threads)
	if blocks := w.blocks(&e); blocks > 0 {
		kernel = fmt.Sprintf("KERNEL_BLOCKS(%s, %d, %d)", e.name, threads, blocks)
	}
	unless := ""
	if hasIndex(k.d) && !w.storage.isUnrolled() {
		unless = fmt.Sprintf("if (!%s_is_refused(p.refused)) ", k.base)
	}
	s.line("%s(const %s_params p) { %s%s_%s<%s>(p); }", kernel, k.base, unless, k.base, w.storage, arguments)
}
