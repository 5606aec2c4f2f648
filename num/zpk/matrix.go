package zpk

import (
	"fmt"
	"slices"
)

// Product returns the matrix a·b. Rows of a matrix are slices of equal length.
func Product[E any](r Arithmetic[E], a, b [][]E) ([][]E, error) {
	columns := 0
	if len(b) > 0 {
		columns = len(b[0])
	}
	if err := checkMatrix(b, len(b), columns); err != nil {
		return nil, err
	}
	if err := checkMatrix(a, len(a), len(b)); err != nil {
		return nil, err
	}
	c := make([][]E, len(a))
	for i := range a {
		c[i] = make([]E, columns)
		for j := range c[i] {
			sum := r.Int(0)
			for k := range b {
				sum = r.Add(sum, r.Mul(a[i][k], b[k][j]))
			}
			c[i][j] = sum
		}
	}
	return c, nil
}

// InverseMatrix returns the inverse of a square matrix, by elimination with units as pivots.
// The error wraps ErrNotUnit if p divides its determinant: then there is none.
func InverseMatrix[E any](r Arithmetic[E], a [][]E) ([][]E, error) {
	n := len(a)
	if err := checkMatrix(a, n, n); err != nil {
		return nil, err
	}
	left, right := make([][]E, n), make([][]E, n)
	for i := range a {
		left[i], right[i] = slices.Clone(a[i]), make([]E, n)
		for j := range n {
			right[i][j] = r.Int(0)
		}
		right[i][i] = r.Int(1)
	}
	for c := range n {
		pivot := c
		for pivot < n && r.Valuation(left[pivot][c]) > 0 {
			pivot++
		}
		if pivot == n {
			return nil, fmt.Errorf("the determinant %w", ErrNotUnit)
		}
		left[c], left[pivot] = left[pivot], left[c]
		right[c], right[pivot] = right[pivot], right[c]
		scale, err := r.Inverse(left[c][c])
		if err != nil {
			return nil, err
		}
		for j := range n {
			left[c][j], right[c][j] = r.Mul(left[c][j], scale), r.Mul(right[c][j], scale)
		}
		for i := range n {
			if i == c {
				continue
			}
			factor := left[i][c]
			for j := range n {
				left[i][j] = r.Sub(left[i][j], r.Mul(factor, left[c][j]))
				right[i][j] = r.Sub(right[i][j], r.Mul(factor, right[c][j]))
			}
		}
	}
	return right, nil
}

func checkMatrix[E any](a [][]E, rows, columns int) error {
	if len(a) != rows {
		return fmt.Errorf("a matrix has %d rows, want %d", len(a), rows)
	}
	for i := range a {
		if len(a[i]) != columns {
			return fmt.Errorf("row %d of a matrix has %d columns, want %d", i, len(a[i]), columns)
		}
	}
	return nil
}
