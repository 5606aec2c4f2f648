package def

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"tokitai/num"
)

// expression is a parsed expression: a call of a node or a function on other
// expressions, a name, or a constant.
type expression struct {
	at    token
	name  string // a value, or the node or function that is called
	args  []*expression
	value Value // a constant
}

// constructor builds a node from its arguments.
type constructor struct {
	arity      int
	orArity    int  // another number of arguments; 0 if there is none
	hasStorage bool // a storage format comes first
	build      func(s Storage, x []Value) Value
}

// constructors maps the names of nodes in texts to their constructors. The parser builds
// the leaves, which need a builder.
var constructors = map[string]constructor{
	"add": binary(Value.Add), "sub": binary(Value.Sub), "mul": binary(Value.Mul), "div": binary(Value.Div),
	"min": binary(Value.Min), "max": binary(Value.Max), "scale": binary(Value.Scale),
	"sqrt": unary(Value.Sqrt), "neg": unary(Value.Neg), "abs": unary(Value.Abs), "rint": unary(Value.Rint),
	"fma":  {arity: 3, build: func(_ Storage, x []Value) Value { return FMA(x[0], x[1], x[2]) }},
	"less": binary(Value.Less), "lesseq": binary(Value.LessEqual), "equal": binary(Value.Equal), "notequal": binary(Value.NotEqual),
	"inside": unary(Value.Inside), "at": binary(Value.At),
	"select": {arity: 3, build: func(_ Storage, x []Value) Value { return Select(x[0], x[1], x[2]) }},
	"round":  {arity: 1, hasStorage: true, build: func(s Storage, x []Value) Value { return x[0].Round(s) }},
	"sround": {arity: 2, hasStorage: true, build: func(s Storage, x []Value) Value { return x[0].StochasticRound(s, x[1]) }},
	"bits":   unary(Value.Bits), "float": unary(Value.Float), "itof": unary(Value.IToF), "ftoi": unary(Value.FToI),
	"iadd": binary(Value.IAdd), "isub": binary(Value.ISub), "imul": binary(Value.IMul), "umulhigh": binary(Value.UMulHigh),
	"iand": binary(Value.IAnd), "ior": binary(Value.IOr), "ixor": binary(Value.IXor),
	"shl": binary(Value.ShlBy), "shr": binary(Value.ShrBy), "shru": binary(Value.ShrUBy), "stored": unary(Value.Stored),
	"rowsum": unary(RowSum), "rowmax": unary(RowMax), "rowmin": unary(RowMin), "colsum": unary(ColSum), "totalsum": unary(TotalSum),
	"rowargmax": unary(RowArgMax), "rowargmin": unary(RowArgMin),
	"packed": binary(Packed), "unpacked": binary(Unpacked), "partner": unary(Value.Partner),
	"rank": unary(Rank), "rowkth": binary(RowKth),
	"rownucleus": {arity: 3, build: func(_ Storage, x []Value) Value { return RowNucleus(x[0], x[1], x[2]) }},
	"random": {arity: 4, orArity: 6, build: func(_ Storage, x []Value) Value {
		return new(Builder).Random(x[0], x[1], x[2], x[3], x[4:]...)
	}},
	"randomrow": {arity: 5, build: func(_ Storage, x []Value) Value {
		return new(Builder).RandomRow(x[0], x[1], x[2], x[3], x[4])
	}},
	"element": binary(new(Builder).Element), "elementhigh": binary(new(Builder).ElementHigh),
	"col":  {build: func(Storage, []Value) Value { return new(Builder).Col() }},
	"colf": {build: func(Storage, []Value) Value { return new(Builder).ColFloat() }},
}

// NodeNames returns the names of the nodes that texts may call, sorted.
func NodeNames() []string { return slices.Sorted(maps.Keys(constructors)) }

func unary(f func(Value) Value) constructor {
	return constructor{arity: 1, build: func(_ Storage, x []Value) Value { return f(x[0]) }}
}

func binary(f func(x, y Value) Value) constructor {
	return constructor{arity: 2, build: func(_ Storage, x []Value) Value { return f(x[0], x[1]) }}
}

// comparisons maps operators to nodes; the last two swap their operands.
var comparisons = map[string]string{"<": "less", "<=": "lesseq", "==": "equal", "!=": "notequal", ">": "less", ">=": "lesseq"}

// parseExpression parses a comparison, or a sum: a + b*c rounds the product, then the sum.
func parseExpression(c *cursor) (*expression, error) {
	left, err := parseSum(c)
	if err != nil {
		return nil, err
	}
	t := c.peek()
	op, isComparison := comparisons[t.text]
	if t.kind != tokenMark || !isComparison {
		return left, nil
	}
	c.next()
	right, err := parseSum(c)
	if err != nil {
		return nil, err
	}
	if t.text[0] == '>' {
		left, right = right, left
	}
	return &expression{at: t, name: op, args: []*expression{left, right}}, nil
}

func parseSum(c *cursor) (*expression, error) {
	return parseChain(c, parseProduct, map[string]string{"+": "add", "-": "sub"})
}

func parseProduct(c *cursor) (*expression, error) {
	return parseChain(c, parseOperand, map[string]string{"*": "mul", "/": "div"})
}

// parseChain parses operands with operators between them, from left to right.
func parseChain(c *cursor, operand func(*cursor) (*expression, error), ops map[string]string) (*expression, error) {
	left, err := operand(c)
	for err == nil {
		t := c.peek()
		op, more := ops[t.text]
		if t.kind != tokenMark || !more {
			return left, nil
		}
		c.next()
		var right *expression
		if right, err = operand(c); err == nil {
			left = &expression{at: t, name: op, args: []*expression{left, right}}
		}
	}
	return nil, err
}

func parseOperand(c *cursor) (*expression, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	t := c.next()
	switch {
	case t.kind == tokenNumber, (t.is("-") || t.is("+")) && isConstant(c.peek()), t.is("NaN"), t.is("{"):
		return parseConstant(c, t)
	case t.is("-"):
		x, err := parseOperand(c)
		if err != nil {
			return nil, err
		}
		return &expression{at: t, name: "neg", args: []*expression{x}}, nil
	case t.is("("):
		x, err := parseExpression(c)
		if err != nil {
			return nil, err
		}
		return x, c.expect(")")
	case t.kind != tokenName:
		return nil, t.errorf("unexpected %s, want a value", t)
	}
	if c.accept("[") {
		index, err := parseExpression(c)
		if err != nil {
			return nil, err
		}
		return &expression{at: t, name: lookupName, args: []*expression{{at: t, name: t.text}, index}}, c.expect("]")
	}
	if !c.accept("(") {
		return &expression{at: t, name: t.text}, nil
	}
	return parseCall(c, t)
}

func parseCall(c *cursor, name token) (*expression, error) {
	e := &expression{at: name, name: name.text, args: []*expression{}}
	if c.accept(")") {
		return e, nil
	}
	for {
		x, err := parseExpression(c)
		if err != nil {
			return nil, err
		}
		e.args = append(e.args, x)
		if c.accept(")") {
			return e, nil
		}
		if t := c.next(); !t.is(",") {
			return nil, t.errorf("unexpected %s in the arguments of %s, want a comma or a closing parenthesis", t, name.text)
		}
	}
}

func isConstant(t token) bool { return t.kind == tokenNumber || t.is("Inf") }

// parseConstant parses a constant that begins with t: a number with its sign, an
// infinity, NaN, or an expression in braces.
func parseConstant(c *cursor, t token) (*expression, error) {
	e := &expression{at: t}
	switch {
	case t.is("{"):
		r, err := parseReal(c)
		if err != nil {
			return nil, err
		}
		e.value = RealConst(r)
		return e, c.expect("}")
	case t.is("NaN"):
		e.value = Const(math.NaN())
		return e, nil
	}
	sign, number := "", t
	if t.kind == tokenMark {
		sign, number = t.text, c.next()
	}
	if number.is("Inf") {
		e.value = Const(math.Inf(map[string]int{"-": -1, "+": 1}[sign]))
		return e, nil
	}
	if isInt := strings.HasSuffix(number.text, "i") || strings.HasPrefix(number.text, "0x") && !strings.Contains(number.text, "p"); isInt {
		v, ok := parseInt(sign, number.text)
		if !ok {
			return nil, t.errorf("%s%s is not an int32, such as 23i, -1i or 0x80000000", sign, number.text)
		}
		e.value = IntConst(v)
		return e, nil
	}
	n := &realNode{op: realNumber, text: number.text}
	var err error
	if n.rat, err = parseRat(number.text); err != nil {
		return nil, number.errorf("%v", err)
	}
	if sign == "-" {
		n = &realNode{op: realNeg, args: []*realNode{n}}
	}
	r, err := newReal(n)
	if err != nil {
		return nil, t.errorf("%s%s %v", sign, number.text, err)
	}
	e.value = RealConst(r)
	return e, nil
}

// parseInt reads 23i, or a pattern of eight hexadecimal digits.
func parseInt(sign, text string) (int32, bool) {
	if strings.HasPrefix(text, "0x") {
		v, err := strconv.ParseUint(text[2:], 16, 32)
		return int32(uint32(v)), err == nil && len(text) == 10 && sign == ""
	}
	v, err := strconv.ParseInt(sign+strings.TrimSuffix(text, "i"), 10, 32)
	return int32(v), err == nil && isDigit(text[0])
}

// scope holds the names that an expression may use.
type scope struct {
	values     map[string]Value
	functions  map[string]*Function
	isFunction bool // of a function's body, where int32 arithmetic is allowed
}

// build returns the node of an expression. An error has the position of the mistake.
func (e *expression) build(s *scope) (Value, error) {
	switch {
	case e.value != (Value{}):
		return e.value, nil
	case e.args == nil:
		if v, ok := s.values[e.name]; ok {
			return v, nil
		}
		return Value{}, e.at.errorf("%s is not the name of a value above%s", e.name, s.value(e.name))
	}
	k, isNode := constructors[e.name]
	if e.name == lookupName {
		k, isNode = binary(readTable), true
	}
	f := s.functions[e.name]
	if !isNode && f == nil {
		if s.isFunction {
			return Value{}, e.at.errorf("%s is neither a node nor a function that stands before this one%s", e.name, s.call(e.name))
		}
		return Value{}, e.at.errorf("%s is neither a node nor a function%s", e.name, s.call(e.name))
	}
	args, arity := e.args, 1
	var storage Storage
	if isNode {
		if arity = k.arity; k.hasStorage {
			arity++
		}
	}
	switch {
	case len(args) == arity, k.orArity > 0 && len(args) == k.orArity:
	case k.orArity > 0:
		return Value{}, e.at.errorf("%s has %d arguments, want %d or %d", e.name, len(args), arity, k.orArity)
	default:
		return Value{}, e.at.errorf("%s has %d arguments, want %d", e.name, len(args), arity)
	}
	if isNode && k.hasStorage {
		var err error
		if storage, err = args[0].storage(); err != nil {
			return Value{}, err
		}
		args = args[1:]
	}
	values := make([]Value, len(args))
	for i, a := range args {
		v, err := a.build(s)
		if err != nil {
			return Value{}, err
		}
		values[i] = v
	}
	var v Value
	if isNode {
		v = k.build(storage, values)
	} else {
		v = f.Of(values[0])
	}
	if v.node.err != nil {
		return Value{}, e.at.errorf("%v", v.node.err)
	}
	if !s.isFunction && v.node.Op.isOfFunctions() {
		return Value{}, e.at.errorf("%s: %s", v.node.brief(), errOfFunctions)
	}
	return v, nil
}

// storage parses a storage format: bf16, or storage(w).
func (e *expression) storage() (Storage, error) {
	if e.args == nil && e.value == (Value{}) {
		if d, err := num.ParseDType(e.name); err == nil {
			return FixedStorage(d), nil
		}
	}
	if e.name == "storage" && len(e.args) == 1 && e.args[0].args == nil && e.args[0].value == (Value{}) {
		return StorageOf(e.args[0].name), nil
	}
	return Storage{}, e.at.errorf("want a storage format first: f16, bf16, f32 or storage(OPERAND)")
}

// size returns the number of nodes of an expression with functions expanded. It stops
// counting beyond MaxNodes.
func (e *expression) size(of func(call string) int) int {
	n := 1
	if e.args != nil {
		n = of(e.name)
	}
	for _, a := range e.args {
		if n += a.size(of); n > MaxNodes {
			return MaxNodes + 1
		}
	}
	return n
}
