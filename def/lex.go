package def

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// SyntaxError reports a mistake in the text of a definition and its position. Lines and
// columns count from 1, columns in bytes.
type SyntaxError struct {
	Line, Column int
	Message      string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// token is a name, a number or a mark such as "<=". The zero token is the end of a line.
type token struct {
	kind tokenKind
	text string
	line int
	col  int
}

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenNumber // a decimal or hexadecimal literal with its suffix, without a sign
	tokenMark
)

func (t token) String() string {
	if t.kind == tokenEnd {
		return "the end of the line"
	}
	return fmt.Sprintf("%q", t.text)
}

func (t token) is(mark string) bool { return t.kind != tokenEnd && t.text == mark }

func (t token) errorf(format string, args ...any) *SyntaxError {
	return &SyntaxError{Line: t.line, Column: t.col, Message: fmt.Sprintf(format, args...)}
}

// marks lists the marks in the order in which they are tried: longer ones first.
var marks = []string{"<=", ">=", "==", "!=", "<-", "<", ">", "=", "+", "-", "*", "/", "(", ")", "[", "]", "{", "}", ",", ":", "|", "^"}

// lexLine appends the tokens of one line of text, whose first byte is at column col.
// A # begins a comment.
func lexLine(tokens []token, text string, line, col int) ([]token, error) {
	for i := 0; i < len(text); {
		c := text[i]
		n := 0
		kind := tokenMark
		switch {
		case c == ' ' || c == '\t' || c == '\r':
			i++
			continue
		case c == '#':
			return tokens, nil
		case isLetter(c):
			kind, n = tokenName, nameLength(text[i:])
		case isDigit(c):
			kind, n = tokenNumber, numberLength(text[i:])
		default:
			for _, m := range marks {
				if strings.HasPrefix(text[i:], m) {
					n = len(m)
					break
				}
			}
		}
		if strings.HasPrefix(text[i:], "**") {
			return tokens, &SyntaxError{line, col + i, `unexpected "**": there are no powers; write x*x`}
		}
		if kind == tokenName && n > MaxName {
			return tokens, &SyntaxError{line, col + i, fmt.Sprintf("a name has %d characters, want at most %d", n, MaxName)}
		}
		if n == 0 {
			r, _ := utf8.DecodeRuneInString(text[i:])
			hint := ""
			if n := len(tokens); r == '.' && n > 0 && tokens[n-1].kind == tokenName {
				hint = "; a function is written without a module or a value before it: exp(x), rowsum(x)"
			}
			return tokens, &SyntaxError{line, col + i, fmt.Sprintf("unexpected character %q%s", r, hint)}
		}
		tokens = append(tokens, token{kind, text[i : i+n], line, col + i})
		i += n
	}
	return tokens, nil
}

func isLetter(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }

// nameLength returns the length of a name, including the number after a dot that
// distinguishes values of the same name, as in r.2.
func nameLength(s string) int {
	n := 0
	for n < len(s) && (isLetter(s[n]) || isDigit(s[n])) {
		n++
	}
	if n+1 < len(s) && s[n] == '.' && isDigit(s[n+1]) {
		for n++; n < len(s) && isDigit(s[n]); n++ {
		}
	}
	return n
}

// numberLength returns the length of a number. It includes everything that may continue
// one (digits, letters, dots, and the sign of an exponent), so that errors show malformed
// numbers in full.
func numberLength(s string) int {
	isHex := strings.HasPrefix(s, "0x")
	n := 1
	for ; n < len(s); n++ {
		c := s[n]
		isSign := (c == '+' || c == '-') && (s[n-1] == 'p' || !isHex && (s[n-1] == 'e' || s[n-1] == 'E'))
		if !isLetter(c) && !isDigit(c) && c != '.' && !isSign {
			break
		}
	}
	return n
}

// cursor reads a list of tokens.
type cursor struct {
	tokens  []token
	end     token // the token after the last one
	depth   int   // of nesting
	numbers int   // in the constant so far
}

// maxDepth limits how deeply expressions nest.
const maxDepth = 200

func newCursor(tokens []token, line, col int) *cursor {
	if n := len(tokens); n > 0 {
		last := tokens[n-1]
		line, col = last.line, last.col+len(last.text)
	}
	return &cursor{tokens: tokens, end: token{line: line, col: col}}
}

func (c *cursor) peek() token { return c.peekAt(0) }

func (c *cursor) peekAt(i int) token {
	if i < len(c.tokens) {
		return c.tokens[i]
	}
	return c.end
}

func (c *cursor) next() token {
	t := c.peek()
	if len(c.tokens) > 0 {
		c.tokens = c.tokens[1:]
	}
	return t
}

// accept reads the mark if it comes next, and reports whether it did.
func (c *cursor) accept(mark string) bool {
	if !c.peek().is(mark) {
		return false
	}
	c.next()
	return true
}

func (c *cursor) expect(mark string) error {
	if t := c.next(); !t.is(mark) {
		return t.errorf("unexpected %s, want %q", t, mark)
	}
	return nil
}

// finished returns an error if anything is left of the line.
func (c *cursor) finished() error {
	if t := c.peek(); t.kind != tokenEnd {
		hint := ""
		switch t.text {
		case "^":
			hint = "; there are no powers: write x*x"
		case "if":
			hint = "; write select(b, x, y)"
		}
		return t.errorf("unexpected %s, want the end of the line%s", t, hint)
	}
	return nil
}

// enter counts a level of nesting; leave undoes it.
func (c *cursor) enter() error {
	if c.depth++; c.depth > maxDepth {
		return c.peek().errorf("expressions nest more than %d deep", maxDepth)
	}
	return nil
}

func (c *cursor) leave() { c.depth-- }
