package verify

import (
	"crypto/sha256"
	"fmt"

	"tokitai/def"
	"tokitai/num"
	"tokitai/trial"
	"tokitai/verify/glue"
)

// A tensor that is too large to be judged at once is judged in tiles, each with the inputs that it
// needs. A verdict on the whole requires more than verdicts on the parts; package glue has the
// condition, and Grid.Glue checks it.

// Rect is a part of an output: rows Row to Row+Rows, columns Col to Col+Cols.
type Rect struct {
	Row, Col   int
	Rows, Cols int
}

func (r Rect) elements() int64 { return int64(r.Rows) * int64(r.Cols) }

// Section is the result for a part of an output: the values judged, by block of the grid.
type Section = glue.Section[[2]int]

// Grid divides an output into blocks: the places at which tiles may begin and end, and
// the pieces in which overlapping tiles are compared. Blocks at the lower and right
// edge are smaller.
type Grid struct {
	Rows, Cols           int
	BlockRows, BlockCols int
}

// block returns the part of the output that block i, k covers.
func (g Grid) block(i, k int) Rect {
	r := Rect{Row: i * g.BlockRows, Col: k * g.BlockCols}
	r.Rows, r.Cols = min(g.BlockRows, g.Rows-r.Row), min(g.BlockCols, g.Cols-r.Col)
	return r
}

// Section hashes the blocks of a part of an output. Parts begin and end at blocks. The
// values are those of the part, row by row.
func (g Grid) Section(part Rect, values num.Array, mismatches int64) (Section, error) {
	s := Section{Mismatches: mismatches, Pieces: map[[2]int]glue.Hash{}}
	if part.Row%g.BlockRows != 0 || part.Col%g.BlockCols != 0 ||
		(part.Row+part.Rows)%g.BlockRows != 0 && part.Row+part.Rows != g.Rows ||
		(part.Col+part.Cols)%g.BlockCols != 0 && part.Col+part.Cols != g.Cols ||
		part.Rows < 1 || part.Cols < 1 || part.Row < 0 || part.Col < 0 || part.Row+part.Rows > g.Rows || part.Col+part.Cols > g.Cols {
		return s, fmt.Errorf("tile %v does not begin and end at blocks of %d×%d in %d×%d", part, g.BlockRows, g.BlockCols, g.Rows, g.Cols)
	}
	if values.Rows != part.Rows || values.Cols != part.Cols {
		return s, fmt.Errorf("tile %v has %d×%d values", part, values.Rows, values.Cols)
	}
	for i := part.Row / g.BlockRows; i*g.BlockRows < part.Row+part.Rows; i++ {
		for k := part.Col / g.BlockCols; k*g.BlockCols < part.Col+part.Cols; k++ {
			b := g.block(i, k)
			h := sha256.New()
			trial.HashArray(h, "", window(values, Rect{Row: b.Row - part.Row, Col: b.Col - part.Col, Rows: b.Rows, Cols: b.Cols}), trial.Values)
			s.Pieces[[2]int{i, k}] = glue.Hash(h.Sum(nil))
		}
	}
	return s, nil
}

// Glue puts sections together.
func (g Grid) Glue(sections []Section) glue.Glued { return glue.Join(g.blocks, sections) }

// blocks yields the blocks, each with the number of its elements.
func (g Grid) blocks(yield func([2]int, int64) bool) {
	for i := 0; i*g.BlockRows < g.Rows; i++ {
		for k := 0; k*g.BlockCols < g.Cols; k++ {
			if !yield([2]int{i, k}, g.block(i, k).elements()) {
				return
			}
		}
	}
}

// window returns a part of an array, in the same memory if it can.
func window(a num.Array, r Rect) num.Array {
	if a.Batch.Count > 0 {
		return windowOfStack(a, r)
	}
	a.Data = a.Data[(r.Row*a.Stride+r.Col)*a.DType.Size():]
	a.Rows, a.Cols = r.Rows, r.Cols
	return a
}

// windowOfStack returns some of the matrices along the first axis, or else a copy of rows
// and columns, which is a plain matrix.
func windowOfStack(a num.Array, r Rect) num.Array {
	first := &a.Batch.Axes[0]
	if per := a.Rows / first.Size; r.Row%per == 0 && r.Rows%per == 0 && r.Col == 0 && r.Cols == a.Cols {
		a.Data = a.Data[r.Row/per*first.Stride*a.DType.Size():]
		a.Rows, first.Size = r.Rows, r.Rows/per
		return a
	}
	part := num.NewArray(a.DType, r.Rows, r.Cols)
	for row := range r.Rows {
		copy(part.Row(row), a.Row(r.Row + row)[r.Col*a.DType.Size():])
	}
	return part
}

// tile is a part of a case that can be judged alone.
type tile struct {
	operands []Rect // of each operand
}

// tileElements is the largest number of outputs of a tile, if the definition can be divided:
// enclosures take several times 16 bytes an element. Tests make it small.
var tileElements int64 = 1 << 18

// tilesOf divides a case into parts that can be computed alone: rows of a rowwise
// definition, unless a row depends on others or on its number; rows of a product; rows of
// a gather; columns of a scatter-add.
func tilesOf(d *def.Definition, operands []num.Array, most int64) []tile {
	whole := tile{}
	outputs := int64(0)
	for i, a := range operands {
		whole.operands = append(whole.operands, Rect{Rows: a.Rows, Cols: a.Cols})
		if d.Operands[i].IsOut {
			outputs += int64(a.Rows) * int64(a.Cols)
		}
	}
	letter := d.Divisible()
	if outputs <= most || letter == "" {
		return []tile{whole}
	}
	n := 0
	for i := range d.Operands {
		for k, l := range d.Operands[i].Dims {
			if l == letter {
				if _, n = trial.AxisOf(&d.Operands[i], operands[i], k); isColumn(&d.Operands[i], k) {
					n = operands[i].Cols
				}
			}
		}
	}
	step := max(1, int(int64(n)*most/outputs))
	var tiles []tile
	for from := 0; from < n; from += step {
		t := tile{operands: append([]Rect(nil), whole.operands...)}
		for i := range d.Operands {
			o := &d.Operands[i]
			for k, l := range o.Dims {
				if l == letter {
					if isColumn(o, k) {
						t.operands[i].Col, t.operands[i].Cols = from, min(step, n-from)
					} else {
						per, _ := trial.AxisOf(o, operands[i], k)
						t.operands[i].Row, t.operands[i].Rows = from*per, min(step, n-from)*per
					}
				}
			}
		}
		tiles = append(tiles, t)
	}
	return tiles
}

// isColumn reports whether an operand's k-th size counts columns.
func isColumn(o *def.Operand, k int) bool {
	return k > 0 && k == len(o.Dims)-1 || len(o.Dims) == 1 && o.Extent == def.PerColumn
}
