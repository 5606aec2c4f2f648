package jinja

import (
	"fmt"
	"slices"
	"strconv"
)

// parser makes nodes of tokens.
type parser struct {
	tokens []token
	at     int
	depth  int
	loops  int // around the statement
}

func (p *parser) now() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != endToken {
		p.at++
	}
	return t
}

func (p *parser) errorf(format string, args ...any) error {
	return &Error{p.now().line, fmt.Errorf(format, args...)}
}

func (p *parser) skip(kind tokenKind, text string) bool {
	if p.now().is(kind, text) {
		p.at++
		return true
	}
	return false
}

func (p *parser) isOperator(text string) bool { return p.now().is(operatorToken, text) }
func (p *parser) isName(text string) bool     { return p.now().is(nameToken, text) }

func (p *parser) want(kind tokenKind, text string) error {
	if !p.skip(kind, text) {
		return p.errorf("got %v, want %s", p.now(), text)
	}
	return nil
}

// enter counts the depth of nodes. The result undoes that.
func (p *parser) enter() (func(), error) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.errorf("more than %d constructs in each other", maxDepth)
	}
	return func() { p.depth-- }, nil
}

// statements parses up to the end, or to a block that begins with one of the names, which it leaves.
func (p *parser) statements(until ...string) ([]statement, error) {
	leave, err := p.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	var list []statement
	for {
		switch t := p.next(); t.kind {
		case textToken:
			list = append(list, textNode{t.text})
		case beginVariable:
			value, err := p.tuple(true)
			if err == nil {
				err = p.want(endVariable, "}}")
			}
			if err != nil {
				return nil, err
			}
			list = append(list, printNode{value, t.line})
		case beginBlock:
			if name := p.now(); name.kind == nameToken && slices.Contains(until, name.text) {
				return list, nil
			}
			s, err := p.block()
			if err != nil {
				return nil, err
			}
			list = append(list, s)
		default:
			if len(until) != 0 {
				return nil, p.errorf("the template ends, want %s", until[len(until)-1])
			}
			return list, nil
		}
	}
}

// end parses the rest of a tag of a block whose name was left by statements.
func (p *parser) end() (name string, err error) {
	name = p.next().text
	return name, p.closeTag()
}

func (p *parser) closeTag() error { return p.want(endBlock, "%}") }

// block parses a statement after {%.
func (p *parser) block() (statement, error) {
	t := p.next()
	if t.kind != nameToken {
		p.at--
		return nil, p.errorf("got %v, want a statement", t)
	}
	switch t.text {
	case "if":
		return p.ifBlock()
	case "for":
		return p.forBlock(t.line)
	case "set":
		return p.setBlock(t.line)
	case "macro":
		return p.macroBlock()
	case "generation":
		if err := p.closeTag(); err != nil {
			return nil, err
		}
		body, err := p.statements("endgeneration")
		if err == nil {
			_, err = p.end()
		}
		return generationNode{body}, err
	case "break", "continue":
		if p.loops == 0 {
			return nil, p.errorf("%s outside of a loop", t.text)
		}
		if t.text == "break" {
			return breakNode{}, p.closeTag()
		}
		return continueNode{}, p.closeTag()
	}
	return nil, &Error{t.line, fmt.Errorf("the statement %q is not supported", t.text)}
}

func (p *parser) ifBlock() (statement, error) {
	node := ifNode{}
	for {
		condition, err := p.tuple(false)
		if err == nil {
			err = p.closeTag()
		}
		if err != nil {
			return nil, err
		}
		body, err := p.statements("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		node.branches = append(node.branches, branch{condition, body})
		if p.skip(nameToken, "elif") {
			continue
		}
		name, err := p.end()
		if err != nil || name == "endif" {
			return node, err
		}
		if node.otherwise, err = p.statements("endif"); err != nil {
			return nil, err
		}
		_, err = p.end()
		return node, err
	}
}

func (p *parser) forBlock(line int) (statement, error) {
	node := forNode{line: line}
	inParens := p.skip(operatorToken, "(")
	for {
		t := p.next()
		if t.kind != nameToken {
			p.at--
			return nil, p.errorf("got %v, want the name of a variable", t)
		}
		node.targets = append(node.targets, t.text)
		if !p.skip(operatorToken, ",") {
			break
		}
	}
	if inParens {
		if err := p.want(operatorToken, ")"); err != nil {
			return nil, err
		}
	}
	err := p.want(nameToken, "in")
	if err == nil {
		node.in, err = p.tuple(false)
	}
	if err == nil && p.skip(nameToken, "if") {
		node.condition, err = p.expression()
	}
	if err == nil && p.isName("recursive") {
		err = p.errorf("recursive loops are not supported")
	}
	if err == nil {
		err = p.closeTag()
	}
	if err != nil {
		return nil, err
	}
	p.loops++
	node.body, err = p.statements("else", "endfor")
	p.loops--
	if err != nil {
		return nil, err
	}
	name, err := p.end()
	if err != nil || name == "endfor" {
		return node, err
	}
	if node.otherwise, err = p.statements("endfor"); err != nil {
		return nil, err
	}
	_, err = p.end()
	return node, err
}

func (p *parser) setBlock(line int) (statement, error) {
	node := setNode{line: line}
	for {
		t := p.next()
		if t.kind != nameToken {
			p.at--
			return nil, p.errorf("got %v, want the name of a variable", t)
		}
		to := target{name: t.text}
		if p.skip(operatorToken, ".") {
			to.attribute = p.next().text
		}
		node.targets = append(node.targets, to)
		if !p.skip(operatorToken, ",") {
			break
		}
	}
	if p.skip(operatorToken, "=") {
		var err error
		if node.value, err = p.tuple(true); err != nil {
			return nil, err
		}
		return node, p.closeTag()
	}
	if p.isOperator("|") {
		return nil, p.errorf("a filter of a set block is not supported")
	}
	if err := p.closeTag(); err != nil {
		return nil, err
	}
	body, err := p.statements("endset")
	if err == nil {
		_, err = p.end()
	}
	if err == nil && len(node.targets) != 1 {
		err = p.errorf("a set block has %d variables, want one", len(node.targets))
	}
	return setBlockNode{node.targets[0], body, line}, err
}

func (p *parser) macroBlock() (statement, error) {
	node := macroNode{defaults: map[string]expression{}}
	if node.name = p.next().text; p.tokens[p.at-1].kind != nameToken {
		return nil, p.errorf("a macro has no name")
	}
	if err := p.want(operatorToken, "("); err != nil {
		return nil, err
	}
	for !p.skip(operatorToken, ")") {
		t := p.next()
		if t.kind != nameToken {
			p.at--
			return nil, p.errorf("got %v, want a parameter", t)
		}
		node.parameters = append(node.parameters, t.text)
		if p.skip(operatorToken, "=") {
			value, err := p.expression()
			if err != nil {
				return nil, err
			}
			node.defaults[t.text] = value
		}
		if !p.skip(operatorToken, ",") && !p.isOperator(")") {
			return nil, p.errorf("got %v, want a comma or )", p.now())
		}
	}
	if err := p.closeTag(); err != nil {
		return nil, err
	}
	loops := p.loops
	p.loops = 0
	body, err := p.statements("endmacro")
	p.loops = loops
	if err == nil {
		p.next()
		p.skip(nameToken, node.name)
		err = p.closeTag()
	}
	node.body = body
	return node, err
}

// tuple parses an expression, or several with commas between. withCondition allows "a if b else c".
func (p *parser) tuple(withCondition bool) (expression, error) {
	parse := p.expression
	if !withCondition {
		parse = p.or
	}
	first, err := parse()
	if err != nil || !p.isOperator(",") {
		return first, err
	}
	items := []expression{first}
	for p.skip(operatorToken, ",") {
		if k := p.now(); k.kind == endBlock || k.kind == endVariable || p.isOperator(")") {
			break
		}
		e, err := parse()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
	}
	return tupleOf{items}, nil
}

// expression parses "a if b else c" and what binds tighter.
func (p *parser) expression() (expression, error) {
	leave, err := p.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	e, err := p.or()
	for err == nil && p.skip(nameToken, "if") {
		node := conditionOf{then: e}
		if node.condition, err = p.or(); err != nil {
			return nil, err
		}
		if p.skip(nameToken, "else") {
			if node.otherwise, err = p.expression(); err != nil {
				return nil, err
			}
		}
		e = node
	}
	return e, err
}

// binary parses operands with operators of one precedence between.
func (p *parser) binary(operand func() (expression, error), kind tokenKind, operators ...string) (expression, error) {
	left, err := operand()
	for err == nil && p.now().kind == kind && slices.Contains(operators, p.now().text) {
		t := p.next()
		right, e := operand()
		if e != nil {
			return nil, e
		}
		left = binaryOf{t.text, left, right, t.line}
	}
	return left, err
}

func (p *parser) or() (expression, error)  { return p.binary(p.and, nameToken, "or") }
func (p *parser) and() (expression, error) { return p.binary(p.not, nameToken, "and") }

func (p *parser) not() (expression, error) {
	if t := p.now(); p.skip(nameToken, "not") {
		leave, err := p.enter()
		if err != nil {
			return nil, err
		}
		defer leave()
		of, err := p.not()
		return unaryOf{"not", of, t.line}, err
	}
	return p.compare()
}

func (p *parser) compare() (expression, error) {
	first, err := p.sum()
	if err != nil {
		return nil, err
	}
	node := compareOf{first: first, line: p.now().line}
	for {
		t := p.now()
		operator := ""
		switch {
		case t.kind == operatorToken && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, t.text):
			p.next()
			operator = t.text
		case p.skip(nameToken, "in"):
			operator = "in"
		case p.isName("not") && p.tokens[p.at+1].is(nameToken, "in"):
			p.at += 2
			operator = "not in"
		case len(node.rest) == 0:
			return first, nil
		default:
			return node, nil
		}
		with, err := p.sum()
		if err != nil {
			return nil, err
		}
		node.rest = append(node.rest, comparison{operator, with})
	}
}

func (p *parser) sum() (expression, error) { return p.binary(p.concat, operatorToken, "+", "-") }
func (p *parser) concat() (expression, error) {
	return p.binary(p.product, operatorToken, "~")
}
func (p *parser) product() (expression, error) {
	return p.binary(func() (expression, error) { return p.unary(true) }, operatorToken, "*", "/", "//", "%")
}

func (p *parser) unary(withFilters bool) (expression, error) {
	leave, err := p.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	var node expression
	if t := p.now(); t.is(operatorToken, "-") || t.is(operatorToken, "+") {
		p.next()
		of, err := p.unary(false)
		if err != nil {
			return nil, err
		}
		node = unaryOf{t.text, of, t.line}
	} else if node, err = p.primary(); err != nil {
		return nil, err
	}
	if node, err = p.postfix(node); err != nil || !withFilters {
		return node, err
	}
	return p.filters(node)
}

func (p *parser) primary() (expression, error) {
	t := p.next()
	switch t.kind {
	case nameToken:
		switch t.text {
		case "true", "True":
			return literal{true}, nil
		case "false", "False":
			return literal{false}, nil
		case "none", "None":
			return literal{nil}, nil
		case "if", "else", "elif", "for", "in", "is", "and", "or", "not", "recursive":
			p.at--
			return nil, p.errorf("got %v, want a value", t)
		}
		return nameOf{t.text, t.line}, nil
	case stringToken:
		s := t.text
		for p.now().kind == stringToken {
			s += p.next().text
		}
		return literal{s}, nil
	case intToken:
		n, err := strconv.ParseInt(t.text, 10, 64)
		if err != nil {
			return nil, &Error{t.line, fmt.Errorf("the number %s is too large", t.text)}
		}
		return literal{n}, nil
	case floatToken:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			return nil, &Error{t.line, fmt.Errorf("the number %s is too large", t.text)}
		}
		return literal{f}, nil
	case operatorToken:
		switch t.text {
		case "(":
			if p.skip(operatorToken, ")") {
				return tupleOf{}, nil
			}
			e, err := p.tuple(true)
			if err != nil {
				return nil, err
			}
			return e, p.want(operatorToken, ")")
		case "[":
			items, err := p.items("]")
			return listOf{items}, err
		case "{":
			return p.dict()
		}
	}
	p.at--
	return nil, p.errorf("got %v, want a value", t)
}

// items parses expressions with commas between, up to a bracket.
func (p *parser) items(end string) ([]expression, error) {
	var items []expression
	for !p.skip(operatorToken, end) {
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
		if !p.skip(operatorToken, ",") && !p.isOperator(end) {
			return nil, p.errorf("got %v, want a comma or %s", p.now(), end)
		}
	}
	return items, nil
}

func (p *parser) dict() (expression, error) {
	node := dictOf{}
	for !p.skip(operatorToken, "}") {
		key, err := p.expression()
		if err == nil {
			err = p.want(operatorToken, ":")
		}
		if err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		node.keys, node.values = append(node.keys, key), append(node.values, value)
		if !p.skip(operatorToken, ",") && !p.isOperator("}") {
			return nil, p.errorf("got %v, want a comma or }", p.now())
		}
	}
	return node, nil
}

// postfix parses attributes, items, slices and calls.
func (p *parser) postfix(node expression) (expression, error) {
	for {
		t := p.now()
		switch {
		case p.skip(operatorToken, "."):
			name := p.next()
			switch name.kind {
			case nameToken:
				node = attrOf{node, name.text, name.line}
			case intToken:
				n, err := strconv.ParseInt(name.text, 10, 64)
				if err != nil {
					return nil, p.errorf("the number %s is too large", name.text)
				}
				node = itemOf{node, literal{n}, name.line}
			default:
				p.at--
				return nil, p.errorf("got %v, want the name of an attribute", name)
			}
		case p.skip(operatorToken, "["):
			item, err := p.subscript(node, t.line)
			if err != nil {
				return nil, err
			}
			node = item
		case p.isOperator("("):
			args, err := p.arguments()
			if err != nil {
				return nil, err
			}
			node = callOf{node, args, t.line}
		default:
			return node, nil
		}
	}
}

func (p *parser) subscript(of expression, line int) (expression, error) {
	var parts [3]expression
	colons := 0
	for !p.skip(operatorToken, "]") {
		if p.skip(operatorToken, ":") {
			if colons++; colons > 2 {
				return nil, p.errorf("a slice has more than two colons")
			}
			continue
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		parts[colons] = e
		if !p.isOperator(":") && !p.isOperator("]") {
			return nil, p.errorf("got %v, want ]", p.now())
		}
	}
	if colons > 0 {
		return sliceOf{of, parts[0], parts[1], parts[2], line}, nil
	}
	if parts[0] == nil {
		return nil, p.errorf("an index is empty")
	}
	return itemOf{of, parts[0], line}, nil
}

func (p *parser) arguments() (arguments, error) {
	var args arguments
	p.next()
	for !p.skip(operatorToken, ")") {
		if p.isOperator("*") || p.isOperator("**") {
			return args, p.errorf("* and ** in arguments are not supported")
		}
		name := p.now()
		isNamed := name.kind == nameToken && p.tokens[p.at+1].is(operatorToken, "=")
		if isNamed {
			p.at += 2
		}
		e, err := p.expression()
		if err != nil {
			return args, err
		}
		switch {
		case isNamed:
			args.named = append(args.named, namedArgument{name.text, e})
		case len(args.named) > 0:
			return args, p.errorf("an argument without a name follows one with a name")
		default:
			args.list = append(args.list, e)
		}
		if !p.skip(operatorToken, ",") && !p.isOperator(")") {
			return args, p.errorf("got %v, want a comma or )", p.now())
		}
	}
	return args, nil
}

// filters parses filters, tests and calls after a value.
func (p *parser) filters(node expression) (expression, error) {
	for {
		t := p.now()
		switch {
		case p.skip(operatorToken, "|"):
			name := p.next().text
			if _, ok := filters[name]; !ok {
				return nil, &Error{t.line, fmt.Errorf("the filter %q is not supported", name)}
			}
			var args arguments
			var err error
			if p.isOperator("(") {
				if args, err = p.arguments(); err != nil {
					return nil, err
				}
			}
			node = filterOf{node, name, args, t.line}
		case p.skip(nameToken, "is"):
			test := testOf{of: node, line: t.line, isNot: p.skip(nameToken, "not")}
			test.name = p.next().text
			if _, ok := tests[test.name]; !ok {
				return nil, &Error{t.line, fmt.Errorf("the test %q is not supported", test.name)}
			}
			var err error
			switch k := p.now(); {
			case p.isOperator("("):
				test.args, err = p.arguments()
			case k.kind == stringToken, k.kind == intToken, k.kind == floatToken, p.isOperator("["), p.isOperator("{"), k.kind == nameToken && !slices.Contains([]string{"else", "or", "and", "if", "in", "is", "not"}, k.text):
				var arg expression
				if arg, err = p.primary(); err == nil {
					arg, err = p.postfix(arg)
				}
				test.args.list = []expression{arg}
			}
			if err != nil {
				return nil, err
			}
			node = test
		case p.isOperator("("):
			args, err := p.arguments()
			if err != nil {
				return nil, err
			}
			node = callOf{node, args, t.line}
		default:
			return node, nil
		}
	}
}
