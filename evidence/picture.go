package evidence

import (
	"fmt"
	"math"
	"slices"
)

// Histogram counts outputs by their errors, in ulps of the output's format.
type Histogram struct {
	// Set counts the first outputs of all cases, where their admissible values are known, by
	// their distance from the nearest of them, in values of the format: 0 is an admissible
	// output. Outputs that differ from a waived clause are not counted.
	Set []Bin `json:"set"`

	// SetUndefined counts those with no such distance: a NaN where a number is admissible,
	// another class of value than the admissible one, a zero of the wrong sign, a wrong int32.
	SetUndefined int64 `json:"set_undefined,omitempty"`

	// Truth counts the truth_elements that have an error, by their distance from the truth. Own
	// counts the outputs of the definition's own kernel on the same inputs; it is there if Own
	// of the report is.
	Truth []Bin `json:"truth,omitempty"`
	Own   []Bin `json:"own,omitempty"`
}

// Bin counts the outputs whose error is at most UpTo and more than that of every smaller bin
// that a histogram may have. UpTo is 0 or a power of two from LeastBin to MostBin; LeastBin has
// all smaller errors but 0, and MostBin all larger ones. Empty bins are not listed.
type Bin struct {
	UpTo    float64 `json:"up_to"`
	Outputs int64   `json:"outputs"`
}

// LeastBin and MostBin are the first and the last bin of a histogram, beside 0.
const (
	LeastBin = 0x1p-10
	MostBin  = 0x1p40
)

// MostCells is the largest number of rows and of columns of a Map.
const MostCells = 64

// Map shows which elements of an output are wrong in one case.
type Map struct {
	Case   string `json:"case"`
	Output string `json:"output"`
	Rows   int    `json:"rows"` // of the output, as a matrix
	Cols   int    `json:"cols"`

	// RowAxis and ColAxis are the letters of the definition's axes: R and C. "" is an axis that
	// the output does not have.
	RowAxis string `json:"row_axis,omitempty"`
	ColAxis string `json:"col_axis,omitempty"`

	CellRows int   `json:"cell_rows"` // elements of a cell; the last row and column may have fewer
	CellCols int   `json:"cell_cols"`
	Wrong    int64 `json:"wrong"`             // elements
	IsPart   bool  `json:"is_part,omitempty"` // there are more wrong elements than were kept

	// Cells has one text for each row of cells, and one character for each cell: a period if
	// none of its elements is wrong, else the digit that is 9 times their share, rounded up.
	Cells []string `json:"cells"`
}

// NewMap returns a map of at most MostCells by MostCells cells without wrong elements. Rows
// and cols must be positive.
func NewMap(rows, cols int) *MapBuilder {
	b := &MapBuilder{made: Map{Rows: rows, Cols: cols, CellRows: cellOf(rows), CellCols: cellOf(cols)}}
	b.wrong = make([]int64, cells(rows, b.made.CellRows)*cells(cols, b.made.CellCols))
	return b
}

// MapBuilder counts the wrong elements of a Map.
type MapBuilder struct {
	made  Map
	wrong []int64 // by cell
}

// Add counts a wrong element. Each must be added once.
func (b *MapBuilder) Add(row, col int) {
	b.wrong[row/b.made.CellRows*cells(b.made.Cols, b.made.CellCols)+col/b.made.CellCols]++
	b.made.Wrong++
}

// Map returns the map of the elements so far.
func (b *MapBuilder) Map() *Map {
	m := b.made
	width := cells(m.Cols, m.CellCols)
	for first := 0; first < len(b.wrong); first += width {
		line := make([]byte, width)
		for i, n := range b.wrong[first : first+width] {
			line[i] = '.'
			if n > 0 {
				of := int64(min(m.CellRows, m.Rows-first/width*m.CellRows)) * int64(min(m.CellCols, m.Cols-i*m.CellCols))
				line[i] = byte('0' + (9*n+of-1)/of)
			}
		}
		m.Cells = append(m.Cells, string(line))
	}
	return &m
}

// cellOf returns the least length of cells that divides an axis into at most MostCells.
func cellOf(n int) int { return (n + MostCells - 1) / MostCells }

// cells returns the number of cells of an axis.
func cells(n, cell int) int { return (n + cell - 1) / cell }

// pictures checks the histogram and the maps of the failure.
func (f *faults) pictures(r *Report) {
	if h := r.Histogram; h != nil {
		set := f.bins("histogram.set", h.Set) + h.SetUndefined
		f.unless(set <= r.Coverage.Judged, "histogram.set has %d outputs, more than the %d of coverage.judged", set, r.Coverage.Judged)
		truth := f.bins("histogram.truth", h.Truth)
		f.unless(truth == r.TruthElements-r.ErrorUndefined, "histogram.truth has %d outputs, want %d: truth_elements less error_undefined", truth, r.TruthElements-r.ErrorUndefined)
		own := f.bins("histogram.own", h.Own)
		f.unless(own == 0 || r.Own != nil, "histogram.own has %d outputs, but own is null", own)
		inside := int64(0)
		if len(h.Set) > 0 && h.Set[0].UpTo == 0 {
			inside = h.Set[0].Outputs
		}
		f.unless(set-inside <= r.Mismatches, "histogram.set has %d outputs that are not admissible, more than the %d mismatches", set-inside, r.Mismatches)
	}
	if r.Failure == nil {
		return
	}
	for i, m := range r.Failure.Maps {
		f.picture(fmt.Sprintf("failure.maps[%d]", i), &m)
	}
}

// bins checks a list of bins and returns the number of its outputs.
func (f *faults) bins(field string, list []Bin) (outputs int64) {
	for i, b := range list {
		fraction, _ := math.Frexp(b.UpTo)
		f.unless(b.UpTo == 0 || fraction == 0.5 && LeastBin <= b.UpTo && b.UpTo <= MostBin, "%s[%d].up_to is %v, want 0 or a power of two from 2^-10 to 2^40", field, i, b.UpTo)
		f.unless(i == 0 || list[i-1].UpTo < b.UpTo, "%s[%d].up_to is %v, want more than the %v before it", field, i, b.UpTo, list[max(i-1, 0)].UpTo)
		f.unless(b.Outputs > 0, "%s[%d] is empty", field, i)
		outputs += b.Outputs
	}
	return outputs
}

// picture checks a map.
func (f *faults) picture(field string, m *Map) {
	if m.Rows < 1 || m.Cols < 1 || m.CellRows != cellOf(m.Rows) || m.CellCols != cellOf(m.Cols) {
		f.unless(false, "%s: %d × %d elements in cells of %d × %d, want at most %d × %d cells that are as small as possible", field, m.Rows, m.Cols, m.CellRows, m.CellCols, MostCells, MostCells)
		return
	}
	f.unless(m.Case != "" && m.Output != "", "%s is of output %q in case %q, want both", field, m.Output, m.Case)
	f.unless(m.Wrong >= 1 && m.Wrong <= int64(m.Rows)*int64(m.Cols), "%s: %d of %d × %d elements are wrong", field, m.Wrong, m.Rows, m.Cols)
	f.unless(len(m.Cells) == cells(m.Rows, m.CellRows), "%s has %d rows of cells, want %d", field, len(m.Cells), cells(m.Rows, m.CellRows))
	isWrong := false
	for i, line := range m.Cells {
		f.unless(len(line) == cells(m.Cols, m.CellCols), "%s.cells[%d] has %d cells, want %d", field, i, len(line), cells(m.Cols, m.CellCols))
		f.unless(!slices.ContainsFunc([]byte(line), func(c byte) bool { return c != '.' && (c < '1' || c > '9') }), "%s.cells[%d] is %q, want periods and the digits 1 to 9", field, i, line)
		isWrong = isWrong || slices.ContainsFunc([]byte(line), func(c byte) bool { return c != '.' })
	}
	f.unless(isWrong, "%s.cells has no wrong element", field)
}
