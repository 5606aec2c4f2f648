package def

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"tokitai/num"
)

// Limits on a definition's text.
const (
	MaxText  = 1 << 20 // bytes
	MaxNodes = 10_000  // of the definition, its functions expanded
)

// Parse reads the text of a definition, as [Definition.Text] and [Definition.Source]
// print it or as people write it: with nested expressions, + - * / and comparisons,
// comments, and without the rules of sums. Functions that it does not define itself are
// taken from known, such as fn.All; so is one that it defines to the letter as a known
// one is. Errors are [*SyntaxError] and name the place.
func Parse(text string, known ...*Function) (*Definition, error) {
	if len(text) > MaxText {
		return nil, &SyntaxError{1, 1, fmt.Sprintf("the text has %d bytes, want at most %d", len(text), MaxText)}
	}
	p := &parser{
		known:  known,
		b:      &Builder{d: &Definition{}},
		scope:  scope{values: map[string]Value{}, functions: map[string]*Function{}},
		places: map[string]token{},
		sizes:  map[string]int{},
	}
	for _, f := range known {
		p.scope.functions[f.Name] = f
	}
	if err := p.split(text); err != nil {
		return nil, err
	}
	return p.parse()
}

// parser reads a text line by line.
type parser struct {
	lines []textLine
	known []*Function

	b     *Builder
	scope scope

	places map[string]token // where operands, parameters and values are declared
	sizes  map[string]int   // of functions, expanded
	nodes  int              // so far
}

// textLine is a line, or several where parentheses reach over their ends.
type textLine struct {
	raw     string
	number  int
	tokens  []token
	isProse bool // it is read as text: the headers, the rule of a sum, a line for readers
}

func (l *textLine) start() token {
	return token{kind: tokenName, line: l.number, col: 1 + len(l.raw) - len(strings.TrimLeft(l.raw, " \t"))}
}

// split divides the text into lines with something on them.
func (p *parser) split(text string) error {
	var open []token // parentheses and braces
	prose := 0       // lines of a rule to come
	for i, raw := range strings.Split(text, "\n") {
		raw = strings.TrimRight(raw, "\r")
		l := textLine{raw: raw, number: i + 1}
		if !utf8.ValidString(raw) {
			return &SyntaxError{l.number, 1 + invalidAt(raw), "the text is not UTF-8"}
		}
		if fold(raw) == "" {
			continue
		}
		prose = max(prose, ruleLength(raw))
		if l.isProse = len(open) == 0 && (len(p.lines) < 2 || prose > 0 || proseForm.MatchString(raw)); l.isProse {
			prose = max(prose-1, 0)
			p.lines = append(p.lines, l)
			continue
		}
		var err error
		if l.tokens, err = lexLine(nil, raw, l.number, 1); err != nil {
			return err
		}
		if len(open) > 0 {
			last := &p.lines[len(p.lines)-1]
			last.tokens = append(last.tokens, l.tokens...)
		} else {
			p.lines = append(p.lines, l)
		}
		if l.declares("in", "out", "inout", "param") { // where ranges have brackets of two kinds
			continue
		}
		for _, t := range l.tokens {
			switch {
			case t.is("(") || t.is("{"):
				open = append(open, t)
			case (t.is(")") || t.is("}")) && len(open) > 0:
				open = open[:len(open)-1]
			}
		}
	}
	if len(open) > 0 {
		return open[0].errorf("%s is never closed", open[0])
	}
	return nil
}

// invalidAt is where s stops being UTF-8.
func invalidAt(s string) int {
	for i, r := range s {
		if _, n := utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && n == 1 {
			return i
		}
	}
	return len(s)
}

// proseForm is a line for readers, or the first of a function.
var proseForm = regexp.MustCompile(`^\s*((formula|clause|outside)\s+"|function\s+\w+\s*\(|rule\s+\w+\s*\()`)

// ruleLength is the number of lines of the rule that a line begins, or 0.
func ruleLength(raw string) int {
	for _, r := range rules {
		if strings.HasPrefix(fold(raw), "rule "+r.op.String()+"(") {
			return len(r.lines)
		}
	}
	return 0
}

// next returns the next line, or nil.
func (p *parser) next() *textLine {
	if len(p.lines) == 0 {
		return nil
	}
	l := &p.lines[0]
	p.lines = p.lines[1:]
	return l
}

func (p *parser) parse() (*Definition, error) {
	if err := p.header(); err != nil {
		return nil, err
	}
	d := p.b.d
	if d.Kind != KindRowwise {
		return p.table()
	}
	header := p.places[""]
	body := p.lines
	if err := p.functions(); err != nil { // which may stand below their use
		return nil, err
	}
	p.lines = body
	for l := p.next(); l != nil; l = p.next() {
		var err error
		switch {
		case l.begins("function"):
			p.skipFunction()
		case l.begins("rule"):
			err = p.rule(l)
		case l.isProse:
			err = p.prose(l)
		default:
			err = p.statement(l)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := p.resolve(); err != nil {
		return nil, err
	}
	if err := p.b.finish(); err != nil {
		return nil, header.errorf("%v", err)
	}
	return p.sealed(header)
}

func (p *parser) sealed(header token) (*Definition, error) {
	d, err := p.b.d.seal()
	if err != nil {
		return nil, header.errorf("%v", err)
	}
	for i := range d.Operands {
		if err := p.checkSharing(d, &d.Operands[i]); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// begins reports whether the line's first word is the keyword, and not a value's name.
func (l *textLine) begins(word string) bool {
	if l.isProse {
		return strings.HasPrefix(strings.TrimSpace(l.raw), word+" ")
	}
	return len(l.tokens) > 1 && l.tokens[0].is(word) && !l.tokens[1].is("=") && !l.tokens[1].is("<-")
}

// declares reports whether the line begins with the keyword and a name.
func (l *textLine) declares(words ...string) bool {
	return !l.isProse && slices.ContainsFunc(words, l.begins) && l.tokens[1].kind == tokenName
}

var kinds = map[string]Kind{
	KindRowwise.String(): KindRowwise, KindContraction.String(): KindContraction,
	KindGather.String(): KindGather, KindScatterAdd.String(): KindScatterAdd,
}

// header reads the version, the kind and the name.
func (p *parser) header() error {
	l := p.next()
	switch {
	case l == nil:
		return &SyntaxError{1, 1, fmt.Sprintf("the text is empty, want %q in its first line", Version)}
	case strings.Join(strings.Fields(l.raw), " ") != Version:
		return l.start().errorf("unexpected %q, want %q in the first line", strings.TrimSpace(l.raw), Version)
	}
	first := l
	if l = p.next(); l == nil {
		return &SyntaxError{first.number + 1, 1, "the text ends, want the kind and name of a definition, such as \"rowwise softmax.forward\""}
	}
	words := strings.Fields(cutComment(l.raw))
	kind, isKind := kinds[words[0]]
	if !isKind || len(words) != 2 {
		return l.start().errorf("unexpected %q, want rowwise, contraction, gather or scatter-add and a name", strings.TrimSpace(l.raw))
	}
	if !definitionNameForm.MatchString(words[1]) {
		return l.start().errorf("definition %q: want a name like softmax.forward", words[1])
	}
	p.b.d.Kind, p.b.d.Name = kind, words[1]
	p.places[""] = l.start()
	return nil
}

func cutComment(s string) string {
	s, _, _ = strings.Cut(s, "#")
	return s
}

// prose reads a line for readers.
func (p *parser) prose(l *textLine) error {
	word, text, err := l.quoted()
	switch {
	case err != nil:
		return err
	case word == "formula":
		p.b.d.formula = append(p.b.d.formula, text)
	case word == "clause":
		p.b.d.clauses = append(p.b.d.clauses, text)
	default:
		return l.start().errorf("what a function gives outside its domain belongs into the function")
	}
	return nil
}

// quoted is the word and the text of a line for readers.
func (l *textLine) quoted() (word, text string, err error) {
	word, quoted, _ := strings.Cut(strings.TrimSpace(l.raw), " ")
	quoted = strings.TrimSpace(quoted)
	prefix, err := strconv.QuotedPrefix(quoted)
	if err != nil || fold(quoted[len(prefix):]) != "" {
		return "", "", l.start().errorf("unexpected %q, want %s and a text in quotes", strings.TrimSpace(l.raw), word)
	}
	text, err = strconv.Unquote(prefix)
	return word, text, err
}

// rule reads the rule of a sum, which has to be that of the language.
func (p *parser) rule(l *textLine) error {
	for _, r := range rules {
		if !strings.HasPrefix(fold(l.raw), "rule "+r.op.String()+"(") {
			continue
		}
		got := l
		for i, want := range r.lines {
			if i > 0 {
				if got = p.next(); got == nil {
					return l.start().errorf("the rule of %s ends too early", r.op)
				}
			}
			if fold(got.raw) != fold(want) {
				return got.start().errorf("unexpected %q, want %q: %s is summed by this rule alone", fold(got.raw), fold(want), r.op)
			}
		}
		return nil
	}
	return l.start().errorf("unexpected %q, want the rule of rowsum, colsum or totalsum", fold(l.raw))
}

// fold writes a line with single blanks, without its comment.
func fold(s string) string { return strings.Join(strings.Fields(cutComment(s)), " ") }

// statement reads a line of the definition itself.
func (p *parser) statement(l *textLine) error {
	c := newCursor(l.tokens, l.number, 1)
	first := c.peek()
	switch {
	case l.declares("in", "out", "inout"):
		return p.operand(c)
	case l.declares("param"):
		return p.param(c)
	case first.kind == tokenName && c.peekAt(1).is("="):
		return p.assignment(c)
	case first.kind == tokenName && c.peekAt(1).is("<-"):
		return p.output(c)
	}
	return first.errorf("unexpected %s, want an operand, a parameter, NAME = EXPRESSION, OUTPUT <- EXPRESSION, a function or a rule", first)
}

// declare notes where a name is declared, and refuses a second time.
func (p *parser) declare(t token) error {
	if t.kind != tokenName || !nameForm.MatchString(t.text) {
		return t.errorf("unexpected %s, want a name", t)
	}
	if meaning, taken := reservedNames[t.text]; taken && p.b.d.Kind == KindRowwise {
		return t.errorf("the name %s stands for %s", t.text, meaning)
	}
	if other, taken := p.places[t.text]; taken {
		return t.errorf("the name %s is taken by line %d", t.text, other.line)
	}
	p.places[t.text] = t
	return nil
}

// operand reads "in x[R,C] f16 bf16 f32", "out y[R,C] as x or f32, may be x" or "in
// label[R] i32 in [0,C) or ignore".
func (p *parser) operand(c *cursor) error {
	role, name := c.next(), c.next()
	if err := p.declare(name); err != nil {
		return err
	}
	o := Operand{Name: name.text, IsIn: role.text != "out", IsOut: role.text != "in"}
	if err := p.dims(c, &o); err != nil {
		return err
	}
	if err := p.storage(c, &o); err != nil {
		return err
	}
	d := p.b.d
	d.Operands = append(d.Operands, o)
	p.b.inputs = append(p.b.inputs, nil)
	if !o.IsIn {
		return nil
	}
	n := &Node{Op: OpInput, Name: o.Name, Extent: o.Extent, Operand: len(d.Operands) - 1, owner: p.b}
	if o.IsInt() {
		if n.Type = Int; !o.IsIndex {
			return name.errorf("operand %s: want \"i32 in [0,C)\": an int32 input names a column", o.Name)
		}
	}
	p.b.inputs[len(d.Operands)-1] = n
	p.scope.values[o.Name] = n
	return nil
}

var extents = map[string]Extent{"R,C": PerElement, "R": PerRow, "C": PerColumn, "": Scalar}

// dims reads the sizes in brackets.
func (p *parser) dims(c *cursor, o *Operand) error {
	open := c.peek()
	if err := c.expect("["); err != nil {
		return err
	}
	for !c.accept("]") {
		if len(o.Dims) > 0 {
			if err := c.expect(","); err != nil {
				return err
			}
		}
		t := c.next()
		if t.kind != tokenName {
			return t.errorf("unexpected %s, want the letter of a size", t)
		}
		o.Dims = append(o.Dims, t.text)
	}
	if p.b.d.Kind != KindRowwise {
		return nil
	}
	extent, ok := extents[strings.Join(o.Dims, ",")]
	if !ok {
		return open.errorf("operand %s has the sizes %v, want [R,C], [R], [C] or []", o.Name, o.Dims)
	}
	if o.Extent = extent; o.IsIn && extent == Scalar {
		return open.errorf("operand %s: an input has at least one size; a single number is a parameter", o.Name)
	}
	if o.IsIn && o.IsOut && extent != PerElement {
		return open.errorf("operand %s: only values per element can be updated in place", o.Name)
	}
	return nil
}

// storage reads the formats of an operand and what follows them.
func (p *parser) storage(c *cursor, o *Operand) error {
	first := c.peek()
	if first.kind == tokenEnd { // as in Go: every format of real values
		o.DTypes = AnyFloat
		return nil
	}
	formats := func() error {
		for {
			t := c.peek()
			f, err := num.ParseDType(t.text)
			if t.kind != tokenName || err != nil {
				return nil
			}
			if slices.Contains(o.DTypes.Allowed, f) {
				return t.errorf("operand %s: %s is named twice", o.Name, f)
			}
			o.DTypes.Allowed = append(o.DTypes.Allowed, f)
			c.next()
		}
	}
	if c.accept("as") {
		like := c.next()
		if like.kind != tokenName {
			return like.errorf("unexpected %s, want the name of an operand", like)
		}
		o.DTypes.Like = like.text
		if !c.accept("or") {
			return p.sharing(c, o)
		}
	}
	if err := formats(); err != nil {
		return err
	}
	if len(o.DTypes.Allowed) == 0 {
		return c.peek().errorf("unexpected %s, want a format: f16, bf16, f32 or i32", c.peek())
	}
	if slices.Contains(o.DTypes.Allowed, indexDType) {
		if len(o.DTypes.Allowed) > 1 || o.DTypes.Like != "" {
			return first.errorf("operand %s: i32 does not store real values", o.Name)
		}
		if c.accept("in") {
			return p.index(c, o)
		}
	}
	return p.sharing(c, o)
}

// index reads "[0,C) or ignore".
func (p *parser) index(c *cursor, o *Operand) error {
	start := c.peek()
	o.IsIndex = true
	for _, want := range []string{"[", "0", ","} {
		if err := c.expect(want); err != nil {
			return err
		}
	}
	bound := c.next()
	o.Bound = bound.text
	if err := c.expect(")"); err != nil {
		return err
	}
	if c.accept("or") {
		except := c.next()
		o.Except = except.text
		if except.kind != tokenName {
			return except.errorf("unexpected %s, want the name of a parameter", except)
		}
	}
	if p.b.d.Kind == KindRowwise && (o.Bound != "C" || o.Extent != PerRow || o.IsOut) {
		return start.errorf("operand %s: want an index to be an input with one value per row in [0,C)", o.Name)
	}
	return c.finished()
}

// sharing reads ", may be x or z", which is remembered and compared with what holds.
func (p *parser) sharing(c *cursor, o *Operand) error {
	if !c.accept(",") {
		return c.finished()
	}
	for _, want := range []string{"may", "be"} {
		if err := c.expect(want); err != nil {
			return err
		}
	}
	start := c.peek()
	var names []string
	for {
		t := c.next()
		if t.kind != tokenName {
			return t.errorf("unexpected %s, want the name of an operand", t)
		}
		names = append(names, t.text)
		if !c.accept("or") {
			break
		}
	}
	p.places["may be "+o.Name] = start
	p.scope.values["may be "+o.Name] = &Node{Name: strings.Join(names, " or ")}
	return c.finished()
}

// checkSharing compares what the text says of sharing with what holds.
func (p *parser) checkSharing(d *Definition, o *Operand) error {
	said := p.scope.values["may be "+o.Name]
	if said == nil {
		return nil
	}
	holds := strings.Join(d.InPlacePartners(o), " or ")
	if said.Name == holds {
		return nil
	}
	if holds == "" {
		holds = "none"
	}
	return p.places["may be "+o.Name].errorf("operand %s may be the memory of %s, want %s", o.Name, said.Name, holds)
}

// param reads "param eps float in [0,+Inf) default 1e-05".
func (p *parser) param(c *cursor) error {
	c.next()
	name := c.next()
	if err := p.declare(name); err != nil {
		return err
	}
	var opts []ParamOption
	kind := c.next()
	t, isInt := Float, kind.is("int32")
	if isInt {
		t = Int
	} else if !kind.is("float") {
		return kind.errorf("unexpected %s, want float or int32", kind)
	}
	if c.accept("in") {
		r, err := parseRange(c)
		if err != nil {
			return err
		}
		opts = append(opts, func(p *Param) { p.Range = r })
	}
	if c.accept("default") {
		v, err := parseNumber(c)
		if err != nil {
			return err
		}
		opts = append(opts, Default(v))
	}
	if err := c.finished(); err != nil {
		return err
	}
	p.scope.values[name.text] = p.b.param(name.text, t, opts)
	if err := p.b.d.Params[len(p.b.d.Params)-1].check(); err != nil {
		return name.errorf("%v", err)
	}
	return nil
}

// parseRange reads an interval: [0,1], (0,+Inf).
func parseRange(c *cursor) (Range, error) {
	open := c.next()
	if !open.is("[") && !open.is("(") {
		return Range{}, open.errorf("unexpected %s, want a range such as [0,1] or (0,+Inf)", open)
	}
	r := Range{IsLimited: true}
	var err error
	if r.Low, err = parseNumber(c); err != nil {
		return r, err
	}
	if err := c.expect(","); err != nil {
		return r, err
	}
	if r.High, err = parseNumber(c); err != nil {
		return r, err
	}
	end := c.next()
	r.IsAbove = open.is("(") && !math.IsInf(r.Low, -1)
	switch {
	case !end.is("]") && !end.is(")"):
		return r, end.errorf("unexpected %s, want the end of a range", end)
	case end.is(")") != math.IsInf(r.High, 1):
		return r, end.errorf("unexpected %s: a range ends with a number and \"]\", or with +Inf and \")\"", end)
	case open.is("[") && math.IsInf(r.Low, 0):
		return r, open.errorf("unexpected %s: an infinite end is not in the range", open)
	}
	return r, nil
}

// parseNumber reads a binary64.
func parseNumber(c *cursor) (float64, error) {
	start := c.peek()
	sign := ""
	if start.is("-") || start.is("+") {
		sign = c.next().text
	}
	t := c.next()
	if t.is("Inf") && sign != "" {
		return math.Inf(map[string]int{"-": -1, "+": 1}[sign]), nil
	}
	v, err := strconv.ParseFloat(sign+t.text, 64)
	if t.kind != tokenNumber || err != nil || strings.ContainsAny(t.text, "_") {
		return 0, start.errorf("unexpected %s%s, want a number", sign, t.text)
	}
	return v, nil
}

// assignment reads "name = expression".
func (p *parser) assignment(c *cursor) error {
	name := c.next()
	c.next()
	v, err := p.value(c)
	if err != nil {
		return err
	}
	if meaning, taken := reservedNames[name.text]; taken {
		return name.errorf("the name %s stands for %s", name.text, meaning)
	}
	if other, taken := p.places[name.text]; taken && !p.isPureOutput(name.text) {
		return name.errorf("the name %s is taken by line %d", name.text, other.line)
	}
	if p.scope.values[name.text] != nil {
		return name.errorf("the name %s is used twice", name.text)
	}
	if !p.isPureOutput(name.text) {
		p.places[name.text] = name
	}
	p.scope.values[name.text] = named(v, name.text)
	return nil
}

// isPureOutput reports whether the name is that of an operand which is only written: a
// value that is stored there may have its name.
func (p *parser) isPureOutput(name string) bool {
	i := p.b.d.Operand(name)
	return i >= 0 && !p.b.d.Operands[i].IsIn
}

// named gives a new value its name: without the number that keeps values of one name
// apart, and none if it has the form of a value without a name.
func named(v Value, name string) Value {
	base, _, _ := strings.Cut(name, ".")
	if v.Name != "" || len(v.Args) == 0 || unnamedForm.MatchString(base) {
		return v
	}
	return v.As(base)
}

// output reads "operand <- expression".
func (p *parser) output(c *cursor) error {
	name := c.next()
	c.next()
	v, err := p.value(c)
	if err != nil {
		return err
	}
	i := p.b.d.Operand(name.text)
	if i < 0 || !p.b.d.Operands[i].IsOut {
		return name.errorf("%s is not an output that was declared", name.text)
	}
	o := &p.b.d.Operands[i]
	switch {
	case slices.ContainsFunc(p.b.outputs, func(o Output) bool { return o.Operand == i }):
		return name.errorf("output %s has a value already", name.text)
	case v.Extent != o.Extent:
		return name.errorf("output %s: %s is %s, want %s", name.text, v.label(), v.Extent, o.Extent)
	case o.IsInt() && v.Type != Int:
		return name.errorf("output %s: %s is %s, want an int32", name.text, v.label(), article(v.Type))
	case !o.IsInt() && v.Type != Float:
		return name.errorf("output %s: %s is %s, want a float; int32 are stored as i32", name.text, v.label(), article(v.Type))
	}
	p.b.outputs = append(p.b.outputs, Output{Operand: i, Value: v})
	return nil
}

// value reads the expression that ends the line.
func (p *parser) value(c *cursor) (Value, error) {
	p.scope.values["C"], p.scope.values["R"] = p.b.Columns(), p.b.Rows()
	e, err := parseExpression(c)
	if err != nil {
		return nil, err
	}
	if err := c.finished(); err != nil {
		return nil, err
	}
	if p.nodes += e.size(p.sizeOf); p.nodes > MaxNodes {
		return nil, e.at.errorf("the definition has more than %d nodes", MaxNodes)
	}
	v, err := e.build(&p.scope)
	if err != nil {
		return nil, p.explain(err)
	}
	return v, nil
}

// sizeOf is the number of nodes that a call becomes: one, or those of a function.
func (p *parser) sizeOf(name string) int {
	f := p.scope.functions[name]
	if f == nil {
		return 1
	}
	if p.sizes[name] == 0 {
		p.sizes[name] = len(f.graph().Nodes)
	}
	return p.sizes[name]
}

// explain says of a name that is declared further down that it is.
func (p *parser) explain(err error) error {
	e, ok := err.(*SyntaxError)
	if !ok {
		return err
	}
	name, _, isUnknown := strings.Cut(e.Message, " is not the name of a value above")
	if !isUnknown {
		return err
	}
	if p.isPureOutput(name) {
		e.Message = name + " is an output; name the value that is stored there, and use that"
	}
	for _, l := range p.lines {
		if len(l.tokens) > 1 && l.tokens[0].is(name) && l.tokens[1].is("=") {
			e.Message = fmt.Sprintf("%s is used before line %d defines it", name, l.number)
		}
	}
	return e
}

// resolve checks what may stand before its declaration: the exceptions of indices, and
// outputs without a value.
func (p *parser) resolve() error {
	for i := range p.b.d.Operands {
		o := &p.b.d.Operands[i]
		place := p.places[o.Name]
		if o.Except != "" {
			if k := p.b.d.Param(o.Except); k < 0 || !p.b.d.Params[k].IsInt {
				return place.errorf("index %s: its exception %s is not an int32 parameter", o.Name, o.Except)
			}
		}
		if o.IsOut && !slices.ContainsFunc(p.b.outputs, func(o Output) bool { return o.Operand == i }) {
			return place.errorf("output %s has no value: %s <- EXPRESSION is missing", o.Name, o.Name)
		}
	}
	return nil
}

// functions reads all functions, in the order of the text.
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

// skipFunction passes over the lines of a function that has been read.
func (p *parser) skipFunction() {
	for l := p.next(); l != nil && !l.begins("return"); l = p.next() {
	}
}

var functionForm = regexp.MustCompile(`^\s*function\s+([A-Za-z0-9_]+)\s*\(\s*x\s*\)\s*:\s*(\S+)\s+within\s+(\S+)\s+ulp\s+for\s+(.*?)\s*$`)

// function reads a function and its lines up to the return.
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
	if f.Domain, err = parseDomain(m[4]); err != nil {
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

// body is the lines of a function.
type body struct {
	lines     []bodyLine
	functions map[string]*Function // that it may call
}

type bodyLine struct {
	name  token // no token for the return
	value *expression
}

// functionBody reads the lines of a function, and counts the nodes that they become.
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

// build makes the nodes of the body on an argument.
func (b *body) build(x Value) (Value, error) {
	s := scope{values: map[string]Value{"x": x}, functions: b.functions, isFunction: true}
	for _, l := range b.lines {
		v, err := l.value.build(&s)
		if err != nil {
			return nil, err
		}
		if l.name.kind == tokenEnd {
			return v, nil
		}
		s.values[l.name.text] = named(v, l.name.text)
	}
	panic("def: a body without a return")
}

// expand is build for a body that has been built once.
func (b *body) expand(x Value) Value {
	v, err := b.build(x)
	if err != nil {
		return &Node{Op: OpArg, err: err}
	}
	return v
}

// parseDomain is the inverse of Domain.String.
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

// parsePower reads a number or a power of two such as 2^-125.
func parsePower(s string) (float64, bool) {
	if e, isPower := strings.CutPrefix(s, "2^"); isPower {
		n, err := strconv.Atoi(e)
		return math.Ldexp(1, n), err == nil && n >= -1074 && n <= 1023
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && v == v
}

// table reads a definition of another kind than rowwise. Its form is fixed: operands and
// their sizes say everything, and all other words must be those that it prints.
func (p *parser) table() (*Definition, error) {
	header := p.places[""]
	var rest []textLine
	for l := p.next(); l != nil; l = p.next() {
		var err error
		switch {
		case l.declares("in", "out", "inout"):
			rest = append(rest, *l)
			err = p.tableOperand(l)
		case l.isProse && !l.begins("rule"):
			err = p.prose(l)
		default:
			rest = append(rest, *l)
		}
		if err != nil {
			return nil, err
		}
	}
	d, err := p.buildTable(header)
	if err != nil {
		return nil, err
	}
	want := strings.Split(strings.TrimRight(d.Text(), "\n"), "\n")[2:]
	for i, l := range rest {
		if i >= len(want) {
			return nil, l.start().errorf("unexpected %q, want the end of the text", fold(l.raw))
		}
		if fold(l.raw) != fold(want[i]) {
			return nil, l.start().errorf("unexpected %q, want %q", fold(l.raw), fold(want[i]))
		}
	}
	if len(rest) < len(want) {
		return nil, header.errorf("the text ends too early, want %q", fold(want[len(rest)]))
	}
	return d, nil
}

// tableOperand takes down the role, name and sizes of an operand; the rest of its line
// is compared later.
func (p *parser) tableOperand(l *textLine) error {
	role, name := l.tokens[0], l.tokens[1]
	if err := p.declare(name); err != nil {
		return err
	}
	o := Operand{Name: name.text, IsIn: role.text != "out", IsOut: role.text != "in"}
	_, sizes, _ := strings.Cut(l.raw, "[")
	sizes, _, ok := strings.Cut(sizes, "]")
	if !ok {
		return name.errorf("operand %s: want its sizes in brackets", o.Name)
	}
	for _, s := range strings.Split(sizes, ",") {
		o.Dims = append(o.Dims, strings.TrimSpace(s))
	}
	p.b.d.Operands = append(p.b.d.Operands, o)
	return nil
}

func (p *parser) buildTable(header token) (*Definition, error) {
	d, ops := p.b.d, p.b.d.Operands
	if n := len(ops); n != 3 && !(n == 4 && d.Kind == KindContraction) {
		return nil, header.errorf("a %s with %d operands, want 3", d.Kind, n)
	}
	accumulate := ops[2].IsIn
	var built *Definition
	var err error
	switch d.Kind {
	case KindGather:
		built, err = Gather(d.Name, GatherForm{Index: ops[0].Name, Table: ops[1].Name, Out: ops[2].Name, Formula: d.formula, Clauses: d.clauses})
	case KindScatterAdd:
		built, err = ScatterAdd(d.Name, ScatterForm{Index: ops[0].Name, Rows: ops[1].Name, Result: ops[2].Name,
			Accumulate: accumulate, Formula: d.formula, Clauses: d.clauses})
	default:
		f := ContractionForm{
			Left: ops[0].Name, LeftDims: ops[0].Dims, Right: ops[1].Name, RightDims: ops[1].Dims,
			Result: ops[2].Name, ResultDims: ops[2].Dims, Accumulate: accumulate, Formula: d.formula, Clauses: d.clauses,
		}
		last := func(dims []string) []string { return dims[max(0, len(dims)-2):] }
		result := last(f.ResultDims)
		f.TransposeLeft = len(result) == 2 && slices.Index(last(f.LeftDims), result[0]) == 1
		f.TransposeRight = len(result) == 2 && slices.Index(last(f.RightDims), result[1]) == 0
		if len(ops) == 4 {
			f.Groups = p.groups(&f, ops[3])
		}
		built, err = Contraction(d.Name, f)
	}
	if err != nil {
		return nil, header.errorf("%v", err)
	}
	return built, nil
}

// groups finds out which size the offsets divide: the rows of the result, or, where the
// result has a matrix for each group, what is summed over.
func (p *parser) groups(f *ContractionForm, offsets Operand) Groups {
	g := Groups{Offsets: offsets.Name, Number: strings.TrimSuffix(cmp.Or(append(offsets.Dims, "")[0], ""), "+1")}
	n := len(f.ResultDims)
	if n < 2 || len(f.LeftDims) < 2 {
		return g
	}
	if f.ResultDims[0] != g.Number {
		g.Of = f.ResultDims[n-2]
		return g
	}
	k := len(f.LeftDims) - 1
	if f.TransposeLeft {
		k--
	}
	g.Of = f.LeftDims[k]
	return g
}
