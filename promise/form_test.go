package promise

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// call computes a part of a form.
type call func(function string, x float64) float64

func f32(x float64) float64 { return float64(float32(x)) }

// computed evaluates every form in binary32, with the given functions as its parts.
var computed = map[string]func(x float64, g call) float64{
	"exp2(x*log2 e)":            func(x float64, g call) float64 { return g("exp2", f32(x*f32(math.Log2E))) },
	"1+expm1(x)":                func(x float64, g call) float64 { return f32(1 + g("expm1", x)) },
	"exp(x*log 2)":              func(x float64, g call) float64 { return g("exp", f32(x*f32(math.Ln2))) },
	"exp(x)-1":                  func(x float64, g call) float64 { return f32(g("exp", x) - 1) },
	"log2(x)*log 2":             func(x float64, g call) float64 { return f32(g("log2", x) * f32(math.Ln2)) },
	"log(x)*log2 e":             func(x float64, g call) float64 { return f32(g("log", x) * f32(math.Log2E)) },
	"log1p(x-1), x >= 1/2":      func(x float64, g call) float64 { return g("log1p", f32(x-1)) },
	"log(1+x)":                  func(x float64, g call) float64 { return g("log", f32(1+x)) },
	"x*recip(y)":                func(x float64, g call) float64 { return f32(g("recip", x)) },
	"1/x":                       func(x float64, g call) float64 { return g("div", x) },
	"x*rsqrt(x) or 1/rsqrt(x)":  func(x float64, g call) float64 { return g("div", g("rsqrt", x)) },
	"1/sqrt(x)":                 func(x float64, g call) float64 { return g("div", g("sqrt", x)) },
	"1/(1+exp(-x))":             func(x float64, g call) float64 { return g("div", f32(1+g("exp", -x))) },
	"(1+tanh(x/2))/2":           func(x float64, g call) float64 { return f32(1+g("tanh", x/2)) / 2 },
	"expm1(2x)/(expm1(2x)+2)":   func(x float64, g call) float64 { m := g("expm1", 2*x); return m * g("div", f32(m+2)) },
	"2*sigmoid(2x)-1":           func(x float64, g call) float64 { return f32(2*g("sigmoid", 2*x) - 1) },
	"sigmoid for 1/(1+exp(-x))": func(x float64, g call) float64 { return g("sigmoid", x) },
	"(1-exp(-2x))/(1+exp(-2x))": func(x float64, g call) float64 {
		e := g("exp", -2*math.Abs(x))
		return math.Copysign(f32(1-e)*g("div", f32(1+e)), x)
	},
	"(1+tanh(x/2))/2 for 1/(1+exp(-x))": func(x float64, g call) float64 { return f32(1+g("tanh", x/2)) / 2 },
}

// exactly has the functions over the real numbers, to the accuracy of float64.
var exactly = map[string]func(x float64) float64{
	"exp": math.Exp, "exp2": math.Exp2, "expm1": math.Expm1, "log": math.Log, "log2": math.Log2, "log1p": math.Log1p,
	"tanh": math.Tanh, "erf": math.Erf, "erfcx": func(x float64) float64 { return math.Exp(x*x) * math.Erfc(x) }, "sin": math.Sin, "cos": math.Cos, "sqrt": math.Sqrt,
	"sigmoid": func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
	"rsqrt":   func(x float64) float64 { return 1 / math.Sqrt(x) },
	"div":     func(x float64) float64 { return 1 / x },
	"recip":   func(x float64) float64 { return 1 / x },
}

// at returns the bound of the error at x, with ulps taken as relative errors.
func (e Error) at(x, y float64) float64 {
	return (2*unit*(e.ULPs+e.ULPsPerX*math.Abs(x))+e.Relative)*math.Abs(y) + e.Absolute
}

// TestForms checks that the error counted for a form bounds its actual error, when its parts are as
// inaccurate as they may be.
func TestForms(t *testing.T) {
	var points []float64
	for x := 0x1p-12; x <= 64; x *= 1.0625 {
		points = append(points, f32(x), -f32(x))
	}
	declared := map[string]Error{
		"exp": {ULPs: 2, ULPsPerX: 1.16, Absolute: 0x1p-30}, "exp2": {ULPs: 2, ULPsPerX: 0.5}, "expm1": {ULPs: 1.5, Absolute: 0x1p-26},
		"log": {Relative: 0x1p-20, Absolute: 0x1p-22}, "log2": {ULPs: 3, Absolute: 0x1p-21}, "log1p": {ULPs: 2},
		"tanh": {Relative: 0x1p-11}, "sigmoid": {ULPs: 4, Absolute: 0x1p-23}, "sqrt": {Relative: 0x1p-9}, "rsqrt": {ULPs: 2.5},
		"recip": {ULPs: 1},
	}
	for _, div := range []Error{{ULPs: 2}, {Relative: 0x1p-10}} {
		declared["div"] = div
		testForms(t, points, declared)
	}
}

func testForms(t *testing.T, points []float64, declared map[string]Error) {
	for _, rank := range forms {
		for _, form := range rank {
			compute := computed[form.text]
			if form.text == "(1+tanh(x/2))/2 for 1/(1+exp(-|x|))" || form.text == "sigmoid for 1/(1+exp(-|x|))" {
				continue // TestLogisticByParts
			}
			if compute == nil {
				t.Errorf("%s by %s: no test computes it", form.of, form.text)
				continue
			}
			budget := form.error(declared)
			of := form.of
			if form.text == "sigmoid for 1/(1+exp(-x))" || form.text == "(1+tanh(x/2))/2 for 1/(1+exp(-x))" {
				of = "sigmoid" // which the quotient or reciprocal is
				budget = budget.plus(CorrectlyRounded)
			}
			most := 0.0
			for _, x := range points {
				if isPositive := slices.Contains([]string{"log", "log2", "sqrt", "rsqrt"}, of); isPositive && x <= 0 || of == "log1p" && x <= -1 || form.text == "log1p(x-1), x >= 1/2" && x < 0.5 {
					continue
				}
				want := exactly[of](x)
				for signs := range 4 {
					part := 0
					got := compute(x, func(f string, x float64) float64 {
						y := exactly[f](x)
						off := declared[f].at(x, y)
						if signs>>part&1 == 1 {
							off = -off
						}
						part++
						return y + off
					})
					if share := math.Abs(got-want) / budget.at(x, want); !(share <= most) {
						most = share
					}
				}
			}
			if !(most <= 1+0x1p-15) {
				t.Errorf("%s by %s is off by %.3g of what is counted, %s", form.of, form.text, most, budget)
			}
			if most < 0.2 {
				t.Errorf("%s by %s is off by only %.3g of what is counted, %s", form.of, form.text, most, budget)
			}
		}
	}
}

// TestLogisticByParts checks that a definition that computes the logistic function as r = 1/(1+e)
// and e·r, with e = exp(-|x|), admits kernels that compute it by tanh or sigmoid, whose error counts
// for e.
func TestLogisticByParts(t *testing.T) {
	for _, c := range []struct {
		function string
		error    Error
		compute  func(x, off float64) float64
	}{
		{"tanh", Error{Relative: 0x1p-11}, func(x, sign float64) float64 { y := math.Tanh(x / 2); return (1 + y*(1+sign*0x1p-11)) / 2 }},
		{"tanh", Error{ULPs: 0.5, Absolute: 0x1p-12}, func(x, sign float64) float64 {
			y := math.Tanh(x / 2)
			return (1 + y + sign*(math.Abs(y)*unit+0x1p-12)) / 2
		}},
		{"sigmoid", Error{ULPs: 0.5, Absolute: 0x1p-12}, func(x, sign float64) float64 {
			y := exactly["sigmoid"](x)
			return y + sign*(y*unit+0x1p-12)
		}},
	} {
		d := Declaration{Functions: map[string]Error{c.function: c.error}}
		for x := -40.0; x <= 40; x += 0.125 {
			for _, sign := range []float64{-1, 1} {
				e := math.Exp(-math.Abs(x))
				r := 1 / (1 + e)
				budget := r*r*d.Error("exp").at(-math.Abs(x), e) + math.Min(1, math.Exp(x))*d.Error("recip").at(1+e, r)
				if got := math.Abs(c.compute(x, sign) - exactly["sigmoid"](x)); got > budget {
					t.Fatalf("%s=%s at %v: off by %g, and %g is counted", c.function, c.error, x, got, budget)
				}
			}
		}
	}
}

// TestResolved checks that the error of a function is the widest of its own and of those of the
// forms with declared parts.
func TestResolved(t *testing.T) {
	for _, c := range []struct{ declaration, function, want string }{
		{"", "exp", "2ulp"}, {"", "div", "0.5ulp"}, {"", "sqrt", "0.5ulp"}, {"", "1/sqrt", "2ulp"}, {"", "1/x", "2ulp"}, {"", "gamma", "2ulp"},
		{"exp=1ulp", "exp", "1ulp"},
		{"exp2=1ulp", "exp", "2ulp+1|x|"}, {"exp2=4ulp", "exp", "4ulp+1|x|"},
		{"exp=1ulp exp2=1ulp", "exp", "1ulp+1|x|"},
		{"rsqrt=2ulp", "sqrt", "2.5ulp"}, {"rsqrt=2ulp", "div", "0.5ulp"},
		{"rsqrt=2ulp recip=1ulp", "sqrt", "3.5ulp"}, // div is x*recip(y)
		{"recip=1ulp", "div", "1.5ulp"}, {"div=1ulp", "recip", "2ulp"},
		{"tanh=2^-11", "exp", "2ulp+2^-10abs"}, {"tanh=2^-11", "recip", "2ulp+2^-12abs"}, {"tanh=2^-11", "log", "2ulp"},
		{"exp=2ulp+1.16|x|", "sigmoid", "3ulp+1.16|x|"},
		{"profile=cuda", "exp", "2.5ulp"}, {"profile=cuda", "rsqrt", "2.5ulp"}, {"profile=cuda", "div", "1ulp"}, {"profile=cuda", "sqrt", "3.5ulp"},
		{"profile=cuda sqrt=0.5ulp", "sqrt", "0.5ulp"},
		{"profile=cuda sqrt=0.5ulp rsqrt=1ulp", "sqrt", "2ulp"},
		{"profile=triton", "exp", "2.5ulp+1|x|+2^-126abs"},
		{"profile=cuda-fast-math", "exp", "2.5ulp+1.16|x|"},
	} {
		d, _, err := ParseDeclaration(c.declaration)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(d.Error(c.function)); got != c.want {
			t.Errorf("%q: %s has error %s, want %s", c.declaration, c.function, got, c.want)
		}
	}
}

// TestFunctionsOfForms checks that every function stands for itself, and that forms have only
// functions that can be declared.
func TestFunctionsOfForms(t *testing.T) {
	for _, rank := range forms {
		for _, form := range rank {
			if !slices.Contains(functions, form.of) {
				t.Errorf("form %s is of %s, which is no function", form.text, form.of)
			}
			for _, p := range form.parts {
				if !slices.Contains(functions, p.function) {
					t.Errorf("form %s has %s, which is no function", form.text, p.function)
				}
				if !standsFor(p.function, []string{form.of}) {
					t.Errorf("%s does not stand for %s", p.function, form.of)
				}
			}
		}
	}
	for _, c := range []struct {
		f, of string
		want  bool
	}{{"exp", "exp", true}, {"exp2", "sigmoid", true}, {"sin", "exp", false}, {"sin", "sin", true}, {"recip", "rsqrt", true}, {"log", "exp", false}} {
		if got := standsFor(c.f, []string{c.of}); got != c.want {
			t.Errorf("%s stands for %s: %v, want %v", c.f, c.of, got, c.want)
		}
	}
}
