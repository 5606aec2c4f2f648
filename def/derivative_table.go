package def

import (
	"fmt"
	"slices"

	"tokitai/num"
)

// tableDerivative returns the gradient of a contraction, a gather or a scatter-add by one of
// its inputs: another of these.
func (d *Definition) tableDerivative(w wanted) (*Definition, error) {
	in, out := d.inputOfGradient(w)
	if in == nil {
		return nil, fmt.Errorf("%s have a gradient each, and a %s has one result: name one of them", list(w.inputs), d.Kind)
	}
	formula := []string{fmt.Sprintf("%s%s = the derivative of sum(%s%s * %s) by %s, of %s", w.prefix, in.Name, w.prefix, out.Name, out.Name, in.Name, d.Name)}
	switch {
	case in == out:
		return nil, fmt.Errorf("the gradient of the old %s is that of the new one", in.Name)
	case d.Kind == KindGather:
		return ScatterAdd(w.name, ScatterForm{Index: d.Operands[0].Name, Rows: w.prefix + out.Name, Result: w.prefix + in.Name, Formula: formula})
	case d.Kind == KindScatterAdd:
		return Gather(w.name, GatherForm{Index: d.Operands[0].Name, Table: w.prefix + out.Name, Out: w.prefix + in.Name, Formula: formula})
	}
	return d.productDerivative(w, in, formula)
}

// inputOfGradient returns the input that a gradient is wanted of, or nil if there are several,
// and the output.
func (d *Definition) inputOfGradient(w wanted) (in, out *Operand) {
	out = &d.Operands[2]
	inputs := slices.DeleteFunc(slices.Clone(w.inputs), func(name string) bool {
		return !w.isNamed && (name == out.Name || name == d.RowScale || name == d.ColScale)
	})
	if len(inputs) != 1 {
		return nil, out
	}
	return &d.Operands[d.Operand(inputs[0])], out
}

// productDerivative returns the gradient by one factor of a product: the product of the
// gradient of the result and the other factor.
func (d *Definition) productDerivative(w wanted, in *Operand, formula []string) (*Definition, error) {
	left, right, result := &d.Operands[0], &d.Operands[1], &d.Operands[2]
	other := left
	if in.Name == left.Name {
		other = right
	}
	switch {
	case d.HasScales():
		return nil, fmt.Errorf("it has scales, by which its gradients would multiply inside their sums: no product does")
	case slices.ContainsFunc(left.DTypes.Allowed, num.DType.IsFP8):
		return nil, fmt.Errorf("%s is stored in one byte, in which its gradient is not, and a product has factors of one format", in.Name)
	}
	for _, axis := range result.Dims[:len(result.Dims)-2] {
		if axis != d.Group && !slices.Contains(in.Dims, axis) {
			return nil, fmt.Errorf("%s is the same for all of %s, so its gradient is summed over %s too: no product does", in.Name, axis, axis)
		}
	}
	gradient := Operand{Name: w.prefix + result.Name, Dims: result.Dims}
	first, second := &gradient, other
	if row := in.Dims[len(in.Dims)-2]; !slices.Contains(result.Dims[len(result.Dims)-2:], row) {
		first, second = second, first
	}
	form := ContractionForm{
		Left: first.Name, LeftDims: first.Dims, Right: second.Name, RightDims: second.Dims,
		Result: w.prefix + in.Name, ResultDims: in.Dims,
		TransposeLeft:  last(first.Dims, 1) == last(in.Dims, 2),
		TransposeRight: last(second.Dims, 2) == last(in.Dims, 1),
		Formula:        formula,
	}
	if d.Offsets != "" {
		form.Groups = Groups{d.Group, d.Grouped, d.Offsets}
	}
	return Contraction(w.name, form)
}

// last returns the size at a position counted from the end.
func last(dims []string, back int) string { return dims[len(dims)-back] }
