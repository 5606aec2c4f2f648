package jinja

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

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
		a, err := r.str(left)
		if err != nil {
			return nil, err
		}
		b, err := r.str(right)
		if err != nil {
			return nil, err
		}
		if err := r.charge(len(a) + len(b)); err != nil {
			return nil, err
		}
		return a + b, nil
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
		if err := r.charge(len(a) + len(b)); err != nil {
			return nil, err
		}
		switch { // what is marked safe makes the other safe
		case isSafe && !isAlso:
			b = escape(b)
		case isAlso && !isSafe:
			a = escape(a)
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
		if err := r.charge(itemBytes * (len(a) + len(b))); err != nil {
			return nil, err
		}
		return append(append(List{}, a...), b...), nil
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
		is, err := r.compare(c.operator, left, right)
		if err != nil || !is {
			return false, err
		}
		left = right
	}
	return true, nil
}

func (r *renderer) compare(operator string, a, b Value) (bool, error) {
	if s, ok := textOf(a); ok && strings.ContainsAny(operator, "<>") {
		r.work(len(s))
	}
	switch operator {
	case "==":
		return r.equal(a, b), nil
	case "!=":
		return !r.equal(a, b), nil
	case "in":
		return r.contains(b, a)
	case "not in":
		is, err := r.contains(b, a)
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
func (r *renderer) contains(in, v Value) (bool, error) {
	if s, ok := textOf(in); ok {
		part, ok := textOf(v)
		if !ok {
			return false, fmt.Errorf("a %s in a str", typeOf(v))
		}
		r.work(len(s) + len(part))
		return strings.Contains(s, part), nil
	}
	if d, ok := in.(*Dict); ok {
		key, ok := textOf(v)
		_, has := d.Values[key]
		return ok && has, nil
	}
	items, ok := r.sequence(in)
	if !ok {
		return false, fmt.Errorf("something in a %s", typeOf(in))
	}
	for _, e := range items {
		if r.equal(e, v) {
			return true, nil
		}
	}
	return false, nil
}
