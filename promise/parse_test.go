package promise

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/num"
)

func TestParseDeclaration(t *testing.T) {
	for text, want := range map[string]struct {
		d     Declaration
		order def.Order
	}{
		"":                            {},
		" ,, ":                        {},
		"order=lanes(16)":             {order: def.Order{Kind: def.Lanes, Width: 16}},
		"order=sequential":            {order: def.Sequential},
		"order=pairwise":              {order: def.Order{Kind: def.Pairwise}},
		"order=chunks(32)":            {order: def.Order{Kind: def.Chunks, Width: 32}},
		"order=any":                   {},
		"height=12":                   {order: def.Order{Kind: def.Height, Width: 12}},
		"order=height(12)":            {order: def.Order{Kind: def.Height, Width: 12}},
		"height=inferred":             {},
		"exp=2ulp+1.16|x|":            {d: Declaration{Functions: map[string]Error{"exp": {ULPs: 2, ULPsPerX: 1.16}}}},
		"tanh=2^-11":                  {d: Declaration{Functions: map[string]Error{"tanh": {Relative: 0x1p-11}}}},
		"tanh=0.001":                  {d: Declaration{Functions: map[string]Error{"tanh": {Relative: 0.001}}}},
		"log=3.5ulp+2^-21.41abs":      {d: Declaration{Functions: map[string]Error{"log": {ULPs: 3.5, Absolute: math.Exp2(-21.41)}}}},
		"log=1e+3ulp+1e-7":            {d: Declaration{Functions: map[string]Error{"log": {ULPs: 1000, Relative: 1e-7}}}},
		"rsqrt=2ulp,div=1ulp":         {d: Declaration{Functions: map[string]Error{"rsqrt": {ULPs: 2}, "div": {ULPs: 1}}}},
		"ftz raw":                     {d: Declaration{FlushesSubnormals: true, RawParams: true}},
		"formula=welford":             {d: Declaration{Formula: "welford"}},
		"profile=cuda-fast-math":      {d: Declaration{Profile: "cuda-fast-math"}},
		"round(p)=bf16, round(e)=f16": {d: Declaration{Roundings: map[string]num.DType{"p": num.BF16, "e": num.F16}}},
		"omit=rstd omit=mean":         {d: Declaration{Omits: []string{"rstd", "mean"}}},
	} {
		d, order, err := ParseDeclaration(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if !reflect.DeepEqual(d, want.d) || order != want.order {
			t.Errorf("%q is %+v in order %v, want %+v in order %v", text, d, order, want.d, want.order)
		}
		testRoundTrip(t, d, order)
	}
}

// testRoundTrip checks that a declaration reads back from its text.
func testRoundTrip(t *testing.T, d Declaration, order def.Order) {
	t.Helper()
	text := Format(d, order)
	again, sameOrder, err := ParseDeclaration(text)
	if err != nil || !reflect.DeepEqual(again, d) || sameOrder != order {
		t.Errorf("%+v in order %v is printed as %q, which reads back as %+v in order %v, error %v", d, order, text, again, sameOrder, err)
	}
	if again, _, err := ParseDeclaration(d.String()); err != nil || !reflect.DeepEqual(again, d) {
		t.Errorf("%+v is printed as %q, which reads back as %+v, error %v", d, d, again, err)
	}
}

func TestParseDeclarationRefuses(t *testing.T) {
	const functionNames = "exp, exp2, expm1, log, log2, log1p, tanh, sigmoid, erf, erfcx, sin, cos, sqrt, rsqrt, div, recip"
	const kinds = "want order=, height=, profile=, formula=, round(VALUE)=, omit=, ftz, raw, or the error of a function: " + functionNames
	const exp = "want a number with its unit, such as exp=2ulp, or a relative error such as exp=2^-11"
	for text, want := range map[string]string{
		"ekp=2ulp":                   `declaration "ekp=2ulp": ekp is unknown (did you mean exp?), ` + kinds,
		"frobnicate":                 `declaration "frobnicate": frobnicate is unknown, ` + kinds,
		"=2ulp":                      `declaration "=2ulp": the word before = is missing, ` + kinds,
		"order":                      `declaration "order": order has no value, want order=ORDER, such as order=lanes(16)`,
		"order=":                     `declaration "order=": order has no value, want order=ORDER, such as order=lanes(16)`,
		"height=":                    `declaration "height=": height has no value, want height=N, such as height=12`,
		"omit=":                      `declaration "omit=": omit has no value, want omit=OUTPUT, such as omit=mean`,
		"exp":                        `declaration "exp": exp has no value, want an error such as exp=2ulp`,
		"ftz=1":                      `declaration "ftz=1": ftz takes no value, want ftz alone`,
		"raw=":                       `declaration "raw=": raw takes no value, want raw alone`,
		"order=lanes(0)":             `declaration "order=lanes(0)": lanes(0): want a number of lanes from 1 to 2147483647`,
		"order=chunks(-3)":           `declaration "order=chunks(-3)": chunks(-3): want a number of terms in a chunk from 1 to 2147483647`,
		"order=lanes(many)":          `declaration "order=lanes(many)": lanes(many): want a number of lanes from 1 to 2147483647`,
		"order=lines(4)":             `declaration "order=lines(4)": order "lines(4)" is unknown (did you mean lanes?), want sequential, pairwise, lanes(N), chunks(N), or any`,
		"order=lanes":                `declaration "order=lanes": order "lanes" is unknown (did you mean lanes?), want sequential, pairwise, lanes(N), chunks(N), or any`,
		"height=-1":                  `declaration "height=-1": height -1, want a number of additions from 1 to 2147483647, or inferred`,
		"height=0":                   `declaration "height=0": height 0, want a number of additions from 1 to 2147483647, or inferred`,
		"height=3000000000":          `declaration "height=3000000000": height 3000000000, want a number of additions from 1 to 2147483647, or inferred`,
		"exp=-2ulp":                  `declaration "exp=-2ulp": -2ulp is negative, ` + exp,
		"exp=2ulp+-1|x|":             `declaration "exp=2ulp+-1|x|": -1|x| is negative, ` + exp,
		"exp=NaNulp":                 `declaration "exp=NaNulp": NaNulp is no finite number, ` + exp,
		"exp=nanulp":                 `declaration "exp=nanulp": nanulp is no finite number, ` + exp,
		"exp=Infulp":                 `declaration "exp=Infulp": Infulp is no finite number, ` + exp,
		"exp=1e999ulp":               `declaration "exp=1e999ulp": 1e999ulp is no finite number, ` + exp,
		"exp=2^9999":                 `declaration "exp=2^9999": 2^9999 is no finite number, ` + exp,
		"exp=1.2.3ulp":               `declaration "exp=1.2.3ulp": 1.2.3ulp is no finite number, ` + exp,
		"exp=2":                      `declaration "exp=2": 2 has no unit: want 2ulp, or a relative error below 1, such as exp=2^-11`,
		"exp=small":                  `declaration "exp=small": "small" is no error, ` + exp,
		"exp=2ulp+":                  `declaration "exp=2ulp+": "" is no error, ` + exp,
		"exp=2ulps":                  `declaration "exp=2ulps": "2ulps" is no error, ` + exp,
		"exp=2ulp+1ulp":              `declaration "exp=2ulp+1ulp": 1ulp is the second term of its kind, want their sum`,
		"exp=0ulp":                   `declaration "exp=0ulp": no result is closer than its rounding, want at least 0.5ulp, or 2^-24, besides any |x| or abs`,
		"exp=2^-25":                  `declaration "exp=2^-25": no result is closer than its rounding, want at least 0.5ulp, or 2^-24, besides any |x| or abs`,
		"sin=2^-21abs":               `declaration "sin=2^-21abs": no result is closer than its rounding, want at least 0.5ulp, or 2^-24, besides any |x| or abs`,
		"tanh=2ulp+1|x|":             `declaration "tanh=2ulp+1|x|": 1|x|: an error that grows with |x| can be declared of exp, exp2, sin, cos`,
		"div=2ulp+2^-22abs":          `declaration "div=2ulp+2^-22abs": 2^-22abs: results of div have no scale, want ulps or a relative error`,
		"exp=2ulp,exp=2ulp":          `declaration "exp=2ulp": it is there twice`,
		"exp=2ulp exp=3ulp":          `declaration "exp=3ulp": "exp=2ulp" is there too, want one of them`,
		"order=any height=3":         `declaration "height=3": "order=any" is there too, want one of them`,
		"ftz ftz":                    `declaration "ftz": it is there twice`,
		"omit=m omit=m":              `declaration "omit=m": it is there twice`,
		"round(p)=f16 round(p)=bf16": `declaration "round(p)=bf16": "round(p)=f16" is there too, want one of them`,
		"round(p)=i32":               `declaration "round(p)=i32": i32 stores no real values, want f16, bf16, f32, e4m3, e5m2`,
		"round(p)=half":              `declaration "round(p)=half": format "half" is unknown, want f16, bf16, f32, e4m3, e5m2`,
		"round(p)=":                  `declaration "round(p)=": round(p) has no value, want round(VALUE)=FORMAT, such as round(p)=bf16`,
		"round(p)":                   `declaration "round(p)": round(p) has no value, want round(VALUE)=FORMAT, such as round(p)=bf16`,
		"round()=bf16":               `declaration "round()=bf16": it does not say what is rounded, want round(VALUE)=FORMAT, such as round(p)=bf16`,
		"round=bf16":                 `declaration "round=bf16": it does not say what is rounded, want round(VALUE)=FORMAT, such as round(p)=bf16`,
		"profile=tourch":             `declaration "profile=tourch": profile "tourch" is unknown (did you mean torch?), want torch, triton, cuda, cuda-fast-math, hip`,
	} {
		d, order, err := ParseDeclaration(text)
		if err == nil {
			t.Errorf("%q is %+v in order %v, want error %q", text, d, order, want)
		} else if err.Error() != want {
			t.Errorf("%q:\ngot  %v\nwant %s", text, err, want)
		}
		if !reflect.DeepEqual(d, Declaration{}) || order != (def.Order{}) {
			t.Errorf("%q is refused, and yet gives %+v in order %v", text, d, order)
		}
	}
}

// TestItems checks that every listed kind of item can be parsed and is listed in its own form.
func TestItems(t *testing.T) {
	for _, i := range Items() {
		d, order, err := ParseDeclaration(i.Example)
		if err != nil {
			t.Errorf("%s: %v", i.Form, err)
			continue
		}
		testRoundTrip(t, d, order)
		if word, _, _ := strings.Cut(i.Form, "="); word != "FUNCTION" && word != "round(VALUE)" && !strings.HasPrefix(i.Example, word) {
			t.Errorf("%s has example %s", i.Form, i.Example)
		}
	}
}

// FuzzParseDeclaration looks for texts that panic, and for declarations that do not read back.
func FuzzParseDeclaration(f *testing.F) {
	for _, i := range Items() {
		f.Add(i.Example)
	}
	f.Add("order=lanes(16), exp=2ulp+1.16|x| tanh=2^-11+1e-3abs ftz raw omit=mean omit=rstd profile=cuda")
	f.Add("round(a=b)=bf16 formula=x=y log=1e-300abs+0.5ulp")
	f.Fuzz(func(t *testing.T, text string) {
		if d, order, err := ParseDeclaration(text); err == nil {
			testRoundTrip(t, d, order)
		}
	})
}

// TestFormat checks that items are printed in a fixed order, each as users write it.
func TestFormat(t *testing.T) {
	const text = "height=12 profile=hip formula=welford exp=2ulp+1.16|x| tanh=2^-11 round(e)=f16 round(p)=bf16 ftz raw omit=rstd omit=mean"
	d, order, err := ParseDeclaration("omit=rstd,omit=mean,raw,ftz,round(p)=bf16,round(e)=f16,tanh=2^-11,exp=2ulp+1.16|x|,formula=welford,profile=hip,order=height(12)")
	if err != nil {
		t.Fatal(err)
	}
	if got := Format(d, order); got != text {
		t.Errorf("got  %s\nwant %s", got, text)
	}
	if got := (Error{}).String(); got != "0ulp" {
		t.Errorf("no error is printed as %q, want 0ulp", got)
	}
}

// TestUnknownProfile checks that Check refuses an unknown profile. Until it is called, the functions
// have the errors of the profile "".
func TestUnknownProfile(t *testing.T) {
	d := Declaration{Profile: "none such"}
	if got := d.Error("exp"); got != unlisted {
		t.Errorf("exp has error %s, want %s", got, unlisted)
	}
	if d.Flushes() {
		t.Error("it flushes subnormal numbers")
	}
}

func TestFlushes(t *testing.T) {
	for text, want := range map[string]bool{"": false, "ftz": true, "profile=cuda": false, "profile=cuda-fast-math": true, "profile=cuda ftz": true} {
		d, _, err := ParseDeclaration(text)
		if err != nil {
			t.Fatal(err)
		}
		if d.Flushes() != want {
			t.Errorf("%q flushes: %v, want %v", text, d.Flushes(), want)
		}
	}
}

// TestProfileTables checks that every profile lists every function once, in order, with a source
// in one line.
func TestProfileTables(t *testing.T) {
	for _, name := range Profiles() {
		p, err := LookupProfile(name)
		if err != nil {
			t.Fatal(err)
		}
		var listed []string
		for _, e := range p.Errors {
			listed = append(listed, e.Function)
			if _, err := parseError(e.Function, e.Error.String()); err != nil && e.Error.ULPsPerX == 0 {
				t.Errorf("%s: %s=%s could not be declared: %v", name, e.Function, e.Error, err)
			}
			if e.Source == "" || strings.Contains(e.Source, "\n") {
				t.Errorf("%s: %s has source %q", name, e.Function, e.Source)
			}
		}
		if !slices.Equal(listed, functions) {
			t.Errorf("%s lists %v, want %v", name, listed, functions)
		}
		if p.Text == "" || strings.Contains(p.Text, "\n") {
			t.Errorf("%s has text %q", name, p.Text)
		}
	}
	if p, err := LookupProfile(""); err != nil || p.Name != "" {
		t.Errorf("the profile of no family is %v, error %v", p, err)
	}
}
