package promise

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"tokitai/def"
	"tokitai/num"
)

// Item is one kind of item in the text of a declaration.
type Item struct {
	Form    string // such as order=ORDER
	Example string
	Text    string // what it says, in one line
}

// Items lists the kinds of items that [ParseDeclaration] reads.
func Items() []Item {
	return []Item{
		{"order=ORDER", "order=lanes(16)", "sums are added in ORDER: sequential, pairwise, lanes(N), chunks(N) or any"},
		{"height=N", "height=12", "no term of a sum passes through more than N additions; height=inferred, the default, finds the least N that accepts"},
		{"FUNCTION=ERROR", "exp=2ulp+1.16|x|", "FUNCTION is within ERROR of its true value"},
		{"profile=NAME", "profile=cuda", "functions that are not declared have the errors of a family of kernels"},
		{"formula=NAME", "formula=welford", "the operation is computed in another form, which has a name"},
		{"round(VALUE)=FORMAT", "round(p)=bf16", "VALUE, which the definition names, is rounded to FORMAT"},
		{"ftz", "ftz", "subnormal inputs and results may become zeros"},
		{"raw", "raw", "the kernel itself computes the definition's parameters from those that people set, in binary32"},
		{"omit=OUTPUT", "omit=mean", "the kernel does not write OUTPUT"},
	}
}

// ParseDeclaration reads a declaration: items separated by commas or spaces, each at most
// once. It also returns the order of sums, which is zero if the text has none.
// [Declaration.Check] and [CheckOrder] check what depends on the definition.
func ParseDeclaration(text string) (Declaration, def.Order, error) {
	p := declarationParser{seen: map[string]string{}}
	for item := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		if err := p.item(item); err != nil {
			return Declaration{}, def.Order{}, fmt.Errorf("declaration %q: %w", item, err)
		}
	}
	return p.declaration, p.order, nil
}

type declarationParser struct {
	declaration Declaration
	order       def.Order
	seen        map[string]string // the text of items, by subject
}

func (p *declarationParser) item(item string) error {
	key, value, hasValue := strings.Cut(item, "=")
	about := key
	switch key {
	case "height":
		about = "order"
	case "omit":
		about = item
	}
	if before, isTwice := p.seen[about]; isTwice {
		if before == item {
			return errors.New("it is there twice")
		}
		return fmt.Errorf("%q is there too, want one of them", before)
	}
	p.seen[about] = item
	if isFlag := key == "ftz" || key == "raw"; isFlag == hasValue {
		if isFlag {
			return fmt.Errorf("%s takes no value, want %s alone", key, key)
		}
		return p.unknown(key)
	}
	if hasValue && value == "" {
		return p.missing(key)
	}
	d, err := &p.declaration, error(nil)
	switch rounded := roundForm.FindStringSubmatch(key); {
	case rounded != nil:
		return p.rounding(rounded[1], value)
	case key == "ftz":
		d.FlushesSubnormals = true
	case key == "raw":
		d.RawParams = true
	case key == "order":
		p.order, err = parseOrder(value)
	case key == "height":
		p.order, err = parseHeight(value)
	case key == "profile":
		_, err = LookupProfile(value)
		d.Profile = value
	case key == "formula":
		d.Formula = value
	case key == "omit":
		d.Omits = append(d.Omits, value)
	case slices.Contains(functions, key):
		var e Error
		if e, err = parseError(key, value); err == nil {
			if d.Functions == nil {
				d.Functions = map[string]Error{}
			}
			d.Functions[key] = e
		}
	default:
		return p.unknown(key)
	}
	return err
}

var roundForm = regexp.MustCompile(`^round\((.*)\)$`)

// keys has the words other than functions that begin an item, with or without a value.
var keys = []string{"order", "height", "profile", "formula", "omit", "ftz", "raw"}

func (p *declarationParser) unknown(key string) error {
	problem := key + " is unknown" + didYouMean(key, slices.Concat(keys, functions))
	switch {
	case slices.Contains(keys, key), slices.Contains(functions, key), roundForm.MatchString(key):
		return p.missing(key)
	case key == "round":
		return errors.New(unnamedRounding)
	case key == "":
		problem = "the word before = is missing"
	}
	return fmt.Errorf("%s, want order=, height=, profile=, formula=, round(VALUE)=, omit=, ftz, raw, or the error of a function: %s",
		problem, strings.Join(functions, ", "))
}

const unnamedRounding = "it does not say what is rounded, want round(VALUE)=FORMAT, such as round(p)=bf16"

// missing returns the error for an item without its value.
func (p *declarationParser) missing(key string) error {
	for _, i := range Items() {
		if strings.HasPrefix(i.Form, key+"=") || strings.HasPrefix(i.Form, "round") && roundForm.MatchString(key) {
			return fmt.Errorf("%s has no value, want %s, such as %s", key, i.Form, i.Example)
		}
	}
	return fmt.Errorf("%s has no value, want an error such as %s=2ulp", key, key)
}

func (p *declarationParser) rounding(name, format string) error {
	f, err := num.ParseDType(format)
	switch {
	case name == "":
		return errors.New(unnamedRounding)
	case err != nil:
		return fmt.Errorf("format %q is unknown, want %s", format, joinFormats())
	case !f.IsFloat():
		return fmt.Errorf("%s stores no real values, want %s", f, joinFormats())
	}
	if p.declaration.Roundings == nil {
		p.declaration.Roundings = map[string]num.DType{}
	}
	p.declaration.Roundings[name] = f
	return nil
}

func joinFormats() string {
	var names []string
	for _, f := range num.RealDTypes {
		names = append(names, f.String())
	}
	return strings.Join(names, ", ")
}

var widthForm = regexp.MustCompile(`^(lanes|chunks|height)\(([^()]*)\)$`)

func parseOrder(text string) (def.Order, error) {
	const want = "want sequential, pairwise, lanes(N), chunks(N), or any"
	switch text {
	case "sequential":
		return def.Sequential, nil
	case "pairwise":
		return def.Order{Kind: def.Pairwise}, nil
	case "any":
		return def.Order{}, nil
	}
	m := widthForm.FindStringSubmatch(text)
	if m == nil {
		word, _, _ := strings.Cut(text, "(")
		return def.Order{}, fmt.Errorf("order %q is unknown%s, %s", text, didYouMean(word, []string{"sequential", "pairwise", "lanes", "chunks", "any"}), want)
	}
	if m[1] == "height" {
		return parseHeight(m[2])
	}
	width, err := strconv.Atoi(m[2])
	if err != nil || width < 1 || width > math.MaxInt32 {
		return def.Order{}, fmt.Errorf("%s(%s): want a number of %s from 1 to %d", m[1], m[2], map[string]string{"lanes": "lanes", "chunks": "terms in a chunk"}[m[1]], math.MaxInt32)
	}
	return def.Order{Kind: map[string]def.OrderKind{"lanes": def.Lanes, "chunks": def.Chunks}[m[1]], Width: width}, nil
}

func parseHeight(text string) (def.Order, error) {
	if text == "inferred" {
		return def.Order{}, nil
	}
	height, err := strconv.Atoi(text)
	if err != nil || height < 1 || height > math.MaxInt32 {
		return def.Order{}, fmt.Errorf("height %s, want a number of additions from 1 to %d, or inferred", text, math.MaxInt32)
	}
	return def.Order{Kind: def.Height, Width: height}, nil
}

// Functions whose declared error may grow with |x|, and those whose results may have any
// magnitude, so that an absolute error would mean nothing.
var (
	growing   = []string{"exp", "exp2", "sin", "cos"}
	scaleless = []string{"sqrt", "rsqrt", "div", "recip"}
)

var termForm = regexp.MustCompile(`^(2\^)?([-+]?[0-9.]+(?:e[-+]?[0-9]+)?|[-+]?(?:[Nn]a[Nn]|[Ii]nf))(ulp|\|x\||abs|)(\+|$)`)

// parseError reads an error such as 2ulp+1.16|x|.
func parseError(function, text string) (Error, error) {
	want := fmt.Sprintf("want a number with its unit, such as %s=2ulp, or a relative error such as %s=2^-11", function, function)
	var e Error
	for rest, more := text, true; more; {
		m := termForm.FindStringSubmatch(rest)
		if m == nil {
			return Error{}, fmt.Errorf("%q is no error, %s", rest, want)
		}
		v, err := strconv.ParseFloat(m[2], 64)
		if m[1] != "" {
			v = math.Exp2(v)
		}
		field := map[string]*float64{"ulp": &e.ULPs, "|x|": &e.ULPsPerX, "abs": &e.Absolute, "": &e.Relative}[m[3]]
		switch term := strings.TrimSuffix(m[0], "+"); {
		case err != nil && !errors.Is(err, strconv.ErrRange), math.IsNaN(v), math.IsInf(v, 0):
			return Error{}, fmt.Errorf("%s is no finite number, %s", term, want)
		case v < 0 || math.Signbit(v):
			return Error{}, fmt.Errorf("%s is negative, %s", term, want)
		case m[3] == "" && v >= 1:
			return Error{}, fmt.Errorf("%s has no unit: want %sulp, or a relative error below 1, such as %s=2^-11", term, term, function)
		case m[3] == "|x|" && !slices.Contains(growing, function):
			return Error{}, fmt.Errorf("%s: an error that grows with |x| can be declared of %s", term, strings.Join(growing, ", "))
		case m[3] == "abs" && slices.Contains(scaleless, function):
			return Error{}, fmt.Errorf("%s: results of %s have no scale, want ulps or a relative error", term, function)
		case *field != 0:
			return Error{}, fmt.Errorf("%s is the second term of its kind, want their sum", term)
		default:
			*field = v
		}
		rest, more = rest[len(m[0]):], m[4] == "+"
	}
	if e.ULPs < CorrectlyRounded.ULPs && e.Relative < unit {
		return Error{}, fmt.Errorf("no result is closer than its rounding, want at least 0.5ulp, or 2^-24, besides any |x| or abs")
	}
	return e, nil
}
