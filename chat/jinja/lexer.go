package jinja

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	textToken     tokenKind = iota // text outside of tags
	beginVariable                  // {{
	endVariable                    // }}
	beginBlock                     // {%
	endBlock                       // %}
	nameToken
	stringToken
	intToken
	floatToken
	operatorToken
	endToken // of the template
)

type token struct {
	kind tokenKind
	text string
	line int
}

func (t token) String() string {
	switch t.kind {
	case endToken:
		return "the end of the template"
	case endBlock:
		return "%}"
	case endVariable:
		return "}}"
	case textToken:
		return "text"
	}
	return strconv.Quote(t.text)
}

// is reports whether t is an operator or a name.
func (t token) is(kind tokenKind, text string) bool { return t.kind == kind && t.text == text }

var (
	newline    = regexp.MustCompile(`\r\n|\r|\n`)
	nameAt     = regexp.MustCompile(`^[\pL_][\pL\pN\pM_]*`)
	numberAt   = regexp.MustCompile(`^[0-9](?:_?[0-9])*(?:\.[0-9](?:_?[0-9])*)?(?:[eE][+-]?[0-9]+)?`)
	operatorAt = regexp.MustCompile(`^(?:==|!=|<=|>=|//|\*\*|[-+*/%~<>=.,:|()\[\]{}])`)
)

// lex divides a template into tokens.
func lex(source string) ([]token, error) {
	if !utf8.ValidString(source) {
		return nil, fmt.Errorf("the template is not UTF-8")
	}
	source = newline.ReplaceAllString(source, "\n")
	source = strings.TrimSuffix(source, "\n")
	l := &lexer{rest: source, line: 1, atLineStart: true}
	for l.rest != "" {
		if err := l.root(); err != nil {
			return nil, err
		}
	}
	return append(l.tokens, token{endToken, "", l.line}), nil
}

type lexer struct {
	tokens      []token
	rest        string
	line        int
	atLineStart bool // what was read last ends a line
}

func (l *lexer) errorf(format string, args ...any) error {
	return &Error{l.line, fmt.Errorf(format, args...)}
}

// take removes n bytes from the rest.
func (l *lexer) take(n int) string {
	s := l.rest[:n]
	l.rest = l.rest[n:]
	l.line += strings.Count(s, "\n")
	if n > 0 {
		l.atLineStart = s[n-1] == '\n'
	}
	return s
}

func (l *lexer) emit(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind, text, l.line})
}

// root reads text up to a tag, and the tag.
func (l *lexer) root() error {
	at := -1
	for i := 0; i+1 < len(l.rest); i++ {
		if c := l.rest[i+1]; l.rest[i] == '{' && (c == '{' || c == '%' || c == '#') {
			at = i
			break
		}
	}
	if at < 0 {
		l.emit(textToken, l.take(len(l.rest)))
		return nil
	}
	atLineStart, line := l.atLineStart, l.line
	kind := l.rest[at+1]
	sign := byte(0)
	if at+2 < len(l.rest) && (l.rest[at+2] == '-' || l.rest[at+2] == '+') {
		sign = l.rest[at+2]
	}
	text := l.take(at)
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	case sign != '+' && kind != '{':
		lineStart := strings.LastIndexByte(text, '\n') + 1
		if (lineStart > 0 || atLineStart) && strings.TrimFunc(text[lineStart:], unicode.IsSpace) == "" {
			text = text[:lineStart]
		}
	}
	if text != "" {
		l.tokens = append(l.tokens, token{textToken, text, line})
	}
	l.take(2)
	if sign != 0 {
		l.take(1)
	}
	switch kind {
	case '#':
		end := strings.Index(l.rest, "#}")
		if end < 0 {
			return l.errorf("a comment has no end")
		}
		isTrimmed, isKept := end > 0 && l.rest[end-1] == '-', end > 0 && l.rest[end-1] == '+'
		l.take(end + 2)
		l.afterTag(isTrimmed, isKept)
		return nil
	case '%':
		l.emit(beginBlock, "{%")
		return l.tag("%}", endBlock)
	}
	l.emit(beginVariable, "{{")
	return l.tag("}}", endVariable)
}

// afterTag removes the white space that a block or a comment removes after it.
func (l *lexer) afterTag(isTrimmed, isKept bool) {
	switch {
	case isTrimmed:
		l.take(len(l.rest) - len(strings.TrimLeftFunc(l.rest, unicode.IsSpace)))
	case !isKept && strings.HasPrefix(l.rest, "\n"):
		l.take(1)
	}
}

// tag reads tokens up to the end of a tag.
func (l *lexer) tag(end string, kind tokenKind) error {
	var open []byte // brackets
	for {
		l.take(len(l.rest) - len(strings.TrimLeftFunc(l.rest, unicode.IsSpace)))
		if l.rest == "" {
			return l.errorf("a tag has no %s", end)
		}
		if len(open) == 0 {
			isTrimmed := strings.HasPrefix(l.rest, "-"+end)
			isKept := kind == endBlock && strings.HasPrefix(l.rest, "+"+end)
			if isTrimmed || isKept || strings.HasPrefix(l.rest, end) {
				l.emit(kind, end)
				n := len(end)
				if isTrimmed || isKept {
					n++
				}
				l.take(n)
				if kind == endBlock || isTrimmed {
					l.afterTag(isTrimmed, isKept)
				}
				return nil
			}
		}
		switch c := l.rest[0]; {
		case c == '\'' || c == '"':
			if err := l.text(c); err != nil {
				return err
			}
		case c >= '0' && c <= '9':
			s := numberAt.FindString(l.rest)
			kind := intToken
			if strings.ContainsAny(s, ".eE") {
				kind = floatToken
			}
			l.emit(kind, strings.ReplaceAll(l.take(len(s)), "_", ""))
		default:
			if s := nameAt.FindString(l.rest); s != "" {
				l.emit(nameToken, s)
				l.take(len(s))
				continue
			}
			s := operatorAt.FindString(l.rest)
			if s == "" {
				r, _ := utf8.DecodeRuneInString(l.rest)
				return l.errorf("unexpected character %q", r)
			}
			switch s {
			case "(", "[", "{":
				open = append(open, s[0])
			case ")", "]", "}":
				if n := len(open); n == 0 || map[byte]string{'(': ")", '[': "]", '{': "}"}[open[n-1]] != s {
					return l.errorf("unexpected %s", s)
				}
				open = open[:len(open)-1]
			}
			l.emit(operatorToken, s)
			l.take(len(s))
		}
	}
}

// text reads a string literal. Python's escapes hold; unknown ones stay as they are.
func (l *lexer) text(quote byte) error {
	var out []byte
	for i := 1; i < len(l.rest); i++ {
		c := l.rest[i]
		if c == quote {
			l.emit(stringToken, string(out))
			l.take(i + 1)
			return nil
		}
		if c != '\\' || i+1 == len(l.rest) {
			out = append(out, c)
			continue
		}
		i++
		switch c := l.rest[i]; c {
		case '\n':
		case '\\', '\'', '"':
			out = append(out, c)
		case 'a', 'b', 'f', 'n', 'r', 't', 'v':
			out = append(out, map[byte]byte{'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}[c])
		case 'x', 'u', 'U':
			n := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			digits := l.rest[i+1 : min(i+1+n, len(l.rest))]
			code, err := strconv.ParseUint(digits, 16, 32)
			if err != nil || len(digits) < n || !utf8.ValidRune(rune(code)) {
				return l.errorf("a string has an escape \\%c that is not supported", c)
			}
			out = utf8.AppendRune(out, rune(code))
			i += n
		case 'N', '0', '1', '2', '3', '4', '5', '6', '7':
			return l.errorf("a string has an escape \\%c that is not supported", c)
		default:
			out = append(out, '\\', c)
		}
	}
	return l.errorf("a string has no end")
}
