package promise

import (
	"math"
	"testing"

	"tokitai/def"
	"tokitai/num"
)

// function returns a function with the given mathematics. Its body is not used.
func function(m def.Math) *def.Function {
	return &def.Function{Name: "f_" + string('a'+rune(m)), Math: m, Expand: func(x def.Value) def.Value { return x }}
}

// Definitions that the declarations of the tests are about.
var (
	withFunctions = def.Must(def.Rowwise("soft", func(b *def.Builder) {
		x, scale := b.In("x"), b.Param("scale", def.Finite())
		e := function(def.MathExp).Of(x).As("e")
		p := e.Mul(def.One.Div(def.RowSum(e).As("sum"))).As("p")
		b.Out("y", p.Mul(scale), def.Like("x"))
		b.OutRow("sums", def.RowSum(e).Sqrt(), def.Only(num.F32))
	}))
	plainCopy = def.Must(def.Rowwise("copy", func(b *def.Builder) {
		b.Out("y", b.In("x").Neg(), def.Like("x"))
	}))
	product = def.Must(def.Contraction("product", def.ContractionForm{
		Left: "A", LeftDims: []string{"M", "K"}, Right: "B", RightDims: []string{"K", "N"}, Result: "C", ResultDims: []string{"M", "N"},
	}))
)

func TestCheck(t *testing.T) {
	const useful = "exp, exp2, expm1, tanh, sigmoid, sqrt, rsqrt, div, recip"
	for _, c := range []struct {
		text       string
		definition *def.Definition
		formulas   []string
		want       string // "" for none
	}{
		{"", plainCopy, nil, ""},
		{"exp=2ulp exp2=2ulp div=1ulp tanh=2^-11 rsqrt=2ulp profile=hip ftz raw round(p)=bf16 omit=sums", withFunctions, nil, ""},
		{"exp=1e9ulp", withFunctions, nil, ""}, // too wide to decide anything, which Check does not judge
		{"sin=2ulp", withFunctions, nil, "soft: sin is declared, but no form of it calls sin, want " + useful},
		{"log=2ulp", withFunctions, nil, "soft: log is declared, but no form of it calls log, want " + useful},
		{"exp=2ulp", plainCopy, nil, "copy: exp is declared, but it calls no function"},
		{"formula=welford", withFunctions, []string{"welford", "textbook"}, ""},
		{"formula=textbok", withFunctions, []string{"welford", "textbook"}, `soft: formula "textbok" is unknown (did you mean textbook?), want welford, textbook`},
		{"formula=welford", withFunctions, nil, `soft: formula "welford" is unknown, it has none besides the definition's`},
		{"round(q)=bf16", withFunctions, nil, "soft: q is rounded, but it names no such value, want e, sum, p"},
		{"round(summ)=bf16", withFunctions, nil, "soft: summ is rounded, but it names no such value (did you mean sum?), want e, sum, p"},
		{"round(x)=bf16", withFunctions, nil, "soft: x is rounded, but it names no such value, want e, sum, p"},
		{"round(p)=bf16", plainCopy, nil, "copy: p is rounded, but it names no values"},
		{"raw", plainCopy, nil, "copy: raw is declared, but it has no parameters"},
		{"omit=sum", withFunctions, nil, `soft: output "sum" to omit is unknown (did you mean sums?), want y, sums`},
		{"omit=x", withFunctions, nil, `soft: output "x" to omit is unknown, want y, sums`},
		{"omit=y omit=sums", withFunctions, nil, "soft: all outputs are omitted, want at least one of y, sums"},
		{"omit=y", plainCopy, nil, "copy: its only output, y, is omitted"},
	} {
		d, _, err := ParseDeclaration(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		checkError(t, c.text, d.Check(c.definition, c.formulas), c.want)
	}
}

// TestCheckLiterals checks declarations that ParseDeclaration never returns.
func TestCheckLiterals(t *testing.T) {
	for _, c := range []struct {
		d    Declaration
		want string
	}{
		{Declaration{Profile: "cudda"}, `profile "cudda" is unknown (did you mean cuda?), want torch, triton, cuda, cuda-fast-math, hip`},
		{Declaration{Functions: map[string]Error{"ekp": {ULPs: 1}}}, `soft: function "ekp" is unknown (did you mean exp?), want exp, exp2, expm1, log, log2, log1p, tanh, sigmoid, erf, erfcx, sin, cos, sqrt, rsqrt, div, recip`},
		{Declaration{Functions: map[string]Error{"exp": {}}}, "soft: exp=0ulp: no result is closer than its rounding, want at least 0.5ulp, or 2^-24, besides any |x| or abs"},
		{Declaration{Functions: map[string]Error{"exp": {ULPs: -1}}}, "soft: exp=-1ulp: -1ulp is negative, want a number with its unit, such as exp=2ulp, or a relative error such as exp=2^-11"},
		{Declaration{Functions: map[string]Error{"exp": {ULPs: 1, Relative: -1}}}, "soft: exp=1ulp+-1: -1 is negative, want a number with its unit, such as exp=2ulp, or a relative error such as exp=2^-11"},
		{Declaration{Functions: map[string]Error{"exp": {ULPs: math.NaN()}}}, "soft: exp=NaNulp: NaNulp is no finite number, want a number with its unit, such as exp=2ulp, or a relative error such as exp=2^-11"},
		{Declaration{Functions: map[string]Error{"exp": {ULPs: 1, Absolute: math.Inf(1)}}}, "soft: exp=1ulp++Infabs: +Infabs is no finite number, want a number with its unit, such as exp=2ulp, or a relative error such as exp=2^-11"},
		{Declaration{Roundings: map[string]num.DType{"p": num.I32}}, "soft: p is rounded to i32, which stores no real values, want f16, bf16, f32, e4m3, e5m2"},
		{Declaration{Omits: []string{"y", "y"}}, "soft: output y is omitted twice"},
	} {
		checkError(t, c.d.String(), c.d.Check(withFunctions, nil), c.want)
	}
}

// TestOrdered checks that a declaration that goes beyond the definition's own steps is refused
// under promise ordered.
func TestOrdered(t *testing.T) {
	const end = ", but promise ordered takes the definition's own steps, want promise stable"
	for _, c := range []struct {
		text string
		ulps float64
		want string
	}{
		{"", 0, ""}, {"exp=2ulp", 2, ""}, {"omit=sums", 0, ""}, {"profile=cuda", 2.5, ""}, {"profile=cuda exp=1ulp", 1, ""},
		{"exp=2ulp div=0.5ulp", 2, ""},
		{"formula=welford", 0, "soft: formula welford is declared" + end},
		{"round(p)=bf16", 0, "soft: a rounding of p is declared" + end},
		{"ftz", 0, "soft: subnormal numbers may become zeros" + end},
		{"profile=cuda-fast-math", 0, "soft: subnormal numbers may become zeros" + end},
		{"raw", 0, "soft: raw parameters are declared" + end},
		{"exp2=2ulp", 0, "soft: exp2 is declared, which the definition does not call" + end},
		{"exp=2ulp+1|x|", 0, "soft: exp has error 2ulp+1|x|, which is not in ulps alone" + end},
		{"div=1ulp", 0, "soft: div has error 1ulp" + end},
		{"profile=hip", 0, "soft: sqrt has error 1.5ulp" + end},
	} {
		d, _, err := ParseDeclaration(c.text)
		if err != nil {
			t.Fatal(err)
		}
		ulps, err := d.Ordered(withFunctions)
		checkError(t, c.text, err, c.want)
		if ulps != c.ulps {
			t.Errorf("%q: functions within %v ulp, want %v", c.text, ulps, c.ulps)
		}
	}
}

func TestCheckOrder(t *testing.T) {
	for _, c := range []struct {
		d    *def.Definition
		o    def.Order
		want string
	}{
		{withFunctions, def.Sequential, ""}, {plainCopy, def.Order{}, ""}, {product, def.Order{Kind: def.Height, Width: 3}, ""},
		{plainCopy, def.Sequential, "copy: an order of sums is declared, sequential, but it has no sums"},
		{withFunctions, def.Order{Kind: def.Lanes}, "soft: an order lanes(0) needs a width of at least 1, got 0"},
	} {
		checkError(t, c.o.String(), CheckOrder(c.d, c.o), c.want)
	}
}

func TestCheckLengths(t *testing.T) {
	sums := def.Must(def.Rowwise("sums", func(b *def.Builder) {
		x := b.In("x")
		b.OutCol("columns", def.ColSum(x), def.Only(num.F32))
		b.OutScalar("total", def.TotalSum(x), def.Only(num.F32))
	}))
	height := func(n int) def.Order { return def.Order{Kind: def.Height, Width: n} }
	const end = " additions, whatever the order"
	for _, c := range []struct {
		d     *def.Definition
		sizes map[string]int
		o     def.Order
		want  string
	}{
		{withFunctions, map[string]int{"C": 4096}, height(12), ""}, {withFunctions, map[string]int{"C": 4096}, def.Sequential, ""},
		{withFunctions, map[string]int{"R": 4096, "C": 2}, height(1), ""}, {withFunctions, map[string]int{"R": 4096}, height(1), ""},
		{withFunctions, map[string]int{"C": 4096}, height(11), "soft: height=11 does not fit a sum of 4096 terms: some term passes through at least 12" + end},
		{sums, map[string]int{"R": 9, "C": 1}, height(3), "sums: height=3 does not fit a sum of 9 terms: some term passes through at least 4" + end},
		{sums, map[string]int{"R": 8, "C": 5}, height(3), "sums: height=3 does not fit a sum of 40 terms: some term passes through at least 6" + end},
		{product, map[string]int{"K": 3}, height(1), "product: height=1 does not fit a sum of 3 terms: some term passes through at least 2" + end},
		{plainCopy, map[string]int{"R": 9, "C": 9}, height(1), ""},
	} {
		checkError(t, c.o.String(), CheckLengths(c.d, c.sizes, c.o), c.want)
	}
}

func checkError(t *testing.T, what string, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("%q:\ngot  %s\nwant %s", what, got, want)
	}
}

// TestFunctionOf checks that FunctionOf returns the names that declarations use.
func TestFunctionOf(t *testing.T) {
	for m := def.MathExp; m <= def.MathErfcx; m++ {
		d := def.Must(def.Rowwise("one", func(b *def.Builder) { b.Out("y", function(m).Of(b.In("x")), def.Like("x")) }))
		called := functionsOf(d)
		if len(called) != 1 {
			t.Errorf("%s is called %v", m, called)
		}
	}
}
