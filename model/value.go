package model

import (
	"fmt"
	"slices"
	"strings"

	"tokitai/num"
	"tokitai/tensor"
)

// Kind says where a value comes from.
type Kind uint8

const (
	Input  Kind = iota // is given for every run, or once
	Weight             // is given, and has a gradient
	Result             // is computed by a call
	State              // is given, and calls change it: a cache
	Fixed              // is given, and has no gradient: a bias of a router
)

var kindNames = [...]string{"input", "weight", "result", "state", "fixed"}

func (k Kind) String() string { return kindNames[k] }

// Value is a tensor that calls read or write, by name. Each is written once, except that several
// calls may write different columns of it.
type Value struct {
	Name  string
	Kind  Kind
	DType num.DType
	Shape []int

	// IsKept says that a result is wanted after a run: no other value shares its memory.
	IsKept bool
}

// Len returns the number of elements.
func (v *Value) Len() int {
	n := 1
	for _, size := range v.Shape {
		n *= size
	}
	return n
}

// Bytes returns the size of the value in memory.
func (v *Value) Bytes() int64 { return int64(v.Len()) * int64(v.DType.Size()) }

// Ref is a value as a call sees it: whole, in another shape, or some of its columns.
type Ref struct {
	value      *Value
	rows, cols int // of the matrix as which the columns are counted
	from, to   int // columns
	shape      []int
}

func refTo(v *Value) Ref {
	cols := 1
	if len(v.Shape) > 0 {
		cols = v.Shape[len(v.Shape)-1]
	}
	return Ref{v, v.Len() / max(1, cols), cols, 0, cols, v.Shape}
}

// Value returns the value that r refers to; nil for the zero Ref.
func (r Ref) Value() *Value { return r.value }

// Shape returns the shape in which a call sees the value. The caller must not modify it.
func (r Ref) Shape() []int { return r.shape }

// As returns the same elements in another shape of as many.
func (r Ref) As(shape ...int) Ref {
	r.shape = slices.Clone(shape)
	return r
}

// Columns returns the columns from up to, but not including, to of r, which must be a whole value:
// as a matrix of the last dimension's columns.
func (r Ref) Columns(from, to int) Ref {
	r.cols = r.shape[len(r.shape)-1]
	r.rows = r.value.Len() / r.cols
	r.from, r.to = from, to
	r.shape = []int{r.rows, to - from}
	return r
}

func (r Ref) isWhole() bool { return r.from == 0 && r.to == r.cols }

// of returns the part of another value of the same size that r is of its own.
func (r Ref) of(v *Value) Ref {
	r.value = v
	return r
}

// check returns an error unless r refers to a value and has as many elements as it refers to.
func (r Ref) check() error {
	if r.value == nil {
		return fmt.Errorf("no value is given")
	}
	n := 1
	for _, size := range r.shape {
		n *= size
	}
	if r.from < 0 || r.from >= r.to || r.to > r.cols || r.rows*r.cols != r.value.Len() {
		return fmt.Errorf("columns %d to %d of %s %v, want some of its %d", r.from, r.to, r.value.Name, r.value.Shape, r.cols)
	}
	if n != r.rows*(r.to-r.from) {
		return fmt.Errorf("%s %v is seen as %v, which has another number of elements", r.value.Name, r.value.Shape, r.shape)
	}
	return nil
}

// String returns the reference as it stands in the text of a program: the name, columns that are not all,
// and a shape that is not the value's.
func (r Ref) String() string {
	s := r.value.Name
	if !r.isWhole() {
		s += fmt.Sprintf("[%d,%d:%d]", r.rows, r.from, r.to)
	}
	if !slices.Equal(r.shape, r.value.Shape) {
		s += shapeText(r.shape)
	}
	return s
}

func shapeText(shape []int) string {
	return "(" + strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ","), "[]") + ")"
}

// view returns the tensor that a call gets for r, where t holds the value.
func (r Ref) view(t *tensor.Tensor) (*tensor.Tensor, error) {
	var err error
	if !r.isWhole() {
		if t, err = t.Reshape(r.rows, r.cols); err != nil {
			return nil, err
		}
		if t, err = t.Slice(0, r.rows, r.from, r.to); err != nil {
			return nil, err
		}
	}
	if slices.Equal(t.Shape(), r.shape) {
		return t, nil
	}
	return t.Reshape(r.shape...)
}
