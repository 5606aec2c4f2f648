package def

import (
	"fmt"

	"tokitai/num"
)

// indexDType is how indices and labels are stored.
const indexDType = num.I32

// ContractionForm describes a matrix product: Result = op(Left)·op(Right), where op
// transposes on demand. Dims name the sizes of the operands as they are stored.
type ContractionForm struct {
	Left, Right, Result             string
	LeftDims, RightDims, ResultDims [2]string
	TransposeLeft, TransposeRight   bool
	Accumulate                      bool // the old result is the first term
	Formula                         []string
	Clauses                         []string
}

// Contraction builds a matrix product. Products are summed in ascending order of
// the summed index; how each step rounds is the model that a lowering declares.
func Contraction(name string, f ContractionForm) (*Definition, error) {
	d := &Definition{
		Name: name, Kind: KindContraction,
		TransposeLeft: f.TransposeLeft, TransposeRight: f.TransposeRight, Accumulate: f.Accumulate,
		formula: f.Formula, clauses: f.Clauses,
		Operands: []Operand{
			{Name: f.Left, Dims: f.LeftDims[:], DTypes: AnyFloat, IsIn: true},
			{Name: f.Right, Dims: f.RightDims[:], DTypes: Like(f.Left), IsIn: true},
			{Name: f.Result, Dims: f.ResultDims[:], DTypes: Like(f.Left).Or(num.F32), IsIn: f.Accumulate, IsOut: true},
		},
	}
	left, right := f.LeftDims, f.RightDims
	if f.TransposeLeft {
		left[0], left[1] = left[1], left[0]
	}
	if f.TransposeRight {
		right[0], right[1] = right[1], right[0]
	}
	switch {
	case left[1] != right[0]:
		return nil, fmt.Errorf("%s: %s ends in %s and %s begins with %s: there is nothing to sum over", name, f.Left, left[1], f.Right, right[0])
	case [2]string{left[0], right[1]} != f.ResultDims:
		return nil, fmt.Errorf("%s: %s is %v, want %v", name, f.Result, f.ResultDims, [2]string{left[0], right[1]})
	}
	return d.seal()
}

// SummedOver is the letter of the size that a contraction sums over.
func (d *Definition) SummedOver() string {
	if d.TransposeLeft {
		return d.Operands[0].Dims[0]
	}
	return d.Operands[0].Dims[1]
}

// GatherForm describes out[q,:] = table[index[q],:].
type GatherForm struct {
	Index, Table, Out string
	Formula           []string
	Clauses           []string
}

// Gather builds a copy of rows by index, bit for bit. A bad index that is not
// refused gives a row of zeros.
func Gather(name string, f GatherForm) (*Definition, error) {
	d := &Definition{
		Name: name, Kind: KindGather, formula: f.Formula, clauses: f.Clauses,
		Operands: []Operand{
			{Name: f.Index, Dims: []string{"Q"}, DTypes: Only(indexDType), IsIn: true, IsIndex: true, Bound: "V"},
			{Name: f.Table, Dims: []string{"V", "D"}, DTypes: AnyFloat, IsIn: true},
			{Name: f.Out, Dims: []string{"Q", "D"}, DTypes: Like(f.Table), IsOut: true},
		},
	}
	return d.seal()
}

// ScatterForm describes result[v,:] = Σ rows[q,:] over index[q] = v (+ result[v,:]).
type ScatterForm struct {
	Index, Rows, Result string
	Accumulate          bool
	Formula             []string
	Clauses             []string
}

// ScatterAdd builds sums of rows by index. Sums of f16 are exact before the one
// rounding; others are taken in ascending order of q, in chunks of ScatterChunk.
// A bad index that is not refused contributes nothing.
func ScatterAdd(name string, f ScatterForm) (*Definition, error) {
	d := &Definition{
		Name: name, Kind: KindScatterAdd, formula: f.Formula, clauses: f.Clauses, Accumulate: f.Accumulate,
		Operands: []Operand{
			{Name: f.Index, Dims: []string{"Q"}, DTypes: Only(indexDType), IsIn: true, IsIndex: true, Bound: "V"},
			{Name: f.Rows, Dims: []string{"Q", "D"}, DTypes: AnyFloat, IsIn: true},
			{Name: f.Result, Dims: []string{"V", "D"}, DTypes: Like(f.Rows).Or(num.F32), IsIn: f.Accumulate, IsOut: true},
		},
	}
	return d.seal()
}

// ScatterChunk is how many occurrences of an index are summed from +0 before their
// sum is added to that index's total.
const ScatterChunk = 64
