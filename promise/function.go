package promise

import (
	"fmt"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/internal/nearest"
)

// functions are the functions whose errors can be declared: those that definitions call, and
// those that kernels use in their place.
var functions = []string{
	"exp", "exp2", "expm1", "log", "log2", "log1p", "tanh", "sigmoid", "erf", "erfcx", "sin", "cos",
	"sqrt", "rsqrt", "div", "recip",
}

// Functions lists the functions whose errors can be declared.
func Functions() []string { return slices.Clone(functions) }

// FunctionOf returns the name under which the error of a node is declared, or "" if the node
// is neither a function nor a quotient nor a square root.
func FunctionOf(n *def.Node) string {
	switch n.Op {
	case def.OpDiv:
		return "div"
	case def.OpSqrt:
		return "sqrt"
	case def.OpCall:
		return functionName(n.Func.Math.String())
	}
	return ""
}

// functionName returns the name of a function, given the name of its mathematics.
func functionName(name string) string {
	switch name {
	case def.MathRecip.String():
		return "recip"
	case def.MathRsqrt.String():
		return "rsqrt"
	}
	return name
}

// functionsOf returns the functions of a definition's mathematics, each once, in the order of
// functions.
func functionsOf(d *def.Definition) []string {
	var used []string
	for _, n := range d.Math().Nodes {
		if f := FunctionOf(n); f != "" {
			used = append(used, f)
		}
	}
	if d.HasSequences() { // whose rule has these
		used = append(used, "exp2", "log2", "div")
	}
	return inOrder(used)
}

// inOrder returns the functions among names, each once.
func inOrder(names []string) []string {
	return slices.DeleteFunc(slices.Clone(functions), func(f string) bool { return !slices.Contains(names, f) })
}

// unknownFunction returns the error for an unknown name of a function.
func unknownFunction(name string) error {
	return fmt.Errorf("function %q is unknown%s, want %s", name, didYouMean(name, functions), strings.Join(functions, ", "))
}

// didYouMean returns the names that a misspelt one may stand for, in parentheses, or "".
func didYouMean(name string, known []string) string {
	near := nearest.Names(name, known)
	if len(near) == 0 {
		return ""
	}
	return " (did you mean " + strings.Join(near, " or ") + "?)"
}
