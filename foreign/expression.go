package foreign

import (
	"fmt"
	"math"
	"math/bits"
)

// expression is an integer expression over the sizes and parameters of a call.
type expression interface {
	// value returns the expression's value for a call.
	value(e *environment) (int64, error)
}

// environment is what the names in expressions stand for.
type environment struct {
	size    func(letter string) int64
	param   func(number int) float64
	stride  func(operand int, letter string) int64
	element func(operand int) int64 // bytes of an element
}

// A node with a position, counted from 0, in the text of the launch.
type (
	literal  struct{ n int64 }
	sizeOf   struct{ letter string }
	paramOf  struct{ number, at int }
	strideOf struct {
		operand int
		letter  string
	}
	bytesOf   struct{ operand int }
	operation struct {
		operator    string
		left, right expression
		at          int
	}
	ceiling struct {
		numerator, denominator expression
		at                     int
	}
	negative struct {
		of expression
		at int
	}
	function struct {
		name      string
		arguments []expression
		at        int
	}
)

func (x literal) value(*environment) (int64, error)  { return x.n, nil }
func (x sizeOf) value(e *environment) (int64, error) { return e.size(x.letter), nil }

func (x strideOf) value(e *environment) (int64, error) { return e.stride(x.operand, x.letter), nil }
func (x bytesOf) value(e *environment) (int64, error)  { return e.element(x.operand), nil }

func (x paramOf) value(e *environment) (int64, error) {
	v := e.param(x.number)
	if v != math.Trunc(v) || math.Abs(v) >= 1<<62 {
		return 0, fmt.Errorf("column %d: the parameter is %v, want an integer in an expression", x.at+1, v)
	}
	return int64(v), nil
}

func (x negative) value(e *environment) (int64, error) {
	v, err := x.of.value(e)
	if err == nil && v == math.MinInt64 {
		err = overflows(x.at)
	}
	return -v, err
}

func overflows(at int) error { return fmt.Errorf("column %d: the result exceeds 64 bits", at+1) }

func (x operation) value(e *environment) (int64, error) {
	a, err := x.left.value(e)
	if err != nil {
		return 0, err
	}
	b, err := x.right.value(e)
	if err != nil {
		return 0, err
	}
	return compute(x.operator, a, b, x.at)
}

func compute(operator string, a, b int64, at int) (int64, error) {
	holds := func(is bool) (int64, error) {
		if is {
			return 1, nil
		}
		return 0, nil
	}
	switch operator {
	case "+":
		if s := a + b; (s > a) == (b > 0) {
			return s, nil
		}
	case "-":
		if s := a - b; (s < a) == (b > 0) {
			return s, nil
		}
	case "*":
		high, low := bits.Mul64(magnitude(a), magnitude(b))
		if high == 0 && low <= math.MaxInt64 {
			return a * b, nil
		}
	case "/", "%":
		switch {
		case b == 0:
			return 0, fmt.Errorf("column %d: division by zero", at+1)
		case a == math.MinInt64:
			return 0, overflows(at)
		case operator == "/":
			return a / b, nil
		}
		return a % b, nil
	case "<":
		return holds(a < b)
	case "<=":
		return holds(a <= b)
	case ">":
		return holds(a > b)
	case ">=":
		return holds(a >= b)
	case "==":
		return holds(a == b)
	case "!=":
		return holds(a != b)
	}
	return 0, overflows(at)
}

func magnitude(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

func (x ceiling) value(e *environment) (int64, error) {
	a, err := x.numerator.value(e)
	if err != nil {
		return 0, err
	}
	b, err := x.denominator.value(e)
	if err != nil {
		return 0, err
	}
	quotient, err := compute("/", a, b, x.at)
	if err == nil && a%b != 0 && (a < 0) == (b < 0) {
		quotient++
	}
	return quotient, err
}

// functions maps the functions of expressions to their number of arguments; 0 is any from
// one on. ceil is parsed apart: it takes a quotient.
var functions = map[string]int{"min": 0, "max": 0, "nextpow2": 1}

func (x function) value(e *environment) (int64, error) {
	var values []int64
	for _, a := range x.arguments {
		v, err := a.value(e)
		if err != nil {
			return 0, err
		}
		values = append(values, v)
	}
	v := values[0]
	switch x.name {
	case "min":
		for _, w := range values[1:] {
			v = min(v, w)
		}
	case "max":
		for _, w := range values[1:] {
			v = max(v, w)
		}
	case "nextpow2":
		if v > 1<<62 {
			return 0, overflows(x.at)
		}
		return 1 << bits.Len64(uint64(max(v, 1)-1)), nil
	}
	return v, nil
}
