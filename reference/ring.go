package reference

import (
	"tokitai/num"
	"tokitai/num/zpk"
)

// exactProduct computes a matrix product in a ring, one element after the other.
func (x *axes) exactProduct(o *Options) error {
	ring, err := zpk.NewWord(x.f.Ring.P, x.f.Ring.K)
	if err != nil {
		return err
	}
	result, terms := &x.operands[x.f.Result], x.sizes[x.d.SummedOver()]
	rows := elements(ring, &x.operands[x.f.Left], result.Rows, terms, x.f.TransposeLeft)
	columns := elements(ring, &x.operands[x.f.Right], result.Cols, terms, !x.f.TransposeRight)
	for i, v := range rows {
		rows[i] = ring.Prepare(v)
	}
	sums := make([]float32, result.Cols)
	for r := range result.Rows {
		if err := o.err(); err != nil {
			return err
		}
		row := rows[r*terms:][:terms]
		for c := range result.Cols {
			sum := uint64(0)
			for k, b := range columns[c*terms:][:terms] {
				sum = ring.Add(sum, ring.MulPrepared(row[k], b))
			}
			if !result.DType.IsFloat() {
				result.SetBits64(r, c, sum)
			}
			sums[c] = float32(int32(sum))
		}
		if result.DType.IsFloat() {
			x.scale(r, sums)
			result.SetFloats(r, sums)
		}
	}
	return nil
}

// elements returns the elements of a ring that the integers of a matrix stand for, row by row.
// It has the given size once it is transposed, if it is.
func elements(ring *zpk.Word, a *num.Array, rows, cols int, isTransposed bool) []uint64 {
	list := make([]uint64, 0, rows*cols)
	for r := range rows {
		for c := range cols {
			i, k := r, c
			if isTransposed {
				i, k = c, r
			}
			list = append(list, ring.Int(a.Integer(i, k)))
		}
	}
	return list
}
