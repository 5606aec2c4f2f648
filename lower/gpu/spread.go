package gpu

import (
	"fmt"
	"slices"

	"tokitai/def"
)

// A row of many columns on which much is computed keeps a multiprocessor busy for long. Where rows are few, several
// blocks share a row: each has some of the threads, and so of the lanes, that one block would have. A pass
// ends with its launch, and warps hand their parts of reductions on in scratch memory, in the places
// that they have in shared memory otherwise.

const (
	spreadThreads = 1024
	leastSpread   = 4        // blocks of a row, at least
	mostSpread    = 32       // so that each has a warp
	spreadColumns = 32 << 10 // rows are longer
	spreadNodes   = 100      // that are computed for an element of a row, at least
)

// spreadEntries lists the instances of a walk over rows that several blocks share: one for each pass and one for
// what follows the last.
func (w *walk) spreadEntries() (list []rowEntry) {
	k := w.k
	if k.isSplit || len(k.columnSums)+len(k.totalSums) > 0 || w.cost() < spreadNodes*lanesPerThread && k.d.Exec().Need == nil {
		return nil
	}
	add := func(pass int) {
		e := rowEntry{storage: spread, threads: spreadThreads, rows: 1, groups: pass}
		e.name = fmt.Sprintf("%s_rows%d_spread%d", k.base, spreadThreads, pass)
		list = append(list, e)
	}
	isReduced := true
	for i := range w.passes {
		if p := &w.passes[i]; !p.isEmpty() {
			add(i)
			isReduced = len(p.reductions) > 0
		}
	}
	if isReduced {
		add(len(w.passes))
	}
	return list
}

// spreadWords returns the words of all parts of a row before those of a pass.
func (w *walk) spreadWords(pass int) (count int) {
	for i := range w.passes[:pass] {
		for _, n := range w.passes[i].reductions {
			count += words(n)
		}
	}
	return count
}

// part returns a word of the parts of a pass.
func (w *walk) part(pass, word int, warp string) string {
	return fmt.Sprintf("p.row_parts[(row * %d + %d) * 32 + %s]", w.spreadWords(len(w.passes)), w.spreadWords(pass)+word, warp)
}

// leaveParts stores a warp's parts of the reductions of a pass.
func (w *walk) leaveParts(s *text, p *rowPass, pass int) {
	if len(p.reductions) == 0 {
		return
	}
	at := 0
	for _, n := range p.reductions {
		if isColumnOfExtreme(n) {
			s.line("const u64 %s_key = %s;", name(n), w.threadsPart(n))
			s.line("if (t %% 32 == 0) %s = float_of((u32)(%s_key >> 32));", w.part(pass, at, "t / 32"), name(n))
			s.line("if (t %% 32 == 0) %s = float_of((u32)%s_key);", w.part(pass, at+1, "t / 32"), name(n))
		} else {
			s.line("const %s %s = %s;", typeName(n.Type), name(n), w.threadsPart(n))
			s.line("if (t %% 32 == 0) %s = %s;", w.part(pass, at, "t / 32"), toScratch(n.Type, name(n)))
		}
		at += words(n)
	}
	s.line("continue;")
}

// joinParts declares the reductions of a pass, from the parts that its launch has left.
func (w *walk) joinParts(s *text, p *rowPass, pass int) {
	at := 0
	for _, n := range p.reductions {
		if isColumnOfExtreme(n) {
			high, low := w.part(pass, at, "t % 32"), w.part(pass, at+1, "t % 32")
			w.k.declare(s, n, fmt.Sprintf("column_of(threads_key<32>((u64)bits_of(%s) << 32 | bits_of(%s)))", high, low))
		} else {
			w.k.declare(s, n, fmt.Sprintf("threads_%s<32>(%s)", joins[n.Op], fromScratch(n.Type, w.part(pass, at, "t % 32"))))
		}
		at += words(n)
	}
}

// isInPlace reports whether an element output takes the place of an input. Then a row's elements must not be read
// at an index, as other blocks may have replaced them.
func (b *binding) isInPlace(outputs []def.Output) bool {
	return slices.ContainsFunc(outputs, func(o def.Output) bool {
		out := &b.operands[o.Operand]
		for i := range b.operands {
			if i != o.Operand && b.operands[i].Pointer == out.Pointer {
				return true
			}
		}
		return false
	})
}

// spreadOver returns how many blocks share each row of a call, or 1.
func (k *rowwise) spreadOver(b *binding, limits Limits) int {
	if b.cols <= spreadColumns || b.rows == 0 || len(k.walk(spread).entries()) == 0 || k.hasRowLoads() && b.isInPlace(k.elementOutputs) {
		return 1
	}
	blocks := 1
	for blocks < mostSpread && b.rows*blocks*2 <= 2*limits.Multiprocessors {
		blocks *= 2
	}
	if blocks < leastSpread {
		return 1
	}
	return blocks
}
