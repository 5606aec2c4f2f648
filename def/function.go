package def

import (
	"errors"
	"fmt"
)

// Math is what a function computes over the real numbers: a closed set that
// package truth knows.
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
)

var mathNames = [...]string{"exp", "expm1", "log", "tanh", "1/x", "sqrt", "1/sqrt", "sigmoid"}

func (m Math) String() string { return mathNames[m] }

// Function is a function of one binary32 argument, with two faces: the
// mathematics, and an expansion into elementary nodes, which has the same bits
// everywhere.
type Function struct {
	Name   string
	Math   Math
	Expand func(x Value) Value

	// ULPs is the worst error of the expansion against the mathematics, in units
	// in the last place of the result, over all arguments in Domain.
	ULPs float64

	Domain  string // arguments for which ULPs holds
	Outside string // what the others give
}

// Of is the function's value at x.
func (f *Function) Of(x Value) Value {
	v := &Node{Op: OpCall, Func: f, Args: []*Node{x}}
	v.check(Float, Float)
	if f == nil || f.Expand == nil {
		v.Func, v.err = &Function{Name: "nil"}, errors.New("a function without an expansion")
	}
	if v.err != nil {
		return v
	}
	v.Body = f.Expand(x)
	if v.Body.err != nil {
		v.err = fmt.Errorf("function %s: %w", f.Name, v.Body.err)
	} else if v.Body.Type != Float || v.Body.Extent != x.Extent {
		v.err = fmt.Errorf("function %s: its expansion gives %s, %s; want a float, %s", f.Name, article(v.Body.Type), v.Body.Extent, x.Extent)
	}
	return v
}
