package model

import (
	"maps"
	"slices"

	"tokitai/def"
	"tokitai/num"
)

// gradients derives the gradients of a program's weights.
type gradients struct {
	*Builder
	rules  map[*def.Definition]Rule
	needed map[*Value]bool // depends on a weight
	of     map[*Value]Ref  // the gradient so far
	parts  map[*Value]bool // whose gradient is written column by column
	number map[*Value]int  // of contributions
	stored map[*Value]Ref  // gradients that calls want in another format
}

// Backward adds the calls that compute the gradients of all weights on which a value depends, given
// the gradient of that value, and returns them by the names of the weights. They are kept after a
// run. rules are rows for definitions that the shipped table lacks; nil for none.
//
// Gradients of weights are binary32, however the weights are stored; all others are stored like their
// values.
//
// Calls are taken from the last to the first. The gradients of a value that is used several times
// are added in that order, one addition after another: ((last + one before) + ...) + first.
func (b *Builder) Backward(value, gradient Ref, rules map[*def.Definition]Rule) map[string]Ref {
	g := &gradients{b, maps.Clone(shippedRules()), map[*Value]bool{}, map[*Value]Ref{}, map[*Value]bool{}, map[*Value]int{}, map[*Value]Ref{}}
	maps.Copy(g.rules, rules)
	if b.err == nil && (!value.isWhole() || !gradient.isWhole() || value.value.Len() != gradient.value.Len()) {
		b.fail("backward: the gradient is %s, want one like %s", gradient, value)
	}
	if b.err != nil {
		return nil
	}
	for _, v := range b.values {
		g.needed[v] = v.Kind == Weight
	}
	for _, c := range b.calls {
		g.spread(c)
	}
	g.of[value.value] = gradient
	for i := len(b.calls) - 1; i >= 0 && b.err == nil; i-- {
		g.call(b.calls[i])
	}
	return g.ofWeights()
}

// spread notes that outputs depend on a weight if an input does.
func (g *gradients) spread(c *Call) {
	depends := false
	for i, r := range c.Operands {
		depends = depends || !c.Definition.Operands[i].IsOut && g.needed[r.value]
	}
	for i, r := range c.Operands {
		if c.Definition.Operands[i].IsOut && depends {
			g.needed[r.value] = true
		}
	}
}

// call adds the gradients of a call's inputs, if one of its outputs has a gradient.
func (g *gradients) call(c *Call) {
	d := c.Definition
	hasGradient, isNeeded := false, false
	for i, r := range c.Operands {
		_, has := g.of[r.value]
		hasGradient = hasGradient || d.Operands[i].IsOut && has
		isNeeded = isNeeded || !d.Operands[i].IsOut && g.needed[r.value]
	}
	if !hasGradient || !isNeeded {
		return
	}
	rule, ok := g.rules[d]
	if !ok {
		g.fail("%s: the table of gradients has no row for %s", c.Name, d.Name)
		return
	}
	for i := range d.Operands {
		in := c.Operands[i]
		if out, isSame := rule.Same[d.Operands[i].Name]; isSame && g.needed[in.value] {
			g.contribute(in, g.gradient(c, out))
		}
	}
	for _, back := range rule.Backward {
		g.backward(c, back)
	}
	if rule.Compose != nil {
		rule.Compose(&Step{g, c})
	}
}

// Step is a call for which a Rule composes the gradients.
type Step struct {
	g *gradients
	c *Call
}

// Operand returns an operand of the call.
func (s *Step) Operand(name string) Ref { return s.c.Operands[s.c.Definition.Operand(name)] }

// Gradient returns the gradient of an output of the call.
func (s *Step) Gradient(output string) Ref { return s.g.gradient(s.c, output) }

// Sibling returns another output of the call that computed an operand of this one: the operand itself
// must be a whole output of it.
func (s *Step) Sibling(operand, output string) Ref {
	r := s.Operand(operand)
	for _, i := range s.g.writer[r.value] {
		if at := s.g.calls[i].Definition.Operand(output); at >= 0 && s.g.calls[i].Definition.Operands[at].IsOut {
			return s.g.calls[i].Operands[at]
		}
	}
	s.g.fail("%s: the gradient needs the %s that was computed with %s, and no call has both", s.c.Name, output, operand)
	return Ref{}
}

// Call adds a call without parameters and returns its outputs.
func (s *Step) Call(name string, d *def.Definition, inputs ...Ref) []Ref {
	return s.g.Call("d."+s.c.Name+"/"+name, d, nil, inputs...)
}

// Add adds a gradient of an input.
func (s *Step) Add(input string, gradient Ref) {
	if in := s.Operand(input); s.g.err == nil && s.g.needed[in.value] {
		s.g.contribute(in, gradient)
	}
}

// Contribute adds a call without parameters whose one output is a gradient of an input, seen in a shape.
func (s *Step) Contribute(input string, d *def.Definition, shape []int, inputs ...Ref) {
	in := s.Operand(input)
	if s.g.err != nil || !s.g.needed[in.value] {
		return
	}
	out := refTo(s.g.contribution(in.value))
	s.g.CallInto("d."+s.c.Name+"/"+input, d, nil, inputs, []Ref{out.As(shape...)})
	s.g.contribute(in, out)
}

// backward adds a call of a backward definition, unless no value needs its outputs.
func (g *gradients) backward(c *Call, back *def.Definition) {
	d := c.Definition
	var inputs, outputs, targets []Ref
	isNeeded := false
	for i := range back.Operands {
		o := &back.Operands[i]
		switch {
		case o.IsOut:
			name := gradientOf(d, o.Name, false)
			if name == "" {
				g.fail("%s: %s has the output %s, which is no gradient of an input of %s", c.Name, back.Name, o.Name, d.Name)
				return
			}
			in := c.Operands[d.Operand(name)]
			isNeeded = isNeeded || g.needed[in.value]
			targets = append(targets, in)
		case gradientOf(d, o.Name, true) != "":
			inputs = append(inputs, g.gradient(c, gradientOf(d, o.Name, true)))
		case d.Operand(o.Name) >= 0:
			inputs = append(inputs, c.Operands[d.Operand(o.Name)])
		default:
			g.fail("%s: %s reads %s, which is neither an operand of %s nor a gradient of one", c.Name, back.Name, o.Name, d.Name)
			return
		}
	}
	if !isNeeded || g.err != nil {
		return
	}
	for _, in := range targets {
		outputs = append(outputs, g.target(in))
	}
	g.convert(back, inputs, outputs)
	params := Params{}
	for i, p := range d.Params {
		if back.Param(p.Name) >= 0 {
			params[p.Name] = c.Params[i]
		}
	}
	g.CallInto("d."+c.Name+"/"+back.Name, back, params, inputs, outputs)
	for i, in := range targets {
		if g.needed[in.value] && in.isWhole() {
			g.contribute(in, outputs[i])
		}
	}
}

// convert brings inputs of a backward definition to the formats that it wants. A gradient of logits in
// binary32 is rounded like the weight that it is multiplied by; and where the gradient of a weight
// must be stored like an input, as that of a norm's gamma like gamma, this input is widened.
func (g *gradients) convert(back *def.Definition, inputs, outputs []Ref) {
	given := map[string]*Ref{}
	differs := func(o *def.Operand, d num.DType) *Ref {
		like := given[o.DTypes.Like]
		if like == nil || like.value.DType == d || slices.Contains(o.DTypes.Allowed, d) {
			return nil
		}
		return like
	}
	for i := range back.Operands {
		if o := &back.Operands[i]; !o.IsOut {
			given[o.Name] = &inputs[0]
			if like := differs(o, inputs[0].value.DType); like != nil {
				*like = g.storedLike(*like, inputs[0].value.DType)
			}
			inputs = inputs[1:]
		}
	}
	for i := range back.Operands {
		if o := &back.Operands[i]; o.IsOut {
			if like := differs(o, outputs[0].value.DType); like != nil {
				*like = g.storedLike(*like, outputs[0].value.DType)
			}
			outputs = outputs[1:]
		}
	}
}

// storedLike returns a value in another format.
func (g *gradients) storedLike(r Ref, d num.DType) Ref {
	if to, ok := g.stored[r.value]; ok && to.value.DType == d {
		return r.of(to.value)
	}
	by := Widen
	switch {
	case d == num.BF16 && r.value.DType == num.F32:
		by = RoundBF16
	case d != num.F32 || !r.value.DType.IsFloat():
		g.fail("%s is %s, and its gradient wants %s", r.value.Name, r.value.DType, d)
		return r
	}
	to := g.Value(r.value.Name+"."+d.String(), d, r.value.Shape...)
	g.CallInto(to.value.Name, by, nil, []Ref{refTo(r.value)}, []Ref{to})
	g.stored[r.value] = to
	return r.of(to.value)
}

// gradient returns the gradient of an output of a call.
func (g *gradients) gradient(c *Call, output string) Ref {
	out := c.Operands[c.Definition.Operand(output)]
	whole, ok := g.of[out.value]
	if !ok {
		g.fail("%s: the gradient of %s is wanted, and nothing that is differentiated uses it", c.Name, out.value.Name)
		return Ref{}
	}
	if whole.isWhole() {
		return out.of(whole.value)
	}
	if !out.isWhole() {
		g.fail("%s: %s is a part of a value whose gradient is a part of another", c.Name, out)
	}
	return whole.As(out.shape...)
}

// target returns where the gradient of an input goes: a new value, or, if the input is a part of a value, the same
// columns of that value's gradient.
func (g *gradients) target(in Ref) Ref {
	v := in.value
	old, ok := g.of[v]
	if in.isWhole() || !g.needed[v] {
		return in.of(g.contribution(v))
	}
	switch {
	case !ok:
		g.parts[v] = true
		old = refTo(g.contribution(v))
		g.of[v] = old
	case !g.parts[v]:
		g.fail("%s is used whole and in parts, want one of them: its gradient would be written twice", v.Name)
	}
	return in.of(old.value)
}

// contribution declares another value for gradients of v.
func (g *gradients) contribution(v *Value) *Value {
	g.number[v]++
	name := "d." + v.Name
	if g.number[v] > 1 {
		name += "." + string(rune('0'+g.number[v]%10))
	}
	for g.names[name] {
		name += "'"
	}
	return g.Value(name, gradientFormat(v), v.Shape...).value
}

// gradientFormat returns how the gradient of a value is stored.
func gradientFormat(v *Value) num.DType {
	if v.Kind == Weight {
		return num.F32
	}
	return v.DType
}

// contribute adds a gradient of an input to what there is.
func (g *gradients) contribute(in, gradient Ref) {
	v := in.value
	if g.err != nil {
		return
	}
	if !in.isWhole() || g.parts[v] {
		g.fail("%s is used whole and in parts, want one of them: its gradient would be written twice", v.Name)
		return
	}
	if gradient.isWhole() {
		gradient = refTo(gradient.value)
	}
	if gradient.value.DType != gradientFormat(v) {
		gradient = g.storedLike(gradient, gradientFormat(v))
	}
	gradient = gradient.As(v.Shape...)
	old, ok := g.of[v]
	if ok {
		sum := refTo(g.contribution(v))
		g.CallInto(sum.value.Name, Add, nil, []Ref{old, gradient}, []Ref{sum})
		gradient = sum
	}
	g.of[v] = gradient
}

// ofWeights returns the gradients of the weights, under names of their own.
func (g *gradients) ofWeights() map[string]Ref {
	list := map[string]Ref{}
	owner := map[*Value]string{}
	for _, v := range g.values {
		r, ok := g.of[v]
		if v.Kind != Weight || !ok {
			continue
		}
		if other, isTaken := owner[r.value]; isTaken {
			g.fail("%s and %s have one gradient, want one each", other, v.Name)
		}
		if !r.isWhole() {
			g.fail("the gradient of %s is %s, a part of a value, want one of its own", v.Name, r)
		}
		owner[r.value] = v.Name
		list[v.Name] = r
	}
	for value, name := range owner {
		value.Name, value.IsKept = "grad."+name, true
		g.names[value.Name] = true
	}
	return list
}
