package verify

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/num"
	"tokitai/trial"
)

// A tensor too large to be judged at once is judged in tiles, each with the inputs that it
// needs. A verdict on the whole needs more than verdicts on parts: the parts must cover
// everything, and where they overlap they must have seen the same values. That is the
// gluing condition of a sheaf; Glue checks it.

// Rect is a part of an output: rows Row to Row+Rows, columns Col to Col+Cols.
type Rect struct {
	Row, Col   int
	Rows, Cols int
}

func (r Rect) elements() int64 { return int64(r.Rows) * int64(r.Cols) }

// Section is the result for a part of an output. It can be computed without the rest.
type Section struct {
	Part       Rect
	Mismatches int64
	Blocks     map[[2]int][sha256.Size]byte // of the values judged, by block of the grid; only blocks that lie in Part entirely
}

// Glued is the result of several sections together.
type Glued struct {
	Elements   int64 // of the whole
	Covered    int64
	Mismatches int64
	Conflicts  int // blocks of which two sections saw different values
}

// IsWhole reports whether the sections determine a verdict on the whole.
func (g Glued) IsWhole() bool { return g.Covered == g.Elements && g.Conflicts == 0 }

// Reason returns why they do not, or "".
func (g Glued) Reason() string {
	switch {
	case g.Conflicts > 0:
		return fmt.Sprintf("tiles that overlap saw different values in %d blocks", g.Conflicts)
	case g.Covered < g.Elements:
		return fmt.Sprintf("the tiles cover %d of %d elements", g.Covered, g.Elements)
	}
	return ""
}

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
	s := Section{Part: part, Mismatches: mismatches, Blocks: map[[2]int][sha256.Size]byte{}}
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
			s.Blocks[[2]int{i, k}] = [sha256.Size]byte(h.Sum(nil))
		}
	}
	return s, nil
}

// Glue puts sections together. A mismatch counts in every section that saw it.
func (g Grid) Glue(sections []Section) Glued {
	whole := Glued{Elements: int64(g.Rows) * int64(g.Cols)}
	seen := map[[2]int][sha256.Size]byte{}
	for _, s := range sections {
		whole.Mismatches += s.Mismatches
		for at, hash := range s.Blocks {
			known, isSeen := seen[at]
			switch {
			case !isSeen:
				seen[at] = hash
				whole.Covered += g.block(at[0], at[1]).elements()
			case known != hash:
				whole.Conflicts++
			}
		}
	}
	return whole
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
// and columns, which are no stack.
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

// tileElements is how many outputs a tile has at most, where the definition can be
// divided: enclosures take 16 bytes an element, several times over. Tests make it small.
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
	letter := divisible(d)
	if outputs <= most || letter == "" {
		return []tile{whole}
	}
	n := 0
	for i := range d.Operands {
		for k, l := range d.Operands[i].Dims {
			if l == letter {
				if _, n = axisOf(&d.Operands[i], operands[i], k); isColumn(&d.Operands[i], k) {
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
						per, _ := axisOf(o, operands[i], k)
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

// divisible returns the letter along which a definition can be divided, or "".
func divisible(d *def.Definition) string {
	switch d.Kind {
	case def.KindContraction:
		letter := d.Operands[2].Dims[0]
		for i := range d.Operands { // of a stack, the outermost axis of all that have it
			if d.HasAxes() && slices.Index(d.Operands[i].Dims, letter) > 0 || d.Offsets != "" {
				return ""
			}
		}
		return letter
	case def.KindGather:
		return d.Operands[0].Dims[0]
	case def.KindScatterAdd:
		return d.Operands[2].Dims[1]
	}
	for _, n := range d.Exec.Nodes {
		switch n.Op {
		case def.OpColSum, def.OpTotalSum, def.OpRandom, def.OpRows:
			return ""
		}
	}
	return "R"
}
