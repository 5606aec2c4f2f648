package jinja

import "fmt"

// tests has the supported tests, with the number of their arguments.
var tests = map[string]int{
	"defined": 0, "undefined": 0, "none": 0, "string": 0, "number": 0, "integer": 0, "float": 0, "boolean": 0, "mapping": 0, "iterable": 0, "sequence": 0, "true": 0, "false": 0,
	"odd": 0, "even": 0, "equalto": 1, "eq": 1, "ne": 1, "in": 1, "lt": 1, "le": 1, "gt": 1, "ge": 1,
}

// runTest reports whether a value passes a test.
func (r *renderer) runTest(name string, v Value, args []Value) (bool, error) {
	n, ok := tests[name]
	switch {
	case !ok:
		return false, fmt.Errorf("the test %q is not supported", name)
	case n != len(args):
		return false, fmt.Errorf("the test %s takes %d arguments, got %d", name, n, len(args))
	}
	_, isUndefined := v.(undefined)
	_, isText := textOf(v)
	_, isBool := v.(bool)
	_, i, isInt, isNumber := numberOf(v)
	switch name {
	case "defined":
		return !isUndefined, nil
	case "undefined":
		return isUndefined, nil
	case "none":
		return v == nil, nil
	case "string":
		return isText, nil
	case "number":
		return isNumber, nil
	case "integer":
		return isInt && !isBool, nil
	case "float":
		return isNumber && !isInt, nil
	case "boolean":
		return isBool, nil
	case "mapping":
		_, ok := v.(*Dict)
		return ok, nil
	case "iterable":
		return isIterable(v), nil
	case "sequence": // it has a length and items by number; what is undefined has the length 0
		_, isGenerator := v.(*generator)
		view, isView := v.(view)
		return isIterable(v) && !isGenerator && (!isView || view.name == "range"), nil
	case "true":
		return v == true, nil
	case "false":
		return v == false, nil
	case "odd", "even":
		if !isInt {
			return false, fmt.Errorf("the test %s of a %s", name, typeOf(v))
		}
		return (i%2 != 0) == (name == "odd"), nil
	}
	return r.compare(map[string]string{"equalto": "==", "eq": "==", "ne": "!=", "in": "in", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}[name], v, args[0])
}
