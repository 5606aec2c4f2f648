package verify

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"tokitai/def"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/verify/cases"
)

// The check sequences verifies, for definitions whose axes are divided into sequences, that a query has
// the same bits in every batch: its sequence alone, its sequence among others in reverse order, among
// others that hold nothing but NaN, and with the last queries of each sequence alone. What is computed
// for a key, from all queries of its sequence, has the same bits in the first three.

// sequenceSizes returns sizes with several sequences.
func sequenceSizes(d *def.Definition) func(length int) []cases.Size {
	return func(length int) []cases.Size {
		var sizes []cases.Size
		for _, a := range d.Axes() {
			n := map[def.Role]int{def.Row: length, def.Summed: length + length/2, def.Column: 8, def.Group: 3}[a.Role]
			sizes = append(sizes, cases.Size{Letter: a.Letter, N: max(1, n)})
		}
		order := d.Sizes()
		slices.SortFunc(sizes, func(a, b cases.Size) int { return slices.Index(order, a.Letter) - slices.Index(order, b.Letter) })
		return sizes
	}
}

// tokens is a range of an axis that is divided into sequences.
type tokens struct{ first, end int }

func inSequences(x *trialRun) (int64, *finding, error) {
	d := x.l.target.Definition
	starts := map[string]*num.Array{} // by the letter that they divide
	for i := range d.Operands {
		if o := &d.Operands[i]; o.IsOffsets {
			a := x.l.array(i)
			starts[o.Bound] = &a
		}
	}
	rows := d.AxisOf(def.Row)
	count := starts[rows].Rows - 1
	of := func(letter string, b int) tokens {
		return tokens{int(starts[letter].Int(b, 0)), int(starts[letter].Int(b+1, 0))}
	}
	whole := func(order ...int) []map[string]tokens {
		var list []map[string]tokens
		for _, b := range order {
			parts := map[string]tokens{}
			for letter := range starts {
				parts[letter] = of(letter, b)
			}
			list = append(list, parts)
		}
		return list
	}
	all := indices(count)
	reverse := slices.Clone(all)
	slices.Reverse(reverse)
	late := whole(all...)
	for _, parts := range late { // the last half of the queries; keys stay
		s := parts[rows]
		parts[rows] = tokens{s.end - (s.end-s.first+1)/2, s.end}
	}
	everything := slices.Collect(maps.Keys(starts))
	var sum parts
	for b := range count {
		if sum.add(x.pick(whole(b), everything, nil, fmt.Sprintf("with sequence %d alone", b))) {
			return sum.compared, sum.f, sum.err
		}
	}
	_ = sum.add(x.pick(whole(reverse...), everything, nil, "with the sequences in reverse order")) ||
		sum.add(x.pick(late, []string{rows}, nil, "with the last queries of each sequence alone")) ||
		sum.add(x.pick(whole(all...), everything, func(b int) bool { return b%2 == 1 }, "with NaN in every other sequence"))
	return sum.compared, sum.f, sum.err
}

// pick runs the case with parts of its sequences, in that order, those that are spoilt filled with NaN,
// and compares what the others have along the given axes with the same of the case.
func (x *trialRun) pick(list []map[string]tokens, axes []string, isSpoilt func(b int) bool, what string) (int64, *finding, error) {
	t := x.l.target
	d := t.Definition
	total, from := map[string]int{}, map[string][]int{} // of each letter: how many, and which they were; -1 if spoilt
	offsets := map[string][]int{}
	for letter := range list[0] {
		offsets[letter] = []int{0}
	}
	for b, parts := range list {
		for letter, s := range parts {
			for i := s.first; i < s.end; i++ {
				if isSpoilt != nil && isSpoilt(b) {
					from[letter] = append(from[letter], -1)
				} else {
					from[letter] = append(from[letter], i)
				}
			}
			total[letter] += s.end - s.first
			offsets[letter] = append(offsets[letter], total[letter])
		}
	}
	for letter := range list[0] {
		if total[letter] == 0 {
			return 0, nil, nil // nothing is left of it
		}
	}
	c := x.c.Clone()
	for i := range c.Sizes {
		s := &c.Sizes[i]
		if _, isDivided := list[0][s.Letter]; isDivided {
			s.N = total[s.Letter]
		}
		if s.Letter == d.AxisOf(def.Group) {
			s.N = len(list)
		}
	}
	l := t.newLoaded(c, x.l.seed)
	for i, a := range l.inputs() {
		o, old := &d.Operands[i], x.l.array(i)
		switch {
		case !o.IsIn:
		case o.IsOffsets:
			for b, at := range offsets[o.Bound] {
				a.SetBits(b, 0, uint32(at))
			}
		case from[o.Dims[0]] != nil:
			each := a.Rows / total[o.Dims[0]]
			for r := range a.Rows {
				if at := from[o.Dims[0]][r/each]; at >= 0 {
					copy(a.Row(r), old.Row(at*each+r%each))
					continue
				}
				for col := range a.Cols {
					if o.IsInt() {
						a.SetBits64(r, col, old.Bits64(r, col))
					} else {
						a.Set(r, col, float32(math.NaN()))
					}
				}
			}
		default:
			for r := range a.Rows {
				copy(a.Row(r), old.Row(r))
			}
		}
	}
	return x.again(l, evidence.Relations, what, expectation{at: func(i, r, col int) (uint64, bool) {
		axis := d.Operands[i].Dims[0]
		if !slices.Contains(axes, axis) {
			return 0, false
		}
		each := l.array(i).Rows / total[axis]
		at := from[axis][r/each]
		if at < 0 {
			return 0, false
		}
		return x.base.operands[i].Bits64(at*each+r%each, col), true
	}})
}
