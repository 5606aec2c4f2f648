package norm

import (
	"errors"
	"fmt"

	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// Rows returns how many flat rows a tensor of n elements has.
func Rows(n int) int { return (n + num.FlatRow - 1) / num.FlatRow }

// RowSums writes the square sum of each flat row of x, a contiguous tensor or a part of one that begins at a multiple of
// num.FlatRow, to sums, which has one f32 for each. Whoever has all sums of a model continues with [ClipRows].
func RowSums(q *engine.Queue, sums, x *tensor.Tensor, opts ...engine.CallOption) error {
	const op = "norm.RowSums"
	n := x.Len()
	if !x.IsContiguous() {
		return &device.ArgumentError{Op: op, Operand: "x", Got: "has strided rows", Want: "a contiguous tensor"}
	}
	if sums.Len() != Rows(n) {
		return &device.ArgumentError{Op: op, Operand: "sums", Got: fmt.Sprintf("has %d elements", sums.Len()), Want: fmt.Sprintf("%d, one for each flat row of x", Rows(n))}
	}
	var calls []engine.CallSpec
	for row := range Rows(n) {
		lo, hi := row*num.FlatRow, min((row+1)*num.FlatRow, n)
		part, err := flat(x, lo, hi)
		if err != nil {
			return err
		}
		sum, err := flat(sums, row, row+1)
		if err != nil {
			return err
		}
		calls = append(calls, engine.CallSpec{Definition: SquareSumDefinition, Tensors: []*tensor.Tensor{part, sum}})
	}
	if err := engine.CallAll(q, calls, opts...); err != nil {
		if failed, ok := errors.AsType[*engine.CallsError](err); ok {
			return failed.Cause
		}
		return err
	}
	return nil
}

// flat returns the elements lo to hi of a contiguous tensor, as a row.
func flat(x *tensor.Tensor, lo, hi int) (*tensor.Tensor, error) {
	return tensor.At(x.Buffer(), x.Offset()+int64(lo)*int64(x.DType().Size()), x.DType(), hi-lo, hi-lo)
}

// ClipRows is [Clip] of tensors whose flat rows have the square sums of [RowSums], in the order of the tensors: it gives the
// same bits. totals has one f32 for each tensor.
func ClipRows(q *engine.Queue, norm, factor *tensor.Tensor, maxNorm float64, sums []*tensor.Tensor, totals *tensor.Tensor, opts ...engine.CallOption) error {
	if len(sums) == 0 || totals.Len() != len(sums) {
		return &device.ArgumentError{Op: "norm.ClipRows", Operand: "totals", Got: fmt.Sprintf("has %d elements", totals.Len()), Want: fmt.Sprintf("%d, one for each tensor, and at least one", len(sums))}
	}
	add := func(sums, total *tensor.Tensor) error {
		row, err := sums.Reshape(1, sums.Len())
		if err != nil {
			return err
		}
		return engine.Call(q, TotalDefinition, []*tensor.Tensor{row, total}, nil, opts...)
	}
	for i, s := range sums {
		total, err := flat(totals, i, i+1)
		if err != nil {
			return err
		}
		if err := add(s, total); err != nil {
			return fmt.Errorf("tensor %d: %w", i, err)
		}
	}
	// The total of all goes where the norm will: it may be total itself.
	if err := add(totals, norm); err != nil {
		return err
	}
	return engine.Call(q, ClipDefinition, []*tensor.Tensor{norm, norm, factor}, []float64{maxNorm}, opts...)
}
