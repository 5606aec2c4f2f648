package train

import (
	"tokitai/num"
	"tokitai/op/norm"
	"tokitai/tensor"
)

// span is a part of a weight: its elements from lo to hi. lo is a multiple of num.FlatRow, at which sums of
// squares are cut, unless experts are divided among ranks, and the span is the matrices of some.
type span struct{ weight, lo, hi int }

func (s span) len() int { return s.hi - s.lo }

// divide divides weights of these sizes among ranks, in order and about evenly. Each rank has one span of each weight, which
// may be empty.
func divide(sizes []int, ranks int) [][]span {
	total := 0
	for _, n := range sizes {
		total += n
	}
	shares := make([][]span, ranks)
	at := 0 // elements before the row
	for i, n := range sizes {
		for r := range shares {
			shares[r] = append(shares[r], span{weight: i})
		}
		for lo := 0; lo < n; lo += num.FlatRow {
			hi := min(lo+num.FlatRow, n)
			middle := at + (hi-lo)/2
			own := &shares[middle*ranks/total][i]
			if own.hi == 0 {
				own.lo = lo
			}
			own.hi = hi
			at += hi - lo
		}
	}
	return shares
}

// lengthOf returns how many elements spans have together.
func lengthOf(list []span) int {
	n := 0
	for _, s := range list {
		n += s.len()
	}
	return n
}

// cut returns the elements from lo to hi of spans that lie one behind the other.
func cut(list []span, lo, hi int) []span {
	var parts []span
	for _, s := range list {
		if a, b := max(lo, 0), min(hi, s.len()); a < b {
			parts = append(parts, span{s.weight, s.lo + a, s.lo + b})
		}
		lo, hi = lo-s.len(), hi-s.len()
	}
	return parts
}

// of returns the span of x: x itself if that is all of it, nil if it is empty, and else a row.
func (s span) of(x *tensor.Tensor) (*tensor.Tensor, error) {
	switch s.len() {
	case 0:
		return nil, nil
	case x.Len():
		return x, nil
	}
	return flat(x, s.lo, s.hi)
}

// rows returns which flat rows of a weight begin in a span of it.
func (s span) rows() (from, to int) { return norm.Rows(s.lo), norm.Rows(s.hi) }

// rowsOf returns those of the flat rows of a weight that begin in a span of it; nil if there are none.
func (s span) rowsOf(rows *tensor.Tensor) (*tensor.Tensor, error) {
	from, to := s.rows()
	if from == to {
		return nil, nil
	}
	return flat(rows, from, to)
}

// flat returns the elements lo to hi of a contiguous tensor, as a row.
func flat(x *tensor.Tensor, lo, hi int) (*tensor.Tensor, error) {
	return tensor.At(x.Buffer(), x.Offset()+int64(lo)*int64(x.DType().Size()), x.DType(), hi-lo, hi-lo)
}

// copyOut reads the elements lo to hi of a contiguous tensor, and copyIn writes them.
func copyOut(x *tensor.Tensor, lo, hi int, to []byte) error {
	size := int64(x.DType().Size())
	return x.Buffer().CopyOut(x.Offset()+int64(lo)*size, to[:int64(hi-lo)*size])
}

func copyIn(x *tensor.Tensor, lo, hi int, from []byte) error {
	size := int64(x.DType().Size())
	return x.Buffer().CopyIn(x.Offset()+int64(lo)*size, from[:int64(hi-lo)*size])
}
