package foreign

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tokitai/def"
	"tokitai/internal/nearest"
)

// The launch language says how a kernel of the CUDA kind is called:
//
//	grid=R block=256 shared=4*C args=x,y,C,eps
//
// docs/sources.md teaches it. A launch program is one or more launches, which run in order.

// launchProgram is a parsed text of launches.
type launchProgram struct {
	text     string
	launches []*launch
	scratch  []scratchBuffer
	align    int64      // bytes at whose multiples every row of an operand begins; 0 is the element's size
	when     []relation // of the calls that the kernel computes

	usesStride map[int]bool            // operands whose row stride a launch uses
	usesAxis   map[int]map[string]bool // and of others, by letter
}

// launch is one kernel and how it is launched.
type launch struct {
	entry       string // "" is the one of the command line
	grid, block []expression
	shared      expression // nil is 0
	arguments   []argument
}

// scratchBuffer is memory that lives as long as a call.
type scratchBuffer struct {
	name  string
	bytes expression
}

// relation is a condition on sizes, with its text.
type relation struct {
	text  string
	holds expression
}

// argument is an argument of a kernel: a pointer or a number.
type argument struct {
	text string
	at   int

	operand  int // its data; -1 if none
	scratch  int // its data; -1 if none
	isNull   bool
	kind     argumentKind
	integer  expression // of an integer
	float    float64    // of a literal with a fraction
	floating int        // the number of a parameter whose value, not rounded to an integer, is passed; -1 if none
}

// argumentKind is the C type of an argument.
type argumentKind uint8

const (
	pointerArgument argumentKind = iota
	i32Argument
	i64Argument
	u32Argument
	u64Argument
	f32Argument
	f64Argument
)

// argumentTypes are the names of types in the launch language, and in C++.
var argumentTypes = []struct {
	name, cxx string
	kind      argumentKind
	bytes     int
}{
	{"pointer", "void*", pointerArgument, 8},
	{"i32", "int", i32Argument, 4},
	{"i64", "long long", i64Argument, 8},
	{"u32", "unsigned", u32Argument, 4},
	{"u64", "unsigned long long", u64Argument, 8},
	{"f32", "float", f32Argument, 4},
	{"f64", "double", f64Argument, 8},
}

func (k argumentKind) String() string  { return argumentTypes[k].name }
func (k argumentKind) bytes() int      { return argumentTypes[k].bytes }
func (k argumentKind) isFloat() bool   { return k == f32Argument || k == f64Argument }
func (k argumentKind) isPointer() bool { return k == pointerArgument }

func typeNames() []string {
	var names []string
	for _, t := range argumentTypes[1:] {
		names = append(names, t.name)
	}
	return names
}

// LaunchError is a launch text that is wrong, with the column, counted from 1, where it is.
type LaunchError struct {
	Text   string
	Column int
	Reason string
}

func (e *LaunchError) Error() string {
	return fmt.Sprintf("--launch, column %d: %s", e.Column, e.Reason)
}

// Detail returns the text with a mark below the column.
func (e *LaunchError) Detail() string {
	return fmt.Sprintf("%s\n%s^", e.Text, strings.Repeat(" ", min(e.Column-1, len(e.Text))))
}

// parseLaunch parses the launches of a kernel that computes d.
func parseLaunch(text string, d *def.Definition) (p *launchProgram, err error) {
	l := &launchParser{text: text, d: d, program: &launchProgram{text: text, usesStride: map[int]bool{}, usesAxis: map[int]map[string]bool{}}}
	defer func() {
		if r := recover(); r != nil {
			failure, ok := r.(*LaunchError)
			if !ok {
				panic(r)
			}
			p, err = nil, failure
		}
	}()
	l.scan()
	l.parse()
	return l.program, nil
}

// token is a word, a number or a sign of a launch text.
type token struct {
	text string
	at   int
}

func (t token) isWord() bool {
	return t.text != "" && (t.text[0] == '_' || t.text[0]|0x20 >= 'a' && t.text[0]|0x20 <= 'z')
}
func (t token) isNumber() bool { return t.text != "" && t.text[0] >= '0' && t.text[0] <= '9' }

type launchParser struct {
	text    string
	d       *def.Definition
	program *launchProgram
	tokens  []token
	next    int
	depth   int
}

// fail ends the parse; parseLaunch recovers it.
func (l *launchParser) fail(at int, format string, arguments ...any) {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, l.text)
	panic(&LaunchError{Text: text, Column: at + 1, Reason: fmt.Sprintf(format, arguments...)})
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isLetter(c byte) bool {
	return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func (l *launchParser) scan() {
	const most = 4096
	if len(l.text) > most {
		l.fail(0, "got %d bytes, want at most %d", len(l.text), most)
	}
	for at := 0; at < len(l.text); {
		end := at + 1
		switch c := l.text[at]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			at++
			continue
		case isLetter(c):
			for end < len(l.text) && (isLetter(l.text[end]) || isDigit(l.text[end])) {
				end++
			}
		case isDigit(c):
			for end < len(l.text) && (isDigit(l.text[end]) || isLetter(l.text[end]) || l.text[end] == '.' ||
				(l.text[end] == '-' || l.text[end] == '+') && l.text[end-1]|0x20 == 'e' && !strings.HasPrefix(l.text[at:], "0x")) {
				end++
			}
		case end < len(l.text) && slices.Contains([]string{"<=", ">=", "==", "!=", "::"}, l.text[at:end+1]):
			end++
		case !strings.ContainsRune("+-*/%(),;:=<>.&", rune(c)):
			l.fail(at, "unexpected %q; a launch is made of clauses such as grid=R block=256 args=x,y,C", c)
		}
		l.tokens = append(l.tokens, token{l.text[at:end], at})
		at = end
	}
}

func (l *launchParser) peek() token {
	if l.next < len(l.tokens) {
		return l.tokens[l.next]
	}
	return token{"", len(l.text)}
}

func (l *launchParser) after() token {
	if l.next+1 < len(l.tokens) {
		return l.tokens[l.next+1]
	}
	return token{"", len(l.text)}
}

func (l *launchParser) take() token {
	t := l.peek()
	l.next++
	return t
}

func (l *launchParser) accept(text string) bool {
	if l.peek().text == text {
		l.next++
		return true
	}
	return false
}

func (l *launchParser) expect(text, where string) token {
	t := l.peek()
	if t.text != text {
		l.fail(t.at, "got %s, want %q %s", t.shown(), text, where)
	}
	return l.take()
}

func (t token) shown() string {
	if t.text == "" {
		return "the end"
	}
	return strconv.Quote(t.text)
}

var clauses = []string{"entry", "grid", "block", "shared", "args", "scratch", "align", "when"}

func (l *launchParser) parse() {
	l.scratchNames() // first: launches may use a buffer that is declared later
	for {
		l.program.launches = append(l.program.launches, l.launch())
		if !l.accept(";") || l.peek().text == "" { // a last semicolon ends the text
			break
		}
	}
	if t := l.peek(); t.text != "" {
		l.fail(t.at, "got %s, want a clause such as block=256, or a semicolon before another launch", t.shown())
	}
}

// scratchNames declares the buffers of all scratch clauses, without their sizes.
func (l *launchParser) scratchNames() {
	for i := 0; i+2 < len(l.tokens); i++ {
		if l.tokens[i].text != "scratch" || l.tokens[i+1].text != "=" {
			continue
		}
		for j := i + 2; j+1 < len(l.tokens) && l.tokens[j].isWord() && l.tokens[j+1].text == ":"; {
			name := l.tokens[j]
			if what := l.meaning(name.text); what != "" {
				l.fail(name.at, "%s is %s; choose another name for the scratch buffer", name.text, what)
			}
			l.program.scratch = append(l.program.scratch, scratchBuffer{name: name.text})
			depth := 0
			for j += 2; j < len(l.tokens); j++ { // to the next buffer
				switch l.tokens[j].text {
				case "(":
					depth++
				case ")":
					depth--
				}
				if depth <= 0 && (l.tokens[j].text == "," || l.tokens[j].text == ";" || l.isClause(j)) {
					break
				}
			}
			if j < len(l.tokens) && l.tokens[j].text == "," {
				j++
			}
		}
	}
}

// isClause reports whether a clause begins at a token.
func (l *launchParser) isClause(i int) bool {
	return i+1 < len(l.tokens) && slices.Contains(clauses, l.tokens[i].text) && l.tokens[i+1].text == "="
}

// meaning returns what a name stands for, or "".
func (l *launchParser) meaning(name string) string {
	switch {
	case l.operand(name) >= 0:
		return "an operand"
	case slices.Contains(l.letters(), name):
		return "a size"
	case l.param(name) >= 0:
		return "a parameter"
	case l.scratchBuffer(name) >= 0:
		return "a scratch buffer already"
	case functions[name] > 0 || name == "min" || name == "max" || name == "ceil" || name == "sizeof" || name == "null":
		return "a word of the launch language"
	}
	return ""
}

func (l *launchParser) operand(name string) int {
	return slices.IndexFunc(l.d.Operands, func(o def.Operand) bool { return o.Name == name })
}

func (l *launchParser) param(name string) int {
	return slices.IndexFunc(l.d.Params, func(p def.Param) bool { return p.Name == name })
}

func (l *launchParser) scratchBuffer(name string) int {
	return slices.IndexFunc(l.program.scratch, func(s scratchBuffer) bool { return s.name == name })
}

// letters lists the sizes of the definition.
func (l *launchParser) letters() []string { return lettersOf(l.d) }

func lettersOf(d *def.Definition) []string {
	var list []string
	if d.Access() == def.AlongRows { // rows and columns, also where no operand has both
		for _, a := range d.MatrixAxes() {
			list = append(list, a.Letter)
		}
	}
	for _, o := range d.Operands {
		for _, letter := range o.Dims {
			if !slices.Contains(list, letter) {
				list = append(list, letter)
			}
		}
	}
	return list
}

// launch parses the clauses of one launch.
func (l *launchParser) launch() *launch {
	made := &launch{}
	start := l.peek()
	seen := map[string]bool{}
	hasArguments := false
	for t := l.peek(); t.text != "" && t.text != ";"; t = l.peek() {
		if !l.isClause(l.next) {
			l.unknownClause(t)
		}
		if seen[t.text] {
			l.fail(t.at, "%s is given twice in one launch", t.text)
		}
		seen[t.text] = true
		l.next += 2
		switch t.text {
		case "entry":
			made.entry = l.entry()
		case "grid":
			made.grid = l.dimensions("grid")
		case "block":
			made.block = l.dimensions("block")
		case "shared":
			made.shared = l.expression()
		case "args":
			made.arguments, hasArguments = l.arguments(), true
		case "scratch":
			l.buffers()
		case "align":
			l.alignment()
		case "when":
			l.conditions()
		}
	}
	for _, clause := range []struct {
		name    string
		missing bool
		example string
	}{{"grid", made.grid == nil, "grid=" + l.letters()[0]}, {"block", made.block == nil, "block=256"}, {"args", !hasArguments, "args=" + l.d.Operands[0].Name + ",…"}} {
		if clause.missing {
			l.fail(start.at, "the launch has no %s, such as %s", clause.name, clause.example)
		}
	}
	return made
}

func (l *launchParser) unknownClause(t token) {
	if slices.Contains(clauses, t.text) {
		l.fail(l.after().at, "got %s after %s, want =", l.after().shown(), t.text)
	}
	if t.isWord() && l.after().text == "=" {
		l.fail(t.at, "unknown clause %s%s; the clauses are %s", t.text, meant(t.text, clauses), strings.Join(clauses, ", "))
	}
	l.fail(t.at, "got %s, want a clause such as block=256", t.shown())
}

// meant suggests the names that a misspelt one may stand for.
func meant(name string, known []string) string {
	if names := nearest.Names(name, known); len(names) > 0 {
		return " (did you mean " + strings.Join(names, " or ") + "?)"
	}
	return ""
}

// entry takes the name of a kernel with its template arguments: everything up to the next
// clause or the end of the launch.
func (l *launchParser) entry() string {
	first := l.peek()
	if !first.isWord() {
		l.fail(first.at, "got %s, want the name of a kernel", first.shown())
	}
	end := first.at
	for t := l.peek(); t.text != "" && t.text != ";" && !l.isClause(l.next); t = l.peek() {
		end = t.at + len(t.text)
		l.next++
	}
	return l.text[first.at:end]
}

func (l *launchParser) dimensions(clause string) []expression {
	list := []expression{l.expression()}
	for l.peek().text == "," {
		comma := l.take()
		if len(list) == 3 {
			l.fail(comma.at, "%s has more than three dimensions", clause)
		}
		list = append(list, l.expression())
	}
	return list
}

func (l *launchParser) buffers() {
	for {
		name := l.peek()
		if !name.isWord() || l.after().text != ":" {
			l.fail(name.at, "got %s, want a name and a number of bytes, such as scratch=tmp:4*%s", name.shown(), l.letters()[0])
		}
		l.next += 2
		l.program.scratch[l.scratchBuffer(name.text)].bytes = l.expression()
		if !l.accept(",") {
			return
		}
	}
}

func (l *launchParser) alignment() {
	t := l.take()
	n, err := strconv.ParseInt(t.text, 10, 64)
	if err != nil || n < 1 || n > 256 || n&(n-1) != 0 {
		l.fail(t.at, "got %s, want a power of two up to 256 (bytes)", t.shown())
	}
	l.program.align = max(l.program.align, n)
}

var relations = []string{"<", "<=", ">", ">=", "==", "!="}

func (l *launchParser) conditions() {
	for {
		begin := l.peek().at
		left := l.expression()
		operator := l.take()
		if !slices.Contains(relations, operator.text) {
			l.fail(operator.at, "got %s, want a comparison, such as when=%s<=1024", operator.shown(), l.letters()[0])
		}
		right := l.expression()
		end := l.peek().at
		l.program.when = append(l.program.when, relation{strings.TrimSpace(l.text[begin:end]), operation{operator.text, left, right, operator.at}})
		if !l.accept(",") {
			return
		}
	}
}

func (l *launchParser) arguments() []argument {
	var list []argument
	if t := l.peek(); t.text == "" || t.text == ";" || l.isClause(l.next) {
		return list // a kernel without arguments
	}
	for {
		list = append(list, l.argument())
		if !l.accept(",") {
			return list
		}
	}
}

func (l *launchParser) argument() argument {
	first := l.peek()
	a := argument{at: first.at, operand: -1, scratch: -1, floating: -1, kind: i32Argument}
	isAlone := func() bool { // the first token is the whole argument
		t := l.after().text
		return t == "," || t == ":" || t == "" || t == ";" || l.isClause(l.next+1)
	}
	pointer := func() argument {
		l.next++
		if t := l.peek(); t.text == ":" {
			l.fail(t.at, "%s is a pointer and takes no type", first.text)
		}
		a.kind, a.text = pointerArgument, first.text
		return a
	}
	if isAlone() {
		switch operand, scratch, param := l.operand(first.text), l.scratchBuffer(first.text), l.param(first.text); {
		case operand >= 0:
			a.operand = operand
			return pointer()
		case scratch >= 0:
			a.scratch = scratch
			return pointer()
		case first.text == "null":
			a.isNull = true
			return pointer()
		case param >= 0 && !slices.Contains(l.letters(), first.text):
			l.next++
			a.floating = param
			if a.kind = f32Argument; l.d.Params[param].IsInt {
				a.kind = i32Argument
			}
		}
	}
	if a.floating < 0 {
		if v, ok := l.fraction(); ok {
			a.float, a.kind = v, f32Argument
		} else {
			a.integer = l.expression()
		}
	}
	end := l.peek().at
	if l.accept(":") {
		t := l.take()
		i := slices.Index(typeNames(), t.text)
		if i < 0 {
			l.fail(t.at, "unknown type %s%s; the types are %s", t.shown(), meant(t.text, typeNames()), strings.Join(typeNames(), ", "))
		}
		kind := argumentTypes[i+1].kind
		if a.integer == nil && a.floating < 0 && !kind.isFloat() {
			l.fail(t.at, "%v is no integer, so it cannot be passed as %s", a.float, kind)
		}
		a.kind = kind
	}
	a.text = strings.TrimSpace(l.text[first.at:end])
	return a
}

// fraction takes a number with a fraction or an exponent, with its sign.
func (l *launchParser) fraction() (float64, bool) {
	sign, at := 1.0, l.next
	if l.accept("-") {
		sign = -1
	}
	if t := l.peek(); t.isNumber() && !strings.HasPrefix(t.text, "0x") && strings.ContainsAny(t.text, ".eE") {
		v, err := strconv.ParseFloat(strings.TrimSuffix(t.text, "f"), 64)
		if err != nil || math.IsInf(v, 0) {
			l.fail(t.at, "got %s, want a number", t.shown())
		}
		l.next++
		return sign * v, true
	}
	l.next = at
	return 0, false
}

const deepest = 100 // nested expressions

// expression parses sums of terms.
func (l *launchParser) expression() expression {
	if l.depth++; l.depth > deepest {
		l.fail(l.peek().at, "the expression is nested more than %d times", deepest)
	}
	defer func() { l.depth-- }()
	x := l.term()
	for t := l.peek(); t.text == "+" || t.text == "-"; t = l.peek() {
		l.next++
		x = operation{t.text, x, l.term(), t.at}
	}
	return x
}

// term parses products of factors.
func (l *launchParser) term() expression {
	x := l.factor()
	for t := l.peek(); t.text == "*" || t.text == "/" || t.text == "%"; t = l.peek() {
		l.next++
		x = operation{t.text, x, l.factor(), t.at}
	}
	return x
}

func (l *launchParser) factor() expression {
	t := l.take()
	switch {
	case t.text == "(":
		x := l.expression()
		l.expect(")", "to close the parenthesis")
		return x
	case t.text == "-":
		if l.depth++; l.depth > deepest {
			l.fail(t.at, "the expression is nested more than %d times", deepest)
		}
		defer func() { l.depth-- }()
		return negative{l.factor(), t.at}
	case t.isNumber():
		n, err := strconv.ParseInt(t.text, 0, 64)
		if err != nil {
			l.fail(t.at, "got %s, want an integer", t.shown())
		}
		return literal{n}
	case t.isWord():
		return l.name(t)
	}
	l.fail(t.at, "got %s, want a size, a number or an expression in parentheses", t.shown())
	return nil
}

// name parses what begins with a word: a size, a parameter, a stride, a function.
func (l *launchParser) name(t token) expression {
	next := l.peek().text
	operand := l.operand(t.text)
	switch {
	case next == "(" && t.text == "ceil":
		return l.ceil()
	case next == "(" && t.text == "sizeof":
		return l.sizeof()
	case next == "(":
		return l.function(t)
	case next == "." && operand >= 0:
		return l.stride(operand)
	case slices.Contains(l.letters(), t.text):
		return sizeOf{t.text}
	case l.param(t.text) >= 0:
		return paramOf{l.param(t.text), t.at}
	case operand >= 0:
		l.fail(t.at, "%s is an operand and has no value here; sizes are %s", t.text, strings.Join(l.letters(), ", "))
	case l.scratchBuffer(t.text) >= 0:
		l.fail(t.at, "%s is a scratch buffer and has no value here", t.text)
	}
	known := l.letters()
	for _, o := range l.d.Operands {
		known = append(known, o.Name)
	}
	for _, p := range l.d.Params {
		known = append(known, p.Name)
	}
	l.fail(t.at, "unknown name %s%s; %s has %s", t.text, meant(t.text, known), l.d.Name, strings.Join(known, ", "))
	return nil
}

func (l *launchParser) ceil() expression {
	open := l.take()
	x := l.expression()
	l.expect(")", "to close ceil(")
	quotient, ok := x.(operation)
	if !ok || quotient.operator != "/" {
		l.fail(open.at+1, "ceil takes a quotient, such as ceil(%s/256)", l.letters()[0])
	}
	return ceiling{quotient.left, quotient.right, quotient.at}
}

// sizeof parses the bytes of an element: of an operand, or of T, the format that is judged.
func (l *launchParser) sizeof() expression {
	l.take()
	t := l.take()
	operand := l.operand(t.text)
	if t.text == "T" && operand < 0 {
		operand = 0
	}
	if operand < 0 {
		l.fail(t.at, "got sizeof(%s), want an operand or T", t.text)
	}
	l.expect(")", "to close sizeof(")
	return bytesOf{operand}
}

func (l *launchParser) function(t token) expression {
	count, ok := functions[t.text]
	if !ok {
		l.fail(t.at, "unknown function %s; the functions are ceil, max, min, nextpow2 and sizeof", t.text)
	}
	l.take()
	x := function{name: t.text, at: t.at}
	for {
		x.arguments = append(x.arguments, l.expression())
		if !l.accept(",") {
			break
		}
	}
	l.expect(")", "to close "+t.text+"(")
	if count > 0 && len(x.arguments) != count {
		l.fail(t.at, "%s got %d arguments, want %d", t.text, len(x.arguments), count)
	}
	return x
}

// stride parses x.stride, the elements from one row to the next, and x.stride.B, those
// along another axis.
func (l *launchParser) stride(operand int) expression {
	l.take()
	o := &l.d.Operands[operand]
	if t := l.take(); t.text != "stride" {
		l.fail(t.at, "got %s.%s, want %s.stride", o.Name, t.text, o.Name)
	}
	if l.accept(".") {
		t := l.take()
		if !slices.Contains(o.Dims, t.text) {
			l.fail(t.at, "%s has no axis %s; its axes are %s", o.Name, t.text, strings.Join(o.Dims, ", "))
		}
		if l.program.usesAxis[operand] == nil {
			l.program.usesAxis[operand] = map[string]bool{}
		}
		l.program.usesAxis[operand][t.text] = true
		if slices.Index(o.Dims, t.text) == len(o.Dims)-2 {
			l.program.usesStride[operand] = true
		}
		return strideOf{operand, t.text}
	}
	l.program.usesStride[operand] = true
	return strideOf{operand, ""}
}
