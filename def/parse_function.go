package def

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// functions parses all functions, in the order of the text.
func (p *parser) functions() error {
	for l := p.next(); l != nil; l = p.next() {
		if l.begins("function") {
			if err := p.function(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// skipFunction skips the lines of a function that has been parsed.
func (p *parser) skipFunction() {
	for l := p.next(); l != nil && !l.begins("return"); l = p.next() {
	}
}

var functionForm = regexp.MustCompile(`^\s*function\s+([A-Za-z0-9_]+)\s*\(\s*x\s*\)\s*:\s*(\S+)\s+within\s+(\S+)\s+ulp(?:\s*\+\s*(\S+))?\s+for\s+(.*?)\s*$`)

// function parses a function and its lines up to the return.
func (p *parser) function(l *textLine) error {
	start := l.start()
	m := functionForm.FindStringSubmatch(cutComment(l.raw))
	if m == nil {
		return start.errorf("unexpected %q, want function NAME(x): MATHEMATICS within N ulp for DOMAIN", fold(l.raw))
	}
	f := &Function{Name: m[1]}
	i := slices.Index(mathNames[:], m[2])
	if i < 0 {
		return start.errorf("function %s: its mathematics %q is unknown, want one of %s", f.Name, m[2], strings.Join(mathNames[:], ", "))
	}
	f.Math = Math(i)
	var err error
	if f.ULPs, err = strconv.ParseFloat(m[3], 64); err != nil {
		return start.errorf("function %s: its error %q is not a number", f.Name, m[3])
	}
	if ok := true; m[4] != "" {
		if f.Absolute, ok = parsePower(m[4]); !ok {
			return start.errorf("function %s: its absolute error %q is not a number or a power of two", f.Name, m[4])
		}
	}
	if f.Domain, err = parseDomain(m[5]); err != nil {
		return start.errorf("function %s: %v", f.Name, err)
	}
	if other, taken := p.places["function "+f.Name]; taken {
		return start.errorf("function %s is defined twice, first in line %d", f.Name, other.line)
	}
	p.places["function "+f.Name] = start
	body, size, err := p.functionBody(f, start)
	if err != nil {
		return err
	}
	f.Expand = body.expand
	if _, err := body.build(newArgument()); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return start.errorf("%v", err)
	}
	for _, k := range p.known {
		if k.Name == f.Name && k.Text() == f.Text() {
			f = k
		}
	}
	p.scope.functions[f.Name], p.sizes[f.Name] = f, size
	return nil
}

// body holds the lines of a function.
type body struct {
	lines     []bodyLine
	functions map[string]*Function // that it may call
}

type bodyLine struct {
	name  token // no token for the return
	value *expression
}

// functionBody parses the lines of a function and counts their nodes.
func (p *parser) functionBody(f *Function, start token) (*body, int, error) {
	b := &body{functions: map[string]*Function{}}
	for name, k := range p.scope.functions {
		b.functions[name] = k
	}
	size := 0
	names := map[string]bool{}
	for {
		l := p.next()
		if l == nil {
			return nil, 0, start.errorf("function %s ends without a return", f.Name)
		}
		if l.isProse {
			word, text, err := l.quoted()
			if err != nil || word != "outside" || f.Outside != "" {
				return nil, 0, l.start().errorf("unexpected %q in function %s", strings.TrimSpace(l.raw), f.Name)
			}
			f.Outside = text
			continue
		}
		c := newCursor(l.tokens, l.number, 1)
		line := bodyLine{}
		switch {
		case l.begins("return"):
			c.next()
		case c.peek().kind == tokenName && c.peekAt(1).is("="):
			line.name = c.next()
			c.next()
			name := line.name.text
			if names[name] || name == "x" || reservedNames[name] != "" {
				return nil, 0, line.name.errorf("the name %s is taken", name)
			}
			names[name] = true
		default:
			return nil, 0, c.peek().errorf("unexpected %s in function %s, want NAME = EXPRESSION or return EXPRESSION", c.peek(), f.Name)
		}
		var err error
		if line.value, err = parseExpression(c); err != nil {
			return nil, 0, err
		}
		if err := c.finished(); err != nil {
			return nil, 0, err
		}
		if size += line.value.size(p.sizeOf); size > MaxNodes {
			return nil, 0, line.value.at.errorf("function %s has more than %d nodes", f.Name, MaxNodes)
		}
		b.lines = append(b.lines, line)
		if line.name.kind == tokenEnd {
			return b, size, nil
		}
	}
}

// build returns the value of the body for an argument.
func (b *body) build(x Value) (Value, error) {
	s := scope{values: map[string]Value{"x": x}, functions: b.functions, isFunction: true}
	for _, l := range b.lines {
		v, err := l.value.build(&s)
		if err != nil {
			return Value{}, err
		}
		if l.name.kind == tokenEnd {
			return v, nil
		}
		s.values[l.name.text] = named(v, l.name.text)
	}
	panic("def: a body without a return")
}

// expand is build for a body that has been built without an error before.
func (b *body) expand(x Value) Value {
	v, err := b.build(x)
	if err != nil {
		return Value{&Node{Op: OpArg, err: err}}
	}
	return v
}

// parseDomain parses a domain. It is the inverse of Domain.String.
func parseDomain(text string) (Domain, error) {
	for _, d := range []Domain{EveryX, Positive, NonZero, NoX} {
		if fold(text) == d.String() {
			return d, nil
		}
	}
	wrong := fmt.Errorf("its domain %q is not like \"every x\", \"x > 0\", \"x != 0\", \"x <= 44\" or \"2^-125 <= |x| <= 2^125\"", text)
	text = strings.ReplaceAll(text, " ", "")
	if low, isAbove := strings.CutPrefix(text, "x>"); isAbove {
		low, isAtLeast := strings.CutPrefix(low, "=")
		switch v, ok := parsePower(low); {
		case ok && isAtLeast:
			return Domain{Low: v, High: math.Inf(1)}, nil
		case ok:
			return Above(v), nil
		}
		return Domain{}, wrong
	}
	parts := strings.Split(text, "<=")
	d := Domain{Low: math.Inf(-1), High: math.Inf(1)}
	at := slices.IndexFunc(parts, func(s string) bool { return s == "x" || s == "|x|" })
	if at < 0 || at > 1 || len(parts) < 2 || len(parts) > 3 || len(parts)-at > 2 {
		return d, wrong
	}
	if d.OfAbs = parts[at] == "|x|"; d.OfAbs {
		d.Low = 0
	}
	ok1, ok2 := true, true
	if at == 1 {
		d.Low, ok1 = parsePower(parts[0])
	}
	if len(parts) > at+1 {
		d.High, ok2 = parsePower(parts[at+1])
	}
	if !ok1 || !ok2 || !(d.Low <= d.High) {
		return d, wrong
	}
	return d, nil
}

// parsePower parses a number or a power of two such as 2^-125.
func parsePower(s string) (float64, bool) {
	if e, isPower := strings.CutPrefix(s, "2^"); isPower {
		n, err := strconv.Atoi(e)
		return math.Ldexp(1, n), err == nil && n >= -1074 && n <= 1023
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && v == v
}
