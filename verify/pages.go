package verify

import (
	"fmt"
	"math"

	"tokitai/def"
	"tokitai/evidence"
	"tokitai/verify/cases"
)

// The check pages verifies, for definitions whose keys lie in pages of a cache, that a query has the same
// bits wherever they lie: in longer and shorter pages, in pages of another order, in the call that
// computed the first queries of its sequence alone and in one that computes the last, and with its
// sequence alone. What no sequence has is NaN, and entries of tables that need no page name none.

// pageSizes returns sizes with several sequences of some pages.
func pageSizes(d *def.Definition) func(length int) []cases.Size {
	return func(length int) []cases.Size {
		var sizes []cases.Size
		for _, letter := range d.Sizes() {
			n := map[string]int{"T": length, "N": def.MinPage, "M": 1 + length/def.MinPage*3/2, "P": 4 + length/def.MinPage, "D": 8, "B": 3}[letter]
			sizes = append(sizes, cases.Size{Letter: letter, N: max(1, n)})
		}
		return sizes
	}
}

// pagedPart is what a call has of a sequence: queries, and how many of the keys.
type pagedPart struct {
	sequence int
	queries  tokens
	keys     int
}

func inPages(x *trialRun) (int64, *finding, error) {
	d := x.l.target.Definition
	f := d.Stream()
	starts, lengths := x.l.array(f.QueryStarts), x.l.array(f.Lengths)
	page, _ := x.c.Size("N")
	var all, late, early []pagedPart
	for b := range lengths.Rows {
		whole := pagedPart{b, tokens{int(starts.Int(b, 0)), int(starts.Int(b+1, 0))}, int(lengths.Int(b, 0))}
		all = append(all, whole)
		second := (whole.queries.first + whole.queries.end + 1) / 2
		late = append(late, pagedPart{b, tokens{second, whole.queries.end}, whole.keys})
		if keys := whole.keys - (whole.queries.end - second); keys >= 0 {
			early = append(early, pagedPart{b, tokens{whole.queries.first, second}, keys})
		}
	}
	var sum parts
	for each := def.MinPage; each <= 4*def.MinPage; each *= 2 {
		if sum.add(x.repage(all, each, fmt.Sprintf("in pages of %d", each))) {
			return sum.compared, sum.f, sum.err
		}
	}
	for _, part := range all {
		if sum.add(x.repage([]pagedPart{part}, page, fmt.Sprintf("with sequence %d alone", part.sequence))) {
			return sum.compared, sum.f, sum.err
		}
	}
	_ = sum.add(x.repage(early, page, "with the first queries of each sequence and the keys up to them")) ||
		sum.add(x.repage(late, page, "with the last queries of each sequence alone"))
	return sum.compared, sum.f, sum.err
}

// repage runs the case with parts of its sequences, whose keys lie in pages of a size, the last first, and
// compares the queries with those of the case.
func (x *trialRun) repage(list []pagedPart, each int, what string) (int64, *finding, error) {
	d := x.l.target.Definition
	f := d.Stream()
	var from []int // query by query, where it was
	width, pages := 1, 1
	for _, part := range list {
		for t := part.queries.first; t < part.queries.end; t++ {
			from = append(from, t)
		}
		n := (part.keys + each - 1) / each
		width, pages = max(width, n), pages+n
	}
	if len(from) == 0 {
		return 0, nil, nil
	}
	c := x.c.Clone()
	for i := range c.Sizes {
		s := &c.Sizes[i]
		if n, isOther := map[string]int{"T": len(from), "P": pages, "N": each, "M": width, "B": len(list)}[s.Letter]; isOther {
			s.N, s.From = n, 0
		}
	}
	l := x.l.target.newLoaded(c, x.l.seed)
	table, lengths, starts := l.array(f.Pages), l.array(f.Lengths), l.array(f.QueryStarts)
	old, before := x.l.array(f.Pages), x.l.array(f.Key).Batch.Axes[1].Size
	places := make([]int, pages*each) // of keys: where they were; -1 if they were nowhere
	for i := range places {
		places[i] = -1
	}
	next := pages - 1
	starts.SetBits(0, 0, 0)
	for b, part := range list {
		starts.SetBits(b+1, 0, starts.Bits(b, 0)+uint32(part.queries.end-part.queries.first))
		lengths.SetBits(b, 0, uint32(part.keys))
		for i := range width {
			table.SetBits(b, i, 1<<31) // no page
			if i*each >= part.keys {
				continue
			}
			table.SetBits(b, i, uint32(next))
			for key := i * each; key < min((i+1)*each, part.keys); key++ {
				places[next*each+key%each] = int(old.Int(part.sequence, key/before))*before + key%before
			}
			next--
		}
	}
	for i, a := range l.inputs() {
		o := &d.Operands[i]
		rows := map[string][]int{"T": from, "P": places}[o.Dims[0]]
		switch source := x.l.array(i); {
		case !o.IsIn || o.IsOffsets || o.IsLengths || i == f.Pages:
		case rows == nil:
			for r := range a.Rows {
				copy(a.Row(r), source.Row(r))
			}
		default:
			each := a.Rows / len(rows)
			for r := range a.Rows {
				if at := rows[r/each]; at >= 0 {
					copy(a.Row(r), source.Row(at*each+r%each))
					continue
				}
				for col := range a.Cols {
					a.Set(r, col, float32(math.NaN()))
				}
			}
		}
	}
	return x.again(l, evidence.Relations, what, expectation{at: func(i, r, col int) (uint64, bool) {
		each := l.array(i).Rows / len(from)
		return x.base.operands[i].Bits64(from[r/each]*each+r%each, col), true
	}})
}
