package def

import (
	"fmt"
	"io"
	"strings"

	"tokitai/num"
)

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
		Name: name, Form: &Scatter{Index: 0, Rows: 1, Result: 2, Accumulate: f.Accumulate}, formula: f.Formula, clauses: f.Clauses,
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

// Scatter is the form of a scatter-add.
type Scatter struct {
	Index, Rows, Result int  // positions of operands
	Accumulate          bool // the old result is the first term
}

func (f *Scatter) String() string { return "scatter-add" }

func (f *Scatter) axes(*Definition) []Axis {
	return []Axis{{"Q", Summed}, {"V", Indexed}, {"D", Column}}
}

func (f *Scatter) sums(*Definition) []Sum {
	return []Sum{{Over: []string{"Q"}, Order: InChunks, ByIndex: true}}
}

func (f *Scatter) batchAxis(*Definition) string { return "Q" }

func (f *Scatter) batchUse(d *Definition, operand int) (BatchUse, string) {
	return useOfRows(d, operand)
}

func (f *Scatter) independent(*Definition) []string { return []string{"D"} }

func (f *Scatter) divisible(*Definition) string { return "D" }

func (f *Scatter) mayBeFP8(*Definition, Operand) bool { return false }

func (f *Scatter) print(d *Definition, s *strings.Builder, _ bool) {
	index, rows, result := d.Operands[f.Index].Name, d.Operands[f.Rows].Name, d.Operands[f.Result].Name
	first := "+0"
	if f.Accumulate {
		first = result + "[v,d]"
	}
	fmt.Fprintf(s, "  %s[v,d] <- %s + sum of %s[q,d] over %s[q] = v\n", result, first, rows, index)
	fmt.Fprintf(s, "    %s f16: exact, one rounding, an exact zero is +0\n", rows)
	fmt.Fprintf(s, "    else: the q with %s[q] = v, ascending, in chunks of %d of them, each from +0, chunk sums added ascending\n", index, ScatterChunk)
}

func (f *Scatter) digest(w io.Writer) { fmt.Fprintf(w, "%+v\n", *f) }

// derivative returns the gradient of the rows: a copy of rows by index.
func (f *Scatter) derivative(d *Definition, w wanted, _ []*Function) (*Definition, error) {
	result := &d.Operands[f.Result]
	in, formula, err := d.inputOfGradient(w, result)
	if err != nil {
		return nil, err
	}
	return Gather(w.name, GatherForm{Index: d.Operands[f.Index].Name, Table: w.prefix + result.Name, Out: w.prefix + in.Name, Formula: formula})
}

func parseScatterAdd(d *Definition, _ Ring) (*Definition, error) {
	ops := d.Operands
	if len(ops) != 3 {
		return nil, operandCountError(d, "3")
	}
	return ScatterAdd(d.Name, ScatterForm{Index: ops[0].Name, Rows: ops[1].Name, Result: ops[2].Name,
		Accumulate: ops[2].IsIn, Formula: d.formula, Clauses: d.clauses})
}
