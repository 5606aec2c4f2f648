package promise

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Kernels compute a function of the definition in other forms than the definition does:
// exp(x) as exp2(x·log2 e), a quotient as a product with a reciprocal, the logistic function
// through tanh. The error that an author declares for a part of a form counts for the function
// that the form computes. Each form below has a proof of how much: if δ is the relative error of
// a part's result, that part adds at most
//
//	relative·δ|y| + absolute·δ + slope·(absolute error of the part)
//
// to the error of the form's result; the form's own roundings add theirs. An error in ulps is taken as a
// relative one, at 2u = 2^-23 each. Whatever their errors, functions keep to their ranges: exp
// is at least 0, and tanh between -1 and 1. The errors of all parts add up. Of several forms, and of
// the function itself, the widest error counts, since the author does not say where which is
// used: the set of admissible results is then valid for each of them.
//
// A form counts if the author declares the error of one of its parts. In a named profile,
// forms of quotients and square roots also count for functions that are not declared: whoever
// divides by a square root on a GPU multiplies by rsqrtf.
type form struct {
	of     string
	parts  []part
	own    Error // of the form's own roundings
	text   string
	common bool // counts in every named profile
}

// part is one function of a form.
type part struct {
	function string
	relative float64 // bound of |g·f'(g)/f(g)|, for f as a function of the result g
	absolute float64 // the part of |g·f'(g)| that relative does not bound
	slope    float64 // bound of |f'(g)|; 0 for functions that have no absolute error
	argument float64 // of the part, per argument of f; 0 if it does not matter
}

// one returns a part whose relative error is also that of the form's result.
func one(function string) part { return part{function: function, relative: 1, slope: 1, argument: 1} }

// at returns such a part whose argument is the form's argument times by.
func at(function string, by float64) part {
	p := one(function)
	p.argument = by
	return p
}

// forms come in two ranks: a form takes the errors of its parts after the forms above it have
// been counted, so that sigmoid(x) = 1/(1+exp(-x)) also stands for one with exp2 and recip.
var forms = [][]form{{
	// The argument x·log2 e has a rounded factor and is rounded: it is off by 2u, which
	// makes 2u|x| of the result.
	{of: "exp", parts: []part{at("exp2", math.Log2E)}, own: Error{ULPsPerX: 1}, text: "exp2(x*log2 e)"},
	// e = 1+m: for x > 0 the error of m is less than as much of e, for x <= 0 |m| < 1.
	{of: "exp", parts: []part{{"expm1", 1, 1, 1, 1}}, own: CorrectlyRounded, text: "1+expm1(x)"},
	{of: "exp2", parts: []part{at("exp", math.Ln2)}, own: Error{ULPsPerX: math.Ln2}, text: "exp(x*log 2)"},
	// e = m+1, the other way round; for x > 1, where e·|x| is no more than 2m|x|, an error
	// with |x| counts twice.
	{of: "expm1", parts: []part{{"exp", 1, 1, 1, 2}}, own: CorrectlyRounded, text: "exp(x)-1"},

	// One product with a rounded factor.
	{of: "log", parts: []part{{"log2", 1, 0, math.Ln2, 1}}, own: Error{ULPs: 1}, text: "log2(x)*log 2"},
	{of: "log2", parts: []part{{"log", 1, 0, math.Log2E, 1}}, own: Error{ULPs: 1}, text: "log(x)*log2 e"},
	// x-1 is exact from 1/2 to 2; above, its rounding moves the result by less than u, and
	// that is at least log 2.
	{of: "log", parts: []part{one("log1p")}, own: Error{ULPs: 1}, text: "log1p(x-1), x >= 1/2"},
	// The rounding of 1+x moves its logarithm by u, and as much for the error of log there.
	{of: "log1p", parts: []part{one("log")}, own: Error{Absolute: 2 * unit}, text: "log(1+x)"},

	{of: "div", parts: []part{one("recip")}, own: CorrectlyRounded, text: "x*recip(y)", common: true},
	{of: "recip", parts: []part{one("div")}, text: "1/x", common: true},
}, {
	// x·rsqrt(x) rounds once more; a quotient has at least that error.
	{of: "sqrt", parts: []part{one("rsqrt"), one("div")}, text: "x*rsqrt(x) or 1/rsqrt(x)", common: true},
	{of: "rsqrt", parts: []part{one("sqrt"), one("div")}, text: "1/sqrt(x)", common: true},

	// s = 1/(1+e): |e·s'(e)/s| = e/(1+e) < 1, |s'| < 1. The sum 1+e rounds once.
	{of: "sigmoid", parts: []part{one("exp"), one("div")}, own: CorrectlyRounded, text: "1/(1+exp(-x))"},
	// s = (1+t)/2 with t = tanh(x/2): |t·s'(t)| <= 1/2. The sum is exact where it cancels.
	{of: "sigmoid", parts: []part{{"tanh", 0, 0.5, 0.5, 0}}, own: CorrectlyRounded, text: "(1+tanh(x/2))/2"},
	// t = (1-e)/(1+e) with e = exp(-2|x|): |e·t'(e)| = 2e/(1+e)² <= 1/2, |t'(e)| <= 2.
	{of: "tanh", parts: []part{{"exp", 0, 0.5, 2, 2}, one("div")}, own: Error{ULPs: 1}, text: "(1-exp(-2x))/(1+exp(-2x))"},
	// t = m/(m+2) with m = expm1(2x): |m·t'(m)/t| = 2/(m+2) <= 2, |t'(m)| <= 2.
	{of: "tanh", parts: []part{{"expm1", 2, 0, 2, 2}, one("div")}, own: CorrectlyRounded, text: "expm1(2x)/(expm1(2x)+2)"},
	// t = 2s-1 with s = sigmoid(2x) <= 1.
	{of: "tanh", parts: []part{{"sigmoid", 0, 2, 2, 0}}, own: CorrectlyRounded, text: "2*sigmoid(2x)-1"},

	// Where the definition has the logistic function s as 1/(1+e), r = recip(1+e), or, with
	// e = exp(-|x|), as r and e·r: s is proportional to r.
	{of: "recip", parts: []part{one("sigmoid")}, text: "sigmoid for 1/(1+exp(-x))"},
	{of: "div", parts: []part{one("sigmoid")}, text: "sigmoid for 1/(1+exp(-x))"},
	// An error a of s is one of a in r where the definition takes r, whatever x; and one of
	// 4a in e where it takes exp(-|x|), since |ds/de| = 1/(1+e)² >= 1/4. Through tanh, a is
	// at most δ/2. A quotient with another numerator than 1 is not counted.
	{of: "recip", parts: []part{{"tanh", 0, 0.5, 0.5, 0}}, text: "(1+tanh(x/2))/2 for 1/(1+exp(-x))"},
	{of: "div", parts: []part{{"tanh", 0, 0.5, 0.5, 0}}, text: "(1+tanh(x/2))/2 for 1/(1+exp(-x))"},
	{of: "exp", parts: []part{{"sigmoid", 0, 0, 4, 0}}, text: "sigmoid for 1/(1+exp(-|x|))"},
	{of: "exp", parts: []part{{"tanh", 0, 2, 2, 0}}, text: "(1+tanh(x/2))/2 for 1/(1+exp(-|x|))"},
}}

// error returns what a part adds to the error of its form, if its own is e.
func (p part) error(e Error) Error {
	return Error{
		ULPs:     p.relative * e.ULPs,
		ULPsPerX: p.relative * p.argument * e.ULPsPerX,
		Relative: p.relative * e.Relative,
		// The results of parts with |x| in their error are at most exp(-|x|) where an
		// absolute error counts, and |x|·exp(-|x|) < 1.
		Absolute: p.absolute*(2*unit*(e.ULPs+e.ULPsPerX)+e.Relative) + p.slope*e.Absolute,
	}
}

// error returns the error of a form, given those of functions. Products of relative errors δ
// are at most 2δ² for their sum δ. They count from δ = 2^-16 on; below, they are less than
// 2^-15 of what counts already.
func (f *form) error(of map[string]Error) Error {
	e := f.own
	for _, p := range f.parts {
		e = e.plus(p.error(of[p.function]))
	}
	if sum := 2*unit*e.ULPs + e.Relative; len(f.parts) > 1 && sum > 0x1p-16 {
		e.Relative += 2 * sum * sum
	}
	return e
}

// counted widens the errors in alone by every form that has a declared part and, if commonCount is
// set, by every common form, and returns the result.
func counted(alone map[string]Error, isDeclared func(function string) bool, commonCount bool) map[string]Error {
	before, isCounted := alone, map[string]bool{}
	for _, f := range functions {
		isCounted[f] = isDeclared(f)
	}
	for _, rank := range forms {
		after := map[string]Error{}
		for f, e := range before {
			after[f] = e
		}
		reached := map[string]bool{}
		for _, form := range rank {
			hasDeclared := slices.ContainsFunc(form.parts, func(p part) bool { return isCounted[p.function] })
			if !hasDeclared && !(form.common && commonCount && !isDeclared(form.of)) {
				continue
			}
			after[form.of] = widest(after[form.of], form.error(before))
			reached[form.of] = reached[form.of] || hasDeclared
		}
		for f := range reached {
			isCounted[f] = isCounted[f] || reached[f]
		}
		before = after
	}
	return before
}

// standsFor reports whether f may occur in a form of one of the functions, or is one.
func standsFor(f string, functions []string) bool {
	reached := slices.Clone(functions)
	for _, rank := range slices.Backward(forms) {
		for _, form := range rank {
			if slices.Contains(reached, form.of) {
				for _, p := range form.parts {
					reached = append(reached, p.function)
				}
			}
		}
	}
	return slices.Contains(reached, f)
}

// Form is a form in which kernels compute a function, for readers.
type Form struct {
	Function string
	Text     string   // such as exp2(x*log2 e)
	Parts    []string // the functions in it
	Counts   string   // what counts as the function's error
	IsCommon bool     // counts in every named profile
}

// Forms lists the forms in which the error of one function counts for another.
func Forms() []Form {
	var list []Form
	for _, rank := range forms {
		for _, f := range rank {
			form := Form{Function: f.of, Text: f.text, IsCommon: f.common}
			var terms []string
			for _, p := range f.parts {
				form.Parts = append(form.Parts, p.function)
				terms = append(terms, p.terms()...)
			}
			if f.own != (Error{}) {
				terms = append(terms, f.own.String())
			}
			form.Counts = strings.Join(terms, " + ")
			list = append(list, form)
		}
	}
	slices.SortStableFunc(list, func(a, b Form) int { return slices.Index(functions, a.Function) - slices.Index(functions, b.Function) })
	return list
}

// terms says what a part adds to the error of its form: E is an error in all its terms, δ a
// relative error and A an absolute one.
func (p part) terms() []string {
	times := func(factor float64, what string) string {
		if factor == 1 {
			return what
		}
		return fmt.Sprintf("%.4g %s", factor, what)
	}
	var terms []string
	switch {
	case p.relative > 0 && p.absolute == 0 && p.slope == p.relative:
		return []string{times(p.relative, "E("+p.function+")")}
	case p.relative > 0:
		terms = append(terms, times(p.relative, "δ("+p.function+")*abs(y)"))
	}
	if p.absolute > 0 {
		terms = append(terms, times(p.absolute, "δ("+p.function+")"))
	}
	if p.slope > 0 {
		terms = append(terms, times(p.slope, "A("+p.function+")"))
	}
	return terms
}
