package def

import (
	"fmt"
	"math"
	"strconv"
)

// Param is a number that a call passes.
type Param struct {
	Name    string
	IsInt   bool     // an int32; otherwise a binary64, rounded once to binary32
	Default *float64 // nil if a call must pass the parameter
	Range   Range    // allowed values
}

// Range is the range of a parameter. The zero Range is every number; NaN is in none.
type Range struct {
	IsLimited bool
	Low, High float64

	// IsAbove excludes Low itself. An infinite end is never included.
	IsAbove bool
}

// Allows reports whether a call may pass v: an int32 in the range, or a number in the
// range that is still in it when rounded to binary32.
func (p *Param) Allows(v float64) bool {
	if p.IsInt {
		return v >= math.MinInt32 && v <= math.MaxInt32 && v == math.Trunc(v) && p.Range.contains(v)
	}
	return p.Range.contains(v) && p.Range.contains(float64(float32(v)))
}

func (r Range) contains(v float64) bool {
	if !r.IsLimited {
		return v == v
	}
	return v >= r.Low && v <= r.High && !(r.IsAbove && v == r.Low) && !math.IsInf(v, 0)
}

// Clamp returns v, or the end of the range that v is beyond.
func (r Range) Clamp(v float64) float64 {
	if !r.IsLimited {
		return v
	}
	return min(max(v, r.Low), r.High)
}

// String returns the range as in the text of a definition, or "".
func (r Range) String() string {
	if !r.IsLimited {
		return ""
	}
	open, end := "[", "]"
	if r.IsAbove || math.IsInf(r.Low, -1) {
		open = "("
	}
	if math.IsInf(r.High, 1) {
		end = ")"
	}
	return open + numberText(r.Low) + "," + numberText(r.High) + end
}

// ParamOption sets the default or the range of a parameter.
type ParamOption func(*Param)

// Default sets the value of a parameter that a call does not pass.
func Default(v float64) ParamOption { return func(p *Param) { p.Default = &v } }

// Between limits a parameter to low <= p <= high. An infinite end leaves that side open
// to every finite number.
func Between(low, high float64) ParamOption {
	return func(p *Param) { p.Range = Range{IsLimited: true, Low: low, High: high} }
}

// AtLeast limits a parameter to finite numbers of at least low.
func AtLeast(low float64) ParamOption { return Between(low, math.Inf(1)) }

// MoreThan limits a parameter to finite numbers above low.
func MoreThan(low float64) ParamOption {
	return func(p *Param) { p.Range = Range{IsLimited: true, Low: low, High: math.Inf(1), IsAbove: true} }
}

// Finite limits a parameter to finite numbers.
func Finite() ParamOption { return Between(math.Inf(-1), math.Inf(1)) }

// Usual returns a value for tests: the default, or the first of the given values that is
// allowed, or any value in the range.
func (p *Param) Usual(values ...float64) float64 {
	if p.Default != nil {
		return *p.Default
	}
	return p.Nearest(values...)
}

// Nearest returns the first of the values that is allowed, as given, made positive or
// rounded, or else any value in the range.
func (p *Param) Nearest(values ...float64) float64 {
	r := p.Range
	for _, v := range append(values, 1, r.Low+1, r.High-1, r.Low/2+r.High/2, r.Low, r.High) {
		for _, v := range []float64{v, math.Abs(v), math.Ceil(math.Abs(v))} {
			if p.Allows(v) {
				return v
			}
		}
	}
	return 0 // a range in which nothing was found
}

// check returns an error if the range or the default is invalid.
func (p *Param) check() error {
	r := p.Range
	isEmpty := r.IsLimited && (!(r.Low <= r.High) || r.Low == r.High && (r.IsAbove || math.IsInf(r.Low, 0)))
	switch {
	case isEmpty:
		return fmt.Errorf("parameter %s: nothing is in the range %s", p.Name, r)
	case r == Range{} || r.IsLimited:
	default:
		return fmt.Errorf("parameter %s: a range that is not limited has no ends", p.Name)
	}
	if p.Default == nil {
		return nil
	}
	if v := *p.Default; !p.Allows(v) {
		return fmt.Errorf("parameter %s: its default %s is not %s", p.Name, numberText(v), p.Want())
	}
	return nil
}

// Want describes the allowed values, for messages and documents.
func (p *Param) Want() string {
	r := p.Range
	switch {
	case p.IsInt && r.IsLimited:
		return "an int32 in " + r.String()
	case p.IsInt:
		return "an int32"
	case !r.IsLimited:
		return "a number"
	case math.IsInf(r.Low, -1) && math.IsInf(r.High, 1):
		return "a finite binary32"
	case math.IsInf(r.High, 1) && r.IsAbove:
		return "a finite binary32 above " + numberText(r.Low)
	case math.IsInf(r.High, 1):
		return "a finite binary32 of at least " + numberText(r.Low)
	}
	return "a binary32 in " + r.String()
}

// ParamClause returns the ID of the clause about a parameter, which begins with its name,
// or "".
func (d *Definition) ParamClause(name string) string {
	for i, text := range d.clauses {
		if len(text) > len(name) && text[:len(name)+1] == name+" " {
			return fmt.Sprintf("%s.C%d", d.Name, i+1)
		}
	}
	return ""
}

// numberText returns the shortest decimal that reads back as v; integers have no exponent up
// to 2⁵³.
func numberText(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) <= 1<<53 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
