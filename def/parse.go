package def

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits on a definition's text.
const (
	MaxText  = 1 << 20 // bytes
	MaxNodes = 10_000  // of the definition, its functions expanded
	MaxName  = 200     // characters
)

// Parse parses the text of a definition, either as [Definition.Text] and
// [Definition.Source] print it or as people write it: with nested expressions, + - * / and
// comparisons, comments, and without the rules of sums. It takes functions that the text
// does not define from known, such as fn.All, and also those that the text defines exactly
// as a known one. Errors are of type [*SyntaxError] and have a position.
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

// parser parses a text line by line.
type parser struct {
	form  *textForm
	lines []textLine
	known []*Function

	b     *Builder
	scope scope

	sharings []sharing // memory that the text says operands may share

	places map[string]token // where operands, parameters and values are declared
	sizes  map[string]int   // of functions, expanded
	nodes  int              // so far
}

// sharing lists the operands that an output may share memory with, according to the text.
type sharing struct {
	at      token
	operand string
	with    string // names, as the text form lists them
}

// textLine is a line, or several lines joined by open parentheses.
type textLine struct {
	raw     string
	number  int
	tokens  []token
	isProse bool // not tokenized: a header, the rule of a sum, a line for readers
}

func (l *textLine) start() token {
	return token{kind: tokenName, line: l.number, col: 1 + len(l.raw) - len(strings.TrimLeft(l.raw, " \t"))}
}

// split divides the text into lines and drops empty ones.
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
		if l.declares("in", "out", "inout", "param") { // their ranges have brackets that do not match
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

// invalidAt returns the offset at which s stops being UTF-8.
func invalidAt(s string) int {
	for i, r := range s {
		if _, n := utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && n == 1 {
			return i
		}
	}
	return len(s)
}

// proseForm matches a line for readers, or the first line of a function or a rule.
var proseForm = regexp.MustCompile(`^\s*((formula|clause|outside)\s+"|function\s+\w+\s*\(|rule\s+\w+\s*\()`)

// ruleLength returns the number of lines of the rule that begins with this line, or 0.
func ruleLength(raw string) int {
	if r := ruleIn(raw); r != nil {
		return len(r.lines)
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
	return p.form.parse(p)
}

// rowwise parses a rowwise definition.
func (p *parser) rowwise() (*Definition, error) {
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
	if err := p.checkSharing(d); err != nil {
		return nil, err
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

// forms lists the forms that texts can have, by the words that they begin with.
var forms = []textForm{
	{new(Expression), (*parser).rowwise},
	{new(Product), fixed(parseContraction)},
	{new(Lookup), fixed(parseGather)},
	{new(Scatter), fixed(parseScatterAdd)},
	{new(LookupSum), fixed(parseGatherSum)},
	{new(Sort), fixed(parseDispatch)},
	{new(RowWrite), fixed(parseRowWrite)},
	{new(Fused), (*parser).fused},
	{new(Stream), (*parser).stream},
	{new(StreamBackward), (*parser).stream},
}

// Forms returns a form of each type, without content.
func Forms() []Form {
	var list []Form
	for _, f := range forms {
		list = append(list, f.Form)
	}
	return list
}

type textForm struct {
	Form
	parse func(*parser) (*Definition, error)
}

// header parses the version, the kind and the name.
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
	at := slices.IndexFunc(forms, func(f textForm) bool { return f.String() == words[0] })
	if at < 0 || len(words) != 2 {
		return l.start().errorf("unexpected %q, want %s and a name", strings.TrimSpace(l.raw), formWords())
	}
	if len(words[1]) > MaxName {
		return l.start().errorf("the name has %d characters, want at most %d", len(words[1]), MaxName)
	}
	if !definitionNameForm.MatchString(words[1]) {
		if lower := strings.ToLower(words[1]); definitionNameForm.MatchString(lower) {
			return l.start().errorf("definition %q: names are lower case: %s", words[1], lower)
		}
		return l.start().errorf("definition %q: want a name like softmax.forward", words[1])
	}
	p.form, p.b.d.Form, p.b.d.Name = &forms[at], forms[at].Form, words[1]
	p.places[""] = l.start()
	return nil
}

// formWords lists the words of the forms.
func formWords() string {
	var words []string
	for _, f := range forms {
		words = append(words, f.String())
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

func cutComment(s string) string {
	s, _, _ = strings.Cut(s, "#")
	return s
}

// prose parses a line for readers.
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

// quoted returns the keyword and the text of a line for readers.
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

// rule parses the rule of a sum, which must be that of the language.
func (p *parser) rule(l *textLine) error {
	r := ruleIn(l.raw)
	if r == nil {
		return l.start().errorf("unexpected %q, want the rule of rowsum, colsum, totalsum, weigh, weigh_backward or pages", fold(l.raw))
	}
	got := l
	for i, want := range r.lines {
		if i > 0 {
			if got = p.next(); got == nil {
				return l.start().errorf("the rule of %s ends too early", r.name())
			}
		}
		if fold(got.raw) != fold(want) {
			return got.start().errorf("unexpected %q, want %q: %s has this rule alone", fold(got.raw), fold(want), r.name())
		}
	}
	return nil
}

// fold returns a line with single blanks, without its comment.
func fold(s string) string { return strings.Join(strings.Fields(cutComment(s)), " ") }

// statement parses a line of the definition itself.
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

// declare records where a name is declared. It returns an error if the name is taken.
func (p *parser) declare(t token) error {
	if t.kind != tokenName || !nameForm.MatchString(t.text) {
		return t.errorf("unexpected %s, want a name", t)
	}
	if meaning, taken := reservedNames[t.text]; taken && p.b.d.Expression() != nil {
		return t.errorf("the name %s stands for %s", t.text, meaning)
	}
	if other, taken := p.places[t.text]; taken {
		return t.errorf("the name %s is taken by line %d", t.text, other.line)
	}
	p.places[t.text] = t
	return nil
}

// assignment parses "name = expression".
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
	if _, taken := p.scope.values[name.text]; taken {
		return name.errorf("the name %s is used twice", name.text)
	}
	if !p.isPureOutput(name.text) {
		p.places[name.text] = name
	}
	p.scope.values[name.text] = named(v, name.text)
	return nil
}

// isPureOutput reports whether the name is that of an operand that is only written. The
// value stored there may have the same name.
func (p *parser) isPureOutput(name string) bool {
	i := p.b.d.Operand(name)
	return i >= 0 && !p.b.d.Operands[i].IsIn
}

// named names a new value, without the number that distinguishes values of the same name.
// A name of the form of unnamed values is dropped.
func named(v Value, name string) Value {
	base, _, _ := strings.Cut(name, ".")
	if v.node.Name != "" || len(v.node.Args) == 0 || unnamedForm.MatchString(base) {
		return v
	}
	return v.As(base)
}

// output parses "operand <- expression".
func (p *parser) output(c *cursor) error {
	name := c.next()
	c.next()
	value, err := p.value(c)
	if err != nil {
		return err
	}
	v := value.node
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

// value parses the expression that ends the line.
func (p *parser) value(c *cursor) (Value, error) {
	p.scope.values["C"], p.scope.values["R"] = p.b.Columns(), p.b.Rows()
	e, err := parseExpression(c)
	if err != nil {
		return Value{}, err
	}
	if err := c.finished(); err != nil {
		return Value{}, err
	}
	if p.nodes += e.size(p.sizeOf); p.nodes > MaxNodes {
		return Value{}, e.at.errorf("the definition has more than %d nodes", MaxNodes)
	}
	v, err := e.build(&p.scope)
	if err != nil {
		return Value{}, p.explain(err)
	}
	return v, nil
}

// sizeOf returns the number of nodes that a call becomes: one, or those of a function.
func (p *parser) sizeOf(name string) int {
	f := p.scope.functions[name]
	if f == nil {
		return 1
	}
	if p.sizes[name] == 0 {
		p.sizes[name] = len(f.Expansion().Nodes)
	}
	return p.sizes[name]
}

// explain improves the error about a name that is an output or declared further down.
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

// resolve makes the checks that need the whole text: exceptions of indices must be int32
// parameters, and outputs must have values.
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
