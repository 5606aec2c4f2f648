package def

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Math is a function over the real numbers. Package truth can evaluate all of them.
type Math uint8

const (
	MathExp Math = iota
	MathExpm1
	MathLog
	MathTanh
	MathRecip
	MathSqrt
	MathRsqrt
	MathSigmoid
	MathExp2
	MathLog2
	MathLog1p
	MathSin
	MathCos
	MathErf
	MathErfcx // exp(x²)·(1 − erf(x)), for x ≥ 0
)

var mathNames = [...]string{
	"exp", "expm1", "log", "tanh", "1/x", "sqrt", "1/sqrt", "sigmoid",
	"exp2", "log2", "log1p", "sin", "cos", "erf", "erfcx",
}

func (m Math) String() string { return mathNames[m] }

// Function is a function of one binary32 argument: a mathematical function, and an
// expansion into elementary nodes, which has the same bits everywhere.
type Function struct {
	Name   string
	Math   Math
	Expand func(x Value) Value

	// ULPs is the worst error of the expansion against the mathematics, in units
	// in the last place of the result, over all arguments in Domain.
	ULPs float64

	// Absolute is added to that error: what results near zero lose beyond ULPs. It is 0 for
	// most functions.
	Absolute float64

	Domain  Domain // arguments for which ULPs holds
	Outside string // results for other arguments, for readers

	Near *Shortcut // nil for most functions
}

// Shortcut gives the bits of a function with fewer operations, for arguments up to 0 that are not far from it. Nothing in a
// definition says where it is taken: a lowering may take it.
type Shortcut struct {
	Sum   *Function // a first sum, which tells for which x <= 0 Of gives the bits:
	Least float32   // where the sum is at least this
	Of    *Function // the result, from that sum
}

// Within formats the error: "0.9 ulp", or "50 ulp + 2^-126".
func (f *Function) Within() string { return f.errorText(strconv.FormatFloat(f.ULPs, 'g', -1, 64)) }

func (f *Function) errorText(ulps string) string {
	if f.Absolute == 0 {
		return ulps + " ulp"
	}
	return ulps + " ulp + " + powerText(f.Absolute)
}

// Domain is a range of arguments: Low <= x <= High, or Low <= |x| <= High. The zero
// Domain is every x.
type Domain struct {
	Low, High float64
	OfAbs     bool
}

// Common domains.
var (
	EveryX   = Domain{}
	Positive = Domain{Low: smallest, High: math.Inf(1)}
	NonZero  = Domain{Low: smallest, High: math.Inf(1), OfAbs: true}
	NoX      = Domain{Low: 1, High: 0} // nothing is promised
)

// smallest is the least positive binary32.
const smallest = 0x1p-149

// AtMost returns the domain x <= high.
func AtMost(high float64) Domain { return Domain{Low: math.Inf(-1), High: high} }

// Above returns the domain x > low.
func Above(low float64) Domain {
	return Domain{Low: math.Nextafter(low, math.Inf(1)), High: math.Inf(1)}
}

// Contains reports whether all of [lo, hi] is in the domain.
func (d Domain) Contains(lo, hi float64) bool {
	if d == EveryX {
		return true
	}
	if d.OfAbs {
		switch {
		case lo <= 0 && hi >= 0:
			lo, hi = 0, max(-lo, hi)
		case hi < 0:
			lo, hi = -hi, -lo
		}
	}
	return d.Low <= lo && hi <= d.High
}

func (d Domain) String() string {
	switch d {
	case EveryX:
		return "every x"
	case Positive:
		return "x > 0"
	case NonZero:
		return "x != 0"
	case NoX:
		return "no x"
	}
	s := "x"
	if d.OfAbs {
		s = "|x|"
	}
	if below := math.Nextafter(d.Low, math.Inf(-1)); d == Above(below) && below == float64(float32(below)) {
		return s + " > " + powerText(below)
	}
	if !math.IsInf(d.Low, -1) && !(d.OfAbs && d.Low == 0) {
		s = powerText(d.Low) + " <= " + s
	}
	if !math.IsInf(d.High, 1) {
		s += " <= " + powerText(d.High)
	}
	return s
}

// powerText formats v, large and small powers of two as 2^n.
func powerText(v float64) string {
	if m, e := math.Frexp(v); m == 0.5 && (e < -9 || e > 11) {
		return fmt.Sprintf("2^%d", e-1)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// check returns an error if the function's text would not determine what it computes: its
// name has another meaning, or its expansion depends on more than its argument.
func (f *Function) check() error {
	if _, taken := constructors[f.Name]; taken || !nameForm.MatchString(f.Name) || reservedNames[f.Name] != "" {
		return fmt.Errorf("function %q: want a name like exp that stands for nothing else", f.Name)
	}
	if int(f.Math) >= len(mathNames) {
		return fmt.Errorf("function %s: its mathematics, number %d, is unknown", f.Name, f.Math)
	}
	if !(f.Absolute >= 0 && f.Absolute <= math.MaxFloat64) {
		return fmt.Errorf("function %s: its absolute error is %v, want a number of at least 0", f.Name, f.Absolute)
	}
	if !(f.ULPs >= 0 && f.ULPs <= math.MaxFloat64) {
		return fmt.Errorf("function %s: its error is %v ulp, want a number of at least 0", f.Name, f.ULPs)
	}
	if strings.ContainsAny(f.Outside, "\n\r") {
		return fmt.Errorf("function %s: what it gives outside its domain is said in more than one line", f.Name)
	}
	if n := f.Expand(newArgument()).node.firstOther(map[*Node]bool{}); n != nil {
		return fmt.Errorf("function %s: its expansion has %s, which is no function of its argument", f.Name, n.Op)
	}
	return nil
}

// firstOther returns the first node of an expansion that may not be part of one, or nil.
func (x *Node) firstOther(seen map[*Node]bool) *Node {
	if seen[x] {
		return nil
	}
	seen[x] = true
	for _, a := range x.Args {
		if n := a.firstOther(seen); n != nil {
			return n
		}
	}
	if x.Op == OpCall {
		return x.Body.firstOther(seen)
	}
	if !x.isElementary() {
		return x
	}
	return nil
}

// isElementary reports whether a node may be part of an expansion: a constant, or
// arithmetic on single values.
func (x *Node) isElementary() bool {
	switch op := x.Op; {
	case op == OpConst, op == OpInt, op == OpArg, op == OpSelect, op >= OpBits && op <= OpShrU:
		return true
	case op == OpRound:
		return x.Storage.Of == ""
	default:
		return op >= OpAdd && op <= OpScale || op >= OpLess && op <= OpNotEqual
	}
}

// Of returns the function's value at x.
func (f *Function) Of(x Value) Value {
	v := newNode(OpCall, x)
	v.Func = f
	v.check(Float, Float)
	if f == nil || f.Expand == nil {
		v.Func, v.err = &Function{Name: "nil"}, errors.New("a function without an expansion")
	}
	if v.err != nil {
		return Value{v}
	}
	v.Body = f.Expand(x).node
	switch {
	case v.Body == nil:
		v.err = fmt.Errorf("function %s: its expansion gives no value", f.Name)
	case v.Body.err != nil:
		v.err = fmt.Errorf("function %s: %w", f.Name, v.Body.err)
	case v.Body.Type != Float || v.Body.Extent != x.Extent():
		v.err = fmt.Errorf("function %s: its expansion gives %s, %s; want a float, %s", f.Name, article(v.Body.Type), v.Body.Extent, x.Extent())
	}
	return Value{v}
}
