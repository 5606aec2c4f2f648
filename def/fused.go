package def

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"tokitai/num"
)

// Fused is the form of matrix products that end in an expression: the sums of the products are
// values in binary32, from which an expression computes every element of the outputs, together with
// what it reads of the element's row and column. Nothing is rounded between the sum and the
// expression but what the expression rounds itself, and nothing is stored in between.
type Fused struct {
	// Products are the contractions, each with the sums as its result, in binary32. They differ in their right
	// operands alone; the left one is the first operand of the definition.
	Products []*Definition

	// Factors has, for each product, the operand of the definition that each operand of the product is;
	// -1 for the result.
	Factors [][]int

	// Body is the expression as a rowwise definition. Its first operands are the results of the products.
	Body *Definition

	// Reads has the operand of the definition that each operand of the body is; -1 for the result of a product.
	Reads []int
}

// FusedBuilder collects the products of a fused definition and the operands and results of the
// expression in which they end.
type FusedBuilder struct {
	body     *Builder
	products []ContractionForm
	operands []Operand // in the order in which they were declared
}

func newFusedBuilder(name string) *FusedBuilder {
	return &FusedBuilder{body: &Builder{d: &Definition{Name: name, Form: new(Expression)}}}
}

// Product declares a matrix product and returns its sum at an element of the result. The product's Result
// names the sum, which no operand holds. All products have the same left operand and differ in their right
// ones alone. There are no batch axes, and a product that adds to an old result, scales or
// sums in a Ring is none of them: the expression adds and scales.
func (b *FusedBuilder) Product(f ContractionForm) Value {
	first := f
	if len(b.products) > 0 {
		first = b.products[0]
	}
	rule := f.Factors
	if rule.Like == "" && len(rule.Allowed) == 0 {
		rule = AnyFloat
	}
	switch {
	case f.Accumulate || f.Scales != (Scales{}) || f.Ring.IsExact():
		b.body.fail("product %s adds to an old result, has scales or a ring, want sums from +0 in binary32, which the expression adds to or scales", f.Result)
	case len(f.ResultDims) != 2:
		b.body.fail("product %s has the sizes %v, want those of one matrix", f.Result, f.ResultDims)
	case !slices.Equal(f.ResultDims, first.ResultDims) || f.Groups != first.Groups || f.Left != first.Left || !slices.Equal(f.RightDims, first.RightDims):
		b.body.fail("products %s and %s differ in more than their right operands", first.Result, f.Result)
	case unnamedForm.MatchString(f.Result):
		b.body.fail("product %s: names of this form are for values without a name", f.Result)
	case len(b.body.inputs) > len(b.products):
		b.body.fail("product %s comes behind other inputs, want the products first", f.Result)
	}
	b.products = append(b.products, f)
	b.factor(Operand{Name: f.Left, Dims: f.LeftDims, DTypes: rule, IsIn: true})
	b.factor(Operand{Name: f.Right, Dims: f.RightDims, DTypes: Like(f.Left), IsIn: true})
	if g := f.Groups; g.Offsets != "" {
		b.factor(Operand{Name: g.Offsets, Dims: []string{g.Number + "+1"}, DTypes: Only(indexDType), IsIn: true, IsIndex: true, IsOffsets: true, Bound: g.Of})
	}
	return Value{b.body.input(f.Result, PerElement, []Rule{Only(num.F32)})}
}

// factor declares an operand of a product, which several products may share.
func (b *FusedBuilder) factor(o Operand) {
	if i := b.operand(o.Name); i < 0 {
		b.operands = append(b.operands, o)
	} else if was := &b.operands[i]; !slices.Equal(was.Dims, o.Dims) || was.DTypes.text() != o.DTypes.text() || was.IsOut {
		b.body.fail("operand %s is %s %s in one place and %s %s in another", o.Name, was.Dims, was.DTypes.text(), o.Dims, o.DTypes.text())
	}
}

func (b *FusedBuilder) operand(name string) int {
	return slices.IndexFunc(b.operands, func(o Operand) bool { return o.Name == name })
}

// extent returns how many values the expression sees of an operand with the given sizes.
func (b *FusedBuilder) extent(name string, dims []string) Extent {
	if len(b.products) == 0 || len(b.products[0].ResultDims) != 2 {
		b.body.fail("operand %s comes before the products", name)
		return PerElement
	}
	result := b.products[0].ResultDims
	switch {
	case slices.Equal(dims, result):
		return PerElement
	case slices.Equal(dims, result[:1]):
		return PerRow
	case slices.Equal(dims, result[1:]):
		return PerColumn
	}
	b.body.fail("operand %s has the sizes %v, want %v, %v or %v", name, dims, result, result[:1], result[1:])
	return PerElement
}

// bodyRule returns the rule of an operand in the body, which lacks the factors.
func bodyRule(r Rule) Rule {
	if r.Like != "" {
		return AnyFloat
	}
	return r
}

// In declares an input by its sizes: those of the results of the products, or one of them, for a value per
// row or per column. It holds floats, or int32 if the rule is Only(num.I32).
func (b *FusedBuilder) In(name string, dims []string, dtypes ...Rule) Value {
	rule := b.body.rule(name, dtypes)
	extent := b.extent(name, dims)
	i := b.operand(name)
	if i < 0 {
		i = len(b.operands)
		b.operands = append(b.operands, Operand{Name: name, Dims: dims, DTypes: rule, IsIn: true})
	}
	if len(dims) == 1 {
		b.operands[i].Extent = extent
	}
	return Value{b.body.input(name, extent, []Rule{bodyRule(rule)})}
}

// Param declares a parameter, as [Builder.Param] does.
func (b *FusedBuilder) Param(name string, opts ...ParamOption) Value {
	return b.body.Param(name, opts...)
}

// IntParam declares an int32 parameter.
func (b *FusedBuilder) IntParam(name string, opts ...ParamOption) Value {
	return b.body.IntParam(name, opts...)
}

// Out declares an output with one value per element of the results of the products.
func (b *FusedBuilder) Out(name string, v Value, dtypes ...Rule) {
	rule := b.body.rule(name, dtypes)
	if v.Type() == Int && len(dtypes) == 0 {
		rule = Only(indexDType)
	}
	if len(b.products) > 0 && b.operand(name) < 0 {
		b.operands = append(b.operands, Operand{Name: name, Dims: b.products[0].ResultDims, DTypes: rule, IsOut: true})
	}
	b.body.output(name, PerElement, v.node, []Rule{bodyRule(rule)})
}

// Formula sets the formula for readers, line by line.
func (b *FusedBuilder) Formula(lines ...string) { b.body.Formula(lines...) }

// Clauses sets the clauses of the contract: texts[i] is clause C(i+1).
func (b *FusedBuilder) Clauses(texts ...string) { b.body.Clauses(texts...) }

// FusedOf builds matrix products that end in an expression.
func FusedOf(name string, build func(b *FusedBuilder)) (*Definition, error) {
	if build == nil {
		return nil, fmt.Errorf("%s: nothing builds it", name)
	}
	b := newFusedBuilder(name)
	build(b)
	d, err := b.finish()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d.seal()
}

// finish returns the definition, not sealed yet.
func (b *FusedBuilder) finish() (*Definition, error) {
	switch {
	case b.body.err != nil:
		return nil, b.body.err
	case len(b.products) == 0:
		return nil, errors.New("it multiplies nothing")
	case b.operands[0].Name != b.products[0].Left:
		return nil, fmt.Errorf("its first operand is %s, want %s, the left one of its products", b.operands[0].Name, b.products[0].Left)
	}
	f := &Fused{}
	d := &Definition{Name: b.body.d.Name, Form: f, Operands: b.operands, Params: b.body.d.Params, formula: b.body.d.formula, clauses: b.body.d.clauses}
	for _, form := range b.products {
		if d.Operand(form.Result) >= 0 {
			return nil, fmt.Errorf("product %s: the name is taken by an operand", form.Result)
		}
		form.Factors, form.Formula, form.Clauses = d.Operands[d.Operand(form.Left)].DTypes, nil, nil
		p, err := Contraction(d.Name+".product", form)
		if err != nil {
			return nil, err
		}
		if p.AxisOf(Batch) != "" {
			return nil, fmt.Errorf("product %s has batch axes", form.Result)
		}
		var factors []int
		for i := range p.Operands {
			factors = append(factors, d.Operand(p.Operands[i].Name))
		}
		f.Products, f.Factors = append(f.Products, p), append(f.Factors, factors)
	}
	if err := b.checkBody(); err != nil {
		return nil, err
	}
	body := *b.body.d
	body.Name, body.formula, body.clauses = d.Name+".body", nil, nil
	var err error
	if f.Body, err = body.seal(); err != nil {
		return nil, err
	}
	for i := range f.Body.Operands {
		f.Reads = append(f.Reads, d.Operand(f.Body.Operands[i].Name))
	}
	return d, nil
}

// checkBody builds the graphs of the body, and returns an error if it is not elementwise or does not use
// all products.
func (b *FusedBuilder) checkBody() error {
	if err := b.body.finish(); err != nil {
		return err
	}
	used := map[int]bool{}
	for _, n := range b.body.d.Math().Nodes {
		switch {
		case !n.isElementwise() || n.Op == OpStored && n.Operand < len(b.products):
			return fmt.Errorf("%s: the expression in which products end computes each element from its own row and column", n.brief())
		case n.Op == OpInput:
			used[n.Operand] = true
		}
	}
	for i := range b.products {
		if !used[i] {
			return fmt.Errorf("product %s is not used", b.products[i].Result)
		}
	}
	return nil
}

// isElementwise reports whether a node computes each element from what its own row and column hold, wherever
// these are.
func (n *Node) isElementwise() bool {
	switch n.Op {
	case OpLookup, OpColumns, OpRows, OpCol, OpColFloat, OpPartner, OpInside, OpRandom, OpRandomRow, OpElement, OpElementHigh:
		return false
	}
	return !n.Op.ReadsRow() && !n.Late
}

// Result returns the position of the first output, which has the sizes of the products' results.
func (f *Fused) Result() int { return f.Reads[f.Body.Exec().Outputs[0].Operand] }

func (f *Fused) String() string { return "fused" }

func (f *Fused) axes(*Definition) []Axis { return f.Products[0].Axes() }

func (f *Fused) sums(*Definition) []Sum {
	var list []Sum
	for _, p := range f.Products {
		list = append(list, p.Sums()...)
	}
	return list
}

func (f *Fused) batchAxis(*Definition) string { return f.Products[0].AxisOf(Row) }

func (f *Fused) batchUse(d *Definition, operand int) (BatchUse, string) { return useOfRows(d, operand) }

func (f *Fused) independent(*Definition) []string {
	return f.Products[0].Independent()
}

// divisible returns the rows of the results, if all operands that have them have them outermost.
func (f *Fused) divisible(d *Definition) string {
	rows := f.Products[0].AxisOf(Row)
	for i := range d.Operands {
		if d.Operands[i].IsOffsets || slices.Index(d.Operands[i].Dims, rows) > 0 {
			return ""
		}
	}
	return rows
}

func (f *Fused) mayBeFP8(_ *Definition, o Operand) bool {
	return slices.ContainsFunc(f.Products, func(p *Definition) bool {
		return o.Name == p.Operands[p.Product().Left].Name || o.Name == p.Operands[p.Product().Right].Name
	})
}

// multiplyAdds counts the products of all contractions.
func (f *Fused) multiplyAdds(sizes map[string]int) float64 {
	n := 0.0
	for _, p := range f.Products {
		n += p.MultiplyAdds(sizes)
	}
	return n
}

func (f *Fused) print(d *Definition, s *strings.Builder, docs bool) {
	for _, p := range f.Products {
		fmt.Fprintf(s, "  %s\n", f.productLine(p))
	}
	g := f.Body.Math()
	names := nodeNames(g.Nodes, d)
	printGraph(s, g.Nodes, names)
	for _, o := range g.Outputs {
		fmt.Fprintf(s, "  %s <- %s\n", f.Body.Operands[o.Operand].Name, names[o.Value])
	}
	for _, function := range functionsIn(g.Nodes) {
		s.WriteString(function.text(docs))
	}
}

// productLine returns the line of a text that says what a product is.
func (f *Fused) productLine(p *Definition) string {
	var s strings.Builder
	p.Form.print(p, &s, false)
	return strings.TrimSpace(strings.Replace(s.String(), " <- ", " = ", 1))
}

func (f *Fused) digest(w io.Writer) {
	for i, p := range f.Products {
		fmt.Fprintln(w, f.Factors[i], p.digest())
	}
	fmt.Fprintln(w, f.Reads, f.Body.digest())
}

func (f *Fused) derivative(d *Definition, _ wanted, _ []*Function) (*Definition, error) {
	return nil, fmt.Errorf("%s ends products in an expression: its gradients are those of the expression, a rowwise definition, and then of the products", d.Name)
}

// productForm matches the line of a product in a text.
var productForm = regexp.MustCompile(`^\s*(\w+)\s*\[([\w,\s]*)\]\s*=(.*)$`)

// factorForm matches a factor of a product in a text.
var factorForm = regexp.MustCompile(`(\w+)\s*\[`)

// fused parses products that end in an expression: operands, parameters, the products, and the values of the
// expression.
func (p *parser) fused() (*Definition, error) {
	header := p.places[""]
	body := p.lines
	if err := p.functions(); err != nil { // which may stand below their use
		return nil, err
	}
	p.lines = body
	b := newFusedBuilder(p.b.d.Name)
	b.body.d.formula, b.body.d.clauses = p.b.d.formula, p.b.d.clauses
	p.b = b.body

	var declared, products, rest []textLine
	for l := p.next(); l != nil; l = p.next() {
		var err error
		switch {
		case l.begins("function"):
			p.skipFunction()
		case l.begins("rule"):
			err = p.rule(l)
		case l.isProse:
			err = p.prose(l)
		case l.declares("in", "out", "inout"):
			declared = append(declared, *l)
			err = p.fixedOperand(l)
		case productForm.MatchString(cutComment(l.raw)):
			products = append(products, *l)
		default:
			rest = append(rest, *l)
		}
		if err != nil {
			return nil, err
		}
	}
	b.operands, b.body.d.Operands = b.body.d.Operands, nil // fixedOperand has taken them down
	for i := range b.operands {
		_, formats, _ := strings.Cut(declared[i].raw, "]")
		if words := strings.Fields(cutComment(formats)); len(words) > 1 && words[0] == "as" {
			b.operands[i].DTypes.Like = words[1]
		} else if len(words) == 0 {
			b.operands[i].DTypes = AnyFloat
		}
	}
	factors := map[string]bool{}
	for i := range products {
		if err := p.product(b, &products[i], factors); err != nil {
			return nil, err
		}
	}
	for i := range b.operands {
		o := &b.operands[i]
		switch at := declared[i].tokens[1]; {
		case factors[o.Name]:
		case len(products) == 0:
		case o.IsIn && o.IsOut:
			return nil, at.errorf("operand %s: what products end in reads inputs and writes outputs, none in place", o.Name)
		case o.IsOut:
			rule := bodyRule(o.DTypes)
			if e := b.extent(o.Name, o.Dims); e != PerElement {
				return nil, at.errorf("output %s has %s, want one value per element", o.Name, e)
			}
			b.body.operand(o.Name, PerElement, []Rule{rule})
			b.body.d.Operands[len(b.body.d.Operands)-1].IsOut = true
		default:
			p.scope.values[o.Name] = b.In(o.Name, o.Dims, o.DTypes)
		}
		if b.body.err != nil {
			return nil, declared[i].tokens[1].errorf("%v", b.body.err)
		}
	}
	for i := range rest {
		p.lines = rest[i+1:] // what explain looks at
		if err := p.statement(&rest[i]); err != nil {
			return nil, err
		}
	}
	if err := p.resolve(); err != nil {
		return nil, err
	}
	d, err := b.finish()
	if err == nil {
		d, err = d.seal()
	}
	if err != nil {
		return nil, header.errorf("%v", err)
	}
	for i, l := range declared {
		if want := d.operandText(&d.Operands[i]); fold(l.raw) != fold(want) {
			return nil, l.start().errorf("unexpected %q, want %q", fold(l.raw), fold(want))
		}
	}
	for i, l := range products {
		if want := d.Form.(*Fused).productLine(d.Form.(*Fused).Products[i]); fold(l.raw) != fold(want) {
			return nil, l.start().errorf("unexpected %q, want %q", fold(l.raw), fold(want))
		}
	}
	return d, nil
}

// product parses the line of a product as far as it says which operands it has. The rest must be what the
// form prints.
func (p *parser) product(b *FusedBuilder, l *textLine, factors map[string]bool) error {
	part := productForm.FindStringSubmatch(cutComment(l.raw))
	if err := p.declare(l.tokens[0]); err != nil {
		return err
	}
	f := ContractionForm{Result: part[1]}
	for _, letter := range strings.Split(part[2], ",") {
		f.ResultDims = append(f.ResultDims, strings.ToUpper(strings.TrimSpace(letter)))
	}
	names := factorForm.FindAllStringSubmatch(part[3], -1)
	if len(names) < 2 || len(f.ResultDims) != 2 {
		return l.start().errorf("unexpected %q, want a product such as \"p[m,n] = +0 + sum over k ascending of A[m,k] * B[k,n]\"", fold(l.raw))
	}
	for i, name := range names[:min(len(names), 3)] {
		at := b.operand(name[1])
		if at < 0 || !b.operands[at].IsIn || b.operands[at].IsOut {
			return l.start().errorf("%s is not an input that was declared", name[1])
		}
		o := &b.operands[at]
		factors[o.Name] = true
		if len(o.Dims) < 2 && i < 2 {
			return l.start().errorf("%s has the sizes %v, want those of a matrix", o.Name, o.Dims)
		}
		switch i {
		case 0:
			f.Left, f.LeftDims, f.Factors = o.Name, o.Dims, o.DTypes
			f.TransposeLeft = o.Dims[len(o.Dims)-1] == f.ResultDims[0]
		case 1:
			f.Right, f.RightDims = o.Name, o.Dims
			f.TransposeRight = o.Dims[len(o.Dims)-2] == f.ResultDims[1]
		default:
			f.Groups = f.groupsBy(*o)
			o.DTypes, o.IsIndex, o.IsOffsets, o.Bound = Only(indexDType), true, true, f.Groups.Of
		}
	}
	if f.Factors.Like != "" {
		return l.start().errorf("%s may be stored %q, want formats of its own", f.Left, f.Factors)
	}
	p.scope.values[f.Result] = b.Product(f)
	if b.body.err != nil {
		return l.start().errorf("%v", b.body.err)
	}
	return nil
}
