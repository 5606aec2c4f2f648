package def

import (
	"fmt"
	"io"
	"strings"

	"tokitai/num"
)

// GatherSumForm describes out[q,:] = Σ weight[q,s]·table[index[q,s],:] over s. Weight may be empty:
// then rows are added as they are.
type GatherSumForm struct {
	Index, Table, Weight, Out string
	Formula                   []string
	Clauses                   []string
}

// GatherSum builds sums of a few rows by index: one chain of binary32 in ascending order of s, from
// +0, rounded once when it is stored. A bad index that is not refused contributes nothing, whatever
// its weight.
func GatherSum(name string, f GatherSumForm) (*Definition, error) {
	form := &LookupSum{Index: 0, Table: 1, Weight: -1, Out: 2}
	d := &Definition{
		Name: name, Form: form, formula: f.Formula, clauses: f.Clauses,
		Operands: []Operand{
			{Name: f.Index, Dims: []string{"Q", "S"}, DTypes: Only(indexDType), IsIn: true, IsIndex: true, Bound: "V"},
			{Name: f.Table, Dims: []string{"V", "D"}, DTypes: AnyFloat, IsIn: true},
		},
	}
	if f.Weight != "" {
		form.Weight, form.Out = 2, 3
		d.Operands = append(d.Operands, Operand{Name: f.Weight, Dims: []string{"Q", "S"}, DTypes: Like(f.Table).Or(num.F32), IsIn: true})
	}
	d.Operands = append(d.Operands, Operand{Name: f.Out, Dims: []string{"Q", "D"}, DTypes: Like(f.Table), IsOut: true})
	return d.seal()
}

// LookupSum is the form of a gather-sum.
type LookupSum struct{ Index, Table, Weight, Out int } // positions of operands; Weight is -1 without weights

// IsWeighted reports whether rows are multiplied by weights.
func (f *LookupSum) IsWeighted() bool { return f.Weight >= 0 }

func (f *LookupSum) String() string { return "gather-sum" }

func (f *LookupSum) axes(*Definition) []Axis {
	return []Axis{{"Q", Row}, {"V", Indexed}, {"D", Column}, {"S", Summed}}
}

func (f *LookupSum) sums(*Definition) []Sum {
	return []Sum{{Over: []string{"S"}, Order: InSteps, ByIndex: true}}
}

func (f *LookupSum) batchAxis(*Definition) string { return "Q" }

func (f *LookupSum) batchUse(d *Definition, operand int) (BatchUse, string) {
	return useOfRows(d, operand)
}

func (f *LookupSum) independent(*Definition) []string { return []string{"Q", "D"} }

func (f *LookupSum) divisible(*Definition) string { return "Q" }

func (f *LookupSum) mayBeFP8(*Definition, Operand) bool { return false }

func (f *LookupSum) print(d *Definition, s *strings.Builder, _ bool) {
	index, table, out := d.Operands[f.Index].Name, d.Operands[f.Table].Name, d.Operands[f.Out].Name
	term, step := fmt.Sprintf("%s[%s[q,s],d]", table, index), "every addition is rounded to f32"
	if f.IsWeighted() {
		term, step = fmt.Sprintf("%s[q,s] * %s", d.Operands[f.Weight].Name, term), "every product and its addition are rounded to f32 once"
	}
	fmt.Fprintf(s, "  %s[q,d] <- +0 + sum over s ascending of %s, without those of bad indices\n", out, term)
	fmt.Fprintf(s, "    %s\n", step)
}

func (f *LookupSum) digest(w io.Writer) { fmt.Fprintf(w, "%+v\n", *f) }

// derivative returns the gradient of the weights, one for each row of a definition with Q*S rows: row
// q*S+s is that of weight[q,s]. It looks up the row of the table; that of the gradient of out is given
// for each s, as a gather by q copies it.
func (f *LookupSum) derivative(d *Definition, w wanted, _ []*Function) (*Definition, error) {
	out := &d.Operands[f.Out]
	in, formula, err := d.inputOfGradient(w, out)
	if err != nil {
		return nil, err
	}
	index, table := &d.Operands[f.Index], &d.Operands[f.Table]
	if in == table {
		rows := "the rows of " + w.prefix + out.Name + ", S times each,"
		if f.IsWeighted() {
			rows = "the rows of " + w.prefix + out.Name + " times " + d.Operands[f.Weight].Name
		}
		return nil, fmt.Errorf("the gradient of %s is a sum by an index of several columns, which no form of definition has: scatter-add %s by %s, all of its columns in one", in.Name, rows, index.Name)
	}
	return Rowwise(w.name, func(b *Builder) {
		chosen := b.InIndexOf(index.Name, "V")
		rows := b.InTable(table.Name, "V", table.DTypes)
		gradient := b.In(w.prefix+out.Name, Like(table.Name))
		b.OutRow(w.prefix+in.Name, RowSum(gradient.Mul(rows.At(chosen))), in.DTypes)
		b.Formula(append(formula, fmt.Sprintf("row q*S+s is that of %s[q,s], and has %s[q]", in.Name, w.prefix+out.Name))...)
	})
}

func parseGatherSum(d *Definition, _ Ring) (*Definition, error) {
	ops := d.Operands
	f := GatherSumForm{Formula: d.formula, Clauses: d.clauses}
	switch len(ops) {
	case 3:
		f.Index, f.Table, f.Out = ops[0].Name, ops[1].Name, ops[2].Name
	case 4:
		f.Index, f.Table, f.Weight, f.Out = ops[0].Name, ops[1].Name, ops[2].Name, ops[3].Name
	default:
		return nil, operandCountError(d, "3, or 4 with weights")
	}
	return GatherSum(d.Name, f)
}
