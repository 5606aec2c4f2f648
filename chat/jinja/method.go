package jinja

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// functions has the functions that templates call by name.
var functions = map[string]function{
	"raise_exception": func(r *renderer, args []Value, _ []namedValue) (Value, error) {
		if len(args) != 1 {
			return nil, errors.New("raise_exception takes one argument")
		}
		message, err := r.str(args[0])
		if err != nil {
			return nil, err
		}
		return nil, &Raised{message}
	},
	"strftime_now": func(r *renderer, args []Value, named []namedValue) (Value, error) {
		c := call{"strftime_now", args, named}
		layout, err := c.text(0, "format")
		if err == nil {
			err = c.check("format")
		}
		if err != nil {
			return nil, err
		}
		if r.options.Now.IsZero() {
			return nil, ErrNoDate
		}
		if err := r.charge(8 * len(layout)); err != nil { // the longest directive makes 9 bytes of 2
			return nil, err
		}
		return strftime(r.options.Now, layout)
	},
	"namespace": func(r *renderer, args []Value, named []namedValue) (Value, error) {
		ns := &namespace{}
		for _, a := range args {
			d, ok := a.(*Dict)
			if !ok {
				return nil, fmt.Errorf("namespace of a %s", typeOf(a))
			}
			if err := r.charge(2 * itemBytes * len(d.Keys)); err != nil {
				return nil, err
			}
			for _, k := range d.Keys {
				ns.Set(k, d.Values[k])
			}
		}
		for _, n := range named {
			ns.Set(n.name, n.value)
		}
		for _, k := range ns.Keys {
			if strings.HasPrefix(k, "_") {
				return nil, fmt.Errorf("the attribute %s of a namespace begins with an underscore", k)
			}
		}
		return ns, nil
	},
	"dict": func(r *renderer, args []Value, named []namedValue) (Value, error) {
		d := &Dict{}
		for _, a := range args {
			from, ok := a.(*Dict)
			if !ok {
				return nil, fmt.Errorf("dict of a %s is not supported", typeOf(a))
			}
			if err := r.charge(2 * itemBytes * len(from.Keys)); err != nil {
				return nil, err
			}
			for _, k := range from.Keys {
				d.Set(k, from.Values[k])
			}
		}
		for _, n := range named {
			d.Set(n.name, n.value)
		}
		return d, nil
	},
	"range": func(r *renderer, args []Value, _ []namedValue) (Value, error) {
		bounds := [3]int64{0, 0, 1}
		for i, a := range args {
			_, n, isInt, _ := numberOf(a)
			if !isInt || i > 2 {
				return nil, errors.New("range takes one to three ints")
			}
			bounds[i] = n
		}
		switch len(args) {
		case 0:
			return nil, errors.New("range takes one to three ints")
		case 1:
			bounds[0], bounds[1] = 0, bounds[0]
		}
		from, to, step := bounds[0], bounds[1], bounds[2]
		if step == 0 {
			return nil, errors.New("range with the step 0")
		}
		list := List{}
		for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
			if len(list) == maxRange {
				return nil, fmt.Errorf("range has more than %d numbers", maxRange)
			}
			if list = append(list, i); step > 0 && i > to-step || step < 0 && i < to-step {
				break
			}
		}
		return view{"range", list}, r.charge(itemBytes * len(list))
	},
}

// method returns a method of a value, or nil. Methods that are not supported are there too, since
// they come before items: their calls fail.
func method(of Value, name string) Value {
	if _, isSafe := of.(markup); isSafe {
		return missing("string marked safe", name)
	}
	if s, ok := textOf(of); ok {
		m, ok := textMethods[name]
		if !ok {
			if pythonStr[name] {
				return missing("str", name)
			}
			return nil
		}
		return function(func(r *renderer, args []Value, named []namedValue) (Value, error) {
			return m(r, s, call{name, args, named})
		})
	}
	switch of := of.(type) {
	case *Dict:
		if m, ok := dictMethods[name]; ok {
			return function(func(r *renderer, args []Value, named []namedValue) (Value, error) {
				return m(r, of, call{name, args, named})
			})
		}
		if strings.Contains(" clear copy fromkeys pop popitem setdefault update ", " "+name+" ") {
			return missing("dict", name)
		}
	case List:
		if strings.Contains(" append clear copy count extend index insert pop remove reverse sort ", " "+name+" ") {
			return missing("list", name)
		}
	case tuple:
		if name == "count" || name == "index" {
			return missing("tuple", name)
		}
	}
	return nil
}

func missing(kind, name string) function {
	return func(*renderer, []Value, []namedValue) (Value, error) {
		return nil, fmt.Errorf("the method %s of a %s is not supported", name, kind)
	}
}

var dictMethods = map[string]func(r *renderer, d *Dict, c call) (Value, error){
	"items": func(r *renderer, d *Dict, c call) (Value, error) {
		return view{"dict_items", r.pairs(d, d.Keys)}, c.check()
	},
	"keys": func(r *renderer, d *Dict, c call) (Value, error) {
		items, _ := r.sequence(d)
		return view{"dict_keys", items}, c.check()
	},
	"values": func(r *renderer, d *Dict, c call) (Value, error) {
		if err := r.charge(itemBytes * len(d.Keys)); err != nil {
			return nil, err
		}
		list := make([]Value, len(d.Keys))
		for i, k := range d.Keys {
			list[i] = d.Values[k]
		}
		return view{"dict_values", list}, c.check()
	},
	"get": func(_ *renderer, d *Dict, c call) (Value, error) {
		if len(c.named) > 0 || len(c.args) == 0 || len(c.args) > 2 {
			return nil, errors.New("get takes one or two arguments")
		}
		if key, ok := textOf(c.args[0]); ok {
			if v, ok := d.Values[key]; ok {
				return v, nil
			}
		}
		return c.take(1, "", nil), nil
	},
}

// pythonStr has the methods of Python's str that are not supported.
var pythonStr = map[string]bool{}

func init() {
	for _, name := range strings.Fields("casefold center encode expandtabs format format_map index isalnum isalpha isascii isdecimal isidentifier islower isnumeric isprintable isspace istitle isupper ljust maketrans partition removeprefix removesuffix rfind rindex rjust rpartition rsplit splitlines swapcase title translate zfill capitalize count isdigit") {
		pythonStr[name] = true
	}
}

type textMethod func(r *renderer, s string, c call) (Value, error)

// textMethods has the supported methods of strings. It is filled at start, since methods reach it.
var textMethods map[string]textMethod

func init() {
	textMethods = map[string]textMethod{
		"strip":      stripping(true, true),
		"lstrip":     stripping(true, false),
		"rstrip":     stripping(false, true),
		"upper":      func(r *renderer, s string, c call) (Value, error) { return ofText(upper)(r, s, c) },
		"lower":      func(r *renderer, s string, c call) (Value, error) { return ofText(lower)(r, s, c) },
		"startswith": affix(strings.HasPrefix),
		"endswith":   affix(strings.HasSuffix),
		"join":       joinStrict,
		"find": func(r *renderer, s string, c call) (Value, error) {
			part, err := c.text(0, "sub")
			if err == nil {
				err = c.check("sub")
			}
			r.work(2*len(s) + len(part))
			i := strings.Index(s, part)
			if i < 0 {
				return int64(-1), err
			}
			return int64(utf8.RuneCountInString(s[:i])), err
		},
		"replace": func(r *renderer, s string, c call) (Value, error) {
			if len(c.args) != 2 || len(c.named) > 0 {
				return nil, errors.New("replace with other than two arguments is not supported")
			}
			old, err := c.text(0, "old")
			if err != nil {
				return nil, err
			}
			new, err := c.text(1, "new")
			if err != nil {
				return nil, err
			}
			r.work(2*len(s) + len(old))
			grown := len(s) + strings.Count(s, old)*max(len(new)-len(old), 0)
			if err := r.charge(grown); err != nil {
				return nil, err
			}
			return strings.ReplaceAll(s, old, new), nil
		},
		"split": func(r *renderer, s string, c call) (Value, error) {
			if err := c.check("sep", "maxsplit"); err != nil {
				return nil, err
			}
			most := -1
			if v := c.take(1, "maxsplit", nil); v != nil {
				_, n, isInt, _ := numberOf(v)
				if !isInt || n > 1<<30 {
					return nil, errors.New("split: maxsplit is not an int")
				}
				if n >= 0 {
					most = int(n) + 1
				}
			}
			var parts []string
			r.work(2 * len(s))
			if c.take(0, "sep", nil) == nil {
				if most >= 0 {
					return nil, errors.New("split at white space with maxsplit is not supported")
				}
				if err := r.charge(itemBytes * fields(s)); err != nil {
					return nil, err
				}
				parts = strings.FieldsFunc(s, isSpace)
			} else {
				separator, err := c.text(0, "sep")
				if err != nil {
					return nil, err
				}
				if separator == "" {
					return nil, errors.New("split: the separator is empty")
				}
				n := strings.Count(s, separator) + 1
				if most >= 0 {
					n = min(n, most)
				}
				if err := r.charge(itemBytes * n); err != nil {
					return nil, err
				}
				parts = strings.SplitN(s, separator, most)
			}
			list := make(List, len(parts))
			for i, p := range parts {
				list[i] = p
			}
			return list, nil
		},
	}
}

// fields returns how many parts white space leaves of a text.
func fields(s string) int {
	n, isInside := 0, false
	for _, c := range s {
		if isSpace(c) {
			isInside = false
		} else if !isInside {
			isInside = true
			n++
		}
	}
	return n
}

func stripping(left, right bool) textMethod {
	return func(r *renderer, s string, c call) (Value, error) {
		is, err := r.stripped(s, c)
		if err != nil {
			return nil, err
		}
		if left {
			s = strings.TrimLeftFunc(s, is)
		}
		if right {
			s = strings.TrimRightFunc(s, is)
		}
		return s, c.check("chars")
	}
}

func affix(has func(s, part string) bool) textMethod {
	return func(_ *renderer, s string, c call) (Value, error) {
		if err := c.check("affix"); err != nil {
			return nil, err
		}
		if list, ok := c.take(0, "affix", nil).(tuple); ok {
			for _, e := range list {
				part, ok := textOf(e)
				if !ok {
					return nil, fmt.Errorf("%s with a %s in a tuple", c.name, typeOf(e))
				}
				if has(s, part) {
					return true, nil
				}
			}
			return false, nil
		}
		part, err := c.text(0, "affix")
		return has(s, part), err
	}
}

// joinStrict joins strings, and nothing else.
func joinStrict(r *renderer, s string, c call) (Value, error) {
	items, ok := r.sequence(c.take(0, "", nil))
	if !ok || len(c.args) != 1 {
		return nil, errors.New("join takes one list")
	}
	for _, e := range items {
		if _, ok := textOf(e); !ok {
			return nil, fmt.Errorf("join of a %s", typeOf(e))
		}
	}
	return filterJoin(r, List(items), call{"join", []Value{s}, nil})
}
