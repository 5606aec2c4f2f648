// Package jinja renders the part of the Jinja language that chat templates use, as Python's jinja2
// does with the settings of transformers: trim_blocks, lstrip_blocks, an immutable sandbox, tojson
// without escapes for HTML, raise_exception and strftime_now. A construct that is not supported is an
// error that names it, when the template is parsed if it can be found then.
//
// A template reaches nothing but its variables. Its steps, its depth and the bytes that it makes are
// limited.
//
// lexer.go divides a template into tokens, parser.go makes nodes of them (node.go), which eval.go
// evaluates to values (value.go). Filters, tests and methods are tables in files of their own.
package jinja

import (
	"errors"
	"fmt"
	"time"
)

// Template is a parsed template. It is safe for concurrent use.
type Template struct{ body []statement }

// Error is an error in a template, with the line where it is.
type Error struct {
	Line int
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Raised is the error that a template raises by raise_exception.
type Raised struct{ Message string }

func (e *Raised) Error() string { return "the template refuses: " + e.Message }

// ErrNoDate is the error of a template that asks for the date without Options.Now.
var ErrNoDate = errors.New("the template asks for the date, and none is given")

// Limits of a rendering.
const (
	maxSteps  = 3_000_000
	stepBytes = 256     // that are read in the time of a step
	itemBytes = 48      // for an item of a list or a dict that is made or looked at
	maxBytes  = 1 << 27 // of all strings and lists that are made
	maxDepth  = 100     // of expressions, statements and calls of macros in each other
	maxRange  = 100_000
	maxSource = 1 << 20
)

// Options configures a rendering.
type Options struct {
	// Now is the time for strftime_now. If it is zero, a template that asks for it fails.
	Now time.Time
}

// Parse parses a template.
func Parse(source string) (*Template, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("the template has %d bytes, want at most %d", len(source), maxSource)
	}
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	body, err := p.statements()
	if err != nil {
		return nil, err
	}
	return &Template{body}, nil
}

// Render renders the template with variables. Their values are nil, bool, int64, float64, string,
// List and *Dict.
func (t *Template) Render(variables map[string]Value, o Options) (text string, err error) {
	return t.render(&renderer{options: o, globals: variables})
}

func (t *Template) render(r *renderer) (text string, err error) {
	if err = r.run(t.body, newScope(nil)); err == nil {
		err = r.failed
	}
	return r.out.String(), err
}
