package def

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Derivative returns the gradients of d: a definition that is given the gradient of every
// result, and computes from it the gradient of every input. For each real output y of d it
// has an input dy, what a later computation found for the derivative of its result L by y;
// for each real input x it has an output dx, the derivative of L by x:
//
//	dx[i] = sum over every element j of every output y of dy[j] * (d y[j] / d x[i])
//
// The gradient of a single value is a parameter. An input that is shared by rows or columns
// gets the sum over them. The inputs and parameters of d that the gradients depend on are
// inputs and parameters of the derivative.
// Names begin with d, or, if one of these is taken, all of them with d_.
//
// of restricts the gradients: to the outputs that it names, if it names any, and to the
// inputs that it names. Parameters have gradients only if they are named. A table has none: it
// would be a sum by index. An input that no
// output depends on in a differentiable way has none; naming it is an error. A contraction
// has one result, so one input must be named. A stream has the gradients of its query, key, value and
// base from that of its mean, all in one definition, which is given its results.
//
// Functions count by their mathematics, roundings as exact, as in package truth. Integral
// values (rint, arguments of maxima) and comparisons are locally constant. Where the slope
// jumps, the derivative has the value of one side: abs at zero that of positive numbers, min
// and max of equal values that of the first, the maximum and minimum of a row that of the
// first column with that value.
//
// The derivatives of sin, cos and erf need a function of other mathematics. It is one that d
// calls, or the first of known.
//
// The result is an ordinary definition in which every rounding is fixed. But for streams, it takes no
// results of d, and computes again what it needs of them. Gradients that would need a column or
// total sum before the last row is read are refused, and so are those that need the old
// value of an operand that d overwrites.
func Derivative(d *Definition, of []string, known ...*Function) (*Definition, error) {
	if d == nil {
		return nil, errors.New("derivative: no definition")
	}
	if err := d.CheckUnchanged(); err != nil {
		return nil, fmt.Errorf("%s %w", d.Name, err)
	}
	w, err := d.wanted(of)
	if err == nil {
		var gradients *Definition
		if gradients, err = d.Form.derivative(d, w, known); err == nil {
			return gradients, nil
		}
	}
	return nil, fmt.Errorf("derivative of %s: %w", d.Name, err)
}

// wanted says which gradients are asked for.
type wanted struct {
	isNamed         bool     // inputs are those that the caller named
	isOutputNamed   bool     // and outputs likewise
	inputs, outputs []string // of d, in its order
	params          []string
	prefix, name    string // of the gradients, and of their definition
}

func (d *Definition) wanted(of []string) (w wanted, err error) {
	var inputs, outputs []string
	for i := range d.Operands {
		o := &d.Operands[i]
		switch isReal := o.IsIn && !o.IsInt(); {
		case isReal && o.IsTable() && slices.Contains(of, o.Name):
			return w, fmt.Errorf("the gradient of table %s is a sum of rows by index, which no rowwise definition has: a scatter-add sums the gradients of its rows", o.Name)
		case isReal && !o.IsTable():
			inputs = append(inputs, o.Name)
		}
		if o.IsOut && !o.IsInt() {
			outputs = append(outputs, o.Name)
		}
	}
	for _, name := range of {
		p := d.Param(name)
		isParam := p >= 0 && !d.Params[p].IsInt
		if !slices.Contains(inputs, name) && !slices.Contains(outputs, name) && !isParam {
			return w, fmt.Errorf("%s is neither a real input (%s) nor a real output (%s)", name, list(inputs), list(outputs))
		}
		if isParam && !slices.Contains(w.params, name) {
			w.params = append(w.params, name)
		}
	}
	named := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !slices.Contains(of, n) })
	}
	w.inputs, w.outputs = named(inputs), named(outputs)
	if w.isNamed = len(w.inputs)+len(w.params) > 0; !w.isNamed {
		w.inputs = inputs
	}
	if w.isOutputNamed = len(w.outputs) > 0; !w.isOutputNamed {
		w.outputs = outputs
	}
	if len(w.outputs) == 0 {
		return w, errors.New("no output holds real numbers")
	}
	w.prefix = d.gradientPrefix(slices.Concat(w.inputs, w.outputs, w.params))
	w.name = d.Name + ".derivative"
	if w.isNamed {
		for _, name := range slices.Concat(w.inputs, w.params) {
			w.name += ".d" + strings.ToLower(name)
		}
	}
	return w, nil
}

func list(names []string) string {
	if len(names) == 0 {
		return "there is none"
	}
	return strings.Join(names, ", ")
}

// gradientPrefix returns what is put before the names of operands to name their gradients.
func (d *Definition) gradientPrefix(names []string) string {
	taken := map[string]bool{}
	for _, o := range d.Operands {
		taken[o.Name] = o.IsIn || d.Expression() == nil
	}
	for _, p := range d.Params {
		taken[p.Name] = true
	}
	for _, n := range d.Math().Nodes {
		taken[n.Name] = taken[n.Name] || d.Operand(n.Name) < 0
	}
	prefix := "d"
	for slices.ContainsFunc(names, func(n string) bool { return taken[prefix+n] }) {
		prefix += "_"
	}
	return prefix
}

// inputOfGradient returns the one input that a gradient is wanted of, for a form with one result, and
// the formula of the gradient.
func (d *Definition) inputOfGradient(w wanted, out *Operand) (in *Operand, formula []string, err error) {
	scales := d.Scales()
	inputs := slices.DeleteFunc(slices.Clone(w.inputs), func(name string) bool {
		return !w.isNamed && (name == out.Name || name == scales.Row || name == scales.Col)
	})
	if len(inputs) != 1 {
		return nil, nil, fmt.Errorf("%s have a gradient each, and a %s has one result: name one of them", list(w.inputs), d.Form)
	}
	if in = &d.Operands[d.Operand(inputs[0])]; in == out {
		return nil, nil, fmt.Errorf("the gradient of the old %s is that of the new one", in.Name)
	}
	return in, []string{fmt.Sprintf("%s%s = the derivative of sum(%s%s * %s) by %s, of %s", w.prefix, in.Name, w.prefix, out.Name, out.Name, in.Name, d.Name)}, nil
}

// differentiator computes the gradients of a rowwise definition, from its outputs to its
// inputs.
type differentiator struct {
	algebra
	wanted
	d         *Definition
	functions []*Function
	err       error

	copies  map[*Node]Value            // nodes of d in the derivative
	reaches map[*Node]bool             // nodes that depend on an input that a gradient is wanted of
	parts   map[*Node]map[Extent]Value // of gradients, by the extent over which they are yet to be summed
	leaves  map[string]*Node           // operands and parameters of the derivative
}

func newDifferentiator(d *Definition, w wanted, known []*Function) *differentiator {
	return &differentiator{
		algebra: newAlgebra(), wanted: w, d: d, functions: append(d.Functions(), known...),
		copies: map[*Node]Value{}, reaches: map[*Node]bool{}, parts: map[*Node]map[Extent]Value{}, leaves: map[string]*Node{},
	}
}

func (x *differentiator) run() (*Definition, error) {
	x.mark()
	for _, o := range x.d.Math().Outputs {
		operand := &x.d.Operands[o.Operand]
		if slices.Contains(x.outputs, operand.Name) && x.reaches[o.Value] {
			name := x.prefix + operand.Name
			x.leaves[name] = &Node{Op: OpInput, Name: name, Extent: operand.Extent}
			if operand.Extent == Scalar {
				x.leaves[name].Op = OpParam
			}
			x.put(o.Value, operand.Extent, x.share(Value{x.leaves[name]}))
		}
	}
	gradients := x.sweep()
	if x.err != nil {
		return nil, x.err
	}
	return x.define(gradients)
}

// mark finds the nodes that depend on an input that a gradient is wanted of.
func (x *differentiator) mark() {
	for _, n := range x.d.Math().Nodes {
		switch n.Op {
		case OpInput:
			x.reaches[n] = slices.Contains(x.inputs, n.Name)
		case OpParam:
			x.reaches[n] = slices.Contains(x.params, n.Name)
		}
		for _, a := range n.Args {
			x.reaches[n] = x.reaches[n] || x.reaches[a] && n.Type == Float
		}
	}
}

// sweep passes gradients from the outputs down to the leaves, and returns those by name.
func (x *differentiator) sweep() map[string]Value {
	gradients := map[string]Value{}
	nodes, taken := x.d.Math().Nodes, x.taken()
	for i := len(nodes) - 1; i >= 0 && x.err == nil; i-- {
		n := nodes[i]
		g := x.gradient(n)
		switch {
		case isZero(g):
		case len(n.Args) == 0:
			gradients[n.Name] = g
		default:
			if name := x.prefix + n.Name; n.Name != "" && len(g.node.Args) > 0 && g.node.Name == "" && !taken[name] {
				g.node.Name, taken[name] = name, true
			}
			x.pass(n, g)
		}
	}
	return gradients
}

// taken returns the names that values of the derivative cannot have.
func (x *differentiator) taken() map[string]bool {
	taken := map[string]bool{}
	for _, n := range x.d.Math().Nodes {
		taken[n.Name] = true
	}
	for _, name := range slices.Concat(x.inputs, x.outputs, x.params) {
		taken[x.prefix+name] = true
	}
	for _, o := range x.d.Operands {
		taken[o.Name] = true
	}
	return taken
}

// put adds v to the gradient of n. v belongs to a value of extent e that n is part of: it
// is to be summed over the axes that n lacks.
func (x *differentiator) put(n *Node, e Extent, v Value) {
	if !x.reaches[n] || isZero(v) {
		return
	}
	if x.parts[n] == nil {
		x.parts[n] = map[Extent]Value{}
	}
	x.parts[n][e] = x.add(x.parts[n][e], v)
}

// gradient returns the gradient of a node, whose users have all been passed.
func (x *differentiator) gradient(n *Node) (g Value) {
	for _, e := range []Extent{PerSlot, PerElement, PerRow, PerColumn, Scalar} {
		g = x.add(g, x.sum(n, x.parts[n][e], e&^n.Extent, e))
	}
	return g
}

// sum sums v, a value of extent e, over some of its axes. A value that lacks an axis is the
// same along it.
func (x *differentiator) sum(n *Node, v Value, over, e Extent) Value {
	has := v.Extent()
	switch {
	case isZero(v) || over == Scalar:
		return v
	case over == PerColumn && e == PerElement:
		return x.sumColumns(v)
	case over == PerRow && e == PerElement && has == PerColumn:
		return x.mul(x.share(new(Builder).Rows()), v)
	case over == PerRow && e == PerElement:
		return x.colSum(x.spread(v))
	case over == PerElement:
		return x.totalSum(x.spread(v))
	case over == PerRow && has == Scalar:
		return x.mul(x.share(new(Builder).Rows()), v)
	case over == PerRow: // one value of each row
		return x.totalSum(x.where(IntConst(0), v))
	case has == Scalar:
		return x.mul(x.share(new(Builder).Columns()), v)
	case !v.IsLate(): // R times the value of each column
		return x.div(x.totalSum(x.spread(v)), x.share(new(Builder).Rows()))
	}
	x.fail(fmt.Errorf("the gradient of %s sums %s over the columns, after the last row: no node does", n.label(), v.node.brief()))
	return Value{}
}

func (x *differentiator) fail(err error) {
	if x.err == nil {
		x.err = err
	}
}

// value returns a node of d in the derivative.
func (x *differentiator) value(n *Node) Value {
	if v, ok := x.copies[n]; ok {
		return v
	}
	c := *n
	c.ID, c.Name = 0, ""
	c.Args = nil
	for _, a := range n.Args {
		c.Args = append(c.Args, x.value(a).node)
	}
	v := Value{&c}
	switch {
	case n.Op == OpCall:
		v = n.Func.Of(Value{c.Args[0]})
	case len(n.Args) == 0:
		c.Name = n.Name
	}
	if v = x.share(v); v.node.Name == "" && x.d.Operand(n.Name) < 0 {
		v.node.Name = n.Name
	}
	if n.Op == OpInput || n.Op == OpParam {
		x.leaves[n.Name] = v.node
	}
	x.copies[n] = v
	return v
}
