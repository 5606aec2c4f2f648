package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"tokitai/def"
	"tokitai/device"
	"tokitai/num"
	"tokitai/tensor"
)

// Args maps operands to the tensors of a call.
type Args map[string]*tensor.Tensor

// Params maps parameters to their values.
type Params map[string]float64

// Observer watches calls. Before runs after the arguments have been checked and the
// lowering chosen, and may refuse the call. After runs after the launch.
type Observer interface {
	Before(*Record) error
	After(*Record, error)
}

// Record describes a call to an Observer.
type Record struct {
	Queue      *Queue
	Definition *def.Definition
	Lowering   *Lowering
	Tensors    []*tensor.Tensor // in the order of the definition
	Params     []float64        // in the order of the definition
	Artifacts  []string         // the SHA-256 of the kernel's programs, if they were compiled at run time

	// State is for the observer to pass data from Before to After.
	State any
}

// Run computes a definition on tensors given by name, among them its outputs. Once a plan
// exists it allocates nothing.
func Run(q *Queue, d *def.Definition, args Args, opts ...CallOption) error {
	if err := checkCall(q, d, "engine.Run"); err != nil {
		return err
	}
	a := q.arguments(opts)
	defer a.free()
	if err := a.order(d, args); err != nil {
		return err
	}
	return q.call(d, a.tensors, a.params, &a.settings)
}

// arguments is the memory of a call that is given by name, or with options.
type arguments struct {
	settings settings
	tensors  []*tensor.Tensor // in the order of the definition
	params   []float64        // in the order of the definition
}

var argumentsPool = sync.Pool{New: func() any { return new(arguments) }}

// arguments returns memory for a call, with the settings that the options make.
func (q *Queue) arguments(opts []CallOption) *arguments {
	a := argumentsPool.Get().(*arguments)
	a.settings = q.settings
	apply(&a.settings, opts)
	return a
}

func (a *arguments) free() {
	clear(a.tensors)
	a.settings = settings{}
	argumentsPool.Put(a)
}

// order sets tensors and parameters from those given by name.
func (a *arguments) order(d *def.Definition, args Args) error {
	for name := range args {
		if d.Operand(name) < 0 {
			return &device.ArgumentError{Op: d.Name, Operand: name, Got: "is an unknown operand", Want: operandNames(d)}
		}
	}
	a.tensors = a.tensors[:0]
	for i := range d.Operands {
		a.tensors = append(a.tensors, args[d.Operands[i].Name])
	}
	for name := range a.settings.params {
		if d.Param(name) < 0 {
			return &device.ArgumentError{Op: d.Name, Operand: name, Got: "is an unknown parameter", Want: paramNames(d)}
		}
	}
	a.params = a.params[:0]
	for _, p := range d.Params {
		v, ok := a.settings.params[p.Name]
		switch {
		case ok:
		case p.Default != nil:
			v = *p.Default
		default:
			return &device.ArgumentError{Op: d.Name, Operand: p.Name, Got: "is missing", Want: p.Want()}
		}
		a.params = append(a.params, v)
	}
	return nil
}

// Eval is like Run, but allocates outputs that are not given, in the format of the operand
// that they are declared like. It waits for the results and returns all outputs.
func Eval(q *Queue, d *def.Definition, args Args, opts ...CallOption) (Args, error) {
	if err := checkCall(q, d, "engine.Eval"); err != nil {
		return nil, err
	}
	if err := q.checkNotRecording(d.Name); err != nil {
		return nil, err // there would be no results to return
	}
	s := q.settings
	apply(&s, opts)
	all, results := Args{}, Args{}
	for name, t := range args {
		all[name] = t
	}
	for i := range d.Operands {
		o := &d.Operands[i]
		switch {
		case o.IsIn && args[o.Name] == nil:
			return nil, &device.ArgumentError{Op: d.Name, Operand: o.Name, Got: "is missing"}
		case !o.IsOut:
			continue
		case args[o.Name] != nil:
			results[o.Name] = args[o.Name]
			continue
		}
		t, err := newOutput(q, d, o, args, &s)
		if err != nil {
			return nil, err
		}
		all[o.Name], results[o.Name] = t, t
	}
	if err := Run(q, d, all, opts...); err != nil {
		return nil, err
	}
	if err := q.Wait(); err != nil {
		return nil, err
	}
	return results, nil
}

// Call is like Run with tensors and parameters in the order of the definition. Typed calls
// use it: once a plan exists it allocates nothing.
func Call(q *Queue, d *def.Definition, tensors []*tensor.Tensor, params []float64, opts ...CallOption) error {
	if err := checkCall(q, d, "engine.Call"); err != nil {
		return err
	}
	if len(opts) == 0 {
		return q.call(d, tensors, params, &q.settings)
	}
	a := q.arguments(opts)
	defer a.free()
	if a.settings.params != nil {
		return bad(d, "WithParams", "is given", "the parameters as arguments: names are for Run and Eval")
	}
	return q.call(d, tensors, params, &a.settings)
}

// checkCall returns an error if a call has no definition, queue or context.
func checkCall(q *Queue, d *def.Definition, call string) error {
	switch {
	case d == nil:
		return &device.ArgumentError{Op: call, Operand: "definition", Got: "is nil"}
	case d.Text() == "":
		return &device.ArgumentError{Op: call, Operand: "definition", Got: "is empty", Want: "one that package def built"}
	}
	return q.checkMade(d.Name)
}

// checkMade returns an error for a queue that cannot be used.
func (q *Queue) checkMade(op string) error {
	switch {
	case q == nil:
		return &device.ArgumentError{Op: op, Operand: "queue", Got: "is nil"}
	case q.device == nil || q.closed == nil:
		return &device.ArgumentError{Op: op, Operand: "queue", Got: "is empty", Want: "one that NewQueue made"}
	case q.closed.Load():
		return &device.ArgumentError{Op: op, Operand: "queue", Got: "is closed", Cause: device.ErrClosed}
	case q.ctx == nil:
		return &device.ArgumentError{Op: op, Operand: "context", Got: "is nil"}
	}
	return nil
}

// launches pools Launch values.
var launches = sync.Pool{New: func() any { return new(Launch) }}

func (q *Queue) call(d *def.Definition, tensors []*tensor.Tensor, params []float64, s *settings) error {
	l := launches.Get().(*Launch)
	err := q.launch(l, d, tensors, params, s)
	clear(l.Operands)
	clear(l.Buffers)
	clear(l.arrays)
	l.Context, l.Device, l.Queue = nil, nil, nil
	launches.Put(l)
	return err
}

func (q *Queue) launch(l *Launch, d *def.Definition, tensors []*tensor.Tensor, params []float64, s *settings) error {
	if q.recorder != nil {
		if isNext, err := q.recorder.changeNext(d, tensors, params, s); isNext {
			return err
		}
	}
	p, checker, err := q.prepare(l, d, tensors, params, s)
	switch {
	case err != nil:
		return err
	case q.recorder != nil && !s.checkOnly:
		return q.recorder.take(q, l, p, d, tensors, s, checker != nil)
	case s.caller != nil:
		return q.callRemotely(d, tensors, params, s)
	case s.checkOnly:
		return nil
	case len(s.observers) > 0:
		return q.observed(l, p, d, tensors, s)
	case checker != nil:
		return launchError(d, checker.LaunchChecked(l))
	}
	return launchError(d, p.kernel.Launch(l))
}

// prepare checks a call and fills l. It returns the plan, unless a Caller computes the call,
// and what checks indices that nobody has checked.
func (q *Queue) prepare(l *Launch, d *def.Definition, tensors []*tensor.Tensor, params []float64, s *settings) (*plan, IndexChecker, error) {
	if err := q.ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", d.Name, err)
	}
	if err := s.check(d); err != nil {
		return nil, nil, err
	}
	if err := q.check(l, d, tensors, params, s); err != nil || s.caller != nil {
		return nil, nil, err
	}
	p, err := q.plan(d, s, &l.Call)
	if err != nil {
		return nil, nil, err
	}
	if s.chosen != nil {
		*s.chosen = p.lowering
	}
	var checker IndexChecker
	if rejectsIndices(d, s) && l.Operands[0].Data == nil { // the host cannot address the indices
		checker, _ = p.kernel.(IndexChecker)
		if q.recorder == nil && (checker == nil || s.checkOnly || len(s.observers) > 0) { // or an answer is wanted now
			if err := checkIndices(d, l, tensors); err != nil {
				return nil, nil, err
			}
			checker = nil
		}
	}
	l.Context, l.Device, l.Queue = q.ctx, q.device, q.queue
	return p, checker, nil
}

// launchError adds the operation's name to an error. An IndexError of an earlier call on
// the queue has its own.
func launchError(d *def.Definition, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*IndexError](err); ok {
		return err
	}
	return &LaunchError{Op: d.Name, Cause: err}
}

func (q *Queue) observed(l *Launch, p *plan, d *def.Definition, tensors []*tensor.Tensor, s *settings) error {
	records := make([]*Record, len(s.observers))
	for i, o := range s.observers {
		records[i] = &Record{
			Queue: q, Definition: d, Lowering: p.lowering, Artifacts: artifactsOf(p.kernel),
			Tensors: append([]*tensor.Tensor(nil), tensors...), Params: append([]float64(nil), l.Params...),
		}
		if err := o.Before(records[i]); err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	err := p.kernel.Launch(l)
	for i, o := range s.observers {
		o.After(records[i], err)
	}
	return launchError(d, err)
}

// newOutput allocates an output with the format and shape that follow from the inputs.
func newOutput(q *Queue, d *def.Definition, o *def.Operand, args Args, s *settings) (*tensor.Tensor, error) {
	dtype, rule := s.storage[o.Name], o.DTypes
	for rule.Like != "" && dtype == num.NoDType { // like another output, perhaps, which is like an input
		dtype = args[rule.Like].DType()
		rule = d.Operands[d.Operand(rule.Like)].DTypes
	}
	if dtype == num.NoDType && len(rule.Allowed) == 1 {
		dtype = rule.Allowed[0]
	}
	var shape []int
	hasShape, hasFloats := false, false
	sizes := map[string]int{}
	maps.Copy(sizes, s.sizes)
	for i := range d.Operands {
		in := &d.Operands[i]
		t := args[in.Name]
		if !in.IsIn || t == nil {
			continue
		}
		hasFloats = hasFloats || t.DType().IsFloat()
		if dtype == num.NoDType && slices.Contains(rule.Allowed, t.DType()) {
			dtype = t.DType()
		}
		bindSizes(d, in, t, sizes)
		if d.Expression() != nil && in.Extent == def.PerElement && !hasShape {
			switch o.Extent {
			case def.PerElement:
				shape, hasShape = t.Shape(), true
			case def.PerRow:
				shape, hasShape = t.Shape()[:max(0, t.Rank()-1)], true
			case def.PerSlot:
				if sizes["K"] > 0 {
					shape, hasShape = append(slices.Clone(t.Shape()[:max(0, t.Rank()-1)]), sizes["K"]), true
				}
			}
		}
	}
	if !hasShape {
		for _, letter := range o.Dims {
			if _, isKnown := sizes[strings.TrimSuffix(letter, "+1")]; !isKnown {
				return nil, &device.ArgumentError{Op: d.Name, Operand: o.Name, Got: "has no size " + letter, Want: "an input that determines it, or the output itself"}
			}
			shape = append(shape, def.SizeOf(letter, sizes))
		}
	}
	switch {
	case dtype == num.NoDType && hasFloats:
		dtype = rule.Allowed[0] // no input is stored in a format that it may have
	case dtype == num.NoDType:
		return nil, &device.ArgumentError{Op: d.Name, Operand: o.Name, Got: "has no dtype", Want: "an input that determines it, or the output itself"}
	}
	return tensor.New(q.device, dtype, shape...)
}

// bindSizes sets the sizes that an operand determines.
func bindSizes(d *def.Definition, o *def.Operand, t *tensor.Tensor, sizes map[string]int) {
	set := func(letter string, n int) {
		if sizes[letter] == 0 {
			sizes[letter] = n
		}
	}
	if group, isMore := strings.CutSuffix(strings.Join(o.Dims, ","), "+1"); isMore {
		set(group, max(t.Len()-1, 0))
		return
	}
	if t.Rank() < len(o.Dims) && len(o.Dims) > 1 {
		return // and the call refuses it
	}
	for k, letter := range o.Dims {
		set(letter, dimension(o, t, k))
	}
}

func operandNames(d *def.Definition) string {
	s := ""
	for i := range d.Operands {
		s += listSeparator(i, len(d.Operands)) + d.Operands[i].Name
	}
	return s
}

func paramNames(d *def.Definition) string {
	if len(d.Params) == 0 {
		return "none"
	}
	s := ""
	for i := range d.Params {
		s += listSeparator(i, len(d.Params)) + d.Params[i].Name
	}
	return s
}

func listSeparator(i, n int) string {
	switch {
	case i == 0:
		return ""
	case i == n-1:
		return " or "
	}
	return ", "
}
