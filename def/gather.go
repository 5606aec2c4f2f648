package def

import (
	"fmt"
	"io"
	"strings"
)

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
		Name: name, Form: &Lookup{Index: 0, Table: 1, Out: 2}, formula: f.Formula, clauses: f.Clauses,
		Operands: []Operand{
			{Name: f.Index, Dims: []string{"Q"}, DTypes: Only(indexDType), IsIn: true, IsIndex: true, Bound: "V"},
			{Name: f.Table, Dims: []string{"V", "D"}, DTypes: AnyFloat, IsIn: true},
			{Name: f.Out, Dims: []string{"Q", "D"}, DTypes: Like(f.Table), IsOut: true},
		},
	}
	return d.seal()
}

// Lookup is the form of a gather.
type Lookup struct{ Index, Table, Out int } // positions of operands

func (f *Lookup) String() string { return "gather" }

func (f *Lookup) axes(*Definition) []Axis { return []Axis{{"Q", Row}, {"V", Indexed}, {"D", Column}} }

func (f *Lookup) sums(*Definition) []Sum { return nil }

func (f *Lookup) batchAxis(*Definition) string { return "Q" }

func (f *Lookup) batchUse(d *Definition, operand int) (BatchUse, string) {
	return useOfRows(d, operand)
}

func (f *Lookup) independent(*Definition) []string { return []string{"Q", "D"} }

func (f *Lookup) divisible(*Definition) string { return "Q" }

func (f *Lookup) mayBeFP8(*Definition, Operand) bool { return false }

func (f *Lookup) print(d *Definition, s *strings.Builder, _ bool) {
	fmt.Fprintf(s, "  %s[q,d] <- bits of %s[%s[q],d], +0 for a bad index\n", d.Operands[f.Out].Name, d.Operands[f.Table].Name, d.Operands[f.Index].Name)
}

func (f *Lookup) digest(w io.Writer) { fmt.Fprintf(w, "%+v\n", *f) }

// derivative returns the gradient of the table: sums of rows by index.
func (f *Lookup) derivative(d *Definition, w wanted, _ []*Function) (*Definition, error) {
	out := &d.Operands[f.Out]
	in, formula, err := d.inputOfGradient(w, out)
	if err != nil {
		return nil, err
	}
	return ScatterAdd(w.name, ScatterForm{Index: d.Operands[f.Index].Name, Rows: w.prefix + out.Name, Result: w.prefix + in.Name, Formula: formula})
}

func parseGather(d *Definition, _ Ring) (*Definition, error) {
	ops := d.Operands
	if len(ops) != 3 {
		return nil, operandCountError(d, "3")
	}
	return Gather(d.Name, GatherForm{Index: ops[0].Name, Table: ops[1].Name, Out: ops[2].Name, Formula: d.formula, Clauses: d.clauses})
}
