package jinja

import (
	"errors"
	"fmt"
	"strings"
)

var errTooMuch = fmt.Errorf("the template makes more than %d bytes", maxBytes)

// renderer renders a template once.
type renderer struct {
	options Options
	globals map[string]Value
	out     strings.Builder
	read    int // bytes: a step counts as some
	bytes   int
	depth   int
	failed  error // a limit that was passed: the next step returns it
}

// scope has the variables of a block.
type scope struct {
	outer     *scope
	variables map[string]Value
}

func newScope(outer *scope) *scope { return &scope{outer: outer} }

func (s *scope) set(name string, v Value) {
	if s.variables == nil {
		s.variables = map[string]Value{}
	}
	s.variables[name] = v
}

// step counts a step of the rendering.
func (r *renderer) step() error {
	r.work(stepBytes)
	return r.failed
}

// work counts the time in which n bytes are read. Where that is too much the next step fails.
func (r *renderer) work(n int) {
	r.read += n
	if r.failed == nil && r.read > maxSteps*stepBytes {
		r.failed = fmt.Errorf("the template takes more than %d steps", maxSteps)
	}
}

// charge counts bytes, before they are made, and the time that it takes to make them.
func (r *renderer) charge(n int) error {
	r.work(n)
	if r.bytes += n; n > maxBytes || r.bytes > maxBytes {
		r.failed = errTooMuch
	}
	return r.failed
}

func (r *renderer) enter() error {
	if r.depth++; r.depth > 3*maxDepth {
		return fmt.Errorf("the template calls macros too deep in each other")
	}
	return nil
}

// The errors that end an iteration.
var (
	errBreak    = errors.New("break")
	errContinue = errors.New("continue")
)

// at adds the line to an error that has none.
func at(line int, err error) error {
	if err == nil || err == errBreak || err == errContinue {
		return err
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[*Raised](err); ok {
		return err
	}
	return &Error{line, err}
}

func (r *renderer) write(s string) error {
	if err := r.charge(len(s)); err != nil {
		return err
	}
	r.out.WriteString(s)
	return nil
}

// capture runs statements and returns what they write.
func (r *renderer) capture(body []statement, s *scope) (string, error) {
	before := r.out
	r.out = strings.Builder{}
	err := r.run(body, s)
	text := r.out.String()
	r.out = before
	return text, err
}

func (r *renderer) run(body []statement, s *scope) error {
	for _, node := range body {
		if err := r.step(); err != nil {
			return err
		}
		var err error
		switch n := node.(type) {
		case textNode:
			err = r.write(n.text)
		case printNode:
			err = at(n.line, r.print(n.value, s))
		case ifNode:
			err = r.runIf(n, s)
		case forNode:
			err = at(n.line, r.runFor(n, s))
		case setNode:
			var v Value
			if v, err = r.eval(n.value, s); err == nil {
				err = r.checkDepth(v, 0)
			}
			if err == nil {
				err = r.assign(n.targets, v, s)
			}
			err = at(n.line, err)
		case setBlockNode:
			var text string
			if text, err = r.capture(n.body, newScope(s)); err == nil {
				err = at(n.line, r.assignOne(n.to, text, s))
			}
		case macroNode:
			s.set(n.name, r.macro(n, s))
		case generationNode:
			err = r.run(n.body, newScope(s))
		case breakNode:
			err = errBreak
		case continueNode:
			err = errContinue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *renderer) print(e expression, s *scope) error {
	v, err := r.eval(e, s)
	if err != nil {
		return err
	}
	text, err := r.str(v)
	if err != nil {
		return err
	}
	return r.write(text)
}

func (r *renderer) runIf(n ifNode, s *scope) error {
	for _, b := range n.branches {
		v, err := r.eval(b.condition, s)
		if err != nil {
			return err
		}
		if isTrue(v) {
			return r.run(b.body, s)
		}
	}
	return r.run(n.otherwise, s)
}

// checkDepth refuses values that lie too deep in each other: what walks over values is recursive,
// and a loop could nest them without end.
func (r *renderer) checkDepth(v Value, depth int) error {
	if depth > 2*maxDepth {
		return fmt.Errorf("more than %d values in each other", 2*maxDepth)
	}
	var items []Value
	switch v := v.(type) {
	case List:
		items = v
	case tuple:
		items = v
	case view:
		items = v.items
	case *Dict:
		r.work(itemBytes * len(v.Keys))
		for _, e := range v.Values {
			if err := r.checkDepth(e, depth+1); err != nil {
				return err
			}
		}
	default:
		return nil
	}
	r.work(itemBytes * len(items))
	for _, e := range items {
		if err := r.checkDepth(e, depth+1); err != nil {
			return err
		}
	}
	return r.step()
}

func (r *renderer) assign(targets []target, v Value, s *scope) error {
	if len(targets) == 1 {
		return r.assignOne(targets[0], v, s)
	}
	items, ok := r.sequence(v)
	if !ok || len(items) != len(targets) {
		return fmt.Errorf("%s does not have %d values", typeOf(v), len(targets))
	}
	for i, t := range targets {
		if err := r.assignOne(t, items[i], s); err != nil {
			return err
		}
	}
	return nil
}

func (r *renderer) assignOne(t target, v Value, s *scope) error {
	if t.attribute == "" {
		s.set(t.name, v)
		return nil
	}
	ns, ok := r.lookup(t.name, s).(*namespace)
	switch {
	case !ok:
		return fmt.Errorf("%s is not a namespace, so its %s cannot be set", t.name, t.attribute)
	case strings.HasPrefix(t.attribute, "_"):
		return fmt.Errorf("the attribute %s of a namespace begins with an underscore", t.attribute)
	}
	ns.Set(t.attribute, v)
	return nil
}

// loopState is the variable loop.
type loopState struct {
	items []Value
	index int
}

func (l *loopState) attribute(name string) (Value, error) {
	n := len(l.items)
	switch name {
	case "index":
		return int64(l.index + 1), nil
	case "index0":
		return int64(l.index), nil
	case "revindex":
		return int64(n - l.index), nil
	case "revindex0":
		return int64(n - l.index - 1), nil
	case "first":
		return l.index == 0, nil
	case "last":
		return l.index == n-1, nil
	case "length":
		return int64(n), nil
	case "previtem":
		if l.index > 0 {
			return l.items[l.index-1], nil
		}
		return undefined{"loop.previtem, which the first item does not have"}, nil
	case "nextitem":
		if l.index < n-1 {
			return l.items[l.index+1], nil
		}
		return undefined{"loop.nextitem, which the last item does not have"}, nil
	}
	return nil, fmt.Errorf("loop.%s is not supported", name)
}

func (r *renderer) runFor(n forNode, s *scope) error {
	v, err := r.eval(n.in, s)
	if err != nil {
		return err
	}
	items, ok := r.sequence(v)
	if !ok {
		return fmt.Errorf("a %s cannot be looped over", typeOf(v))
	}
	targets := make([]target, len(n.targets))
	for i, name := range n.targets {
		targets[i].name = name
	}
	if n.condition != nil {
		var kept []Value
		for _, item := range items {
			if err := r.step(); err != nil {
				return err
			}
			inner := newScope(s)
			if err := r.assign(targets, item, inner); err != nil {
				return err
			}
			v, err := r.eval(n.condition, inner)
			if err != nil {
				return err
			}
			if isTrue(v) {
				kept = append(kept, item)
			}
		}
		items = kept
	}
	if len(items) == 0 {
		return r.run(n.otherwise, newScope(s))
	}
	for i, item := range items {
		if err := r.step(); err != nil {
			return err
		}
		inner := newScope(s)
		inner.set("loop", &loopState{items, i})
		if err := r.assign(targets, item, inner); err != nil {
			return err
		}
		switch err := r.run(n.body, inner); err {
		case nil, errContinue:
		case errBreak:
			return nil
		default:
			return err
		}
	}
	return nil
}

// macro returns the function of a macro. It sees the variables around its definition.
func (r *renderer) macro(n macroNode, around *scope) function {
	return func(r *renderer, args []Value, named []namedValue) (Value, error) {
		if err := r.enter(); err != nil {
			return nil, err
		}
		defer func() { r.depth-- }()
		if len(args) > len(n.parameters) {
			return nil, fmt.Errorf("the macro %s takes %d arguments, got %d", n.name, len(n.parameters), len(args))
		}
		inner := newScope(around)
		for i, name := range n.parameters {
			switch {
			case i < len(args):
				inner.set(name, args[i])
			case n.defaults[name] != nil:
			default:
				inner.set(name, undefined{"the parameter " + name})
			}
		}
		given := map[string]bool{}
		for _, a := range named {
			i := indexOf(n.parameters, a.name)
			if i < 0 || i < len(args) {
				return nil, fmt.Errorf("the macro %s does not take the argument %s here", n.name, a.name)
			}
			inner.set(a.name, a.value)
			given[a.name] = true
		}
		for i, name := range n.parameters {
			if e := n.defaults[name]; e != nil && i >= len(args) && !given[name] {
				v, err := r.eval(e, inner)
				if err != nil {
					return nil, err
				}
				inner.set(name, v)
			}
		}
		return r.capture(n.body, inner)
	}
}

func indexOf(list []string, s string) int {
	for i, e := range list {
		if e == s {
			return i
		}
	}
	return -1
}
