package jinja

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// functions has the functions that templates call by name.
var functions = map[string]function{
	"raise_exception": func(_ *renderer, args []Value, _ []namedValue) (Value, error) {
		if len(args) != 1 {
			return nil, errors.New("raise_exception takes one argument")
		}
		message, err := str(args[0])
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
		return strftime(r.options.Now, layout)
	},
	"namespace": func(_ *renderer, args []Value, named []namedValue) (Value, error) {
		ns := &namespace{}
		for _, a := range args {
			d, ok := a.(*Dict)
			if !ok {
				return nil, fmt.Errorf("namespace of a %s", typeOf(a))
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
	"dict": func(_ *renderer, args []Value, named []namedValue) (Value, error) {
		d := &Dict{}
		for _, a := range args {
			from, ok := a.(*Dict)
			if !ok {
				return nil, fmt.Errorf("dict of a %s is not supported", typeOf(a))
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
		return view{"range", list}, r.charge(16 * len(list))
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
			return function(func(_ *renderer, args []Value, named []namedValue) (Value, error) {
				return m(of, call{name, args, named})
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

var dictMethods = map[string]func(d *Dict, c call) (Value, error){
	"items": func(d *Dict, c call) (Value, error) { return view{"dict_items", pairs(d, d.Keys)}, c.check() },
	"keys": func(d *Dict, c call) (Value, error) {
		items, _ := sequence(d)
		return view{"dict_keys", items}, c.check()
	},
	"values": func(d *Dict, c call) (Value, error) {
		list := make([]Value, len(d.Keys))
		for i, k := range d.Keys {
			list[i] = d.Values[k]
		}
		return view{"dict_values", list}, c.check()
	},
	"get": func(d *Dict, c call) (Value, error) {
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
		"upper":      func(r *renderer, s string, c call) (Value, error) { return ofText(strings.ToUpper)(r, s, c) },
		"lower":      func(r *renderer, s string, c call) (Value, error) { return ofText(strings.ToLower)(r, s, c) },
		"startswith": affix(strings.HasPrefix),
		"endswith":   affix(strings.HasSuffix),
		"join":       joinStrict,
		"find": func(_ *renderer, s string, c call) (Value, error) {
			part, err := c.text(0, "sub")
			if err == nil {
				err = c.check("sub")
			}
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
			if c.take(0, "sep", nil) == nil {
				if most >= 0 {
					return nil, errors.New("split at white space with maxsplit is not supported")
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
				parts = strings.SplitN(s, separator, most)
			}
			list := make(List, len(parts))
			for i, p := range parts {
				list[i] = p
			}
			return list, r.charge(16 * len(parts))
		},
	}
}

func stripping(left, right bool) textMethod {
	return func(_ *renderer, s string, c call) (Value, error) {
		is := isSpace
		if c.take(0, "chars", nil) != nil {
			set, err := c.text(0, "chars")
			if err != nil {
				return nil, err
			}
			is = func(r rune) bool { return strings.ContainsRune(set, r) }
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
	items, ok := sequence(c.take(0, "", nil))
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
