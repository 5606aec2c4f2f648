package model

import (
	"errors"
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/num"
)

// Call is a call of a program.
type Call struct {
	Name       string
	Definition *def.Definition
	Operands   []Ref   // in the order of the definition
	Params     []Param // in the order of the definition
}

// Param is a parameter of a call: a number, or a variable that every run is given.
type Param struct {
	Number   float64
	Variable string // "" for a number
}

// Number returns a parameter that is the same in every run.
func Number(v float64) Param { return Param{Number: v} }

// Variable returns a parameter that is given by name for a run.
func Variable(name string) Param { return Param{Variable: name} }

// Params gives the parameters of a call by name. Those left out have their default.
type Params map[string]Param

// Builder composes a program. After the first error it does nothing more, and Program returns
// that error.
type Builder struct {
	values []*Value
	calls  []*Call
	names  map[string]bool
	writer map[*Value][]int // calls that write a value
	err    error
}

// NewBuilder returns a builder of an empty program.
func NewBuilder() *Builder { return &Builder{names: map[string]bool{}, writer: map[*Value][]int{}} }

func (b *Builder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("model: "+format, args...)
	}
}

func (b *Builder) value(name string, k Kind, d num.DType, shape []int) Ref {
	v := &Value{Name: name, Kind: k, DType: d, Shape: slices.Clone(shape)}
	switch {
	case name == "" || b.names[name]:
		b.fail("%s %q: want a name of its own", k, name)
	case v.Len() < 1 || d == num.NoDType:
		b.fail("%s %s: %v %v, want a format and sizes of at least 1", k, name, d, shape)
	}
	b.names[name] = true
	b.values = append(b.values, v)
	return refTo(v)
}

// Input declares a value that runs are given.
func (b *Builder) Input(name string, d num.DType, shape ...int) Ref {
	return b.value(name, Input, d, shape)
}

// Weight declares a value that runs are given and that has a gradient.
func (b *Builder) Weight(name string, d num.DType, shape ...int) Ref {
	return b.value(name, Weight, d, shape)
}

// Fixed declares a value of the network, as a weight is, that has no gradient.
func (b *Builder) Fixed(name string, d num.DType, shape ...int) Ref {
	return b.value(name, Fixed, d, shape)
}

// Value declares a result, for calls that write some of its columns each.
func (b *Builder) Value(name string, d num.DType, shape ...int) Ref {
	return b.value(name, Result, d, shape)
}

// State declares a value that runs are given and that calls change, in the order of the program.
func (b *Builder) State(name string, d num.DType, shape ...int) Ref {
	return b.value(name, State, d, shape)
}

// Keep says that a result is wanted after a run.
func (b *Builder) Keep(r Ref) {
	if r.value != nil {
		r.value.IsKept = true
	}
}

// Call adds a call. Inputs are in the order of the definition. It returns the outputs, in that
// order too: new values whose names are the call's and the operand's, with a dot between, and
// whose shapes and formats follow from the inputs.
func (b *Builder) Call(name string, d *def.Definition, p Params, inputs ...Ref) []Ref {
	outputs := make([]Ref, 0, 2)
	if b.isWrong(name, d, inputs) {
		return make([]Ref, def.MaxOperands)
	}
	for i := range d.Operands {
		o := &d.Operands[i]
		if !o.IsOut {
			continue
		}
		shape, format, err := outputOf(d, o, inputs)
		if o.IsIn {
			err = fmt.Errorf("%s is read and written, want an operation whose outputs are new", o.Name)
		}
		if err != nil {
			b.fail("%s: %s: %w", name, d.Name, err)
			return make([]Ref, def.MaxOperands)
		}
		outputs = append(outputs, b.value(name+"."+o.Name, Result, format, shape))
	}
	b.CallInto(name, d, p, inputs, outputs)
	return outputs
}

// CallInto is Call with outputs that have been declared by Value, or parts of them.
func (b *Builder) CallInto(name string, d *def.Definition, p Params, inputs, outputs []Ref) {
	if b.isWrong(name, d, inputs) {
		return
	}
	c := &Call{Name: name, Definition: d, Params: make([]Param, len(d.Params))}
	for i := range d.Operands {
		list := &inputs
		if d.Operands[i].IsOut {
			list = &outputs
		}
		if len(*list) == 0 {
			b.fail("%s: %s: %s is missing", name, d.Name, d.Operands[i].Name)
			return
		}
		r := (*list)[0]
		*list = (*list)[1:]
		if err := r.check(); err != nil {
			b.fail("%s: %s: %s: %w", name, d.Name, d.Operands[i].Name, err)
			return
		}
		c.Operands = append(c.Operands, r)
		if d.Operands[i].IsOut {
			b.write(c, r)
		} else if r.value.Kind == Result && len(b.writer[r.value]) == 0 {
			b.fail("%s: reads %s, which no call before it computes", name, r.value.Name)
		}
	}
	if len(outputs) > 0 {
		b.fail("%s: %s: %d outputs too many", name, d.Name, len(outputs))
	}
	for i, q := range d.Params {
		v, isGiven := p[q.Name]
		switch {
		case isGiven:
		case q.Default != nil:
			v = Number(*q.Default)
		default:
			b.fail("%s: %s: parameter %s is missing", name, d.Name, q.Name)
		}
		c.Params[i] = v
	}
	for n := range p {
		if d.Param(n) < 0 {
			b.fail("%s: %s has no parameter %s", name, d.Name, n)
		}
	}
	b.calls = append(b.calls, c)
}

// write notes that c, the next call, writes r.
func (b *Builder) write(c *Call, r Ref) {
	switch r.value.Kind {
	case State:
		return
	case Result:
	default:
		b.fail("%s: writes the %s %s, want a result or a state", c.Name, r.value.Kind, r.value.Name)
	}
	for _, i := range append(b.writer[r.value], len(b.calls)) {
		other := c
		if i < len(b.calls) {
			other = b.calls[i]
		}
		for k, o := range other.Operands {
			if other.Definition.Operands[k].IsOut && o.value == r.value && (k != len(c.Operands)-1 || other != c) && overlap(o, r) {
				b.fail("%s: writes %s again, which %s has written", c.Name, r, other.Name)
			}
		}
	}
	if list := b.writer[r.value]; len(list) == 0 || list[len(list)-1] != len(b.calls) {
		b.writer[r.value] = append(list, len(b.calls))
	}
}

// overlap reports whether two parts of a value share elements, or may: parts of different matrices.
func overlap(a, b Ref) bool {
	return a.cols != b.cols || a.from < b.to && b.from < a.to
}

// isWrong reports whether a call cannot be added, and says why.
func (b *Builder) isWrong(name string, d *def.Definition, inputs []Ref) bool {
	if b.err != nil {
		return true
	}
	if d == nil {
		b.fail("%s: no definition", name)
		return true
	}
	want := 0
	for i := range d.Operands {
		if !d.Operands[i].IsOut {
			want++
		}
	}
	if len(inputs) != want {
		b.fail("%s: %s: %d inputs, want %d", name, d.Name, len(inputs), want)
	}
	for _, r := range inputs {
		if err := r.check(); err != nil {
			b.fail("%s: %s: %w", name, d.Name, err)
		}
	}
	return b.err != nil
}

// Program returns the finished program, with its buffers planned.
func (b *Builder) Program() (*Program, error) {
	if b.err != nil {
		return nil, b.err
	}
	if len(b.calls) == 0 {
		return nil, errors.New("model: a program without calls")
	}
	for _, v := range b.values {
		if v.Kind != Result {
			continue
		}
		if missing := b.missing(v); missing > 0 {
			return nil, fmt.Errorf("model: no call computes %d of the elements of %s", missing, v.Name)
		}
	}
	p := &Program{Values: b.values, Calls: b.calls}
	p.plan()
	return p, nil
}

// missing returns the number of elements of a result that no call writes.
func (b *Builder) missing(v *Value) int {
	n := v.Len()
	for _, i := range b.writer[v] {
		c := b.calls[i]
		for k, r := range c.Operands {
			if c.Definition.Operands[k].IsOut && r.value == v {
				n -= r.rows * (r.to - r.from)
			}
		}
	}
	return n
}
