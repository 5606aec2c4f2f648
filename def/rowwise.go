package def

import (
	"errors"
	"fmt"
	"regexp"

	"tokitai/num"
)

// Builder collects the operands and results of a rowwise definition.
type Builder struct {
	d       *Definition
	inputs  []*Node // by operand, nil for pure outputs
	outputs []Output
	err     error
}

var nameForm = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// reservedNames have another meaning in the text of a rowwise definition.
var reservedNames = map[string]string{"C": "the number of columns", "R": "the number of rows", "NaN": "a constant", "Inf": "a constant"}

// Rowwise builds a definition over the rows of an R×C matrix. If it is invalid, the
// error names the node.
func Rowwise(name string, build func(b *Builder)) (*Definition, error) {
	b := &Builder{d: &Definition{Name: name, Form: new(Expression)}}
	if build == nil {
		return nil, fmt.Errorf("%s: nothing builds it", name)
	}
	build(b)
	if err := b.finish(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b.d.seal()
}

// In declares an input with one value per element. This input, and those below, hold floats, or
// int32 if the rule is Only(num.I32).
func (b *Builder) In(name string, dtypes ...Rule) Value {
	return Value{b.input(name, PerElement, dtypes)}
}

// InCol declares an input with one value per column.
func (b *Builder) InCol(name string, dtypes ...Rule) Value {
	return Value{b.input(name, PerColumn, dtypes)}
}

// InRow declares an input with one value per row.
func (b *Builder) InRow(name string, dtypes ...Rule) Value {
	return Value{b.input(name, PerRow, dtypes)}
}

// InIndex declares an int32 input with one column index per row. Calls reject or skip
// an index outside 0 … C−1, unless it equals the int32 parameter in except.
func (b *Builder) InIndex(name string, except ...Value) Value {
	n := b.input(name, PerRow, []Rule{Only(indexDType)})
	o := &b.d.Operands[n.Operand]
	o.IsIndex, o.Bound = true, "C"
	for _, v := range except {
		e := v.node
		if e == nil || e.owner != b || e.Op != OpParam || e.Type != Int || o.Except != "" {
			b.fail("index %s: want one int32 parameter as its exception, got %s", name, e.label())
			break
		}
		o.Except = e.Name
	}
	return Value{n}
}

// Param declares a parameter: a binary64 passed with the call and rounded once to
// binary32.
func (b *Builder) Param(name string, opts ...ParamOption) Value { return b.param(name, Float, opts) }

// IntParam declares an int32 parameter.
func (b *Builder) IntParam(name string, opts ...ParamOption) Value { return b.param(name, Int, opts) }

// Columns returns the number of columns, rounded to binary32.
func (b *Builder) Columns() Value { return Value{&Node{Op: OpColumns, Name: "C"}} }

// Rows returns the number of rows, rounded to binary32.
func (b *Builder) Rows() Value { return Value{&Node{Op: OpRows, Name: "R"}} }

// Col returns the column of this element, an int32.
func (b *Builder) Col() Value {
	return Value{&Node{Op: OpCol, Type: Int, Extent: PerElement, Name: "col()"}}
}

// ColFloat returns the column of this element, rounded to binary32.
func (b *Builder) ColFloat() Value {
	return Value{&Node{Op: OpColFloat, Extent: PerElement, Name: "colf()"}}
}

// Random returns a random word for this element: Philox 4×32-10 with the seed as key
// and (number / 4, tensor, step) as counter, where numbers count elements row after row. They
// begin with 0, or with the 64-bit number first, which is given as its low and its high word, so
// that a part of a tensor has the words that it has in the whole. All arguments are int32.
func (b *Builder) Random(seedLow, seedHigh, tensor, step Value, first ...Value) Value {
	v := newNode(OpRandom, append([]Value{seedLow, seedHigh, tensor, step}, first...)...)
	if len(first) != 0 && len(first) != 2 {
		v.err = fmt.Errorf("random: the first number has %d words, want its low and its high word", len(first))
	}
	return v.ofElement()
}

// Element returns the low word of the number of this element. Numbers count elements row after
// row, and begin with the 64-bit number first, given as its low and its high word.
func (b *Builder) Element(firstLow, firstHigh Value) Value {
	return newNode(OpElement, firstLow, firstHigh).ofElement()
}

// ElementHigh returns the high word of the number of this element.
func (b *Builder) ElementHigh(firstLow, firstHigh Value) Value {
	return newNode(OpElementHigh, firstLow, firstHigh).ofElement()
}

// ofElement makes a node of single int32 a value per element.
func (x *Node) ofElement() Value {
	x.check(Int, Int, Int, Int, Int, Int, Int)
	if x.err == nil && (x.Extent != Scalar || x.Late) {
		x.err = fmt.Errorf("%s: want int32 parameters", x.brief())
	}
	x.Extent = PerElement
	return Value{x}
}

// RandomRow returns a random word for this column: word column mod 4 of Philox 4×32-10 with
// the seed as key and (column / 4, a, b, use) as counter. All arguments are int32; all but use may
// differ from row to row. They number what the row belongs to, such as a request with its seed, a
// sequence and a position in it, so that the words do not depend on which other rows there are.
func (b *Builder) RandomRow(seedLow, seedHigh, rowA, rowB, use Value) Value {
	v := newNode(OpRandomRow, seedLow, seedHigh, rowA, rowB, use)
	v.check(Int, Int, Int, Int, Int, Int)
	for i, a := range v.Args {
		isOfRow := i < 4
		switch {
		case v.err != nil:
		case isOfRow && (a.Extent&PerColumn != 0 || a.Late):
			v.err = fmt.Errorf("%s: %s is %s, want at most one per row", v.brief(), a.label(), a.Extent)
		case !isOfRow && (a.Extent != Scalar || a.Late):
			v.err = fmt.Errorf("%s: %s is %s, want an int32 parameter", v.brief(), a.label(), a.Extent)
		}
	}
	v.Extent = PerElement
	return Value{v}
}

// errOfFunctions says why the pattern of a computed float is no value outside functions.
var errOfFunctions = errors.New("patterns and integers of floats belong inside a function's expansion")

// Out declares an output with one value per element. This output, and those below,
// store floats in any format that the rule allows, and int32 as int32.
func (b *Builder) Out(name string, v Value, dtypes ...Rule) {
	b.output(name, PerElement, v.node, dtypes)
}

// OutCol declares an output with one value per column.
func (b *Builder) OutCol(name string, v Value, dtypes ...Rule) {
	b.output(name, PerColumn, v.node, dtypes)
}

// OutRow declares an output with one value per row.
func (b *Builder) OutRow(name string, v Value, dtypes ...Rule) {
	b.output(name, PerRow, v.node, dtypes)
}

// Step says that the definition is a step of a larger one, which no call names: it may have more than [MaxOperands].
func (b *Builder) Step() { b.d.isStep = true }

// OutScalar declares an output with a single value.
func (b *Builder) OutScalar(name string, v Value, dtypes ...Rule) {
	b.output(name, Scalar, v.node, dtypes)
}

// Formula sets the formula for readers, line by line.
func (b *Builder) Formula(lines ...string) { b.d.formula = lines }

// Clauses sets the clauses of the contract: texts[i] is clause C(i+1).
func (b *Builder) Clauses(texts ...string) { b.d.clauses = texts }

// Usually names other forms in which people compute the definition: definitions of the same
// function of the real numbers, with the same operands and parameters, that round elsewhere or
// whose sums have other terms, such as the mean of x beside a mean of shifted x. A kernel that
// promises to be stable may have any of them. They are no part of the definition's text.
func (b *Builder) Usually(forms ...*Definition) { b.d.forms = forms }

func (b *Builder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf(format, args...)
	}
}

func (b *Builder) rule(name string, rules []Rule) Rule {
	switch len(rules) {
	case 0:
		return AnyFloat
	case 1:
		return rules[0]
	}
	b.fail("%s: want at most one rule for its storage, got %d", name, len(rules))
	return rules[0]
}

func (b *Builder) operand(name string, e Extent, dtypes []Rule) int {
	if meaning, taken := reservedNames[name]; taken {
		b.fail("operand %s: the name stands for %s", name, meaning)
	}
	b.d.Operands = append(b.d.Operands, Operand{Name: name, Extent: e, Dims: dimsOf(e), DTypes: b.rule(name, dtypes)})
	b.inputs = append(b.inputs, nil)
	return len(b.d.Operands) - 1
}

func dimsOf(e Extent) []string {
	switch e {
	case PerElement:
		return []string{"R", "C"}
	case PerRow:
		return []string{"R"}
	case PerColumn:
		return []string{"C"}
	case PerSlot:
		return []string{"R", "K"}
	}
	return nil
}

func (b *Builder) input(name string, e Extent, dtypes []Rule) *Node {
	if b.d.Operand(name) >= 0 {
		b.fail("operand %s is declared twice", name)
	}
	i := b.operand(name, e, dtypes)
	b.d.Operands[i].IsIn = true
	b.inputs[i] = &Node{Op: OpInput, Name: name, Extent: e, Operand: i, owner: b}
	if b.d.Operands[i].IsInt() {
		b.inputs[i].Type = Int
	}
	return b.inputs[i]
}

func (b *Builder) param(name string, t Type, opts []ParamOption) Value {
	if b.d.Param(name) >= 0 || b.d.Operand(name) >= 0 {
		b.fail("parameter %s: the name is taken", name)
	}
	if !nameForm.MatchString(name) {
		b.fail("parameter %q: want a name like eps", name)
	}
	if meaning, taken := reservedNames[name]; taken {
		b.fail("parameter %s: the name stands for %s", name, meaning)
	}
	p := Param{Name: name, IsInt: t == Int}
	for _, o := range opts {
		o(&p)
	}
	b.d.Params = append(b.d.Params, p)
	return Value{&Node{Op: OpParam, Type: t, Name: name, Param: len(b.d.Params) - 1, owner: b}}
}

func (b *Builder) output(name string, e Extent, v *Node, dtypes []Rule) {
	i := b.d.Operand(name)
	switch {
	case v == nil:
		b.fail("output %s has no value", name)
		return
	case v.err != nil:
		b.fail("output %s: %w", name, v.err)
		return
	case v.Type == Bool:
		b.fail("output %s: %s is a bool, want a float or an int32", name, v.label())
	case v.Extent != e:
		b.fail("output %s: %s is %s, want %s", name, v.label(), v.Extent, e)
	case i >= 0 && b.d.Operands[i].IsOut:
		b.fail("output %s is declared twice", name)
	case i >= 0 && (b.d.Operands[i].IsIndex || b.d.Operands[i].Extent != e):
		b.fail("output %s: the input of that name is %s, want %s", name, b.d.Operands[i].Extent, e)
	case i >= 0 && e != PerElement:
		b.fail("output %s: only values per element can be updated in place", name)
	case i >= 0 && len(dtypes) > 0:
		b.fail("output %s: its storage is already stated by the input of that name", name)
	case i >= 0 && v.Type != b.inputs[i].Type:
		b.fail("output %s: %s is %s, but the input of that name holds %ss", name, v.label(), article(v.Type), b.inputs[i].Type)
	}
	if v.Type == Int && len(dtypes) == 0 {
		dtypes = []Rule{Only(num.I32)}
	}
	if i < 0 {
		i = b.operand(name, e, dtypes)
	}
	b.d.Operands[i].IsOut = true
	b.outputs = append(b.outputs, Output{Operand: i, Value: v})
}

func (b *Builder) finish() error {
	if b.err != nil {
		return b.err
	}
	if len(b.outputs) == 0 {
		return errors.New("it has no output")
	}
	perElement := false
	for _, o := range b.d.Operands {
		perElement = perElement || o.Extent == PerElement
	}
	if !perElement {
		return errors.New("no operand has one value per element, so the number of columns is unknown")
	}
	if err := b.checkTables(); err != nil {
		return err
	}
	if err := b.checkLeaves(); err != nil {
		return err
	}
	for _, form := range b.d.forms {
		if err := b.d.checkForm(form); err != nil {
			return err
		}
	}
	f := &Expression{Math: b.graph(false), Exec: b.graph(true)}
	b.d.Form = f
	for _, n := range f.Exec.Nodes {
		if len(n.Args) == 0 || n.Name == "" {
			continue
		}
		if !nameForm.MatchString(n.Name) {
			return fmt.Errorf("value %q: want a name like xhat", n.Name)
		}
		if unnamedForm.MatchString(n.Name) {
			return fmt.Errorf("value %s: names of this form are for values without a name", n.Name)
		}
	}
	return nil
}

// checkLeaves walks the expression as written. It returns an error for operands of other
// definitions, floats that become int32 outside functions, names used twice, and roundings to a
// format that is not floating-point.
func (b *Builder) checkLeaves() error {
	named := map[string]*Node{}
	for i, o := range b.d.Operands {
		named[o.Name] = b.inputs[i]
	}
	for _, p := range b.d.Params {
		if _, taken := named[p.Name]; taken {
			return fmt.Errorf("parameter %s: the name is taken by an operand", p.Name)
		}
		named[p.Name] = nil
	}
	functions := map[string]*Function{}
	seen := map[*Node]bool{}
	var walk func(n *Node) error
	walk = func(n *Node) error {
		if seen[n] {
			return nil
		}
		seen[n] = true
		for _, a := range n.Args {
			if err := walk(a); err != nil {
				return err
			}
		}
		switch {
		case (n.Op == OpInput || n.Op == OpStored) && n.owner != b:
			return fmt.Errorf("%s is not an input of this definition", n.Name)
		case n.Op == OpParam && n.owner != b:
			return fmt.Errorf("%s is not a parameter of this definition", n.Name)
		case n.Op.isOfFunctions():
			return fmt.Errorf("%s: %w", n.brief(), errOfFunctions)
		case n.Op == OpLookup:
			if err := n.checkLookup(); err != nil {
				return err
			}
		case n.Op == OpPartner && n.Args[0].Op != OpLookup && b.d.Operands[n.Args[0].Operand].IsOut:
			return fmt.Errorf("%s: %s is written in place, want an input", n.brief(), n.Args[0].Name)
		case n.Op == OpArg:
			return fmt.Errorf("%s: the argument of a function outside its expansion", n.brief())
		case n.Op == OpRound || n.Op == OpSRound:
			o := b.d.Operand(n.Storage.Of)
			switch {
			case n.Storage.Of != "" && o < 0:
				return fmt.Errorf("%s: rounds to the storage of %s, which is not an operand", n.brief(), n.Storage.Of)
			case n.Storage.Of != "" && b.d.Operands[o].IsInt(), n.Storage.Of == "" && !n.Storage.Fixed.IsFloat():
				return fmt.Errorf("%s: %s does not store real values", n.brief(), n.Storage)
			case n.Storage.Of != "" && b.d.inFP8(o) != num.NoDType:
				return fmt.Errorf("%s: %w", n.brief(), errFP8(b.d.inFP8(o)))
			case n.Storage.Fixed.IsFP8():
				return fmt.Errorf("%s: %w", n.brief(), errFP8(n.Storage.Fixed))
			}
		case n.Op == OpCall:
			if other := functions[n.Func.Name]; other != nil && other != n.Func {
				return fmt.Errorf("two functions have the name %s", n.Func.Name)
			}
			if functions[n.Func.Name] == nil {
				if err := n.Func.check(); err != nil {
					return err
				}
			}
			functions[n.Func.Name] = n.Func
		}
		if n.Name != "" && len(n.Args) > 0 {
			if !nameForm.MatchString(n.Name) {
				return fmt.Errorf("value %q: want a name like xhat", n.Name)
			}
			if meaning, taken := reservedNames[n.Name]; taken {
				return fmt.Errorf("the name %s stands for %s", n.Name, meaning)
			}
			if other, taken := named[n.Name]; taken && other != n && !b.isOutputNamed(n) {
				return fmt.Errorf("the name %s is used twice", n.Name)
			}
			named[n.Name] = n
		}
		return nil
	}
	for _, o := range b.outputs {
		if err := walk(o.Value); err != nil {
			return err
		}
	}
	return nil
}

// isOutputNamed reports whether n has the name of the operand it is stored to.
func (b *Builder) isOutputNamed(n *Node) bool {
	for _, o := range b.outputs {
		if o.Value == n && b.d.Operands[o.Operand].Name == n.Name && !b.d.Operands[o.Operand].IsIn {
			return true
		}
	}
	return false
}

// graph returns a copy of the nodes that the outputs need, arguments first, with function
// calls kept or expanded. Equal leaves become one node, so that the graph depends only on
// the definition's text.
func (b *Builder) graph(expand bool) Graph {
	var g Graph
	copies := map[*Node]*Node{}
	leaves := map[string]*Node{}
	var visit func(n *Node) *Node
	visit = func(n *Node) *Node {
		if c, ok := copies[n]; ok {
			return c
		}
		if len(n.Args) == 0 {
			if c := leaves[leafText(n)]; c != nil {
				copies[n] = c
				return c
			}
		}
		if n.Op == OpCall && expand {
			visit(n.Args[0])
			c := visit(n.Body)
			if c.Name == "" && len(c.Args) > 0 {
				c.Name = n.Name
			}
			copies[n] = c
			return c
		}
		c := *n
		c.Args = make([]*Node, len(n.Args))
		for i, a := range n.Args {
			c.Args[i] = visit(a)
		}
		c.owner = nil
		c.ID = len(g.Nodes)
		g.Nodes = append(g.Nodes, &c)
		copies[n] = &c
		if len(n.Args) == 0 {
			leaves[leafText(n)] = &c
		}
		return &c
	}
	for _, o := range b.outputs {
		g.Outputs = append(g.Outputs, Output{Operand: o.Operand, Value: visit(o.Value)})
	}
	return g
}

// leafText returns the text of a leaf.
func leafText(n *Node) string {
	switch n.Op {
	case OpConst:
		return n.Real.String()
	case OpInt:
		return intText(n.Int)
	}
	return n.Name
}
