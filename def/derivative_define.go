package def

import (
	"fmt"
	"slices"
	"strings"

	"tokitai/num"
)

// define builds the definition whose outputs are the gradients, given by the name of what
// they are gradients of.
func (x *differentiator) define(gradients map[string]Value) (*Definition, error) {
	var outputs []string
	for _, name := range slices.Concat(x.inputs, x.params) {
		if !isZero(gradients[name]) {
			outputs = append(outputs, name)
		} else if x.isNamed {
			return nil, fmt.Errorf("no output depends on %s in a differentiable way", name)
		}
	}
	if len(outputs) == 0 {
		return nil, fmt.Errorf("no output (%s) depends on an input (%s) in a differentiable way", list(x.outputs), list(x.inputs))
	}
	for _, name := range outputs {
		gradients[name] = x.fit(gradients[name], x.extentOf(name))
	}
	nodes := map[*Node]bool{}
	for _, name := range outputs {
		reach(gradients[name].node, nodes)
	}
	b := &Builder{d: &Definition{Name: x.name, Form: new(Expression)}}
	f := formats{d: x.d, b: b, stored: map[string]string{}}
	hasElements := slices.ContainsFunc(outputs, func(name string) bool { return x.extentOf(name) == PerElement })
	for n := range nodes {
		hasElements = hasElements || n.Op == OpInput && n.Extent == PerElement
	}
	isStored := map[string]bool{} // operands whose patterns are read
	for n := range nodes {
		if n.Op == OpStored {
			isStored[x.d.Operands[n.Operand].Name] = true
		}
	}
	x.keepTables(nodes)
	for _, o := range x.d.Operands {
		leaf := x.leaves[o.Name]
		if isStored[o.Name] && !nodes[leaf] {
			leaf = &Node{Op: OpInput, Name: o.Name, Extent: o.Extent}
			nodes[leaf] = true
		}
		if !hasElements && o.Extent == PerElement && !o.IsOut { // the number of columns must be known
			leaf, hasElements = &Node{Op: OpInput, Name: o.Name, Extent: PerElement}, true
			nodes[leaf] = true
		}
		switch {
		case !nodes[leaf]:
		case o.IsOut:
			return nil, fmt.Errorf("the gradient of %s needs the old value of %s, which is overwritten", strings.Join(outputs, ", "), o.Name)
		default:
			f.stored[o.Name] = o.Name
			b.declare(leaf, o)
		}
	}
	for i := range b.d.Operands { // rules name operands that have become known
		b.d.Operands[i].DTypes = f.ruleOf(b.d.Operands[i])
	}
	for _, name := range x.outputs {
		if leaf := x.leaves[x.prefix+name]; nodes[leaf] && leaf.Op == OpInput {
			o := x.d.Operands[x.d.Operand(name)]
			b.declare(leaf, Operand{Name: leaf.Name, Extent: o.Extent, Dims: o.Dims, IsIn: true, DTypes: f.ruleFor(leaf.Name, o)})
		}
	}
	params := slices.Clone(x.d.Params)
	for _, name := range x.outputs {
		if leaf := x.leaves[x.prefix+name]; nodes[leaf] && leaf.Op == OpParam {
			params = append(params, Param{Name: leaf.Name})
		}
	}
	for _, p := range params {
		leaf := x.leaves[p.Name]
		isException := slices.ContainsFunc(b.d.Operands, func(o Operand) bool { return o.Except == p.Name })
		if nodes[leaf] {
			leaf.Param, leaf.owner = len(b.d.Params), b
		}
		if nodes[leaf] || isException {
			b.d.Params = append(b.d.Params, p)
		}
	}
	for n := range nodes {
		if n.Op == OpStored {
			n.Operand, n.owner = b.d.Operand(x.d.Operands[n.Operand].Name), b
		}
	}
	for _, name := range outputs {
		var rule []Rule
		if to := x.prefix + name; b.d.Operand(to) < 0 {
			rule = []Rule{f.ruleForOutput(to, name)}
		}
		b.output(x.prefix+name, x.extentOf(name), gradients[name].node, rule)
		b.d.formula = append(b.d.formula, x.formula(name))
	}
	for n := range nodes {
		if n.Storage.Of == "" {
			continue
		}
		of := f.stored[n.Storage.Of]
		if of == "" {
			return nil, fmt.Errorf("%s rounds to the format of %s, which the gradients do not depend on", n.brief(), n.Storage.Of)
		}
		n.Storage.Of = of
	}
	if err := b.finish(); err != nil {
		return nil, err
	}
	return b.d.seal()
}

// formula states what a gradient is.
func (x *differentiator) formula(name string) string {
	var terms []string
	for _, o := range x.outputs {
		if x.leaves[x.prefix+o] != nil {
			terms = append(terms, fmt.Sprintf("sum(%s%s * %s)", x.prefix, o, o))
		}
	}
	return fmt.Sprintf("%s%s = the derivative of %s by %s, of %s", x.prefix, name, strings.Join(terms, " + "), name, x.d.Name)
}

// extentOf returns the extent of an operand or a parameter.
func (x *differentiator) extentOf(name string) Extent {
	if i := x.d.Operand(name); i >= 0 {
		return x.d.Operands[i].Extent
	}
	return Scalar
}

// fit gives a gradient, which may be the same along an axis, the extent of what it belongs to.
func (x *differentiator) fit(v Value, e Extent) Value {
	switch has := v.Extent(); {
	case has == e:
		return v
	case e == PerRow && has == Scalar:
		return x.share(x.spread(v).At(x.number(IntConst(0))))
	}
	return x.spread(v)
}

// reach adds n and what it is computed from to the set.
func reach(n *Node, set map[*Node]bool) {
	if set[n] {
		return
	}
	set[n] = true
	for _, a := range n.Args {
		reach(a, set)
	}
}

// declare makes a leaf an input of the definition.
func (b *Builder) declare(leaf *Node, o Operand) {
	leaf.Operand, leaf.owner = len(b.d.Operands), b
	b.d.Operands = append(b.d.Operands, o)
	b.inputs = append(b.inputs, leaf)
}

// formats carries over the rules by which operands are stored to a definition that has only
// some of the operands.
type formats struct {
	d      *Definition
	b      *Builder
	stored map[string]string // operands of d, and operands of the new definition in the same format
}

// ruleOf returns the rule of an operand that both definitions have.
func (f *formats) ruleOf(o Operand) Rule {
	delete(f.stored, o.Name)
	r := f.ruleFor(o.Name, o)
	f.stored[o.Name] = o.Name
	return r
}

// ruleForOutput returns the rule of the gradient of an input, which is stored like the input,
// or of a parameter.
func (f *formats) ruleForOutput(name, of string) Rule {
	i := f.d.Operand(of)
	if i < 0 {
		return Only(num.F32)
	}
	return f.ruleFor(name, f.d.Operands[i])
}

// ruleFor returns the rule of an operand of the new definition that is stored like o.
func (f *formats) ruleFor(name string, o Operand) Rule {
	if like := f.stored[o.Name]; like != "" {
		return Like(like)
	}
	f.stored[o.Name] = name
	rule := o.DTypes
	if rule.Like == "" {
		return rule
	}
	of := f.d.Operands[f.d.Operand(rule.Like)]
	switch like := f.stored[of.Name]; {
	case like != "":
		rule.Like = like
		return rule
	case len(rule.Allowed) == 0:
		return f.ruleFor(name, of)
	}
	return Rule{Allowed: f.d.formatsOf(&o)}
}

// formatsOf returns the formats that an operand may be stored in.
func (d *Definition) formatsOf(o *Operand) (all []num.DType) {
	for _, t := range num.FloatDTypes {
		if d.allows(o, t) {
			all = append(all, t)
		}
	}
	return all
}
