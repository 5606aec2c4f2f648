package def

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// DispatchForm describes the rows of experts: index[t,s] is the expert of token t's choice s.
type DispatchForm struct {
	Index, Counts, Offsets, Source, Slot, Place string
	Formula                                     []string
	Clauses                                     []string
}

// Dispatch builds a stable sort of choices by expert: where the rows of each expert begin, which token
// and choice each row is of, and in which row each choice is. A bad index that is not refused has no
// row.
func Dispatch(name string, f DispatchForm) (*Definition, error) {
	out := func(name string, dims ...string) Operand {
		return Operand{Name: name, Dims: dims, DTypes: Only(indexDType), IsOut: true}
	}
	d := &Definition{
		Name: name, Form: &Sort{Index: 0, Counts: 1, Offsets: 2, Source: 3, Slot: 4, Place: 5}, formula: f.Formula, clauses: f.Clauses,
		Operands: []Operand{
			{Name: f.Index, Dims: []string{"T", "S"}, DTypes: Only(indexDType), IsIn: true, IsIndex: true, Bound: "E"},
			out(f.Counts, "E"), out(f.Offsets, "E+1"), out(f.Source, "T", "S"), out(f.Slot, "T", "S"), out(f.Place, "T", "S"),
		},
	}
	return d.seal()
}

// Sort is the form of a dispatch. Source and Slot have the shape [T,S] and hold one element for each
// sorted row, in row-major order.
type Sort struct{ Index, Counts, Offsets, Source, Slot, Place int } // positions of operands

func (f *Sort) String() string { return "dispatch" }

func (f *Sort) axes(*Definition) []Axis { return []Axis{{"T", Summed}, {"E", Indexed}, {"S", Column}} }

func (f *Sort) sums(*Definition) []Sum { return nil }

func (f *Sort) batchAxis(*Definition) string { return "T" }

func (f *Sort) batchUse(*Definition, int) (BatchUse, string) { return WholeBatch, "sorts over T" }

func (f *Sort) independent(*Definition) []string { return nil }

func (f *Sort) divisible(*Definition) string { return "" }

func (f *Sort) mayBeFP8(*Definition, Operand) bool { return false }

func (f *Sort) print(d *Definition, s *strings.Builder, _ bool) {
	name := func(i int) string { return d.Operands[i].Name }
	index := name(f.Index)
	fmt.Fprintf(s, "  row r is the r-th of all t*S+s, 0 <= %s[t,s] < E, in ascending order of %s[t,s], then of t*S+s\n", index, index)
	fmt.Fprintf(s, "  %s[e] <- the number of rows with index e\n", name(f.Counts))
	fmt.Fprintf(s, "  %s[e] <- the number of rows with an index below e\n", name(f.Offsets))
	fmt.Fprintf(s, "  %s[r] <- t, -1 after the last row, r counted through\n", name(f.Source))
	fmt.Fprintf(s, "  %s[r] <- t*S+s, -1 after the last row, r counted through\n", name(f.Slot))
	fmt.Fprintf(s, "  %s[t,s] <- r, -1 for a bad index\n", name(f.Place))
}

func (f *Sort) digest(w io.Writer) { fmt.Fprintf(w, "%+v\n", *f) }

func (f *Sort) derivative(*Definition, wanted, []*Function) (*Definition, error) {
	return nil, errors.New("it has integers alone, which have no gradient")
}

func parseDispatch(d *Definition, _ Ring) (*Definition, error) {
	ops := d.Operands
	if len(ops) != 6 {
		return nil, operandCountError(d, "6")
	}
	return Dispatch(d.Name, DispatchForm{Index: ops[0].Name, Counts: ops[1].Name, Offsets: ops[2].Name, Source: ops[3].Name,
		Slot: ops[4].Name, Place: ops[5].Name, Formula: d.formula, Clauses: d.clauses})
}
