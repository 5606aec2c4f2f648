package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// Value is a value of Python: nil for None, bool, int64, float64, string, List, *Dict, and values
// that only templates make.
type Value any

// List is a list.
type List []Value

// Dict is a dict: it keeps the order of its keys, which are strings.
type Dict struct {
	Keys   []string
	Values map[string]Value
}

// Set adds a key or changes its value.
func (d *Dict) Set(key string, v Value) {
	if d.Values == nil {
		d.Values = map[string]Value{}
	}
	if _, ok := d.Values[key]; !ok {
		d.Keys = append(d.Keys, key)
	}
	d.Values[key] = v
}

type (
	tuple     []Value
	undefined struct{ what string } // a missing variable, attribute or item
	markup    string                // a string marked safe
	namespace struct{ Dict }
	function  func(r *renderer, args []Value, named []namedValue) (Value, error)
)

// view is what methods such as keys return: its items can be counted, not indexed.
type view struct {
	name  string
	items []Value
}

// generator makes items when they are first asked for, and none after that.
type generator struct {
	make func() ([]Value, error)
	err  error
}

// take returns the items.
func (g *generator) take() ([]Value, bool) {
	if g.make == nil {
		return nil, g.err == nil
	}
	items, err := g.make()
	g.make, g.err = nil, err
	return items, err == nil
}

type namedValue struct {
	name  string
	value Value
}

// typeOf returns the name of a value's type in Python.
func typeOf(v Value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case string, markup:
		return "str"
	case List:
		return "list"
	case tuple:
		return "tuple"
	case *Dict:
		return "dict"
	case *namespace:
		return "namespace"
	case *loopState:
		return "loop"
	case undefined:
		return v.what
	case view:
		return v.name
	case *generator:
		if v.err != nil {
			return fmt.Sprintf("generator that fails (%v)", v.err)
		}
		return "generator"
	}
	return "function"
}

// textOf returns the string in a value that is one.
func textOf(v Value) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case markup:
		return string(v), true
	}
	return "", false
}

// numberOf returns a number as a float, and whether it is an int. A bool is one, as in Python.
func numberOf(v Value) (f float64, i int64, isInt, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, 1, true, true
		}
		return 0, 0, true, true
	case int64:
		return float64(v), v, true, true
	case float64:
		return v, 0, false, true
	}
	return 0, 0, false, false
}

func isTrue(v Value) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case markup:
		return v != ""
	case List:
		return len(v) > 0
	case tuple:
		return len(v) > 0
	case *Dict:
		return len(v.Keys) > 0
	case view:
		return len(v.items) > 0
	}
	return true
}

// sequence returns the items over which a loop runs, or none where they are too many.
func (r *renderer) sequence(v Value) ([]Value, bool) {
	switch v := v.(type) {
	case List:
		return v, true
	case tuple:
		return v, true
	case undefined:
		return nil, true
	case view:
		return v.items, true
	case *generator:
		return v.take()
	case *Dict:
		if r.charge(itemBytes*len(v.Keys)) != nil {
			return nil, true
		}
		items := make([]Value, len(v.Keys))
		for i, k := range v.Keys {
			items[i] = k
		}
		return items, true
	}
	s, ok := textOf(v)
	if !ok || r.charge(itemBytes*len(s)) != nil {
		return nil, ok
	}
	items := make([]Value, 0, len(s))
	for _, c := range s {
		items = append(items, string(c))
	}
	return items, true
}

// isIterable reports whether a loop can run over a value.
func isIterable(v Value) bool {
	switch v.(type) {
	case List, tuple, undefined, view, *generator, *Dict, string, markup:
		return true
	}
	return false
}

// equal reports whether values are the same. Where it takes too long, the answer means nothing.
func (r *renderer) equal(a, b Value) bool {
	if r.work(itemBytes); r.failed != nil {
		return false
	}
	if x, ok := textOf(a); ok {
		y, ok := textOf(b)
		if len(x) == len(y) {
			r.work(len(x))
		}
		return ok && x == y
	}
	if x, i, isInt, ok := numberOf(a); ok {
		y, j, isAlso, ok := numberOf(b)
		return ok && (isInt && isAlso && i == j || !(isInt && isAlso) && x == y)
	}
	switch x := a.(type) {
	case nil:
		return b == nil
	case undefined:
		_, ok := b.(undefined)
		return ok
	case List:
		y, ok := b.(List)
		return ok && r.equalItems(x, y)
	case tuple:
		y, ok := b.(tuple)
		return ok && r.equalItems(x, y)
	case *Dict:
		y, ok := b.(*Dict)
		if !ok || len(x.Keys) != len(y.Keys) {
			return false
		}
		for k, v := range x.Values {
			if w, ok := y.Values[k]; !ok || !r.equal(v, w) {
				return false
			}
		}
		return true
	case *namespace:
		y, ok := b.(*namespace)
		return ok && x == y
	}
	return false
}

func (r *renderer) equalItems(a, b []Value) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !r.equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// less orders numbers, strings, and lists of them.
func less(a, b Value) (bool, error) {
	if x, i, isInt, ok := numberOf(a); ok {
		if y, j, isAlso, ok := numberOf(b); ok {
			if isInt && isAlso {
				return i < j, nil
			}
			return x < y, nil
		}
	}
	if x, ok := textOf(a); ok {
		if y, ok := textOf(b); ok {
			return x < y, nil // the order of code points, as UTF-8 keeps it
		}
	}
	return false, fmt.Errorf("%s and %s have no order", typeOf(a), typeOf(b))
}

// str returns a value as print writes it.
func (r *renderer) str(v Value) (string, error) {
	switch v := v.(type) {
	case undefined:
		return "", nil
	case string:
		return v, nil
	case markup:
		return string(v), nil
	}
	var b strings.Builder
	if err := writeRepr(&b, v); err != nil {
		return "", err
	}
	return b.String(), r.charge(b.Len())
}

// writeRepr writes a value as Python's repr does.
func writeRepr(b *strings.Builder, v Value) error {
	if b.Len() > maxBytes {
		return errTooMuch
	}
	items := func(open string, list []Value, end string) error {
		b.WriteString(open)
		for i, e := range list {
			if i > 0 {
				b.WriteString(", ")
			}
			if err := writeRepr(b, e); err != nil {
				return err
			}
		}
		b.WriteString(end)
		return nil
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		if v {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case float64:
		b.WriteString(floatText(v, "inf", "nan"))
	case string:
		b.WriteString(quoted(v))
	case undefined:
		b.WriteString("Undefined")
	case List:
		return items("[", v, "]")
	case tuple:
		if len(v) == 1 {
			return items("(", v, ",)")
		}
		return items("(", v, ")")
	case *Dict:
		b.WriteString("{")
		for i, k := range v.Keys {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quoted(k) + ": ")
			if err := writeRepr(b, v.Values[k]); err != nil {
				return err
			}
		}
		b.WriteString("}")
	default:
		return fmt.Errorf("printing a %s is not supported", typeOf(v))
	}
	return nil
}

// floatText writes a float as Python does.
func floatText(f float64, infinity, nan string) string {
	switch {
	case math.IsNaN(f):
		return nan
	case math.IsInf(f, 1):
		return infinity
	case math.IsInf(f, -1):
		return "-" + infinity
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// quoted writes a string as Python's repr does.
func quoted(s string) string {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b := []byte{quote}
	for _, r := range s {
		switch {
		case r == rune(quote) || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case unicode.IsPrint(r):
			b = append(b, string(r)...)
		case r < 0x100:
			b = fmt.Appendf(b, `\x%02x`, r)
		case r < 0x10000:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = fmt.Appendf(b, `\U%08x`, r)
		}
	}
	return string(append(b, quote))
}
