package verify

import (
	"fmt"
	"math"
	"slices"

	"tokitai/def"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/trial"
)

// The check batch-X verifies that a row has the same bits alone and in a batch, whatever the other
// rows hold and however many there are ([def.BatchClauses]). A case names the number of rows, so
// that the list of cases crosses the edges of tiles. The rows are those of the batch axis; in a
// product with batch axes, matrices count as rows too.

// batchUse returns what an index of a letter depends on in an output.
func batchUse(d *def.Definition, letter string, operand int) def.BatchUse {
	if letter != d.BatchAxis() { // a batch axis of a product
		return def.OwnRow
	}
	use, _ := d.BatchUse(operand)
	return use
}

// batched replaces rows by other rows, NaN and infinities, and leaves rows out. The remaining rows
// must keep their bits.
func batched(letter string) func(*trialRun) (int64, *finding, error) {
	return func(x *trialRun) (int64, *finding, error) {
		n, _ := x.c.Size(letter)
		if n < 2 {
			return 0, nil, nil
		}
		compared, f, err := x.inCompany(letter, evidence.Relations)
		if f != nil || err != nil {
			return compared, f, err
		}
		for _, rows := range [][]int{rowsAtEdges(n), indices(n / 2), {0}, {n / 2}, {n - 1}} {
			m, f, err := x.without(letter, rows)
			if compared += m; f != nil || err != nil {
				return compared, f, err
			}
		}
		return compared, nil, nil
	}
}

// inCompany replaces rows by other rows, NaN and infinities. The remaining rows must keep their
// bits.
func (x *trialRun) inCompany(letter string, tier evidence.TierName) (compared int64, f *finding, err error) {
	n, _ := x.c.Size(letter)
	others := x.l.other(1)
	edges := rowsAtEdges(n)
	isOdd := func(i int) bool { return i%2 == 1 }
	for _, company := range []struct {
		what  string
		stays func(i int) bool
		value func(r, c int) float32
	}{
		{"with NaN in every other " + letter, isOdd, func(_, _ int) float32 { return float32(math.NaN()) }},
		{"with infinities in every other " + letter, func(i int) bool { return !isOdd(i) }, func(r, c int) float32 {
			return float32(math.Inf(1 - (r+c)%2*2))
		}},
		{fmt.Sprintf("with other values in all %s but %v", letter, edges), func(i int) bool { return slices.Contains(edges, i) }, nil},
	} {
		m, f, err := x.amongOthers(letter, tier, others, company.what, company.stays, company.value)
		if compared += m; f != nil || err != nil {
			return compared, f, err
		}
	}
	return compared, nil, nil
}

// rowsAtEdges returns the first and the last of n rows, and those at the edges of usual tiles.
func rowsAtEdges(n int) []int {
	rows := []int{0, n - 1}
	for edge := 8; edge < n; edge *= 2 {
		rows = append(rows, edge-1, edge)
	}
	slices.Sort(rows)
	return slices.Compact(rows)
}

// amongOthers runs the case with the values of other rows replaced: integers by those of
// another case, other values by value, which repeats after two rows, or by those of the other
// case if it is nil.
func (x *trialRun) amongOthers(letter string, tier evidence.TierName, others *loaded, what string, stays func(i int) bool, value func(r, c int) float32) (int64, *finding, error) {
	d := x.l.target.Definition
	l := x.l.as(x.c)
	for i := range d.Operands {
		o, a := &d.Operands[i], l.array(i)
		if !o.IsIn || !slices.Contains(o.Dims, letter) {
			continue
		}
		other := others.array(i)
		if value != nil && !o.IsInt() {
			other = num.NewArray(a.DType, min(a.Rows, 2), a.Cols)
			trial.Fill(other, value)
		}
		axis := axisAlong(o, a, letter)
		for r := range a.Rows {
			from := r % other.Rows
			switch {
			case axis.isColumn:
				for c := range a.Cols {
					if !stays(c) {
						a.SetBits64(r, c, other.Bits64(from, c))
					}
				}
			case !stays(axis.index(r, 0)):
				copy(a.Row(r), other.Row(from))
			}
		}
	}
	axes := axesAlong(d, x.base.operands, letter)
	isExpected := func(i, r, c int) bool { return axes[i].use != def.WholeBatch && stays(axes[i].index(r, c)) }
	same := x.same()
	return x.again(l, tier, what, expectation{
		at: func(i, r, c int) (uint64, bool) {
			if !isExpected(i, r, c) {
				return 0, false
			}
			return same.at(i, r, c)
		},
		row: func(i, r int) ([]byte, bool) {
			if axes[i].isColumn {
				return nil, false
			}
			if !isExpected(i, r, 0) {
				return nil, true
			}
			return same.row(i, r)
		},
	})
}

// without runs the case with the given rows alone.
func (x *trialRun) without(letter string, rows []int) (int64, *finding, error) {
	d := x.l.target.Definition
	isMoved := false
	for i, row := range rows {
		isMoved = isMoved || i != row
	}
	l := x.loadRows(letter, rows)
	what := fmt.Sprintf("with %s %v alone", letter, rows)
	if len(rows) > 1 && rows[len(rows)-1] == len(rows)-1 {
		what = fmt.Sprintf("with the first %d %s alone", len(rows), letter)
	}
	to, of := axesAlong(d, l.inputs(), letter), axesAlong(d, x.base.operands, letter)
	isExpected := func(i int) bool { return of[i].use != def.WholeBatch && (of[i].use != def.OwnPlace || !isMoved) }
	place := func(i, r, c int) (row, col int) { return of[i].place(to[i], rows[to[i].index(r, c)], r, c) }
	return x.again(l, evidence.Relations, what, expectation{
		at: func(i, r, c int) (uint64, bool) {
			if !isExpected(i) {
				return 0, false
			}
			return x.base.operands[i].Bits64(place(i, r, c)), true
		},
		row: func(i, r int) ([]byte, bool) {
			if !isExpected(i) {
				return nil, true
			}
			if of[i].isColumn {
				return nil, false
			}
			row, _ := place(i, r, 0)
			return x.base.operands[i].Row(row), true
		},
	})
}

// loadRows returns the case with the given rows alone. Where rows are grouped, they must be in
// their order. All bits of a row -1 are ones: it holds NaN, and indices out of range.
func (x *trialRun) loadRows(letter string, rows []int) *loaded {
	t := x.l.target
	d := t.Definition
	c := x.c.Clone()
	for i := range c.Sizes {
		if c.Sizes[i].Letter == letter {
			c.Sizes[i].N = len(rows)
		}
	}
	l := t.newLoaded(c, x.l.seed)
	for i, a := range l.inputs() {
		o, from := &d.Operands[i], x.l.array(i)
		switch {
		case !o.IsIn:
		case o.IsOffsets && letter == d.Groups().Of:
			keepGroups(a, from, rows)
		case !slices.Contains(o.Dims, letter):
			trial.Copy(a, from)
		default:
			to, of := axisAlong(o, a, letter), axisAlong(o, from, letter)
			if to.isColumn {
				trial.FillBits(a, func(r, c int) uint64 {
					if rows[c] < 0 {
						return math.MaxUint64
					}
					return from.Bits64(of.place(to, rows[c], r, c))
				})
				continue
			}
			for r := range a.Rows {
				if row := rows[to.index(r, 0)]; row < 0 {
					fillOnes(a.Row(r))
				} else {
					row, _ = of.place(to, row, r, 0)
					copy(a.Row(r), from.Row(row))
				}
			}
		}
	}
	return l
}

// keepGroups fills the offsets of the rows that stay.
func keepGroups(to, from num.Array, rows []int) {
	for g := range to.Rows {
		n := 0
		for _, row := range rows {
			if row < int(from.Int(g, 0)) {
				n++
			}
		}
		to.SetBits64(g, 0, uint64(n))
	}
}

// axis says how a letter's index follows from the row or column of an array: it is row/per mod n,
// or the column.
type axis struct {
	isColumn bool
	per, n   int
	use      def.BatchUse // of an output
}

// axesAlong returns the axes of a letter in the outputs.
func axesAlong(d *def.Definition, operands []num.Array, letter string) []axis {
	axes := make([]axis, len(operands))
	for i, a := range operands {
		o := &d.Operands[i]
		use := batchUse(d, letter, i)
		if o.IsOut && use != def.WholeBatch {
			axes[i] = axisAlong(o, a, letter)
		}
		axes[i].use = use
	}
	return axes
}

func axisAlong(o *def.Operand, a num.Array, letter string) axis {
	k := slices.Index(o.Dims, letter)
	if isColumn(o, k) {
		return axis{isColumn: true}
	}
	per, n := trial.AxisOf(o, a, k)
	return axis{per: per, n: n}
}

func (x axis) index(r, c int) int {
	if x.isColumn {
		return c
	}
	return r / x.per % x.n
}

// place returns the place with the given index that has the other indices of a place in
// an array with another length of the axis.
func (x axis) place(other axis, index, r, c int) (row, col int) {
	if x.isColumn {
		return r, index
	}
	return r/(other.per*other.n)*(x.per*x.n) + index*x.per + r%other.per, c
}

// fillOnes sets all bits of a row.
func fillOnes(row []byte) {
	for i := range row {
		row[i] = math.MaxUint8
	}
}
