package promise

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tokitai/def"
)

// Check returns an error if the declaration makes no sense for a definition whose operation
// has the given formulas. The error says what can be declared instead.
func (d Declaration) Check(definition *def.Definition, formulas []string) error {
	if _, err := LookupProfile(d.Profile); err != nil {
		return err
	}
	for _, check := range []func(*def.Definition) error{d.checkFunctions, d.checkRoundings, d.checkRaw, d.checkOmits} {
		if err := check(definition); err != nil {
			return fmt.Errorf("%s: %w", definition.Name, err)
		}
	}
	switch {
	case d.Formula == "" || slices.Contains(formulas, d.Formula):
		return nil
	case len(formulas) == 0:
		return fmt.Errorf("%s: formula %q is unknown, it has none besides the definition's", definition.Name, d.Formula)
	}
	return fmt.Errorf("%s: formula %q is unknown%s, want %s", definition.Name, d.Formula, didYouMean(d.Formula, formulas), strings.Join(formulas, ", "))
}

// checkFunctions refuses errors that make no sense, and functions that no form of the
// definition calls.
func (d Declaration) checkFunctions(definition *def.Definition) error {
	called := functionsOf(definition)
	for _, f := range slices.Sorted(maps.Keys(d.Functions)) {
		if !slices.Contains(functions, f) {
			return unknownFunction(f)
		}
		if _, err := parseError(f, d.Functions[f].String()); err != nil {
			return fmt.Errorf("%s=%s: %w", f, d.Functions[f], err)
		}
		if !standsFor(f, called) {
			useful := slices.DeleteFunc(slices.Clone(functions), func(f string) bool { return !standsFor(f, called) })
			if len(useful) == 0 {
				return fmt.Errorf("%s is declared, but it calls no function", f)
			}
			return fmt.Errorf("%s is declared, but no form of it calls %s, want %s", f, f, strings.Join(useful, ", "))
		}
	}
	return nil
}

// checkRoundings refuses roundings of what the definition does not name, and to formats that
// store no real values.
func (d Declaration) checkRoundings(definition *def.Definition) error {
	names := Values(definition)
	for _, name := range slices.Sorted(maps.Keys(d.Roundings)) {
		switch f := d.Roundings[name]; {
		case !f.IsFloat():
			return fmt.Errorf("%s is rounded to %s, which stores no real values, want %s", name, f, joinFormats())
		case slices.Contains(names, name):
		case len(names) == 0:
			return fmt.Errorf("%s is rounded, but it names no values", name)
		default:
			return fmt.Errorf("%s is rounded, but it names no such value%s, want %s", name, didYouMean(name, names), strings.Join(names, ", "))
		}
	}
	return nil
}

// Values returns the names of the real values that a definition computes, each once: those
// whose roundings can be declared.
func Values(d *def.Definition) []string {
	var names []string
	for _, n := range d.Math().Nodes {
		if len(n.Args) > 0 && n.Name != "" && n.Type == def.Float && !slices.Contains(names, n.Name) {
			names = append(names, n.Name)
		}
	}
	return names
}

func (d Declaration) checkRaw(definition *def.Definition) error {
	if d.RawParams && len(definition.Params) == 0 {
		return fmt.Errorf("raw is declared, but it has no parameters")
	}
	return nil
}

// checkOmits refuses outputs that do not exist or are listed twice, and a list of all outputs.
func (d Declaration) checkOmits(definition *def.Definition) error {
	var outputs []string
	for _, o := range definition.Operands {
		if o.IsOut {
			outputs = append(outputs, o.Name)
		}
	}
	for i, name := range d.Omits {
		switch {
		case !slices.Contains(outputs, name):
			return fmt.Errorf("output %q to omit is unknown%s, want %s", name, didYouMean(name, outputs), strings.Join(outputs, ", "))
		case slices.Contains(d.Omits[:i], name):
			return fmt.Errorf("output %s is omitted twice", name)
		}
	}
	switch {
	case len(d.Omits) < len(outputs):
		return nil
	case len(outputs) == 1:
		return fmt.Errorf("its only output, %s, is omitted", outputs[0])
	}
	return fmt.Errorf("all outputs are omitted, want at least one of %s", strings.Join(outputs, ", "))
}

// CheckOrder returns an error if an order of sums makes no sense for a definition.
func CheckOrder(d *def.Definition, o def.Order) error {
	if err := o.Check(); err != nil {
		return fmt.Errorf("%s: %w", d.Name, err)
	}
	if o != (def.Order{}) && len(d.Sums()) == 0 {
		return fmt.Errorf("%s: an order of sums is declared, %s, but it has no sums", d.Name, o)
	}
	return nil
}

// CheckLengths returns an error if the definition's sums over operands of the given sizes, by
// letter, cannot have the order. Sums whose lengths are not given may have any.
func CheckLengths(d *def.Definition, sizes map[string]int, o def.Order) error {
	if o.Kind != def.Height {
		return nil
	}
	for _, n := range lengths(d, sizes) {
		if least := (def.Order{Kind: def.Pairwise}).Height(n); o.Width < least {
			return fmt.Errorf("%s: height=%d does not fit a sum of %d terms: some term passes through at least %d additions, whatever the order", d.Name, o.Width, n, least)
		}
	}
	return nil
}

// lengths returns the numbers of terms of a definition's sums, as far as sizes gives them.
func lengths(d *def.Definition, sizes map[string]int) []int {
	var list []int
	for _, sum := range d.Sums() {
		if sum.ByIndex {
			continue
		}
		n := 1
		for _, letter := range sum.Over {
			n *= sizes[letter]
		}
		list = append(list, n)
	}
	return list
}

// WithFunctions returns the declaration with an error of at least the given ulps for every function
// that a definition calls and the declaration does not list. It leaves out quotients and square
// roots. If ulps is 0, it returns the declaration as it is.
func (d Declaration) WithFunctions(definition *def.Definition, ulps float64) Declaration {
	if ulps <= 0 {
		return d
	}
	functions := maps.Clone(d.Functions)
	for _, f := range functionsOf(definition) {
		if _, isDeclared := d.Functions[f]; isDeclared || f == "div" || f == "sqrt" {
			continue
		}
		e := Error{ULPs: CorrectlyRounded.ULPs}
		if d.Profile != "" {
			e = d.Error(f)
		}
		if e.ULPs = max(e.ULPs, ulps); functions == nil {
			functions = map[string]Error{}
		}
		functions[f] = e
	}
	d.Functions = functions
	return d
}

// Ordered returns the error of functions, in ulps, of a kernel that promises [Ordered] for a
// definition, or 0 if none is declared. Such a kernel takes the definition's own steps, so a
// declaration of anything that only [Stable] allows is an error.
func (d Declaration) Ordered(definition *def.Definition) (functionULP float64, err error) {
	refuse := func(what string) error {
		return fmt.Errorf("%s: %s, but promise ordered takes the definition's own steps, want promise stable", definition.Name, what)
	}
	switch {
	case d.Formula != "":
		return 0, refuse("formula " + d.Formula + " is declared")
	case len(d.Roundings) > 0:
		return 0, refuse("a rounding of " + slices.Sorted(maps.Keys(d.Roundings))[0] + " is declared")
	case d.Flushes():
		return 0, refuse("subnormal numbers may become zeros")
	case d.RawParams:
		return 0, refuse("raw parameters are declared")
	}
	if d.Profile == "" && len(d.Functions) == 0 {
		return 0, nil
	}
	called := functionsOf(definition)
	for f := range d.Functions {
		if !slices.Contains(called, f) {
			return 0, refuse(f + " is declared, which the definition does not call")
		}
	}
	own := d.alone()
	for _, f := range called {
		e := own[f]
		switch isStep := f == "div" || f == "sqrt"; {
		case isStep && e != CorrectlyRounded:
			return 0, refuse(fmt.Sprintf("%s has error %s", f, e))
		case e != Error{ULPs: e.ULPs}:
			return 0, refuse(fmt.Sprintf("%s has error %s, which is not in ulps alone", f, e))
		case !isStep:
			functionULP = max(functionULP, e.ULPs)
		}
	}
	return functionULP, nil
}
