package def

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// RowWriteForm describes table[index[q],:] = rows[q,:].
type RowWriteForm struct {
	Index, Rows, Table string
	Formula            []string
	Clauses            []string
}

// WriteRows builds writes of rows by index, bit for bit. Of equal indices the last counts, and all
// other rows of the table stay as they are. A bad index that is not refused writes nothing.
func WriteRows(name string, f RowWriteForm) (*Definition, error) {
	d := &Definition{
		Name: name, Form: &RowWrite{Index: 0, Rows: 1, Table: 2}, formula: f.Formula, clauses: f.Clauses,
		Operands: []Operand{
			{Name: f.Index, Dims: []string{"Q"}, DTypes: Only(indexDType), IsIn: true, IsIndex: true, Bound: "V"},
			{Name: f.Rows, Dims: []string{"Q", "D"}, DTypes: AnyFloat, IsIn: true},
			{Name: f.Table, Dims: []string{"V", "D"}, DTypes: Like(f.Rows), IsIn: true, IsOut: true},
		},
	}
	return d.seal()
}

// RowWrite is the form of definitions that write rows by index.
type RowWrite struct{ Index, Rows, Table int } // positions of operands

func (f *RowWrite) String() string { return "row-write" }

func (f *RowWrite) axes(*Definition) []Axis {
	return []Axis{{"Q", Summed}, {"V", Indexed}, {"D", Column}}
}

func (f *RowWrite) sums(*Definition) []Sum { return nil }

func (f *RowWrite) batchAxis(*Definition) string { return "Q" }

func (f *RowWrite) batchUse(*Definition, int) (BatchUse, string) {
	return WholeBatch, "holds what all of Q wrote"
}

func (f *RowWrite) independent(*Definition) []string { return []string{"D"} }

func (f *RowWrite) divisible(*Definition) string { return "D" }

func (f *RowWrite) mayBeFP8(*Definition, Operand) bool { return false }

func (f *RowWrite) print(d *Definition, s *strings.Builder, _ bool) {
	index, rows, table := d.Operands[f.Index].Name, d.Operands[f.Rows].Name, d.Operands[f.Table].Name
	fmt.Fprintf(s, "  %s[v,d] <- bits of %s[q,d], q the last with %s[q] = v, or of %s[v,d] without one\n", table, rows, index, table)
}

func (f *RowWrite) digest(w io.Writer) { fmt.Fprintf(w, "%+v\n", *f) }

func (f *RowWrite) derivative(d *Definition, _ wanted, _ []*Function) (*Definition, error) {
	return nil, errors.New("the gradient of " + d.Operands[f.Rows].Name + " is that of the rows that were written last, which no form of definition has; without equal indices it is a gather")
}

func parseRowWrite(d *Definition, _ Ring) (*Definition, error) {
	ops := d.Operands
	if len(ops) != 3 {
		return nil, operandCountError(d, "3")
	}
	return WriteRows(d.Name, RowWriteForm{Index: ops[0].Name, Rows: ops[1].Name, Table: ops[2].Name, Formula: d.formula, Clauses: d.clauses})
}
