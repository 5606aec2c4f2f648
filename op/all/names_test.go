package all_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/op"
	"tokitai/op/all"
	"tokitai/op/softmax"
)

var nameForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// checkNames holds the patterns and relations of operations against their definitions.
func checkNames(operations []*op.Operation) (errs []error) {
	type key struct {
		d    *def.Definition
		name string
	}
	patterns, scalings, count := map[key]bool{}, map[key]bool{}, map[*def.Definition]int{}
	refuse := func(o *op.Operation, d *def.Definition, name, format string, args ...any) {
		definition := "no definition"
		if d != nil {
			definition = d.Name
		}
		errs = append(errs, fmt.Errorf("%s: %s: %q: %s", o.Name, definition, name, fmt.Sprintf(format, args...)))
	}
	for _, o := range operations {
		for _, p := range o.Patterns {
			d := p.Definition
			k := key{d, p.Name}
			switch {
			case !nameForm.MatchString(p.Name):
				refuse(o, d, p.Name, "want a name in lower case with hyphens")
			case patterns[k]:
				refuse(o, d, p.Name, "two patterns have this name")
			case !slices.Contains(o.Definitions, d):
				refuse(o, d, p.Name, "the definition is not one of the operation's")
				continue
			}
			patterns[k] = true
			count[d]++
			if n := len(paramsOf(o, p)); n != len(d.Params) {
				refuse(o, d, p.Name, "got %d parameters, want %d", n, len(d.Params))
			}
			for i, x := range paramsOf(o, p) {
				if isInt := x == float64(int32(x)); i < len(d.Params) && d.Params[i].IsInt && !isInt || x-x != 0 {
					refuse(o, d, p.Name, "parameter %d is %v", i, x)
				}
			}
			for name, e := range p.Values {
				if i := d.Operand(name); i < 0 || !d.Operands[i].IsIn || d.Operands[i].IsIndex || e == nil {
					refuse(o, d, p.Name, "%s is no input of real values, or has none here", name)
				}
			}
			for name, e := range p.Integers {
				if i := d.Operand(name); i < 0 || !d.Operands[i].IsIn || !holdsIntegers(d, i) || d.Operands[i].IsIndex || e == nil || p.Values[name] != nil {
					refuse(o, d, p.Name, "%s is no input of integers, or has none here, or values besides", name)
				}
			}
			for name, e := range p.Index {
				if i := d.Operand(name); i < 0 || !d.Operands[i].IsIndex || e == nil {
					refuse(o, d, p.Name, "%s is no index, or has no values here", name)
				}
			}
		}
		for _, s := range o.Scalings {
			d := s.Definition
			k := key{d, s.Name}
			switch {
			case !nameForm.MatchString(s.Name):
				refuse(o, d, s.Name, "want a name in lower case with hyphens")
			case scalings[k]:
				refuse(o, d, s.Name, "two relations have this name")
			case !slices.Contains(o.Definitions, d):
				refuse(o, d, s.Name, "the definition is not one of the operation's")
				continue
			}
			scalings[k] = true
			for name := range s.Inputs {
				if i := d.Operand(name); i < 0 || !d.Operands[i].IsIn || d.Operands[i].IsIndex {
					refuse(o, d, s.Name, "%s is no input", name)
				}
			}
			for name := range s.Outputs {
				if i := d.Operand(name); i < 0 || !d.Operands[i].IsOut {
					refuse(o, d, s.Name, "%s is no output", name)
				}
			}
			for name := range s.Params {
				if i := d.Param(name); i < 0 || d.Params[i].IsInt {
					refuse(o, d, s.Name, "%s is no real parameter", name)
				}
			}
			for _, name := range s.Negated {
				if d.Operand(name) < 0 {
					refuse(o, d, s.Name, "%s is no operand", name)
				}
			}
		}
	}
	for _, o := range operations {
		for _, d := range o.Definitions {
			if count[d] < 3 {
				refuse(o, d, "", "got %d patterns, want at least 3", count[d])
			}
		}
	}
	return errs
}

// holdsIntegers reports whether an operand is stored as integers, or like one that is.
func holdsIntegers(d *def.Definition, i int) bool {
	if like := d.Operands[i].DTypes.Like; like != "" {
		i = d.Operand(like)
	}
	return d.Operands[i].IsInt()
}

func TestPatternNames(t *testing.T) {
	for _, err := range checkNames(all.Operations) {
		t.Error(err)
	}
}

// TestNamesCanFail breaks one thing at a time.
func TestNamesCanFail(t *testing.T) {
	forward := softmax.ForwardDefinition
	x := map[string]op.Element{"x": op.Normal}
	good := []op.Pattern{{Name: "a", Definition: forward, Values: x}, {Name: "b-2", Definition: forward}, {Name: "c", Definition: forward}}
	withParams := op.Pattern{Name: "d", Definition: forward, Params: []float64{1}}
	scaling := func(s op.Scaling) *op.Operation {
		s.Name, s.Definition = "s", forward
		return &op.Operation{Name: "o", Definitions: []*def.Definition{forward}, Patterns: good, Scalings: []op.Scaling{s}}
	}
	pattern := func(p op.Pattern) *op.Operation {
		return &op.Operation{Name: "o", Definitions: []*def.Definition{forward}, Patterns: append(slices.Clone(good), p)}
	}
	for want, o := range map[string]*op.Operation{
		"":                        pattern(op.Pattern{Name: "d", Definition: forward}),
		"want a name in lower":    pattern(op.Pattern{Name: "One huge", Definition: forward}),
		"two patterns have":       pattern(good[0]),
		"not one of":              pattern(op.Pattern{Name: "d", Definition: softmax.BackwardDefinition}),
		"got 1 parameters":        pattern(withParams),
		"no input of real":        pattern(op.Pattern{Name: "d", Definition: forward, Values: map[string]op.Element{"y": op.Normal}}),
		"is no index":             pattern(op.Pattern{Name: "d", Definition: forward, Index: map[string]op.Index{"x": func(*gen.Generator, int, int) int { return 0 }}}),
		"got 2 patterns, want at": {Name: "o", Definitions: []*def.Definition{forward}, Patterns: good[1:]},
		"y is no input":           scaling(op.Scaling{Inputs: map[string]int{"y": 1}}),
		"x is no output":          scaling(op.Scaling{Outputs: map[string]int{"x": 1}}),
		"eps is no real":          scaling(op.Scaling{Params: map[string]int{"eps": 1}}),
		"z is no operand":         scaling(op.Scaling{Negated: []string{"z"}}),
	} {
		errs := checkNames([]*op.Operation{o})
		switch {
		case want == "" && len(errs) > 0:
			t.Errorf("good patterns: got %v", errs)
		case want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), want)):
			t.Errorf("got %v, want one error with %q", errs, want)
		}
	}
}
