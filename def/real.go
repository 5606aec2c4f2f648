package def

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"tokitai/num/ball"
)

// Real is a real constant: the number itself, to any precision, for truth, and its
// binary32 rounding, for execution. The difference counts as an error of the definition.
type Real struct {
	text  string
	value *realNode // nil for NaN and the infinities
	f32   float32
	exact bool
}

// RealOf returns the constant v.
func RealOf(v float64) *Real {
	f := float32(v)
	switch {
	case math.IsNaN(v):
		return &Real{text: "NaN", f32: f, exact: true}
	case math.IsInf(v, 0):
		return &Real{text: fmt.Sprint(v), f32: f, exact: true}
	}
	if float64(f) == v {
		return exactReals.of(f)
	}
	n := rationalNode(v)
	n.text = strconv.FormatFloat(v, 'x', -1, 64)
	return &Real{text: n.text, value: n, f32: f}
}

// exactReals holds constants that are binary32s, by their bits. Whatever calls a function has those of its expansion
// again: a program that starts builds each some twenty times.
var exactReals = realTable{known: map[uint32]*Real{}}

type realTable struct {
	mutex sync.Mutex
	known map[uint32]*Real
}

// maxExactReals limits the table. Shipped definitions and functions have some 300.
const maxExactReals = 4096

func (t *realTable) of(f float32) *Real {
	bits := math.Float32bits(f)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	r := t.known[bits]
	if r == nil {
		r = &Real{text: exactText(f), value: rationalNode(float64(f)), f32: f, exact: true}
		if len(t.known) < maxExactReals {
			t.known[bits] = r
		}
	}
	return r
}

// ParseReal returns the real number that a text denotes: a decimal such as 0.044715, a
// hexadecimal float, or an expression of such numbers, pi, sqrt, exp, log (the natural
// one), + - * / and parentheses, such as 2*sqrt(2/pi).
func ParseReal(text string) (*Real, error) {
	tokens, err := lexLine(nil, text, 1, 1)
	if err == nil {
		c := newCursor(tokens, 1, 1)
		var r *Real
		if r, err = parseReal(c); err == nil {
			if err = c.finished(); err == nil {
				return r, nil
			}
		}
	}
	if e := (*SyntaxError)(nil); errors.As(err, &e) {
		err = errors.New(e.Message)
	}
	return nil, fmt.Errorf("constant %q: %w", text, err)
}

// Big returns the constant, within one unit in the last place of prec bits. It is nil
// for NaN and the infinities, which are not real.
func (r *Real) Big(prec uint) *big.Float {
	if r.value == nil {
		return nil
	}
	x, err := r.value.at(prec)
	if err != nil {
		panic("def: constant " + r.text + ": " + err.Error()) // at a precision that newReal has not tried
	}
	return x
}

// F32 returns the binary32 rounding, which is executed.
func (r *Real) F32() float32 { return r.f32 }

// IsExact reports whether the binary32 rounding is exact.
func (r *Real) IsExact() bool { return r.exact }

// String returns the constant as definitions print it: a number, or an expression in
// braces.
func (r *Real) String() string {
	if r.value == nil || r.value.op == realNumber || r.exact {
		return r.text
	}
	return "{" + r.text + "}"
}

// exactText formats a binary32 as the shortest decimal that rounds to it, if that is
// exact, or else in hexadecimal.
func exactText(f float32) string {
	text := strconv.FormatFloat(float64(f), 'g', -1, 32)
	if v, _ := strconv.ParseFloat(text, 64); v != float64(f) { // rounds: most texts need no more
		return strconv.FormatFloat(float64(f), 'x', -1, 32)
	}
	if r, ok := new(big.Rat).SetString(text); ok && r.Cmp(new(big.Rat).SetFloat64(float64(f))) == 0 {
		return text
	}
	return strconv.FormatFloat(float64(f), 'x', -1, 32)
}

// realNode is an expression over the real numbers.
type realNode struct {
	op   realOp
	text string   // realNumber: as it was written
	rat  *big.Rat // realNumber
	args []*realNode
	last atomic.Pointer[approximation]
}

// approximation is the value of an expression that was computed last.
type approximation struct {
	prec  uint
	value *big.Float
}

type realOp string

const (
	realNumber realOp = "number"
	realPi     realOp = "pi"
	realSqrt   realOp = "sqrt"
	realExp    realOp = "exp"
	realLog    realOp = "log"
	realNeg    realOp = "neg"
)

func rationalNode(v float64) *realNode {
	return &realNode{op: realNumber, rat: new(big.Rat).SetFloat64(v)}
}

// newReal returns the constant of a parsed expression.
func newReal(n *realNode) (*Real, error) {
	x, err := n.at(maxRealPrecision)
	if err != nil {
		return nil, err
	}
	f, _ := x.Float32() // nearest even
	if math.IsInf(float64(f), 0) {
		return nil, errors.New("is beyond the range of binary32")
	}
	if n.op == realNeg && n.args[0].op == realNumber && f == 0 && x.Sign() == 0 {
		f = float32(math.Copysign(0, -1)) // -0
	}
	if new(big.Float).SetFloat64(float64(f)).Cmp(x) == 0 {
		return exactReals.of(f), nil
	}
	if n.op == realNeg && n.args[0].op == realNumber { // a negative number is a number
		n = &realNode{op: realNumber, text: "-" + n.args[0].text, rat: new(big.Rat).Neg(n.args[0].rat)}
	}
	return &Real{text: n.print(0), value: n, f32: f}, nil
}

// maxRealPrecision is the precision in bits to which a constant must be computable; no
// caller needs more.
const maxRealPrecision = 800

// at computes the expression to prec bits, within one unit in the last place.
func (n *realNode) at(prec uint) (*big.Float, error) {
	if n.op == realNumber {
		return new(big.Float).SetPrec(prec).SetRat(n.rat), nil
	}
	if last := n.last.Load(); last != nil && last.prec == prec {
		return new(big.Float).Set(last.value), nil
	}
	for work := prec + 64; work <= 4*prec+4096; work *= 2 {
		b := n.ball(ball.NewBig(0, work))
		if !b.Known() {
			continue
		}
		mid, rad := b.Mid(), b.Rad()
		if rad.Sign() == 0 || mid.Sign() != 0 && rad.MantExp(nil) < mid.MantExp(nil)-int(prec)-2 {
			mid.SetPrec(prec)
			n.last.Store(&approximation{prec, new(big.Float).Set(mid)})
			return mid, nil
		}
	}
	return nil, errors.New("has no value that can be computed, or one too close to 0")
}

// ball encloses the value at the precision of zero.
func (n *realNode) ball(zero ball.Big) ball.Big {
	var a, b ball.Big
	if len(n.args) > 0 {
		a = n.args[0].ball(zero)
	}
	if len(n.args) > 1 {
		b = n.args[1].ball(zero)
	}
	switch n.op {
	case realNumber:
		return zero.FromRat(n.rat)
	case realPi:
		return zero.Pi()
	case realSqrt:
		return a.Sqrt()
	case realExp:
		return a.Exp()
	case realLog:
		return a.Log()
	case realNeg:
		return a.Neg()
	case "+":
		return a.Add(b)
	case "-":
		return a.Sub(b)
	case "*":
		return a.Mul(b)
	default:
		return a.Div(b)
	}
}

// print returns the expression without blanks. level is the precedence level of its
// place: 0 at the top, 1 for the first term of a sum, 2 for the other terms and the first
// factor of a product, 3 for the other factors.
func (n *realNode) print(level int) string {
	wrap := func(own int, s string) string {
		if own < level {
			return "(" + s + ")"
		}
		return s
	}
	switch n.op {
	case realNumber:
		if strings.HasPrefix(n.text, "-") {
			return wrap(0, n.text)
		}
		return n.text
	case realPi:
		return "pi"
	case realNeg:
		return wrap(0, "-"+n.args[0].print(3))
	case "+", "-":
		return wrap(1, n.args[0].print(1)+string(n.op)+n.args[1].print(2))
	case "*", "/":
		return wrap(2, n.args[0].print(2)+string(n.op)+n.args[1].print(3))
	}
	return string(n.op) + "(" + n.args[0].print(0) + ")"
}

// parseReal parses a constant expression.
func parseReal(c *cursor) (*Real, error) {
	start := c.peek()
	c.numbers = 0
	n, err := parseRealSum(c)
	if err != nil {
		return nil, err
	}
	r, err := newReal(n)
	if err != nil {
		return nil, start.errorf("%s %v", n.print(0), err)
	}
	return r, nil
}

func parseRealSum(c *cursor) (*realNode, error) {
	return parseRealBinary(c, parseRealProduct, "+", "-")
}

func parseRealProduct(c *cursor) (*realNode, error) {
	return parseRealBinary(c, parseRealFactor, "*", "/")
}

func parseRealBinary(c *cursor, operand func(*cursor) (*realNode, error), ops ...string) (*realNode, error) {
	left, err := operand(c)
	for err == nil {
		t := c.peek()
		if !t.is(ops[0]) && !t.is(ops[1]) {
			return left, nil
		}
		c.next()
		var right *realNode
		if right, err = operand(c); err == nil {
			left = &realNode{op: realOp(t.text), args: []*realNode{left, right}}
		}
	}
	return nil, err
}

// maxRealNumbers limits the size of a constant expression.
const maxRealNumbers = 100

func parseRealFactor(c *cursor) (*realNode, error) {
	if c.numbers++; c.numbers > maxRealNumbers {
		return nil, c.peek().errorf("a constant has more than %d numbers and functions", maxRealNumbers)
	}
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	t := c.next()
	switch {
	case t.is("-"):
		x, err := parseRealFactor(c)
		if err != nil {
			return nil, err
		}
		return &realNode{op: realNeg, args: []*realNode{x}}, nil
	case t.is("("):
		x, err := parseRealSum(c)
		if err != nil {
			return nil, err
		}
		return x, c.expect(")")
	case t.kind == tokenNumber:
		rat, err := parseRat(t.text)
		if err != nil {
			return nil, t.errorf("%v", err)
		}
		return &realNode{op: realNumber, text: t.text, rat: rat}, nil
	case t.is("pi"):
		return &realNode{op: realPi}, nil
	case t.is("sqrt"), t.is("exp"), t.is("log"):
		if err := c.expect("("); err != nil {
			return nil, err
		}
		x, err := parseRealSum(c)
		if err != nil {
			return nil, err
		}
		return &realNode{op: realOp(t.text), args: []*realNode{x}}, c.expect(")")
	}
	return nil, t.errorf("unexpected %s in a constant, want a number, pi, sqrt, exp, log or a parenthesis", t)
}

// parseRat parses a decimal or a hexadecimal float. Its exponent is limited, since the
// number is held exactly.
func parseRat(text string) (*big.Rat, error) {
	mark, limit := "eE", 400
	if strings.HasPrefix(text, "0x") {
		if mark, limit = "p", 1200; !strings.Contains(text, "p") {
			return nil, fmt.Errorf("%s is an int32, want a real number", text)
		}
	}
	if len(text) > 400 {
		return nil, fmt.Errorf("a number has %d characters, want at most 400", len(text))
	}
	if i := strings.IndexAny(text, mark); i >= 0 {
		if e, err := strconv.Atoi(text[i+1:]); err != nil || e < -limit || e > limit {
			return nil, fmt.Errorf("%s is not a number with an exponent from %d to %d", text, -limit, limit)
		}
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok || strings.ContainsAny(text, "_/") {
		return nil, fmt.Errorf("%s is not a number", text)
	}
	return r, nil
}
