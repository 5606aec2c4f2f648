package jinja

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ofJinja are names that are defined in every template of jinja2, or in every macro.
const ofJinja = " caller cycler joiner kwargs lipsum self super varargs "

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
		v := r.lookup(n.name, s)
		if _, isUndefined := v.(undefined); isUndefined && strings.Contains(ofJinja, " "+n.name+" ") {
			return nil, at(n.line, fmt.Errorf("the variable %s of Jinja is not supported", n.name))
		}
		return v, nil
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
		is, err := r.runTest(n.name, of, args)
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
	text, isText := textOf(of)
	length := utf8.RuneCountInString(text)
	switch of := of.(type) {
	case List:
		items, length = of, len(of)
	case tuple:
		items, length = of, len(of)
	case view:
		return nil, fmt.Errorf("an item of a %s is not supported", of.name)
	}
	if isInt && i < 0 {
		i += int64(length)
	}
	switch {
	case !isInt || i < 0 || i >= int64(length):
		return undefined{fmt.Sprintf("an item of a %s", typeOf(of))}, nil
	case isText:
		return like(of, r.cut(text, int(i), int(i)+1)), nil
	}
	return items[i], nil
}

// cut returns the characters of a text from one to another.
func (r *renderer) cut(text string, from, to int) string {
	r.work(2 * len(text))
	n, start, end := 0, len(text), len(text)
	for at := range text {
		if n == from {
			start = at
		}
		if n == to {
			end = at
			break
		}
		n++
	}
	return text[start:end]
}

func (r *renderer) evalSlice(n sliceOf, s *scope) (Value, error) {
	of, err := r.eval(n.of, s)
	if err != nil {
		return nil, err
	}
	var items []Value
	text, isText := textOf(of)
	length := int64(utf8.RuneCountInString(text))
	switch of := of.(type) {
	case List:
		items, length = of, int64(len(of))
	case tuple:
		items, length = of, int64(len(of))
	default:
		if !isText {
			return nil, fmt.Errorf("a slice of %s is not supported", typeOf(of))
		}
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
	step := int64(1)
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
	if isText && step == 1 {
		return like(of, r.cut(text, int(from), int(max(from, to)))), nil
	}
	if isText {
		if items, _ = r.sequence(text); r.failed != nil {
			return nil, r.failed
		}
	}
	var out []Value
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		out = append(out, items[i])
		if step > length || -step > length {
			break
		}
	}
	if err := r.charge(itemBytes * len(out)); err != nil {
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
