// Package jsontree reads JSON as a tree whose objects keep the order of their members. It refuses
// what encoding/json lets pass: duplicate names, broken UTF-8 and lone surrogates, each with the
// byte at which it stands.
package jsontree

import (
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Kind is the kind of a value.
type Kind uint8

// The kinds of JSON values.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

// String returns the kind with its article.
func (k Kind) String() string {
	return [...]string{"null", "a bool", "a number", "a string", "an array", "an object"}[k]
}

// Value is a JSON value.
type Value struct {
	Kind    Kind
	Text    string   // a string decoded, a number or bool as it was written
	List    []Value  // an array
	Members []Member // an object
}

// Member is a member of an object.
type Member struct {
	Name  string
	Value Value
}

// Get returns the member of an object with the name, or nil.
func (v *Value) Get(name string) *Value {
	for i := range v.Members {
		if v.Members[i].Name == name {
			return &v.Members[i].Value
		}
	}
	return nil
}

// Error is text that is not JSON.
type Error struct {
	Offset int // in bytes
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("byte %d: %s", e.Offset, e.Reason) }

const maxDepth = 100 // of arrays and objects in each other

// Parse reads a value and nothing after it.
func Parse(data []byte) (*Value, error) {
	p := &parser{data: data}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.at < len(data) {
		return nil, p.errorf("text after the value")
	}
	return &v, nil
}

type parser struct {
	data []byte
	at   int
}

func (p *parser) errorf(format string, args ...any) error {
	return &Error{p.at, fmt.Sprintf(format, args...)}
}

func (p *parser) space() {
	for p.at < len(p.data) {
		switch p.data[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// next returns the next byte that is not white space, or 0 at the end.
func (p *parser) next() byte {
	p.space()
	if p.at == len(p.data) {
		return 0
	}
	return p.data[p.at]
}

// unexpected returns an error about the byte at which the parser stands.
func (p *parser) unexpected(want string) error {
	if p.at == len(p.data) {
		return p.errorf("the text ends, want %s", want)
	}
	r, _ := utf8.DecodeRune(p.data[p.at:])
	return p.errorf("got %q, want %s", r, want)
}

func (p *parser) value(depth int) (Value, error) {
	if depth > maxDepth {
		return Value{}, p.errorf("more than %d arrays and objects in each other", maxDepth)
	}
	switch c := p.next(); {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		s, err := p.text()
		return Value{Kind: String, Text: s}, err
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	for word, kind := range map[string]Kind{"null": Null, "true": Bool, "false": Bool} {
		if end := p.at + len(word); end <= len(p.data) && string(p.data[p.at:end]) == word {
			p.at = end
			return Value{Kind: kind, Text: word}, nil
		}
	}
	return Value{}, p.unexpected("a value")
}

func (p *parser) array(depth int) (Value, error) {
	v := Value{Kind: Array}
	p.at++
	if p.next() == ']' {
		p.at++
		return v, nil
	}
	for {
		e, err := p.value(depth + 1)
		if err != nil {
			return v, err
		}
		v.List = append(v.List, e)
		switch p.next() {
		case ',':
			p.at++
		case ']':
			p.at++
			return v, nil
		default:
			return v, p.unexpected("a comma or ]")
		}
	}
}

func (p *parser) object(depth int) (Value, error) {
	v := Value{Kind: Object}
	names := map[string]struct{}{}
	p.at++
	if p.next() == '}' {
		p.at++
		return v, nil
	}
	for {
		if p.next() != '"' {
			return v, p.unexpected("a name in quotes")
		}
		start := p.at
		name, err := p.text()
		if err != nil {
			return v, err
		}
		if _, ok := names[name]; ok {
			p.at = start
			return v, p.errorf("duplicate name %s", Quote(name))
		}
		names[name] = struct{}{}
		if p.next() != ':' {
			return v, p.unexpected("a colon")
		}
		p.at++
		e, err := p.value(depth + 1)
		if err != nil {
			return v, err
		}
		v.Members = append(v.Members, Member{name, e})
		switch p.next() {
		case ',':
			p.at++
		case '}':
			p.at++
			return v, nil
		default:
			return v, p.unexpected("a comma or }")
		}
	}
}

func (p *parser) number() (Value, error) {
	start := p.at
	digits := func() bool {
		from := p.at
		for p.at < len(p.data) && p.data[p.at] >= '0' && p.data[p.at] <= '9' {
			p.at++
		}
		return p.at > from
	}
	is := func(set string) bool {
		for i := range len(set) {
			if p.at < len(p.data) && p.data[p.at] == set[i] {
				p.at++
				return true
			}
		}
		return false
	}
	is("-")
	ok := is("0") || digits()
	if ok && is(".") {
		ok = digits()
	}
	if ok && is("eE") {
		is("+-")
		ok = digits()
	}
	if !ok {
		return Value{}, p.unexpected("a digit")
	}
	return Value{Kind: Number, Text: string(p.data[start:p.at])}, nil
}

// text reads a string.
func (p *parser) text() (string, error) {
	p.at++
	start := p.at
	for p.at < len(p.data) && p.data[p.at] != '"' && p.data[p.at] != '\\' && p.data[p.at] >= ' ' && p.data[p.at] < utf8.RuneSelf {
		p.at++
	}
	if p.at < len(p.data) && p.data[p.at] == '"' {
		p.at++
		return string(p.data[start : p.at-1]), nil
	}
	out := append([]byte(nil), p.data[start:p.at]...)
	for p.at < len(p.data) {
		switch c := p.data[p.at]; {
		case c == '"':
			p.at++
			return string(out), nil
		case c == '\\':
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
		case c < ' ':
			return "", p.errorf("control character %q in a string", rune(c))
		default:
			r, n := utf8.DecodeRune(p.data[p.at:])
			if r == utf8.RuneError && n == 1 {
				return "", p.errorf("the text is not UTF-8")
			}
			out = append(out, p.data[p.at:p.at+n]...)
			p.at += n
		}
	}
	return "", p.unexpected("the end of a string")
}

// escape reads a backslash and what follows it.
func (p *parser) escape() (rune, error) {
	if p.at+1 >= len(p.data) {
		p.at = len(p.data)
		return 0, p.unexpected("the end of a string")
	}
	c := p.data[p.at+1]
	switch c {
	case '"', '\\', '/':
		p.at += 2
		return rune(c), nil
	case 'b', 'f', 'n', 'r', 't':
		p.at += 2
		return map[byte]rune{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}[c], nil
	case 'u':
	default:
		return 0, p.errorf("unknown escape \\%c", c)
	}
	r, ok := p.unit(p.at)
	if !ok {
		return 0, p.errorf("\\u without four hexadecimal digits")
	}
	if !utf16.IsSurrogate(r) {
		p.at += 6
		return r, nil
	}
	if low, ok := p.unit(p.at + 6); ok {
		if whole := utf16.DecodeRune(r, low); whole != utf8.RuneError {
			p.at += 12
			return whole, nil
		}
	}
	return 0, p.errorf("lone surrogate %s", p.data[p.at:p.at+6])
}

// unit reads a UTF-16 code unit: \u and four hexadecimal digits.
func (p *parser) unit(at int) (rune, bool) {
	if at+6 > len(p.data) || p.data[at] != '\\' || p.data[at+1] != 'u' {
		return 0, false
	}
	n := rune(0)
	for _, c := range p.data[at+2 : at+6] {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | rune(c-'0')
		case c|32 >= 'a' && c|32 <= 'f':
			n = n<<4 | rune(c|32-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}

// Quote returns s quoted for an error message, shortened where it is long.
func Quote(s string) string {
	const most = 80
	if len(s) <= most {
		return strconv.Quote(s)
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.Quote(s[:cut]) + "…"
}
