package def

import (
	"maps"
	"slices"
	"strings"

	"tokitai/internal/nearest"
)

// elsewhere maps names that other languages for arrays have to what is written here.
var elsewhere = map[string]string{
	"where": "select(b, x, y)", "if": "select(b, x, y)", "cond": "select(b, x, y)", "ifelse": "select(b, x, y)",
	"clip": "min(max(x, low), high)", "clamp": "min(max(x, low), high)",
	"maximum": "max(x, y)", "fmax": "max(x, y)", "minimum": "min(x, y)", "fmin": "min(x, y)",
	"pow": "x*x, or exp(y*log(x))", "power": "x*x, or exp(y*log(x))", "square": "x*x",
	"fabs": "abs(x)", "absolute": "abs(x)", "negative": "-x", "reciprocal": "1 / x", "divide": "x / y", "multiply": "x * y",
	"sum": "rowsum(x), colsum(x) or totalsum(x)", "mean": "rowsum(x) / C", "average": "rowsum(x) / C",
	"amax": "rowmax(x)", "amin": "rowmin(x)", "argmax": "rowargmax(x)", "argmin": "rowargmin(x)", "topk": "rowkth(x, k)", "argsort": "rank(x)", "topp": "rownucleus(x, e, p)",
	"norm": "sqrt(rowsum(x*x))", "var": "the sum of (x - mean)*(x - mean), as rowsum, over C",
	"ln": "log(x)", "expm1": "exp(x) - 1", "logistic": "sigmoid(x)", "expit": "sigmoid(x)",
	"relu": "max(x, 0)", "silu": "x * sigmoid(x)", "swish": "x * sigmoid(x)",
	"softmax": "e = exp(x - rowmax(x)) and e / rowsum(e)", "softplus": "log1p(exp(x))",
	"cast": "round(bf16, x)", "astype": "round(bf16, x)", "dot": "rowsum(x*y)",
}

// call returns the end of a message about an unknown function: what to write instead, or the
// known names that are similar.
func (s *scope) call(name string) string {
	lower := strings.ToLower(name)
	known := slices.Concat(slices.Collect(maps.Keys(constructors)), slices.Collect(maps.Keys(s.functions)))
	if lower != name && slices.Contains(known, lower) {
		return "; names are lower case: " + lower
	}
	if instead := elsewhere[lower]; instead != "" {
		return "; write " + instead
	}
	return didYouMean(name, known)
}

// value returns the end of a message about an unknown value.
func (s *scope) value(name string) string {
	return didYouMean(name, slices.Collect(maps.Keys(s.values)))
}

func didYouMean(name string, known []string) string {
	if near := nearest.Names(name, known); len(near) > 0 {
		return ", did you mean " + strings.Join(near, " or ") + "?"
	}
	return ""
}
