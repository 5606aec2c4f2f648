package def

import (
	"fmt"
	"regexp"
	"slices"

	"tokitai/num"
)

// indexDType is how indices and labels are stored.
const indexDType = num.I32

// ContractionForm describes a matrix product: Result = op(Left)·op(Right), where op
// transposes on demand. Dims name the sizes of the operands as they are stored: the two
// of a matrix, behind those of the batch axes that the operand has. An operand without
// one of the result's batch axes is the same for all of that axis.
type ContractionForm struct {
	Left, Right, Result             string
	LeftDims, RightDims, ResultDims []string
	TransposeLeft, TransposeRight   bool
	Accumulate                      bool // the old result is the first term
	Groups                          Groups
	Scales                          Scales
	Ring                            Ring // in what numbers it sums; zero for binary32

	// Factors says how the left operand may be stored, and the right one like it: AnyFloat if
	// it is zero. The result is stored like them or in f32, or, if they take one byte each, in
	// any float format. In a Ring, they are i8 or i64.
	Factors Rule

	Formula []string
	Clauses []string
}

// Scales names the f32 operands by which the sums of a product are multiplied: first by
// Row, of which there is one for each row of the result, then by Col, one for each column.
// A sum in a Ring is rounded to binary32 first. Each product is rounded to binary32, and the
// last is stored. Either may be "", for none.
type Scales struct{ Row, Col string }

// Groups describes a grouped product: one size is split into segments, and each segment
// has a matrix of its own, as the rows of each expert do. Offsets is an int32 operand with
// one element more than there are groups, ascending from 0 to the size Of; group g covers
// offsets[g] up to, but not including, offsets[g+1]. The operand with a matrix for each group has the size Number in
// front. The zero Groups is none.
type Groups struct {
	Number  string // the letter of the number of groups, such as G
	Of      string // the letter of the size that is divided, such as M
	Offsets string // the operand that says where
}

// Contraction builds a matrix product. Products are summed in ascending order of
// the summed index; how each step rounds is the model that a lowering declares. In a Ring
// nothing is rounded, and the order makes no difference.
func Contraction(name string, f ContractionForm) (*Definition, error) {
	factors, results, err := f.rules()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	d := &Definition{
		Name: name, Kind: KindContraction,
		TransposeLeft: f.TransposeLeft, TransposeRight: f.TransposeRight, Accumulate: f.Accumulate,
		Group: f.Groups.Number, Grouped: f.Groups.Of, Offsets: f.Groups.Offsets,
		RowScale: f.Scales.Row, ColScale: f.Scales.Col, Ring: f.Ring,
		formula: f.Formula, clauses: f.Clauses,
		Operands: []Operand{
			{Name: f.Left, Dims: f.LeftDims, DTypes: factors, IsIn: true},
			{Name: f.Right, Dims: f.RightDims, DTypes: Like(f.Left), IsIn: true},
			{Name: f.Result, Dims: f.ResultDims, DTypes: results, IsIn: f.Accumulate, IsOut: true},
		},
	}
	if f.Groups.Offsets != "" {
		d.Operands = append(d.Operands, Operand{Name: f.Groups.Offsets, Dims: []string{f.Groups.Number + "+1"}, DTypes: Only(indexDType), IsIn: true, IsIndex: true, Bound: f.Groups.Of})
	}
	if err := d.checkAxes(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := d.addScales(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d.seal()
}

// rules returns how the factors and the result may be stored.
func (f *ContractionForm) rules() (factors, results Rule, err error) {
	if f.Ring.IsExact() {
		return f.Ring.rules(f)
	}
	if factors = f.Factors; factors.Like == "" && len(factors.Allowed) == 0 {
		factors = AnyFloat
	}
	bytes := 0
	for _, d := range factors.Allowed {
		if d.IsFP8() {
			bytes++
		}
	}
	switch {
	case factors.Like != "" || bytes > 0 && bytes < len(factors.Allowed):
		return factors, results, fmt.Errorf("%s may be stored %q, want formats of its own, of one byte or of more", f.Left, factors)
	case bytes > 0:
		return factors, Only(num.F32, num.F16, num.BF16), nil
	}
	return factors, Like(f.Left).Or(num.F32), nil
}

// addScales adds the operands of the scales. They must be unambiguous: one value for each
// row or column of the only matrix, and no old result, which they might scale or not.
func (d *Definition) addScales() error {
	dims := d.Operands[2].Dims
	for i, name := range []string{d.RowScale, d.ColScale} {
		if name != "" {
			d.Operands = append(d.Operands, Operand{Name: name, Dims: dims[len(dims)-2+i:][:1], DTypes: Only(num.F32), IsIn: true})
		}
	}
	if d.HasScales() && (d.HasAxes() || d.Accumulate) {
		return fmt.Errorf("scales in a product with batch axes, groups or an old result, want one product that is set")
	}
	return nil
}

// HasScales reports whether the sums of a contraction are multiplied by scales.
func (d *Definition) HasScales() bool { return d.RowScale != "" || d.ColScale != "" }

// checkAxes returns an error if the sizes are not those of a matrix product.
func (d *Definition) checkAxes() error {
	for _, o := range d.Operands[:3] {
		if len(o.Dims) < 2 {
			return fmt.Errorf("%s has the sizes %v, want those of a matrix", o.Name, o.Dims)
		}
		for i, l := range o.Dims {
			if !sizeForm.MatchString(l) || slices.Contains(o.Dims[:i], l) {
				return fmt.Errorf("%s has the sizes %v, want different capital letters", o.Name, o.Dims)
			}
		}
	}
	split := func(i int, transpose bool) (batch []string, rows, cols string) {
		dims := d.Operands[i].Dims
		n := len(dims) - 2
		if rows, cols = dims[n], dims[n+1]; transpose {
			rows, cols = cols, rows
		}
		return dims[:n], rows, cols
	}
	left, right, result := &d.Operands[0], &d.Operands[1], &d.Operands[2]
	leftBatch, m, k := split(0, d.TransposeLeft)
	rightBatch, k2, n := split(1, d.TransposeRight)
	batch, m2, n2 := split(2, false)
	switch {
	case k != k2:
		return fmt.Errorf("%s ends in %s and %s begins with %s: there is nothing to sum over", left.Name, k, right.Name, k2)
	case m != m2 || n != n2:
		return fmt.Errorf("%s is %v, want %v", result.Name, []string{m2, n2}, []string{m, n})
	case m == n || m == k || n == k:
		return fmt.Errorf("the sizes %s, %s and %s are not different", m, k, n)
	}
	axes := slices.DeleteFunc(slices.Clone(batch), func(l string) bool { return l == d.Group })
	for _, o := range []struct {
		*Operand
		batch []string
	}{{left, leftBatch}, {right, rightBatch}} {
		for _, l := range o.batch {
			if l != d.Group && !slices.Contains(axes, l) {
				return fmt.Errorf("%s has the size %s, which %s lacks: that is no batch axis", o.Name, l, result.Name)
			}
		}
	}
	if slices.Contains(axes, m) || slices.Contains(axes, n) || slices.Contains(axes, k) {
		return fmt.Errorf("%s has a batch axis of the same letter as a size of its matrices", result.Name)
	}
	return d.checkGroups(k, m)
}

// checkGroups returns an error unless the groups divide the rows of the left operand: those
// of the result, with a right operand for each group, or the summed ones, with a result
// for each group.
func (d *Definition) checkGroups(k, m string) error {
	g := Groups{d.Group, d.Grouped, d.Offsets}
	if g == (Groups{}) {
		return nil
	}
	has := func(i int) bool { return d.Operands[i].Dims[0] == g.Number }
	switch {
	case g.Number == "" || g.Of == "" || g.Offsets == "":
		return fmt.Errorf("groups %+v, want their number, the size that they divide and the offsets", g)
	case g.Of == m && has(1) && !has(0) && !has(2), g.Of == k && has(2) && !has(0) && !has(1):
		return nil
	}
	return fmt.Errorf("groups divide %s: want %s divided with %s for each group, or %s with %s for each group",
		g.Of, m, d.Operands[1].Name, k, d.Operands[2].Name)
}

var sizeForm = regexp.MustCompile(`^[A-Z]$`)

// HasAxes reports whether a contraction has batch axes or groups.
func (d *Definition) HasAxes() bool {
	return d.Kind == KindContraction && (d.Offsets != "" || len(d.Operands[2].Dims) > 2)
}

// SummedOver returns the letter of the size that a contraction sums over.
func (d *Definition) SummedOver() string {
	dims := d.Operands[0].Dims
	if d.TransposeLeft {
		return dims[len(dims)-2]
	}
	return dims[len(dims)-1]
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
