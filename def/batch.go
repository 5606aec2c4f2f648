package def

import "slices"

// BatchClauses lists what every lowering that promises bits also promises about batches,
// for every definition.
var BatchClauses = []Clause{
	{"batch.C1", "a row of an output that is listed as invariant has the bits that it has alone: they do not depend on the number of other rows, on their contents, NaN and infinities included, or on the row's place among them"},
	{"batch.C2", "an output that is listed as placed is the same, except that its random words are numbered through the batch: a row also depends on its own place"},
	{"batch.C3", "the accumulation rule of a product follows from the architecture, the formats, N and K, never from M"},
}

// BatchUse says what a row of an output depends on.
type BatchUse uint8

const (
	OwnRow     BatchUse = iota // the same row of the inputs, and operands that have no rows
	OwnPlace                   // these and the row's place
	WholeBatch                 // other rows too: exempt from BatchClauses
)

func (u BatchUse) String() string { return [...]string{"invariant", "placed", "exempt"}[u] }

// BatchAxis returns the letter of the rows that a batch consists of: the rows of a rowwise
// definition, the queries of a gather or scatter-add, and the rows of a product's left
// operand as it is stored.
func (d *Definition) BatchAxis() string { return d.Form.batchAxis(d) }

// BatchUse returns what a row of an output, the operand at a position, depends on, and why
// if that is more than its own row.
func (d *Definition) BatchUse(operand int) (use BatchUse, why string) {
	return d.Form.batchUse(d, operand)
}

// useOfRows returns what a row of an output depends on, where outputs without the batch axis sum over
// it.
func useOfRows(d *Definition, operand int) (use BatchUse, why string) {
	if axis := d.BatchAxis(); !slices.Contains(d.Operands[operand].Dims, axis) {
		return WholeBatch, "sums over " + axis
	}
	return OwnRow, ""
}

// FirstElement returns the positions of the int32 parameters that hold the low and the high word of
// the first element's number. ok is false if random words and numbers of elements do not all count
// from them, or if there are none.
func (d *Definition) FirstElement() (low, high int, ok bool) {
	for _, n := range d.Exec().Nodes {
		var first []*Node
		switch n.Op {
		case OpRandom:
			first = n.Args[4:]
		case OpElement, OpElementHigh:
			first = n.Args
		default:
			continue
		}
		if len(first) == 0 || first[0].Op != OpParam || first[1].Op != OpParam || ok && (first[0].Param != low || first[1].Param != high) {
			return 0, 0, false
		}
		low, high, ok = first[0].Param, first[1].Param, true
	}
	return low, high, ok
}
