package def

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"tokitai/num"
)

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
// Row, with a number for each row of the result, then by Col, with one for each column.
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
		Name: name,
		Form: &Product{
			Left: 0, Right: 1, Result: 2, TransposeLeft: f.TransposeLeft, TransposeRight: f.TransposeRight,
			Accumulate: f.Accumulate, Groups: f.Groups, Scales: f.Scales, Ring: f.Ring,
		},
		formula: f.Formula, clauses: f.Clauses,
		Operands: []Operand{
			{Name: f.Left, Dims: f.LeftDims, DTypes: factors, IsIn: true},
			{Name: f.Right, Dims: f.RightDims, DTypes: Like(f.Left), IsIn: true},
			{Name: f.Result, Dims: f.ResultDims, DTypes: results, IsIn: f.Accumulate, IsOut: true},
		},
	}
	if f.Groups.Offsets != "" {
		d.Operands = append(d.Operands, Operand{Name: f.Groups.Offsets, Dims: []string{f.Groups.Number + "+1"}, DTypes: Only(indexDType), IsIn: true, IsIndex: true, IsOffsets: true, Bound: f.Groups.Of})
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
	for i, name := range []string{d.Scales().Row, d.Scales().Col} {
		if name != "" {
			d.Operands = append(d.Operands, Operand{Name: name, Dims: dims[len(dims)-2+i:][:1], DTypes: Only(num.F32), IsIn: true})
		}
	}
	if d.HasScales() && (d.HasAxes() || d.Accumulates()) {
		return fmt.Errorf("scales in a product with batch axes, groups or an old result, want one product that is set")
	}
	return nil
}

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
	leftBatch, m, k := split(0, d.Product().TransposeLeft)
	rightBatch, k2, n := split(1, d.Product().TransposeRight)
	batch, m2, n2 := split(2, false)
	switch {
	case k != k2:
		return fmt.Errorf("%s ends in %s and %s begins with %s: there is nothing to sum over", left.Name, k, right.Name, k2)
	case m != m2 || n != n2:
		return fmt.Errorf("%s is %v, want %v", result.Name, []string{m2, n2}, []string{m, n})
	case m == n || m == k || n == k:
		return fmt.Errorf("the sizes %s, %s and %s are not different", m, k, n)
	}
	axes := slices.DeleteFunc(slices.Clone(batch), func(l string) bool { return l == d.Groups().Number })
	for _, o := range []struct {
		*Operand
		batch []string
	}{{left, leftBatch}, {right, rightBatch}} {
		for _, l := range o.batch {
			if l != d.Groups().Number && !slices.Contains(axes, l) {
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
	g := d.Groups()
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

// Product is the form of a contraction: result = op(left)·op(right), or the old result and that.
type Product struct {
	Left, Right, Result           int // positions of operands
	TransposeLeft, TransposeRight bool
	Accumulate                    bool // the old result is the first term
	Groups                        Groups
	Scales                        Scales
	Ring                          Ring
}

func (f *Product) String() string { return "contraction" }

func (f *Product) axes(d *Definition) []Axis {
	result := d.Operands[f.Result].Dims
	list := []Axis{{last(result, 2), Row}, {f.summed(d), Summed}, {last(result, 1), Column}}
	for _, l := range d.Operands[f.Result].BatchDims() {
		if l != f.Groups.Number {
			list = append(list, Axis{l, Batch})
		}
	}
	if f.Groups.Number != "" {
		list = append(list, Axis{f.Groups.Number, Group})
	}
	return list
}

// summed returns the letter of the size that is summed over.
func (f *Product) summed(d *Definition) string {
	if f.TransposeLeft {
		return last(d.Operands[f.Left].Dims, 2)
	}
	return last(d.Operands[f.Left].Dims, 1)
}

func (f *Product) sums(d *Definition) []Sum {
	order := Ascending
	if f.Ring.IsExact() {
		order = Exactly
	}
	return []Sum{{Over: []string{f.summed(d)}, Order: order, OfProducts: true}}
}

// batchAxis returns the letter of the left operand's rows as they are stored, over which the gradient
// of the right one sums.
func (f *Product) batchAxis(d *Definition) string { return last(d.Operands[f.Left].Dims, 2) }

func (f *Product) batchUse(d *Definition, operand int) (BatchUse, string) {
	return useOfRows(d, operand)
}

func (f *Product) independent(d *Definition) []string {
	return slices.DeleteFunc(slices.Clone(d.Operands[f.Result].Dims), func(l string) bool { return l == f.Groups.Number || l == f.Groups.Of })
}

// divisible returns the outermost axis of the result, if all operands that have it have it there.
func (f *Product) divisible(d *Definition) string {
	letter := d.Operands[f.Result].Dims[0]
	for i := range d.Operands {
		if d.HasAxes() && slices.Index(d.Operands[i].Dims, letter) > 0 || f.Groups.Offsets != "" {
			return ""
		}
	}
	return letter
}

func (f *Product) mayBeFP8(d *Definition, o Operand) bool {
	return o.Name == d.Operands[f.Left].Name || o.Name == d.Operands[f.Right].Name
}

func (f *Product) digest(w io.Writer) { fmt.Fprintf(w, "%+v\n", *f) }

func (f *Product) print(d *Definition, s *strings.Builder, _ bool) {
	index := func(o Operand) string {
		return fmt.Sprintf("%s[%s]", o.Name, strings.ToLower(strings.Join(o.Dims, ",")))
	}
	first := "+0"
	if f.Accumulate {
		first = index(d.Operands[2])
	}
	sum := fmt.Sprintf("%s + sum over %s ascending of %s * %s", first,
		strings.ToLower(d.SummedOver()), index(d.Operands[0]), index(d.Operands[1]))
	if f.Ring.IsExact() {
		sum = fmt.Sprintf("sum over %s of %s * %s %s", strings.ToLower(d.SummedOver()), index(d.Operands[0]), index(d.Operands[1]), f.Ring.text(d.Operands[0].DTypes.Allowed[0]))
	}
	if d.HasScales() {
		if f.Ring.IsExact() {
			sum += ", rounded to f32"
		}
		sum = "(" + sum + ")"
		for _, scale := range []string{f.Scales.Row, f.Scales.Col} {
			if scale != "" {
				sum += " * " + index(d.Operands[d.Operand(scale)])
			}
		}
		sum += ", each product by a scale rounded to f32"
	}
	fmt.Fprintf(s, "  %s <- %s", index(d.Operands[2]), sum)
	if offsets := f.Groups.Offsets; offsets != "" {
		g := strings.ToLower(f.Groups.Number)
		fmt.Fprintf(s, ", %s[%s] <= %s < %s[%s+1]", offsets, g, strings.ToLower(f.Groups.Of), offsets, g)
	}
	s.WriteString("\n")
}

// derivative returns the gradient by one factor: the product of the gradient of the result and the
// other factor.
func (f *Product) derivative(d *Definition, w wanted, _ []*Function) (*Definition, error) {
	in, formula, err := d.inputOfGradient(w, &d.Operands[f.Result])
	if err != nil {
		return nil, err
	}
	left, right, result := &d.Operands[f.Left], &d.Operands[f.Right], &d.Operands[f.Result]
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
		if axis != f.Groups.Number && !slices.Contains(in.Dims, axis) {
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
		Groups:         f.Groups,
		Formula:        formula,
	}
	return Contraction(w.name, form)
}

// last returns the size at a position counted from the end.
func last(dims []string, back int) string { return dims[len(dims)-back] }

// parseContraction builds a contraction from its operands and the ring that its text names.
func parseContraction(d *Definition, ring Ring) (*Definition, error) {
	ops := d.Operands
	if n := len(ops); n < 3 || n > 6 {
		return nil, operandCountError(d, "3 to 6")
	}
	f := ContractionForm{
		Left: ops[0].Name, LeftDims: ops[0].Dims, Right: ops[1].Name, RightDims: ops[1].Dims,
		Result: ops[2].Name, ResultDims: ops[2].Dims, Accumulate: ops[2].IsIn, Formula: d.formula, Clauses: d.clauses,
	}
	matrix := func(dims []string) []string { return dims[max(0, len(dims)-2):] }
	result := matrix(f.ResultDims)
	f.TransposeLeft = len(result) == 2 && slices.Index(matrix(f.LeftDims), result[0]) == 1
	f.TransposeRight = len(result) == 2 && slices.Index(matrix(f.RightDims), result[1]) == 0
	if f.Ring = ring; ring.IsExact() || slices.ContainsFunc(ops[0].DTypes.Allowed, num.DType.IsFP8) {
		f.Factors = ops[0].DTypes
	}
	for _, o := range ops[3:] {
		switch {
		case strings.HasSuffix(o.Dims[0], "+1"):
			f.Groups = f.groupsBy(o)
		case len(result) == 2 && o.Dims[0] == result[0]:
			f.Scales.Row = o.Name
		default:
			f.Scales.Col = o.Name
		}
	}
	return Contraction(d.Name, f)
}

// groupsBy finds out which size the offsets divide: the rows of the result, or, where the
// result has a matrix for each group, what is summed over.
func (f *ContractionForm) groupsBy(offsets Operand) Groups {
	g := Groups{Offsets: offsets.Name, Number: strings.TrimSuffix(cmp.Or(append(offsets.Dims, "")[0], ""), "+1")}
	n := len(f.ResultDims)
	if n < 2 || len(f.LeftDims) < 2 {
		return g
	}
	if f.ResultDims[0] != g.Number {
		g.Of = f.ResultDims[n-2]
		return g
	}
	k := len(f.LeftDims) - 1
	if f.TransposeLeft {
		k--
	}
	g.Of = f.LeftDims[k]
	return g
}
