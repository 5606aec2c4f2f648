package def

import "slices"

// BatchClauses lists what every lowering that promises bits also promises about batches,
// for every definition.
var BatchClauses = []Clause{
	{"batch.C1", "a row of an output that is listed as invariant has the bits that it has alone: they do not depend on the number of other rows, on their contents, NaN and infinities included, or on the row's place among them"},
	{"batch.C2", "an output that is listed as placed is the same, except that its random words are numbered through the batch: a row also depends on its own place"},
	{"batch.C3", "the model of a product's sums follows from the architecture, the formats, N and K, never from M"},
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
// operand as it is stored, which the gradient of the right one sums over.
func (d *Definition) BatchAxis() string {
	switch d.Kind {
	case KindContraction:
		dims := d.Operands[0].Dims
		return dims[len(dims)-2]
	case KindGather, KindScatterAdd:
		return d.Operands[0].Dims[0]
	}
	return "R"
}

// BatchUse returns what a row of an output, the operand at a position, depends on, and why
// if that is more than its own row.
func (d *Definition) BatchUse(operand int) (use BatchUse, why string) {
	o := &d.Operands[operand]
	if d.Kind != KindRowwise {
		if !slices.Contains(o.Dims, d.BatchAxis()) {
			return WholeBatch, "sums over " + d.BatchAxis()
		}
		return OwnRow, ""
	}
	for _, out := range d.Exec.Outputs {
		switch {
		case out.Operand != operand:
		case o.Extent&PerRow != 0:
			return rowUse(out.Value, map[*Node]bool{})
		case out.Value.Late:
			return WholeBatch, "sums over R"
		}
	}
	return WholeBatch, "has no rows"
}

// rowUse returns what a row of a node's values depends on. No value with rows uses a sum over
// rows: those are late.
func rowUse(n *Node, seen map[*Node]bool) (use BatchUse, why string) {
	if seen[n] {
		return OwnRow, ""
	}
	seen[n] = true
	switch n.Op {
	case OpRows:
		return WholeBatch, "uses the number of rows"
	case OpRandom:
		use, why = OwnPlace, "uses random words"
	}
	for _, a := range n.Args {
		if u, w := rowUse(a, seen); u > use {
			use, why = u, w
		}
	}
	return use, why
}
