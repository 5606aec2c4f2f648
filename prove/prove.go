package prove

import (
	"fmt"

	"tokitai/def"
	"tokitai/fn"
)

// Status says what is proved about a function.
type Status struct {
	Function *def.Function
	Proved   string // the theorem in words; empty if the function is only checked over all arguments

	script func(*def.Function) (string, error)
	needs  []*def.Function // the functions whose proofs the script imports
}

var exponentialClaims = claims{
	near: "0.346576", within: "0.34658", parts: "0.000000000000000088", method: "0.0000000031396",
	ulps: "0.925", subnormal: "0.9625",
}

var exponential2Claims = claims{within: "0.5", method: "0.00000000299176", ulps: "0.83", subnormal: "0.915"}

var (
	short3Claims = shortClaims{
		methodBelow: "0.0000801310", methodAbove: "0.000143248", method: "0.000101295", roundings: "1.15",
		ulps: "1346", relative: "0.000102", relativeText: "0.000102 (2^-13.25)", symbol: "fn.Exp2Short3Function",
	}
	short4Claims = shortClaims{
		methodBelow: "0.00000251626", methodAbove: "0.00000398699", method: "0.00000282122", roundings: "1.15",
		ulps: "43.4", relative: "0.0000029", relativeText: "0.0000029 (2^-18.39)", symbol: "fn.Exp2Short4Function",
	}
)

func exponentialOf(c claims, symbol string) func(*def.Function) (string, error) {
	c.symbol = symbol
	return func(f *def.Function) (string, error) { return exponentialScript(f, c) }
}

func recipOf(symbol string) func(*def.Function) (string, error) {
	return func(f *def.Function) (string, error) { return recipScript(f, symbol) }
}

// proved are the functions that have a script.
var proved = []Status{
	{fn.ExpFunction, "x <= 89: 0.925 ulp, 0.9625 ulp where exp x < 2^-126", exponentialOf(exponentialClaims, "fn.ExpFunction"), nil},
	{fn.ExpNonPositiveFunction, "x <= 44: 0.925 ulp, 0.9625 ulp where exp x < 2^-126", exponentialOf(exponentialClaims, "fn.ExpNonPositiveFunction"), nil},
	{fn.ExpBoundedFunction, "-128 <= x <= 44: 0.925 ulp, 0.9625 ulp where exp x < 2^-126", exponentialOf(exponentialClaims, "fn.ExpBoundedFunction"), nil},
	{fn.Exp2Function, "x <= 128: 0.83 ulp, 0.915 ulp where 2^x < 2^-126", exponentialOf(exponential2Claims, "fn.Exp2Function"), nil},
	{fn.Exp2Short3Function, "-126.5 < x <= 127: 1346 ulp, relatively 0.000102 = 2^-13.25 from -126 on; 0 below", shortOf(short3Claims), nil},
	{fn.Exp2Short4Function, "-126.5 < x <= 127: 43.4 ulp, relatively 0.0000029 = 2^-18.39 from -126 on; 0 below", shortOf(short4Claims), nil},
	{fn.LogFunction, "0 < x < 2^128: 0.925 ulp", func(f *def.Function) (string, error) { return logScript(f, "fn.LogFunction") }, nil},
	{fn.Log2Function, "0 < x < 2^128: 1.08 ulp", func(f *def.Function) (string, error) { return log2Script(f, "fn.Log2Function") }, nil},
	{fn.RecipFunction, "0 < |x| < 2^128: 0.5185 ulp, 0.75925 ulp where |1/x| < 2^-126", recipOf("fn.RecipFunction"), nil},
	{fn.RecipBoundedFunction, "2^-125 <= |x| <= 2^125: 0.5185 ulp", recipOf("fn.RecipBoundedFunction"), nil},
	{fn.RsqrtFunction, "0 < x < 2^128: 1.5 ulp", func(f *def.Function) (string, error) { return rsqrtScript(f, "fn.RsqrtFunction") }, nil},
	{fn.SigmoidFunction, "x >= 0: 2.07 ulp; x < 0: 4.92 ulp", func(f *def.Function) (string, error) { return sigmoidScript(f, "fn.SigmoidFunction") },
		[]*def.Function{fn.ExpNonPositiveFunction, fn.RecipBoundedFunction}},
}

// All returns the status of every function of package fn.
func All() []Status {
	var list []Status
	for _, f := range fn.All {
		s, ok := StatusOf(f.Name)
		if !ok {
			s = Status{Function: f}
		}
		list = append(list, s)
	}
	return list
}

// StatusOf returns what is proved about the named function, and false if that is nothing.
func StatusOf(name string) (Status, bool) {
	for _, s := range proved {
		if s.Function.Name == name {
			return s, true
		}
	}
	return Status{}, false
}

// Script returns the proof about f, as a Coq file. f may differ from the function of that name
// in package fn: the script is made from its nodes, and proves the same bounds if they hold.
func Script(f *def.Function) (string, error) {
	s, ok := StatusOf(f.Name)
	if !ok {
		return "", fmt.Errorf("no script proves anything about the function %s", f.Name)
	}
	return s.script(f)
}
