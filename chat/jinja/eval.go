package jinja

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

var errTooMuch = fmt.Errorf("the template makes more than %d bytes", maxBytes)

// renderer renders a template once.
type renderer struct {
	options Options
	globals map[string]Value
	out     strings.Builder
	steps   int
	bytes   int
	depth   int
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
	if r.steps++; r.steps > maxSteps {
		return fmt.Errorf("the template takes more than %d steps", maxSteps)
	}
	return nil
}

// charge counts bytes, before they are made.
func (r *renderer) charge(n int) error {
	if r.bytes += n; n > maxBytes || r.bytes > maxBytes {
		return errTooMuch
	}
	return nil
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
	text, err := str(v)
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
		for _, e := range v.Values {
			if err := r.checkDepth(e, depth+1); err != nil {
				return err
			}
		}
	default:
		return nil
	}
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
	items, ok := sequence(v)
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
	items, ok := sequence(v)
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

func (r *renderer) lookup(name string, s *scope) Value {
	for ; s != nil; s = s.outer {
		if v, ok := s.variables[name]; ok {
			return v
		}
	}
	if v, ok := r.globals[name]; ok {
		return v
	}
	if f, ok := functions[name]; ok {
		return f
	}
	return undefined{name}
}

func (r *renderer) evalAll(list []expression, s *scope) ([]Value, error) {
	values := make([]Value, len(list))
	for i, e := range list {
		var err error
		if values[i], err = r.eval(e, s); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func (r *renderer) arguments(a arguments, s *scope) (args []Value, named []namedValue, err error) {
	if args, err = r.evalAll(a.list, s); err != nil {
		return nil, nil, err
	}
	for _, n := range a.named {
		v, err := r.eval(n.value, s)
		if err != nil {
			return nil, nil, err
		}
		named = append(named, namedValue{n.name, v})
	}
	return args, named, nil
}

func (r *renderer) eval(e expression, s *scope) (Value, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	switch n := e.(type) {
	case literal:
		return n.value, nil
	case nameOf:
		return r.lookup(n.name, s), nil
	case listOf:
		items, err := r.evalAll(n.items, s)
		return List(items), err
	case tupleOf:
		items, err := r.evalAll(n.items, s)
		return tuple(items), err
	case dictOf:
		return r.evalDict(n, s)
	case attrOf:
		of, err := r.eval(n.of, s)
		if err != nil {
			return nil, err
		}
		v, err := attribute(of, n.name)
		return v, at(n.line, err)
	case itemOf:
		v, err := r.evalItem(n, s)
		return v, at(n.line, err)
	case sliceOf:
		v, err := r.evalSlice(n, s)
		return v, at(n.line, err)
	case callOf:
		of, err := r.eval(n.of, s)
		if err != nil {
			return nil, err
		}
		args, named, err := r.arguments(n.args, s)
		if err != nil {
			return nil, err
		}
		f, ok := of.(function)
		if !ok {
			if u, ok := of.(undefined); ok {
				return nil, at(n.line, fmt.Errorf("%s is undefined", u.what))
			}
			return nil, at(n.line, fmt.Errorf("a %s cannot be called", typeOf(of)))
		}
		v, err := f(r, args, named)
		return v, at(n.line, err)
	case filterOf:
		of, err := r.eval(n.of, s)
		if err != nil {
			return nil, err
		}
		args, named, err := r.arguments(n.args, s)
		if err != nil {
			return nil, err
		}
		v, err := filters[n.name](r, of, call{n.name, args, named})
		return v, at(n.line, err)
	case testOf:
		of, err := r.eval(n.of, s)
		if err != nil {
			return nil, err
		}
		args, _, err := r.arguments(n.args, s)
		if err != nil {
			return nil, err
		}
		is, err := runTest(n.name, of, args)
		return is != n.isNot, at(n.line, err)
	case unaryOf:
		v, err := r.evalUnary(n, s)
		return v, at(n.line, err)
	case binaryOf:
		v, err := r.evalBinary(n, s)
		return v, at(n.line, err)
	case compareOf:
		v, err := r.evalCompare(n, s)
		return v, at(n.line, err)
	case conditionOf:
		v, err := r.eval(n.condition, s)
		if err != nil {
			return nil, err
		}
		if isTrue(v) {
			return r.eval(n.then, s)
		}
		if n.otherwise == nil {
			return undefined{"the value of an if without else"}, nil
		}
		return r.eval(n.otherwise, s)
	}
	panic(fmt.Sprintf("jinja: no rule for %T", e))
}

func (r *renderer) evalDict(n dictOf, s *scope) (Value, error) {
	d := &Dict{}
	for i := range n.keys {
		key, err := r.eval(n.keys[i], s)
		if err != nil {
			return nil, err
		}
		text, ok := textOf(key)
		if !ok {
			return nil, fmt.Errorf("a dict whose key is a %s is not supported", typeOf(key))
		}
		v, err := r.eval(n.values[i], s)
		if err != nil {
			return nil, err
		}
		d.Set(text, v)
	}
	return d, nil
}

// attribute returns of.name: a method, else an item, else undefined.
func attribute(of Value, name string) (Value, error) {
	switch of := of.(type) {
	case undefined:
		return nil, fmt.Errorf("%s is undefined", of.what)
	case *loopState:
		return of.attribute(name)
	case *namespace:
		if v, ok := of.Values[name]; ok {
			return v, nil
		}
		return undefined{"the namespace's attribute " + name}, nil
	}
	if m := method(of, name); m != nil {
		return m, nil
	}
	if d, ok := of.(*Dict); ok {
		if v, ok := d.Values[name]; ok {
			return v, nil
		}
	}
	return undefined{fmt.Sprintf("the attribute %s of a %s", name, typeOf(of))}, nil
}

func (r *renderer) evalItem(n itemOf, s *scope) (Value, error) {
	of, err := r.eval(n.of, s)
	if err != nil {
		return nil, err
	}
	index, err := r.eval(n.index, s)
	if err != nil {
		return nil, err
	}
	if name, ok := textOf(index); ok {
		if d, ok := of.(*Dict); ok {
			if v, ok := d.Values[name]; ok {
				return v, nil
			}
		}
		return attribute(of, name)
	}
	if u, ok := of.(undefined); ok {
		return nil, fmt.Errorf("%s is undefined", u.what)
	}
	_, i, isInt, _ := numberOf(index)
	var items []Value
	switch of := of.(type) {
	case List:
		items = of
	case tuple:
		items = of
	case view:
		return nil, fmt.Errorf("an item of a %s is not supported", of.name)
	default:
		if _, ok := textOf(of); ok {
			items, _ = sequence(of)
		}
	}
	if isInt && i < 0 {
		i += int64(len(items))
	}
	if !isInt || i < 0 || i >= int64(len(items)) {
		return undefined{fmt.Sprintf("an item of a %s", typeOf(of))}, nil
	}
	return items[i], nil
}

func (r *renderer) evalSlice(n sliceOf, s *scope) (Value, error) {
	of, err := r.eval(n.of, s)
	if err != nil {
		return nil, err
	}
	var items []Value
	text, isText := textOf(of)
	switch of := of.(type) {
	case List:
		items = of
	case tuple:
		items = of
	default:
		if !isText {
			return nil, fmt.Errorf("a slice of %s is not supported", typeOf(of))
		}
		items, _ = sequence(text)
	}
	var bounds [3]*int64
	for i, e := range []expression{n.start, n.end, n.step} {
		if e == nil {
			continue
		}
		v, err := r.eval(e, s)
		if err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		_, k, isInt, _ := numberOf(v)
		if !isInt {
			return nil, fmt.Errorf("a slice's bound is a %s, want an int", typeOf(v))
		}
		bounds[i] = &k
	}
	step, length := int64(1), int64(len(items))
	if bounds[2] != nil {
		step = *bounds[2]
	}
	if step == 0 {
		return nil, errors.New("a slice's step is 0")
	}
	least, most := int64(0), length
	if step < 0 {
		least, most = -1, length-1
	}
	bound := func(b *int64, otherwise int64) int64 {
		if b == nil {
			return otherwise
		}
		i := *b
		if i < 0 {
			i = max(i, -length-1) + length
		}
		return min(max(i, least), most)
	}
	from, to := bound(bounds[0], least), bound(bounds[1], most)
	if step < 0 {
		from, to = bound(bounds[0], most), bound(bounds[1], least)
	}
	var out []Value
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		out = append(out, items[i])
		if step > length || -step > length {
			break
		}
	}
	if err := r.charge(16 * len(out)); err != nil {
		return nil, err
	}
	switch {
	case isText:
		var b strings.Builder
		for _, c := range out {
			b.WriteString(c.(string))
		}
		return like(of, b.String()), nil
	case typeOf(of) == "tuple":
		return tuple(out), nil
	}
	return List(out), nil
}

func (r *renderer) evalUnary(n unaryOf, s *scope) (Value, error) {
	v, err := r.eval(n.of, s)
	if err != nil {
		return nil, err
	}
	if n.operator == "not" {
		return !isTrue(v), nil
	}
	f, i, isInt, ok := numberOf(v)
	switch {
	case !ok:
		return nil, fmt.Errorf("%s of a %s", n.operator, typeOf(v))
	case n.operator == "+" && isInt:
		return i, nil
	case n.operator == "+":
		return f, nil
	case isInt && i == math.MinInt64:
		return nil, errors.New("a number is too large")
	case isInt:
		return -i, nil
	}
	return -f, nil
}

func (r *renderer) evalBinary(n binaryOf, s *scope) (Value, error) {
	left, err := r.eval(n.left, s)
	if err != nil {
		return nil, err
	}
	switch {
	case n.operator == "and" && !isTrue(left), n.operator == "or" && isTrue(left):
		return left, nil
	}
	right, err := r.eval(n.right, s)
	if err != nil {
		return nil, err
	}
	switch n.operator {
	case "and", "or":
		return right, nil
	case "~":
		a, err := str(left)
		if err != nil {
			return nil, err
		}
		b, err := str(right)
		if err != nil {
			return nil, err
		}
		return a + b, r.charge(len(a) + len(b))
	}
	for _, v := range []Value{left, right} {
		if u, ok := v.(undefined); ok {
			return nil, fmt.Errorf("%s is undefined", u.what)
		}
	}
	return r.arithmetic(n.operator, left, right)
}

func (r *renderer) arithmetic(operator string, left, right Value) (Value, error) {
	wrong := fmt.Errorf("%s %s %s", typeOf(left), operator, typeOf(right))
	if a, ok := textOf(left); ok && operator == "+" {
		b, ok := textOf(right)
		if !ok {
			return nil, wrong
		}
		_, isSafe := left.(markup)
		_, isAlso := right.(markup)
		switch { // what is marked safe makes the other safe
		case isSafe && !isAlso:
			b = escape(b)
		case isAlso && !isSafe:
			a = escape(a)
		}
		if err := r.charge(len(a) + len(b)); err != nil {
			return nil, err
		}
		if isSafe || isAlso {
			return markup(a + b), nil
		}
		return a + b, nil
	}
	if a, ok := left.(List); ok && operator == "+" {
		b, ok := right.(List)
		if !ok {
			return nil, wrong
		}
		return append(append(List{}, a...), b...), r.charge(16 * (len(a) + len(b)))
	}
	if a, ok := left.(string); ok && operator == "*" {
		_, times, isInt, _ := numberOf(right)
		if !isInt {
			return nil, wrong
		}
		times = max(times, 0)
		if times > maxBytes {
			return nil, errTooMuch
		}
		if err := r.charge(len(a) * int(times)); err != nil {
			return nil, err
		}
		return strings.Repeat(a, int(times)), nil
	}
	x, i, isInt, ok := numberOf(left)
	y, j, isAlso, ok2 := numberOf(right)
	if !ok || !ok2 {
		return nil, fmt.Errorf("%w is not supported", wrong)
	}
	if (operator == "/" || operator == "//" || operator == "%") && y == 0 {
		return nil, errors.New("a division by zero")
	}
	if isInt && isAlso && operator != "/" {
		const large = 1 << 31 // no operation of smaller numbers overflows
		if i > large || i < -large || j > large || j < -large {
			return nil, errors.New("a number is too large")
		}
		switch operator {
		case "+":
			return i + j, nil
		case "-":
			return i - j, nil
		case "*":
			return i * j, nil
		}
		quotient, rest := i/j, i%j
		if rest != 0 && (rest < 0) != (j < 0) {
			quotient, rest = quotient-1, rest+j
		}
		if operator == "//" {
			return quotient, nil
		}
		return rest, nil
	}
	switch operator {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "/":
		return x / y, nil
	}
	return nil, fmt.Errorf("%w is not supported", wrong)
}

// escape writes the characters of HTML as entities.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;").Replace(s)
}

func (r *renderer) evalCompare(n compareOf, s *scope) (Value, error) {
	left, err := r.eval(n.first, s)
	if err != nil {
		return nil, err
	}
	for _, c := range n.rest {
		right, err := r.eval(c.with, s)
		if err != nil {
			return nil, err
		}
		is, err := compare(c.operator, left, right)
		if err != nil || !is {
			return false, err
		}
		left = right
	}
	return true, nil
}

func compare(operator string, a, b Value) (bool, error) {
	switch operator {
	case "==":
		return equal(a, b), nil
	case "!=":
		return !equal(a, b), nil
	case "in":
		return contains(b, a)
	case "not in":
		is, err := contains(b, a)
		return !is, err
	case "<":
		return less(a, b)
	case ">":
		return less(b, a)
	}
	for _, v := range []Value{a, b} {
		if f, ok := v.(float64); ok && f != f {
			return false, nil
		}
	}
	if operator == "<=" {
		is, err := less(b, a)
		return !is, err
	}
	is, err := less(a, b)
	return !is, err
}

// contains reports whether v is in a container.
func contains(in, v Value) (bool, error) {
	if s, ok := textOf(in); ok {
		part, ok := textOf(v)
		if !ok {
			return false, fmt.Errorf("a %s in a str", typeOf(v))
		}
		return strings.Contains(s, part), nil
	}
	if d, ok := in.(*Dict); ok {
		key, ok := textOf(v)
		_, has := d.Values[key]
		return ok && has, nil
	}
	items, ok := sequence(in)
	if !ok {
		return false, fmt.Errorf("something in a %s", typeOf(in))
	}
	for _, e := range items {
		if equal(e, v) {
			return true, nil
		}
	}
	return false, nil
}
