package reference

import (
	"tokitai/num"
	"tokitai/num/zpk"
)

// exactProduct computes a matrix product in a ring, one element after the other.
func (x *axes) exactProduct(o *Options) error {
	ring, err := zpk.NewWord(x.d.Ring.P, x.d.Ring.K)
	if err != nil {
		return err
	}
	left, right, result := &x.operands[0], &x.operands[1], &x.operands[2]
	sums := make([]float32, result.Cols)
	for r := range result.Rows {
		if err := o.err(); err != nil {
			return err
		}
		for c := range result.Cols {
			sum := uint64(0)
			for k := range x.sizes[x.d.SummedOver()] {
				a, b := ring.Int(integerAt(left, x.d.TransposeLeft, r, k)), ring.Int(integerAt(right, x.d.TransposeRight, k, c))
				sum = ring.Add(sum, ring.Mul(a, b))
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

// integerAt returns an integer of a matrix or, if it is transposed, of the matrix that it stands for.
func integerAt(a *num.Array, isTransposed bool, r, c int) int64 {
	if isTransposed {
		r, c = c, r
	}
	return a.Integer(r, c)
}
