// Package op describes operations for the program and the documents: their
// definitions, the parameters that people give them, how to run them on named
// tensors, and the kinds of data on which their accuracy is stated. Each folder below
// is one operation; op/all lists them.
package op

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/tensor"
)

// Operation is one operation, such as softmax.forward.
type Operation struct {
	Name        string
	Summary     string
	IsOwn       bool              // made by [Of] from a user's definition, not shipped
	File        string            // the file the user's definition was read from, or ""
	Definitions []*def.Definition // the plain one first, then the variants that parameters select
	Params      []Param

	// Usual has the sizes that models give to axes, by letter, where their role does not say them:
	// heads have 64 pairs, a token goes to a few experts. They are measured by default.
	Usual map[string]int

	// UsualIndex has the indices that models have, by name, where they are far from uniform: heads of a token have one
	// position. They are measured.
	UsualIndex map[string]Index

	Data     []Data       // kinds of data on which accuracy is measured and stated
	Bounds   []bound.Form // of the error of each output, for any data
	Saved    []Saved      // inputs that are results of another definition
	Patterns []Pattern    // values that verification tries besides those of every definition
	Scalings []Scaling    // relations that verification asserts

	Clauses    []Clause    // the contract's, of every definition
	Ranges     []Range     // of outputs, for any honest kernel
	Allowances []Allowance // of profiles
	Formulas   []Formula   // other forms of the definitions

	// Derive computes the parameters of one of the definitions from those that people set.
	// It is nil if they are the same.
	Derive func(d *def.Definition, given engine.Params) (engine.Params, error)

	// Settings returns parameters that people may set, drawn for verification; [Operation.Derive]
	// takes them. It is set where Derive is: the definition's own parameters then depend on each
	// other, and kernels may rely on it.
	Settings func(g *gen.Generator) engine.Params

	// Variant returns the definition whose operands Run takes with these parameters. If it is
	// nil, that is the first of Definitions.
	Variant func(v *Values) *def.Definition

	// For returns the operation on a definition that Variant returns and that is not among
	// Definitions. It is nil if Variant returns none.
	For func(d *def.Definition) *Operation

	// Takes is set if Run takes any number of tensors instead of a definition's inputs. It
	// reports whether a tensor of the given name is one of them. Results then lists the
	// outputs that are not also inputs.
	Takes   func(name string) bool
	Results []string

	// Several is set if the operation computes several tensors together, and this can be
	// measured.
	Several *Several

	// Run computes the operation on named tensors and returns the outputs. A tensor that is
	// updated in place is an input and an output; the input itself is not changed.
	Run func(q *engine.Queue, in engine.Args, p *Values, opts ...engine.CallOption) (engine.Args, error)
}

// Param is a parameter of an operation, as people set it: a number or a word.
type Param struct {
	Name    string
	Default string // "" if there is none
	Help    string
}

// Data is a named kind of data for one definition.
type Data struct {
	Name       string
	Definition *def.Definition
	Sizes      map[string]int
	Params     []float64 // in the order of the definition

	// Values has the elements of operands by name. Other operands are normally distributed,
	// indices uniformly.
	Values map[string]Element

	// Index has lengths and pages by name. Others are uniform.
	Index map[string]Index
}

// UsualData returns the first kind of data, with the indices that models have.
func (o *Operation) UsualData() Data {
	data := o.Data[0]
	if o.UsualIndex != nil {
		data.Index = o.UsualIndex
	}
	return data
}

// Several is how an operation computes several tensors together.
type Several struct {
	Data Data // of all tensors, one behind another

	// Run computes them on tensors in the order of the definition's operands, by tensor.
	// Operands that are not per element are the same for all.
	Run func(q *engine.Queue, params []float64, tensors [][]*tensor.Tensor) error
}

// Element returns the value at a place: a row and a column of a matrix, one of many where
// an operand has batch axes.
type Element func(g *gen.Generator, r, c int) float32

// Values holds parameters as they were set. Its methods record the first parameter that is
// malformed or missing, and Err returns that error.
type Values struct {
	op    *Operation
	given map[string]string
	read  []string // parameters that were asked for
	err   error
}

// NewValues returns the given parameters. It returns an error for a name that is not a
// parameter of the operation.
func (o *Operation) NewValues(given map[string]string) (*Values, error) {
	var names []string
	for _, p := range o.Params {
		names = append(names, p.Name)
	}
	for name := range given {
		if !slices.Contains(names, name) {
			want := "it has none"
			if len(names) > 0 {
				want = "want " + strings.Join(names, ", ")
			}
			return nil, &device.ArgumentError{Op: o.Name, Operand: name, Got: "is no parameter (" + want + ")"}
		}
	}
	return &Values{op: o, given: given}, nil
}

// Selecting lists the parameters that select the definition: those that Variant reads.
func (o *Operation) Selecting() []string {
	if o.Variant == nil {
		return nil
	}
	v := &Values{op: o}
	o.Variant(v)
	return v.read
}

// Text returns a parameter as it was set, or its default.
func (v *Values) Text(name string) string {
	v.read = append(v.read, name)
	if s, ok := v.given[name]; ok {
		return s
	}
	for _, p := range v.op.Params {
		if p.Name == name {
			if p.Default == "" {
				v.fail(name, "is missing", p.Help)
			}
			return p.Default
		}
	}
	panic("op: " + v.op.Name + " has no parameter " + name)
}

// IsGiven reports whether a parameter was set.
func (v *Values) IsGiven(name string) bool { _, ok := v.given[name]; return ok }

// Float returns a real parameter.
func (v *Values) Float(name string) float64 {
	s := v.Text(name)
	x, err := strconv.ParseFloat(s, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		v.fail(name, fmt.Sprintf("is %q", s), "a finite number")
	case err != nil:
		v.fail(name, fmt.Sprintf("is %q", s), "a number")
	}
	return x
}

// Int returns an integer parameter in [low, high].
func (v *Values) Int(name string, low, high int64) int64 {
	s := v.Text(name)
	x, err := strconv.ParseInt(s, 10, 64)
	if err != nil || x < low || x > high {
		v.fail(name, fmt.Sprintf("is %q", s), fmt.Sprintf("an integer from %d to %d", low, high))
	}
	return x
}

// Uint returns an unsigned 64-bit parameter.
func (v *Values) Uint(name string) uint64 {
	s := v.Text(name)
	x, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		v.fail(name, fmt.Sprintf("is %q", s), fmt.Sprintf("an integer from 0 to %d", uint64(math.MaxUint64)))
	}
	return x
}

// Bool returns a parameter that is true or false.
func (v *Values) Bool(name string) bool {
	s := v.Text(name)
	x, err := strconv.ParseBool(s)
	if err != nil {
		v.fail(name, fmt.Sprintf("is %q", s), "true or false")
	}
	return x
}

// Fail records an error, unless there is an earlier one. Whatever the error is, parameters are
// arguments of a call: it becomes a device.ArgumentError.
func (v *Values) Fail(err error) {
	if err != nil && !errors.Is(err, device.ErrBadArgument) {
		err = &device.ArgumentError{Op: v.op.Name, Operand: "parameters", Got: "are refused: " + err.Error(), Cause: err}
	}
	if v.err == nil {
		v.err = err
	}
}

// Err returns the first error.
func (v *Values) Err() error { return v.err }

// Refuse records that the value of a parameter is not allowed.
func (v *Values) Refuse(name, want string) {
	v.fail(name, fmt.Sprintf("is %q", v.Text(name)), want)
}

// Named returns err with the name of the operation that was called, if err refuses an
// operand of a definition beneath it.
func Named(operation string, err error) error {
	var bad *device.ArgumentError
	if !errors.As(err, &bad) || bad.Operand == "" {
		return err
	}
	named := *bad
	named.Op = operation
	return &named
}

func (v *Values) fail(name, got, want string) {
	v.Fail(&device.ArgumentError{Op: v.op.Name, Operand: name, Got: got, Want: want})
}

// Plain returns the Run of an operation that is one definition with parameters of the same
// names.
func Plain(d *def.Definition) func(*engine.Queue, engine.Args, *Values, ...engine.CallOption) (engine.Args, error) {
	return func(q *engine.Queue, in engine.Args, v *Values, opts ...engine.CallOption) (engine.Args, error) {
		params := engine.Params{}
		for _, p := range d.Params {
			if p.IsInt {
				params[p.Name] = float64(v.Int(p.Name, math.MinInt32, math.MaxInt32))
			} else {
				params[p.Name] = v.Float(p.Name)
			}
		}
		if v.Err() != nil {
			return nil, v.Err()
		}
		return Eval(q, d, in, params, opts...)
	}
}

// Eval computes a definition and returns its outputs by name. It does not change the inputs:
// tensors that the definition updates in place are copied first.
func Eval(q *engine.Queue, d *def.Definition, in engine.Args, params engine.Params, opts ...engine.CallOption) (engine.Args, error) {
	args, results := engine.Args{}, engine.Args{}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		i := d.Operand(name)
		if i < 0 || !d.Operands[i].IsIn {
			return nil, &device.ArgumentError{Op: d.Name, Operand: name, Got: "is no input", Want: inputNames(d)}
		}
		args[name] = in[name]
	}
	for _, o := range d.Operands {
		if !o.IsIn {
			continue
		}
		t := args[o.Name]
		if t == nil {
			return nil, &device.ArgumentError{Op: d.Name, Operand: o.Name, Got: "is missing", Want: "inputs " + inputNames(d)}
		}
		if o.IsOut {
			copied, err := clone(q, t)
			if err != nil {
				return nil, err
			}
			args[o.Name], results[o.Name] = copied, copied
		}
	}
	outputs, err := engine.Eval(q, d, args, append(opts[:len(opts):len(opts)], engine.WithParams(params))...)
	for name, t := range outputs {
		results[name] = t
	}
	return results, err
}

func clone(q *engine.Queue, t *tensor.Tensor) (*tensor.Tensor, error) {
	c, err := tensor.New(q.Device(), t.DType(), t.Shape()...)
	if err != nil {
		return nil, err
	}
	return c, c.CopyFrom(t)
}

func inputNames(d *def.Definition) string {
	var names []string
	for _, o := range d.Operands {
		if o.IsIn {
			names = append(names, o.Name)
		}
	}
	return strings.Join(names, ", ")
}
