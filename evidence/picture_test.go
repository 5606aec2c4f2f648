package evidence

import (
	"slices"
	"strings"
	"testing"
)

func TestMapCells(t *testing.T) {
	b := NewMap(130, 3) // cells of 3 by 1, the last row of cells with one row
	b.Add(0, 0)
	b.Add(3, 1)
	b.Add(4, 1)
	for row := range 3 {
		b.Add(6+row, 2)
	}
	b.Add(129, 2)
	m := b.Map()
	if m.CellRows != 3 || m.CellCols != 1 || len(m.Cells) != 44 || m.Wrong != 7 {
		t.Fatalf("got cells of %d × %d, %d rows of them, %d wrong", m.CellRows, m.CellCols, len(m.Cells), m.Wrong)
	}
	if got, want := append(m.Cells[:4:4], m.Cells[43]), []string{"3..", ".6.", "..9", "...", "..9"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestMapSizes: a map has at most MostCells rows and columns, whatever the output's size.
func TestMapSizes(t *testing.T) {
	for n := 1; n < 400; n++ {
		b := NewMap(n, 401-n)
		b.Add(n-1, 400-n)
		m := b.Map()
		if len(m.Cells) > MostCells || len(m.Cells[0]) > MostCells {
			t.Errorf("%d × %d elements: %d × %d cells", m.Rows, m.Cols, len(m.Cells), len(m.Cells[0]))
		}
		if last := m.Cells[len(m.Cells)-1]; last[len(last)-1] == '.' {
			t.Errorf("%d × %d elements: the last one is in no cell", m.Rows, m.Cols)
		}
	}
}

// TestDamagedPictures: a histogram or a map that contradicts its report, or itself, is found.
func TestDamagedPictures(t *testing.T) {
	for _, x := range []struct {
		sample, want string
		damage       func(r *Report)
	}{
		{"rejected", "more than the 32 of coverage.judged", func(r *Report) { r.Histogram.Set[0].Outputs++ }},
		{"rejected", "more than the 2 mismatches", func(r *Report) { r.Histogram.Set[0].Outputs--; r.Histogram.SetUndefined++ }},
		{"bounded", "want 28: truth_elements less error_undefined", func(r *Report) { r.Histogram.Truth[0].Outputs-- }},
		{"bounded", "but own is null", func(r *Report) { r.Histogram.Own = []Bin{{1, 1}} }},
		{"bounded", "want 0 or a power of two", func(r *Report) { r.Histogram.Truth[1].UpTo = 0.1 }},
		{"bounded", "want 0 or a power of two", func(r *Report) { r.Histogram.Truth[3].UpTo = 2 * MostBin }},
		{"bounded", "want more than the", func(r *Report) { slices.Reverse(r.Histogram.Truth) }},
		{"bounded", "is empty", func(r *Report) { r.Histogram.Truth = append(r.Histogram.Truth, Bin{UpTo: 8}) }},
		{"rejected", "as small as possible", func(r *Report) { r.Failure.Maps[0].CellRows = 2 }},
		{"rejected", "want both", func(r *Report) { r.Failure.Maps[0].Output = "" }},
		{"rejected", "0 of 2 × 8 elements", func(r *Report) { r.Failure.Maps[0].Wrong = 0 }},
		{"rejected", "1 rows of cells, want 2", func(r *Report) { r.Failure.Maps[0].Cells = r.Failure.Maps[0].Cells[:1] }},
		{"rejected", "7 cells, want 8", func(r *Report) { r.Failure.Maps[0].Cells[1] = "......9" }},
		{"rejected", "want periods and the digits", func(r *Report) { r.Failure.Maps[0].Cells[1] = ".......0" }},
		{"rejected", "has no wrong element", func(r *Report) { r.Failure.Maps[0].Cells = []string{"........", "........"} }},
	} {
		r := samples()[x.sample]
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		x.damage(r)
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("got %v, want an error with %q", err, x.want)
		}
	}
}
