package def

import (
	"cmp"
	"slices"
	"strings"

	"tokitai/num"
)

// Matrix returns the size of an operand, folded into the matrix that a definition sees:
// a value per column is one row, a value per row one column. The rows of a stack of
// matrices are counted through.
func (o *Operand) Matrix(sizes map[string]int) (rows, cols int) {
	switch {
	case len(o.Dims) == 0:
		return 1, 1
	case len(o.Dims) == 1 && o.Extent == PerColumn:
		return 1, SizeOf(o.Dims[0], sizes)
	case len(o.Dims) == 1:
		return SizeOf(o.Dims[0], sizes), 1
	}
	rows = 1
	for _, dim := range o.Dims[:len(o.Dims)-1] {
		rows *= sizes[dim]
	}
	return rows, sizes[o.Dims[len(o.Dims)-1]]
}

// NewArray returns a zeroed array of the operand's size, with its batch axes.
func (o *Operand) NewArray(d num.DType, sizes map[string]int) num.Array {
	rows, cols := o.Matrix(sizes)
	a := num.NewArray(d, rows, cols)
	n := rows * cols
	for _, letter := range o.BatchDims() {
		n /= max(1, sizes[letter])
		a.Batch.Append(sizes[letter], n)
	}
	return a
}

// Shape returns the shape of a tensor for an operand that is given as an array: its batch
// axes and the two sizes of a matrix, one size for a value per row or column, and none for
// a single value.
func (o *Operand) Shape(a *num.Array) []int {
	switch {
	case len(o.Dims) == 1:
		return []int{a.Rows * a.Cols}
	case len(o.Dims) == 0 && o.Extent != PerElement:
		return nil
	}
	var shape []int
	for _, axis := range a.Batch.Axes[:a.Batch.Count] {
		shape = append(shape, axis.Size)
	}
	return append(shape, a.Rows/a.Matrices(), a.Cols)
}

// SizeOf returns the size that a dimension stands for: a letter's, or one more where it
// reads G+1.
func SizeOf(dim string, sizes map[string]int) int {
	if letter, isMore := strings.CutSuffix(dim, "+1"); isMore {
		return sizes[letter] + 1
	}
	return sizes[dim]
}

// BatchDims returns the letters of an operand's batch axes and groups: of a contraction
// those before its last two, otherwise none.
func (o *Operand) BatchDims() []string { return o.Dims[:max(0, len(o.Dims)-2)] }

// Sizes returns the letters of a definition's sizes, in the order of the operands.
func (d *Definition) Sizes() []string {
	var letters []string
	for i := range d.Operands {
		for _, l := range d.Operands[i].Dims {
			if l = strings.TrimSuffix(l, "+1"); !slices.Contains(letters, l) {
				letters = append(letters, l)
			}
		}
	}
	return letters
}

// Formats returns every choice of storage formats that a definition allows, one format
// per operand, sorted by the format that names the choice (Format). Among the choices of
// one name, the one with the most operands in that format comes first.
func (d *Definition) Formats() [][]num.DType {
	choices := [][]num.DType{nil}
	for i := range d.Operands {
		var longer [][]num.DType
		for _, c := range choices {
			for _, dtype := range d.formatsAfter(i, c) {
				longer = append(longer, append(c[:len(c):len(c)], dtype))
			}
		}
		choices = longer
	}
	choices = slices.DeleteFunc(choices, func(c []num.DType) bool { return !d.isConsistent(c) })
	slices.SortStableFunc(choices, func(a, b []num.DType) int {
		x, y := d.Format(a), d.Format(b)
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(countOf(y, b), countOf(x, a)))
	})
	return choices
}

// DTypes returns the storage formats of the operands if the definition is stored in t:
// the choice named by t with the most operands in t. It returns nil if there is none.
func (d *Definition) DTypes(t num.DType) []num.DType {
	for _, choice := range d.Formats() {
		if d.Format(choice) == t {
			return choice
		}
	}
	return nil
}

func countOf(f num.DType, choice []num.DType) int {
	n := 0
	for _, c := range choice {
		if c == f {
			n++
		}
	}
	return n
}

// isConsistent reports whether operands that must be stored like a later one are.
func (d *Definition) isConsistent(choice []num.DType) bool {
	for i := range d.Operands {
		rule := d.Operands[i].DTypes
		if rule.Like != "" && choice[i] != choice[d.Operand(rule.Like)] && !slices.Contains(rule.Allowed, choice[i]) {
			return false
		}
	}
	return true
}

// formatsAfter returns the possible formats of operand i, given those of the operands
// before it.
func (d *Definition) formatsAfter(i int, chosen []num.DType) []num.DType {
	rule := d.Operands[i].DTypes
	if rule.Like == "" {
		return rule.Allowed
	}
	like := d.Operand(rule.Like)
	if like >= i { // a later operand, of which nothing is known yet
		return append(slices.Clone(rule.Allowed), d.formatsAfter(like, chosen)...)
	}
	list := []num.DType{chosen[like]}
	for _, f := range rule.Allowed {
		if f != chosen[like] {
			list = append(list, f)
		}
	}
	return list
}

// Format returns the format that names a choice: that of the first operand whose own rule
// allows several; if there is none, that of the factors in a ring, int32 if there are no floats, and
// else binary32.
func (d *Definition) Format(choice []num.DType) num.DType {
	for i := range d.Operands {
		if o := &d.Operands[i]; o.DTypes.Like == "" && len(o.DTypes.Allowed) > 1 {
			return choice[i]
		}
	}
	hasFloat := slices.ContainsFunc(d.Operands, func(o Operand) bool { return !o.IsInt() })
	if d.Ring().IsExact() || !hasFloat {
		return choice[0]
	}
	return num.F32
}
