package verify

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/trial"
)

// The check rows-X runs the first M rows of a case alone, for every M up to 65 and around every
// power of two; every row alone; one row at every place; all rows at other places. Comparing one
// row with many is also comparing decoding with prefilling.

// among is a call on some rows of a case, with its results.
type among struct {
	rows []int // of the case, by their places in the call; -1 is ignored
	out  *outcome
	axes []axis
}

// call runs the kernel on some rows of the case.
func (x *trialRun) call(letter string, rows []int) (*among, error) {
	n, _ := x.c.Size(letter)
	a := &among{rows: rows, out: x.base}
	if !slices.Equal(rows, indices(n)) {
		var err error
		if a.out, err = x.s.bench.run(x.loadRows(letter, rows), x.s.o.deadline(), len(rows)%2); err != nil {
			return nil, err
		}
	}
	a.axes = axesAlong(x.l.target.Definition, a.out.operands, letter)
	return a, nil
}

// differ compares the rows that two calls have in common, each at its first place in b. The
// finding's place is that in the case.
func (x *trialRun) differ(letter string, a, b *among, what string) (int64, *finding) {
	if a.out.breach != nil {
		f := *a.out.breach
		f.Message = what + ": " + f.Message
		return 0, &f
	}
	d := x.l.target.Definition
	rule, own := trial.RuleOf(d), axesAlong(d, x.base.operands, letter)
	at := map[int]int{} // places in b
	for k := len(b.rows) - 1; k >= 0; k-- {
		if b.rows[k] >= 0 { // others are left out
			at[b.rows[k]] = k
		}
	}
	var n int64
	for i := range d.Operands {
		if !x.l.target.isJudged(i) || own[i].use == def.WholeBatch {
			continue
		}
		got, want := a.out.operands[i], b.out.operands[i]
		other := func(r, c int) (row, col int, ok bool) {
			k := a.axes[i].index(r, c)
			to, ok := at[a.rows[k]]
			if !ok || own[i].use == def.OwnPlace && to != k {
				return 0, 0, false
			}
			row, col = b.axes[i].place(a.axes[i], to, r, c)
			return row, col, true
		}
		for r := range got.Rows {
			for c := range got.Cols {
				row, col, ok := other(r, c)
				if !ok {
					continue
				}
				n++
				p, q := got.Bits64(r, c), want.Bits64(row, col)
				if rule.Same(got.DType, p, q) {
					continue
				}
				f := &finding{Tier: evidence.Invariance, Operand: i, Got: p, Want: q, WantTo: q, Message: what}
				f.Row, f.Col = own[i].place(a.axes[i], a.rows[a.axes[i].index(r, c)], r, c)
				if !own[i].isColumn {
					f.show(d, x.base.operands[i], "got", func(c int) uint64 { return got.Bits64(r, c) })
					f.show(d, x.base.operands[i], "want", func(c int) uint64 { return want.Bits64(row, c) })
				}
				return n, f
			}
		}
	}
	return n, nil
}

// steadyRuns is how often a call is repeated before a difference is attributed to the rows.
const steadyRuns = 8

// unsteady returns a finding if a call gives other bits when it is repeated.
func (x *trialRun) unsteady(letter string, rows []int) (*finding, error) {
	first, err := x.call(letter, rows)
	if err != nil {
		return nil, err
	}
	for range steadyRuns {
		again := &among{rows: rows, axes: first.axes}
		if again.out, err = x.s.bench.run(x.loadRows(letter, rows), x.s.o.deadline(), 0); err != nil {
			return nil, err
		}
		what := fmt.Sprintf("when the same call, with %s, is repeated: this is not about rows", x.amount(letter, rows))
		if _, f := x.differ(letter, again, first, what); f != nil {
			return f, nil
		}
	}
	return nil, nil
}

func (x *trialRun) amount(letter string, rows []int) string {
	return fmt.Sprintf("%s = %d", letter, len(rows))
}

// sweep lists numbers of rows up to n: all up to 65, at level smoke up to 9, and those around
// powers of two.
func sweep(n int, level Level) []int {
	dense := 65
	if level == Smoke {
		dense = 9
	}
	var list []int
	for m := 1; m <= n; m++ {
		power := 1
		for power*2 <= m+1 {
			power *= 2
		}
		if m <= dense || m == n || m-power <= 1 && power-m <= 1 {
			list = append(list, m)
		}
	}
	return list
}

// rowsAlone compares rows alone, among others, and at other places.
func rowsAlone(letter string) func(*trialRun) (int64, *finding, error) {
	return func(x *trialRun) (int64, *finding, error) {
		if n, _ := x.c.Size(letter); n < 2 {
			return 0, nil, nil
		}
		var sum parts
		if sum.add(x.swept(letter)) || sum.add(x.eachAlone(letter)) {
			return sum.compared, sum.f, sum.err
		}
		if letter != x.l.target.Definition.Groups().Of { // whose rows belong to their places
			sum.add(x.movedRows(letter))
		}
		return sum.compared, sum.f, sum.err
	}
}

// swept runs the first M rows for every M of the sweep. Values of M that give the same bits are of
// one kind; there must be only one kind.
func (x *trialRun) swept(letter string) (compared int64, f *finding, err error) {
	n, _ := x.c.Size(letter)
	type kind struct {
		sizes []int
		last  *among
	}
	var kinds []*kind
	var first *among // with other bits than the kind of the smallest M
	for _, m := range sweep(n, x.s.o.Level) {
		a, err := x.call(letter, indices(m))
		if _, isUnsuited := errors.AsType[*engine.UnsuitedError](err); isUnsuited {
			continue // the lowering does not take this number of rows
		}
		if err != nil {
			return compared, nil, err
		}
		if b := a.out.breach; b != nil {
			_, f := x.differ(letter, a, a, fmt.Sprintf("with %s = %d", letter, m))
			return compared, f, nil
		}
		var own *kind
		for _, k := range kinds {
			count, difference := x.differ(letter, a, k.last, "")
			if compared += count; difference == nil {
				own = k
				break
			}
		}
		if own == nil {
			if len(kinds) == 1 {
				for _, rows := range [][]int{a.rows, kinds[0].last.rows} {
					if f, err := x.unsteady(letter, rows); f != nil || err != nil {
						return compared, f, err
					}
				}
				first = a
			}
			own = &kind{}
			kinds = append(kinds, own)
		}
		own.sizes, own.last = append(own.sizes, m), a
	}
	if first == nil {
		return compared, nil, nil
	}
	_, f = x.differ(letter, first, kinds[0].last, "")
	f, err = x.againstAlone(letter, f, first, kinds[0].last)
	if err != nil {
		return compared, nil, err
	}
	var lists [][]int
	for _, k := range kinds {
		lists = append(lists, k.sizes)
	}
	f.When = kindsText(letter, lists, sweep(n, x.s.o.Level))
	return compared, f, nil
}

// againstAlone returns the smallest pair of calls that shows a difference: the row alone and one of
// the given calls, if these differ.
func (x *trialRun) againstAlone(letter string, f *finding, calls ...*among) (*finding, error) {
	i := f.Operand
	row := axesAlong(x.l.target.Definition, x.base.operands, letter)[i].index(f.Row, f.Col)
	what := func(m, other int) string {
		return fmt.Sprintf("between %s = %d and %s = %d, with the same row", letter, m, letter, other)
	}
	if alone, err := x.call(letter, []int{row}); err == nil {
		slices.SortFunc(calls, func(a, b *among) int { return len(a.rows) - len(b.rows) })
		for _, a := range calls {
			if _, found := x.differ(letter, a, alone, what(len(a.rows), 1)); found != nil {
				return found, nil
			}
		}
	} else if _, isUnsuited := errors.AsType[*engine.UnsuitedError](err); !isUnsuited {
		return nil, err
	}
	last := calls[len(calls)-1]
	f.Message = what(len(last.rows), len(calls[0].rows))
	return f, nil
}

// kindsText says which numbers of rows give the same bits.
func kindsText(letter string, kinds [][]int, swept []int) string {
	a, b := kinds[0], kinds[1]
	switch {
	case len(kinds) == 2 && len(a) == 1 && a[0] == 1:
		return fmt.Sprintf("%s = 1 differs from %s = %s, which agree: a row alone, as in decoding, against rows together, as in prefilling", letter, letter, ranges(b, swept))
	case len(kinds) == 2 && a[len(a)-1] < b[0]:
		return fmt.Sprintf("rows differ from %s = %d on: the same bits for %s = %s, and for %s = %s", letter, b[0], letter, ranges(a, swept), letter, ranges(b, swept))
	}
	return fmt.Sprintf("rows have %d kinds of bits: for %s", len(kinds), kindsList(letter+" = ", kinds, swept, "; for "))
}

// kindsList lists kinds of numbers, the first few of them.
func kindsList(before string, kinds [][]int, all []int, between string) string {
	const most = 5
	var parts []string
	for _, list := range kinds[:min(len(kinds), most)] {
		parts = append(parts, before+ranges(list, all))
	}
	if len(kinds) > most {
		parts = append(parts, "…")
	}
	return strings.Join(parts, between)
}

// ranges returns the first few numbers as text, with runs of neighbours in all written as 4 to 15.
func ranges(list, all []int) string {
	const most = 6
	var parts []string
	for i := 0; i < len(list); {
		k := i
		for k+1 < len(list) && slices.Index(all, list[k+1]) == slices.Index(all, list[k])+1 {
			k++
		}
		if parts = append(parts, fmt.Sprint(list[i])); k > i {
			parts[len(parts)-1] += fmt.Sprintf(" to %d", list[k])
		}
		i = k + 1
	}
	if len(parts) > most {
		parts = append(parts[:most], "…")
	}
	return strings.Join(parts, ", ")
}

// eachAlone runs rows alone: all of up to 65, otherwise those at the edges of tiles and some
// that are drawn.
func (x *trialRun) eachAlone(letter string) (compared int64, f *finding, err error) {
	n, _ := x.c.Size(letter)
	rows := indices(n)
	if n > 65 || x.s.o.Level == Smoke {
		rows = rowsAtEdges(n)
		drawn := gen.Seeded(x.l.around.key)
		for range 16 {
			rows = append(rows, drawn.Below(n))
		}
	}
	whole, err := x.call(letter, indices(n))
	if err != nil {
		return 0, nil, err
	}
	for _, row := range rows {
		alone, err := x.call(letter, []int{row})
		if _, isUnsuited := errors.AsType[*engine.UnsuitedError](err); isUnsuited {
			return compared, nil, nil
		}
		if err != nil {
			return compared, nil, err
		}
		m, f := x.differ(letter, alone, whole, fmt.Sprintf("between %s = %d and %s = 1, with the same row", letter, n, letter))
		if compared += m; f == nil {
			continue
		}
		f.Got, f.Want, f.WantTo = f.Want, f.Got, f.Got // among others, and alone
		if again, err := x.unsteady(letter, []int{row}); again != nil || err != nil {
			return compared, again, err
		}
		f.When, err = x.byPlace(letter, row)
		return compared, f, err
	}
	return compared, nil, nil
}

// byPlace says at which places among the rows of the case a row has the same bits. It returns "" if
// the place does not matter.
func (x *trialRun) byPlace(letter string, row int) (string, error) {
	n, _ := x.c.Size(letter)
	if letter == x.l.target.Definition.Groups().Of {
		return "", nil
	}
	everywhere, err := x.call(letter, slices.Repeat([]int{row}, n))
	if err != nil {
		return "", err
	}
	at := func(place int) *among { // nothing but the row at that place
		rows := slices.Repeat([]int{-1}, n)
		rows[place] = row
		return &among{rows: rows, out: everywhere.out, axes: everywhere.axes}
	}
	var kinds [][]int
	for place := range n {
		i := slices.IndexFunc(kinds, func(k []int) bool {
			_, f := x.differ(letter, at(place), at(k[0]), "")
			return f == nil
		})
		if i < 0 {
			i, kinds = len(kinds), append(kinds, nil)
		}
		kinds[i] = append(kinds[i], place)
	}
	if len(kinds) < 2 {
		return "", nil
	}
	return fmt.Sprintf("the row has %d kinds of bits by its place among %s = %d rows: at %s", len(kinds), letter, n, kindsList("", kinds, indices(n), "; at ")), nil
}

// movedRows has one row at every place, and all rows at other places.
func (x *trialRun) movedRows(letter string) (compared int64, f *finding, err error) {
	n, _ := x.c.Size(letter)
	whole, err := x.call(letter, indices(n))
	if err != nil {
		return 0, nil, err
	}
	drawn := gen.Seeded(x.l.around.key ^ 1)
	type order struct {
		what string
		row  func(place int) int
	}
	var orders []order
	for _, row := range []int{0, n - 1, drawn.Below(n)} {
		orders = append(orders, order{"when every row of the batch is this one", func(int) int { return row }})
	}
	orders = append(orders, order{"when the rows of the batch are in reverse order", func(k int) int { return n - 1 - k }})
	for _, shift := range []int{1, n / 2, drawn.Below(n)} {
		orders = append(orders, order{fmt.Sprintf("when the rows of the batch are rotated by %d", shift), func(k int) int { return (k + shift) % n }})
	}
	for _, o := range orders {
		rows := make([]int, n)
		for k := range rows {
			rows[k] = o.row(k)
		}
		a, err := x.call(letter, rows)
		if err != nil {
			return compared, nil, err
		}
		m, f := x.differ(letter, a, whole, o.what)
		if compared += m; f == nil {
			continue
		}
		if again, err := x.unsteady(letter, rows); again != nil || err != nil {
			return compared, again, err
		}
		return compared, f, nil
	}
	return compared, nil, nil
}

// shifted moves elements along an axis of rows: an element has the same bits at any place.
func shifted(letter string) func(*trialRun) (int64, *finding, error) {
	return func(x *trialRun) (int64, *finding, error) {
		n, _ := x.c.Size(letter)
		d := x.l.target.Definition
		var sum parts
		for _, shift := range []int{1, 2, 3, 5, 8, 13, 16, 31, n / 2, n - 1} {
			if shift >= n {
				continue
			}
			l := x.l.target.newLoaded(x.c, x.l.seed)
			for i, a := range l.inputs() {
				from := x.l.array(i)
				trial.FillBits(a, func(r, c int) uint64 { return from.Bits64(rotated(from, &d.Operands[i], letter, shift, r, c)) })
			}
			what := fmt.Sprintf("at another place: all elements along %s moved by %d", letter, shift)
			// The finding's place is that of the element before it moved.
			out, err := x.s.bench.run(l, x.s.o.deadline(), 0)
			if err != nil {
				return sum.compared, nil, err
			}
			m, f, err := compare(l, out, evidence.Invariance, what, expectation{at: func(i, r, c int) (uint64, bool) {
				return x.base.operands[i].Bits64(rotated(x.base.operands[i], &d.Operands[i], letter, shift, r, c)), true
			}})
			if f != nil && f.Row >= 0 {
				f.Row, f.Col = rotated(x.base.operands[f.Operand], &d.Operands[f.Operand], letter, shift, f.Row, f.Col)
				f.Near, f.IsDerived = nil, false
			}
			if sum.add(m, f, err) {
				break
			}
		}
		return sum.compared, sum.f, sum.err
	}
}

// rotated returns the place from which an element comes that was moved along a letter.
func rotated(a num.Array, o *def.Operand, letter string, shift, r, c int) (int, int) {
	for k, l := range o.Dims {
		switch {
		case l != letter:
		case isColumn(o, k):
			c = (c + shift) % a.Cols
		default:
			per, n := trial.AxisOf(o, a, k)
			at := r / per % n
			r += ((at+shift)%n - at) * per
		}
	}
	return r, c
}
