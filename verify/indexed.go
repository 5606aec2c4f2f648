package verify

import (
	"fmt"
	"slices"
	"sort"

	"tokitai/def"
	"tokitai/evidence"
	"tokitai/verify/cases"
)

// The checks unnamed-X, pad-X and order-X verify what holds of every definition that finds rows by
// index: a row that no index names does not matter, an index out of range adds nothing, and what is
// sorted by index is sorted alike in every batch.

// namedAxes lists the letters of axes whose elements indices choose, where any number is an index
// like any other.
func namedAxes(d *def.Definition) []string {
	var letters []string
	for _, a := range d.Axes() {
		isNamed := func(o def.Operand) bool { return o.IsIndex && o.Bound == a.Letter }
		isSpecial := func(o def.Operand) bool { return isNamed(o) && o.Except != "" }
		if a.Role == def.Indexed && slices.ContainsFunc(d.Operands, isNamed) && !slices.ContainsFunc(d.Operands, isSpecial) {
			letters = append(letters, a.Letter)
		}
	}
	return letters
}

// unnamed adds an element to an axis, with NaN in what the inputs have there, and numbers the indices
// so that none names it: an expert without tokens, a row of a table that nobody reads. What belongs to
// other elements must be the same.
func unnamed(letter string) func(*trialRun) (int64, *finding, error) {
	return func(x *trialRun) (int64, *finding, error) {
		n, _ := x.c.Size(letter)
		var sum parts
		for _, at := range slices.Compact([]int{0, n / 2, n}) {
			if sum.add(x.withUnnamed(letter, at)) {
				break
			}
		}
		return sum.compared, sum.f, sum.err
	}
}

func (x *trialRun) withUnnamed(letter string, at int) (int64, *finding, error) {
	d := x.l.target.Definition
	n, _ := x.c.Size(letter)
	l := x.loadRows(letter, slices.Insert(indices(n), at, -1))
	for i, a := range l.inputs() {
		if o := &d.Operands[i]; !o.IsIndex || o.Bound != letter {
			continue
		}
		for r := range a.Rows {
			for c := range a.Cols {
				if v := a.Int(r, c); int(v) >= at && int(v) <= n { // n is out of range, and stays so
					a.SetBits64(r, c, uint64(v+1))
				}
			}
		}
	}
	to, of := axesWith(d, l, letter), axesWith(d, x.l, letter)
	what := fmt.Sprintf("with another %s %d that no index names", letter, at)
	return x.again(l, evidence.Relations, what, expectation{at: func(i, r, c int) (uint64, bool) {
		switch o := &d.Operands[i]; {
		case slices.Contains(o.Dims, letter):
			index := to[i].index(r, c)
			if index == at {
				return 0, false
			}
			if index > at {
				index--
			}
			r, c = of[i].place(to[i], index, r, c)
		case slices.Contains(o.Dims, letter+"+1") && r > at: // where elements begin and end
			r--
		}
		return x.base.operands[i].Bits64(r, c), true
	}})
}

// axesWith returns the axes of a letter in the operands that have it.
func axesWith(d *def.Definition, l *loaded, letter string) []axis {
	axes := make([]axis, len(d.Operands))
	for i := range d.Operands {
		if o := &d.Operands[i]; slices.Contains(o.Dims, letter) {
			axes[i] = axisAlong(o, l.array(i), letter)
		}
	}
	return axes
}

// summedByIndex lists the letters of axes whose elements are terms where an index says so.
func summedByIndex(d *def.Definition) []string {
	var letters []string
	for _, s := range d.Sums() {
		if s.ByIndex {
			letters = append(letters, s.Over...)
		}
	}
	return letters
}

// paddedByIndex adds elements whose indices are out of range, with NaN beside them, to an axis that is
// summed by index: before the others, between them and behind. The results must be the same.
func paddedByIndex(letter string) func(*trialRun) (int64, *finding, error) {
	return func(x *trialRun) (int64, *finding, error) {
		if x.c.IsInside {
			return 0, nil, nil // the kernel refuses them
		}
		n, _ := x.c.Size(letter)
		between := []int{-1}
		for i := range n {
			between = append(between, i, -1)
		}
		var sum parts
		_ = sum.add(x.paddedTo(letter, append(indices(n), -1, -1, -1), "behind the others")) ||
			sum.add(x.paddedTo(letter, slices.Insert(indices(n), 0, -1), "before the others")) ||
			sum.add(x.paddedTo(letter, between, "around all others"))
		return sum.compared, sum.f, sum.err
	}
}

func (x *trialRun) paddedTo(letter string, from []int, where string) (int64, *finding, error) {
	what := fmt.Sprintf("with %s whose indices are out of range %s", letter, where)
	return x.again(x.loadRows(letter, from), evidence.Relations, what, x.same())
}

// manyChoices returns sizes for which the rows of a dispatch fill several blocks.
func manyChoices(d *def.Definition) func(length int) []cases.Size {
	return func(length int) (sizes []cases.Size) {
		for _, letter := range d.Sizes() {
			n := 3
			switch letter {
			case d.BatchAxis():
				n = 37 * length
			case d.AxisOf(def.Indexed):
				n = 9
			}
			sizes = append(sizes, cases.Size{Letter: letter, N: n})
		}
		return sizes
	}
}

// inOrder sorts the tokens of a dispatch in other orders, fewer of them, and more: an expert's rows must
// be those of the same tokens, in the order that these have then.
func inOrder(x *trialRun) (int64, *finding, error) {
	n, _ := x.c.Size(x.l.target.Definition.BatchAxis())
	all := indices(n)
	reverse := slices.Clone(all)
	slices.Reverse(reverse)
	rotated := append(slices.Clone(all[n/3:]), all[:n/3]...)
	scattered := slices.Clone(all)
	sort.Slice(scattered, func(a, b int) bool { return scattered[a]*7919%10007 < scattered[b]*7919%10007 })
	others := []int{-1}
	for i := range n {
		others = append(others, i, -1)
	}
	var sum parts
	for _, o := range []struct {
		what string
		from []int
	}{
		{"in reverse order", reverse}, {"rotated", rotated}, {"in another order", scattered},
		{"without the second half", all[:max(n/2, 1)]}, {"without the first half", all[n/2:]},
		{"without all but the last", all[n-1:]},
		{"twice", slices.Concat(all, all)},
		{"with others of one expert behind them", append(slices.Clone(all), slices.Repeat([]int{-1}, n/2+1)...)},
		{"with others of one expert between them", others},
	} {
		if sum.add(x.dispatched(o.from, o.what)) {
			break
		}
	}
	return sum.compared, sum.f, sum.err
}

// dispatched sorts the tokens from, where -1 is a token whose choices are all the middle expert. The
// answer follows from the segments of the case itself.
func (x *trialRun) dispatched(from []int, what string) (int64, *finding, error) {
	d := x.l.target.Definition
	f := d.Sort()
	l := x.loadRows(d.BatchAxis(), from)
	chosen, offsets, place := l.array(f.Index), x.base.operands[f.Offsets], x.base.operands[f.Place]
	experts := offsets.Rows - 1
	for t, token := range from {
		for s := 0; token < 0 && s < chosen.Cols; s++ {
			chosen.SetBits64(t, s, uint64(experts/2))
		}
	}
	segments := make([][]int, experts) // the choices of each expert, in order
	want := map[int][]int64{f.Place: make([]int64, chosen.Rows*chosen.Cols)}
	for t, token := range from {
		for s := range chosen.Cols {
			e := experts / 2
			if token >= 0 {
				row := place.Int(token, s)
				e = sort.Search(experts, func(e int) bool { return offsets.Int(e+1, 0) > row })
				if row < 0 || e == experts {
					want[f.Place][t*chosen.Cols+s] = -1
					continue
				}
			}
			segments[e] = append(segments[e], t*chosen.Cols+s)
		}
	}
	sorted := slices.Concat(segments...)
	want[f.Offsets] = []int64{0}
	for _, list := range segments {
		want[f.Counts] = append(want[f.Counts], int64(len(list)))
		want[f.Offsets] = append(want[f.Offsets], want[f.Offsets][len(want[f.Counts])-1]+int64(len(list)))
	}
	for row, choice := range sorted {
		want[f.Source] = append(want[f.Source], int64(choice/chosen.Cols))
		want[f.Slot] = append(want[f.Slot], int64(choice))
		want[f.Place][choice] = int64(row)
	}
	for range chosen.Rows*chosen.Cols - len(sorted) { // behind the last row
		want[f.Source] = append(want[f.Source], -1)
		want[f.Slot] = append(want[f.Slot], -1)
	}
	return x.again(l, evidence.Relations, "with the tokens "+what, expectation{at: func(i, r, c int) (uint64, bool) {
		a := x.base.operands[i]
		return uint64(uint32(want[i][r*a.Cols+c])), true
	}})
}

// sharded computes the rows from a certain one on alone, as a part of a tensor whose first element has
// its own number: they must have the random words that they have in the whole.
func sharded(x *trialRun) (int64, *finding, error) {
	d := x.l.target.Definition
	low, high, _ := d.FirstElement()
	letter := d.BatchAxis()
	n, _ := x.c.Size(letter)
	columns, _ := x.c.Size(d.AxisOf(def.Column))
	first := uint64(uint32(int32(x.l.params[high])))<<32 | uint64(uint32(int32(x.l.params[low])))
	var sum parts
	for _, from := range slices.Compact([]int{n / 3, n / 2, n - 1}) {
		l := x.loadRows(letter, indices(n)[from:])
		number := first + uint64(from)*uint64(columns)
		l.params = slices.Clone(l.params)
		l.params[low], l.params[high] = float64(int32(number)), float64(int32(number>>32))
		to, of := axesAlong(d, l.inputs(), letter), axesAlong(d, x.base.operands, letter)
		what := fmt.Sprintf("with %s %d and those behind it alone, counted through", letter, from)
		if sum.add(x.again(l, evidence.Relations, what, expectation{at: func(i, r, c int) (uint64, bool) {
			if of[i].use == def.WholeBatch {
				return 0, false
			}
			r, c = of[i].place(to[i], from+to[i].index(r, c), r, c)
			return x.base.operands[i].Bits64(r, c), true
		}})) {
			break
		}
	}
	return sum.compared, sum.f, sum.err
}
