package jinja

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// call has the arguments of a filter, a function or a method.
type call struct {
	name  string
	args  []Value
	named []namedValue
}

// take returns the argument with a place and a name, or otherwise.
func (c *call) take(i int, name string, otherwise Value) Value {
	if i >= 0 && i < len(c.args) {
		return c.args[i]
	}
	for _, n := range c.named {
		if n.name == name {
			return n.value
		}
	}
	return otherwise
}

// check refuses arguments beyond those with the names.
func (c *call) check(names ...string) error {
	if len(c.args) > len(names) {
		return fmt.Errorf("%s takes %d arguments, got %d", c.name, len(names), len(c.args))
	}
	for _, n := range c.named {
		if !slices.Contains(names, n.name) {
			return fmt.Errorf("the argument %s of %s is not supported", n.name, c.name)
		}
	}
	return nil
}

// text returns an argument that must be a string.
func (c *call) text(i int, name string) (string, error) {
	s, ok := textOf(c.take(i, name, nil))
	if !ok {
		return "", fmt.Errorf("%s: the argument %s is a %s, want a str", c.name, name, typeOf(c.take(i, name, nil)))
	}
	return s, nil
}

type filter func(r *renderer, of Value, c call) (Value, error)

// filters has the supported filters. It is filled at start, since map and select use it.
var filters map[string]filter

func init() {
	filters = map[string]filter{
		"tojson": filterJSON, "length": filterLength, "count": filterLength, "trim": filterTrim, "string": filterString, "safe": filterSafe,
		"default": filterDefault, "d": filterDefault, "join": filterJoin, "items": filterItems, "dictsort": filterDictsort, "list": filterList, "first": filterFirst, "last": filterLast,
		"upper": ofText(upper), "lower": ofText(lower), "replace": filterReplace, "reverse": filterReverse, "sort": filterSort, "int": filterInt,
		"select": selecting(false, true), "reject": selecting(false, false), "selectattr": selecting(true, true), "rejectattr": selecting(true, false), "map": filterMap,
	}
}

func ofText(f func(string) (string, error)) filter {
	return func(r *renderer, of Value, c call) (Value, error) {
		s, err := r.str(of)
		if err == nil {
			err = c.check()
		}
		if err == nil {
			err = r.charge(2 * len(s))
		}
		if err != nil {
			return nil, err
		}
		s, err = f(s)
		return like(of, s), err
	}
}

// upper and lower refuse characters that Python makes several of, or one that depends on what is around it.
func upper(s string) (string, error) {
	return strings.ToUpper(s), isSimple("upper", s, severalInUpper)
}

func lower(s string) (string, error) {
	return strings.ToLower(s), isSimple("lower", s, "İΣ")
}

// severalInUpper are the characters that are several in upper case, in Unicode's SpecialCasing.txt.
const severalInUpper = "ßŉǰΐΰևẖẗẘẙẚὐὒὔὖᾀᾁᾂᾃᾄᾅᾆᾇᾈᾉᾊᾋᾌᾍᾎᾏᾐᾑᾒᾓᾔᾕᾖᾗᾘᾙᾚᾛᾜᾝᾞᾟᾠᾡᾢᾣᾤᾥᾦᾧᾨᾩᾪᾫᾬᾭᾮᾯᾲᾳᾴᾶᾷᾼῂῃῄῆῇῌῒΐῖῗῢΰῤῦῧῲῳῴῶῷῼﬀﬁﬂﬃﬄﬅﬆﬓﬔﬕﬖﬗ"

func isSimple(name, s, not string) error {
	for _, c := range s {
		if c >= utf8.RuneSelf && strings.ContainsRune(not, c) {
			return fmt.Errorf("%s of %q is not supported", name, c)
		}
	}
	return nil
}

func filterJSON(r *renderer, of Value, c call) (Value, error) {
	if err := c.check("ensure_ascii", "indent", "separators", "sort_keys"); err != nil {
		return nil, err
	}
	s := jsonStyle{comma: ", ", colon: ": ", isASCII: isTrue(c.take(0, "ensure_ascii", false)), sortsKeys: isTrue(c.take(3, "sort_keys", false))}
	switch indent := c.take(1, "indent", nil).(type) {
	case nil:
	case int64:
		if indent > 1000 {
			return nil, fmt.Errorf("tojson with the indent %d is not supported", indent)
		}
		s.indent, s.isIndented, s.comma = strings.Repeat(" ", int(max(indent, 0))), true, ","
	case string:
		s.indent, s.isIndented, s.comma = indent, true, ","
	default:
		return nil, fmt.Errorf("tojson with an indent that is a %s is not supported", typeOf(indent))
	}
	if v := c.take(2, "separators", nil); v != nil {
		items, _ := r.sequence(v)
		if len(items) == 2 {
			comma, ok := textOf(items[0])
			colon, ok2 := textOf(items[1])
			if s.comma, s.colon = comma, colon; ok && ok2 {
				v = nil
			}
		}
		if v != nil {
			return nil, fmt.Errorf("tojson: separators are not two strings")
		}
	}
	var b strings.Builder
	if err := s.write(&b, of, "\n"); err != nil {
		return nil, err
	}
	return b.String(), r.charge(b.Len())
}

func filterLength(r *renderer, of Value, c call) (Value, error) {
	if s, ok := textOf(of); ok {
		r.work(len(s))
		return int64(utf8.RuneCountInString(s)), c.check()
	}
	switch of := of.(type) {
	case List:
		return int64(len(of)), c.check()
	case tuple:
		return int64(len(of)), c.check()
	case *Dict:
		return int64(len(of.Keys)), c.check()
	case view:
		return int64(len(of.items)), c.check()
	case undefined:
		return int64(0), c.check()
	}
	return nil, fmt.Errorf("a %s has no length", typeOf(of))
}

func filterTrim(r *renderer, of Value, c call) (Value, error) {
	s, err := r.str(of)
	if err == nil {
		err = c.check("chars")
	}
	if err != nil {
		return nil, err
	}
	is, err := r.stripped(s, c)
	if err != nil {
		return nil, err
	}
	return like(of, strings.TrimFunc(s, is)), nil
}

// stripped returns which characters the argument chars names, or white space without it.
func (r *renderer) stripped(s string, c call) (func(rune) bool, error) {
	r.work(8 * len(s)) // character by character
	if c.take(0, "chars", nil) == nil {
		return isSpace, nil
	}
	chars, err := c.text(0, "chars")
	if err == nil {
		err = r.charge(len(chars))
	}
	if err != nil {
		return nil, err
	}
	set := map[rune]bool{}
	for _, c := range chars {
		set[c] = true
	}
	return func(c rune) bool { return set[c] }, nil
}

// like returns a string, marked safe if of is.
func like(of Value, s string) Value {
	if _, isSafe := of.(markup); isSafe {
		return markup(s)
	}
	return s
}

// isSpace reports whether Python counts a character as white space.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1C && r <= 0x1F }

func filterString(r *renderer, of Value, c call) (Value, error) {
	if s, ok := of.(markup); ok {
		return s, c.check()
	}
	s, err := r.str(of)
	if err == nil {
		err = c.check()
	}
	return s, err
}

func filterSafe(r *renderer, of Value, c call) (Value, error) {
	s, err := r.str(of)
	if err == nil {
		err = c.check()
	}
	return markup(s), err
}

func filterDefault(_ *renderer, of Value, c call) (Value, error) {
	_, isUndefined := of.(undefined)
	if isUndefined || isTrue(c.take(1, "boolean", false)) && !isTrue(of) {
		return c.take(0, "default_value", ""), c.check("default_value", "boolean")
	}
	return of, c.check("default_value", "boolean")
}

func filterJoin(r *renderer, of Value, c call) (Value, error) {
	items, ok := r.sequence(of)
	if !ok {
		return nil, fmt.Errorf("a %s cannot be joined", typeOf(of))
	}
	separator, err := r.str(c.take(0, "d", ""))
	if err == nil {
		err = c.check("d", "attribute")
	}
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for i, item := range items {
		if name := c.take(1, "attribute", nil); name != nil {
			if item, err = attributeOf(item, name); err != nil {
				return nil, err
			}
		}
		s, err := r.str(item)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			s = separator + s
		}
		if err := r.charge(len(s)); err != nil {
			return nil, err
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

// attributeOf returns an item or attribute by a name such as function.name.
func attributeOf(of, name Value) (Value, error) {
	s, ok := textOf(name)
	if !ok {
		return nil, fmt.Errorf("an attribute that is a %s is not supported", typeOf(name))
	}
	for part := range strings.SplitSeq(s, ".") {
		d, isDict := of.(*Dict)
		if v, ok := Value(nil), false; isDict {
			if v, ok = d.Values[part]; ok {
				of = v
				continue
			}
		}
		var err error
		if of, err = attribute(of, part); err != nil {
			return nil, err
		}
	}
	return of, nil
}

// pairs returns keys with their values, or none where they are too many.
func (r *renderer) pairs(d *Dict, keys []string) List {
	if r.charge(2*itemBytes*len(keys)) != nil {
		return nil
	}
	list := make(List, len(keys))
	for i, k := range keys {
		list[i] = tuple{k, d.Values[k]}
	}
	return list
}

func filterItems(r *renderer, of Value, c call) (Value, error) {
	return &generator{make: func() ([]Value, error) {
		switch of := of.(type) {
		case undefined:
			return nil, nil
		case *Dict:
			return r.pairs(of, of.Keys), nil
		}
		return nil, fmt.Errorf("items of a %s", typeOf(of))
	}}, c.check()
}

func filterDictsort(r *renderer, of Value, c call) (Value, error) {
	d, ok := of.(*Dict)
	if !ok {
		return nil, fmt.Errorf("dictsort of a %s", typeOf(of))
	}
	r.work(sortingBytes(len(d.Keys)))
	keys := slices.Clone(d.Keys)
	slices.SortStableFunc(keys, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	return r.pairs(d, keys), c.check()
}

// itemsOf returns the items of what a filter is applied to.
func (r *renderer) itemsOf(of Value, c call) ([]Value, error) {
	items, ok := r.sequence(of)
	if !ok {
		return nil, fmt.Errorf("%s of a %s", c.name, typeOf(of))
	}
	return items, r.failed
}

// sortingBytes is what sorting n items counts as work.
func sortingBytes(n int) int { return itemBytes * n * bits.Len(uint(n)) }

func filterList(r *renderer, of Value, c call) (Value, error) {
	items, err := r.itemsOf(of, c)
	if err == nil {
		err = c.check()
	}
	if err == nil {
		err = r.charge(itemBytes * len(items))
	}
	if err != nil {
		return nil, err
	}
	return List(slices.Clone(items)), nil
}

func filterFirst(r *renderer, of Value, c call) (Value, error) {
	if s, ok := textOf(of); ok && s != "" {
		_, n := utf8.DecodeRuneInString(s)
		return s[:n], c.check()
	}
	items, err := r.itemsOf(of, c)
	if err != nil || len(items) == 0 {
		return undefined{"the first item of nothing"}, err
	}
	return items[0], c.check()
}

func filterLast(r *renderer, of Value, c call) (Value, error) {
	if s, ok := textOf(of); ok && s != "" {
		_, n := utf8.DecodeLastRuneInString(s)
		return s[len(s)-n:], c.check()
	}
	items, err := r.itemsOf(of, c)
	if err != nil || len(items) == 0 {
		return undefined{"the last item of nothing"}, err
	}
	return items[len(items)-1], c.check()
}

func filterReverse(r *renderer, of Value, c call) (Value, error) {
	if _, isText := textOf(of); isText {
		return nil, errors.New("reverse of a str is not supported")
	}
	items, err := r.itemsOf(of, c)
	if err == nil {
		err = r.charge(itemBytes * len(items))
	}
	if err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	slices.Reverse(items)
	return &generator{make: func() ([]Value, error) { return items, nil }}, c.check()
}

func filterSort(r *renderer, of Value, c call) (Value, error) {
	items, err := r.itemsOf(of, c)
	if err == nil {
		err = c.check("reverse", "case_sensitive", "attribute")
	}
	if err != nil {
		return nil, err
	}
	if err := r.charge(sortingBytes(len(items))); err != nil {
		return nil, err
	}
	type entry struct{ key, item Value }
	entries := make([]entry, len(items))
	for i, item := range items {
		key := item
		if name := c.take(2, "attribute", nil); name != nil {
			if key, err = attributeOf(item, name); err != nil {
				return nil, err
			}
		}
		if s, ok := textOf(key); ok && !isTrue(c.take(1, "case_sensitive", false)) {
			key = strings.ToLower(s)
		}
		entries[i] = entry{key, item}
	}
	isReversed := isTrue(c.take(0, "reverse", false))
	slices.SortStableFunc(entries, func(a, b entry) int {
		if isReversed {
			a, b = b, a
		}
		isLess, e := less(a.key, b.key)
		isMore, _ := less(b.key, a.key)
		err = cmp.Or(err, e)
		switch {
		case isLess:
			return -1
		case isMore:
			return 1
		}
		return 0
	})
	list := make(List, len(entries))
	for i, e := range entries {
		list[i] = e.item
	}
	return list, err
}

func filterReplace(r *renderer, of Value, c call) (Value, error) {
	s, err := r.str(of)
	if err != nil {
		return nil, err
	}
	return textMethods["replace"](r, s, c)
}

func filterInt(_ *renderer, of Value, c call) (Value, error) {
	if f, i, isInt, ok := numberOf(of); ok && isInt {
		return i, c.check()
	} else if ok && f > -1e15 && f < 1e15 {
		return int64(f), c.check()
	}
	return nil, fmt.Errorf("int of a %s is not supported", typeOf(of))
}

// selecting returns select, reject and those by an attribute.
func selecting(byAttribute, wanted bool) filter {
	return func(r *renderer, of Value, c call) (Value, error) {
		args := c.args
		if byAttribute && len(args) > 0 {
			args = args[1:]
		}
		return r.each(of, c, func(item Value) (v Value, isKept bool, err error) {
			v = item
			if byAttribute {
				if len(c.args) == 0 {
					return nil, false, fmt.Errorf("%s needs an attribute", c.name)
				}
				if v, err = attributeOf(item, c.args[0]); err != nil {
					return nil, false, err
				}
			}
			is := isTrue(v)
			if len(args) > 0 {
				name, _ := textOf(args[0])
				is, err = r.runTest(name, v, args[1:])
			}
			return item, is == wanted, err
		})
	}
}

func filterMap(r *renderer, of Value, c call) (Value, error) {
	name := c.take(-1, "attribute", nil)
	if len(c.args) == 0 && (name == nil || len(c.named) > 1) {
		return nil, errors.New("map with these arguments is not supported")
	}
	return r.each(of, c, func(item Value) (v Value, isKept bool, err error) {
		if len(c.args) == 0 {
			v, err = attributeOf(item, name)
			return v, true, err
		}
		s, _ := textOf(c.args[0])
		f, ok := filters[s]
		if !ok {
			return nil, false, fmt.Errorf("the filter %q is not supported", s)
		}
		v, err = f(r, item, call{s, c.args[1:], c.named})
		return v, true, err
	})
}

// each returns a generator that applies f to the items of a value, and keeps some of the results.
func (r *renderer) each(of Value, c call, f func(item Value) (v Value, isKept bool, err error)) (Value, error) {
	return &generator{make: func() ([]Value, error) {
		if !isTrue(of) {
			return nil, nil
		}
		items, err := r.itemsOf(of, c)
		if err != nil {
			return nil, err
		}
		var list []Value
		for _, item := range items {
			v, isKept, err := f(item)
			if err == nil {
				err = r.step()
			}
			if err != nil {
				return nil, err
			}
			if isKept {
				list = append(list, v)
			}
		}
		return list, nil
	}}, nil
}
