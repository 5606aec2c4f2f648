package lower

import (
	"tokitai/def"
	"tokitai/num"
)

// Scales multiplies the sums of a contraction by its scales. The zero Scales leaves them
// as they are.
type Scales struct{ row, col num.Array }

// Set takes the scales of a call. It allocates nothing.
func (s *Scales) Set(d *def.Definition, c *Call) {
	*s = Scales{}
	if i := d.Operand(d.Scales().Row); i >= 0 {
		s.row = c.Operands[i].Array
	}
	if i := d.Operand(d.Scales().Col); i >= 0 {
		s.col = c.Operands[i].Array
	}
}

// Multiply multiplies neighbours in a row of the result, the first of which lies at row and
// col: by the scale of the row, then each by that of its column.
func (s *Scales) Multiply(sums []float32, row, col int) {
	if s.row.DType != num.NoDType {
		scale := s.row.At(row, 0)
		for c := range sums {
			sums[c] *= scale
		}
	}
	if s.col.DType != num.NoDType {
		for c := range sums {
			sums[c] *= s.col.At(col+c, 0)
		}
	}
}
