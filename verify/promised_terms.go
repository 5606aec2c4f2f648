package verify

import (
	"cmp"
	"fmt"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/promise"
)

// Terms replaces what a lowering promises and declares.
type Terms struct {
	// Promise is Default to keep the lowering's own, or stable where that is bits and something
	// is declared.
	Promise promise.Name

	Declares   promise.Declaration
	Order      def.Order
	IsDeclared bool // Declares and Order take the place of the lowering's; otherwise only the profile does
}

// ParseTerms parses terms as users write them. Each text may be empty.
func ParseTerms(name, profile, declaration string) (t Terms, err error) {
	if name != "" {
		if t.Promise, err = promise.Parse(name); err != nil {
			return t, err
		}
	}
	if profile != "" {
		if _, err := promise.LookupProfile(profile); err != nil {
			return t, err
		}
	}
	if t.Declares, t.Order, err = promise.ParseDeclaration(declaration); err != nil {
		return t, err
	}
	if in := t.Declares.Profile; profile != "" && in != "" && in != profile {
		return t, fmt.Errorf("the profile is %s, and the declaration says profile=%s: want one of them", profile, in)
	}
	t.IsDeclared = declaration != ""
	t.Declares.Profile = cmp.Or(t.Declares.Profile, profile)
	return t, nil
}

// DeclarationError reports a declaration that makes no sense for the target.
type DeclarationError struct{ Cause error }

func (e *DeclarationError) Error() string { return "declaration: " + e.Cause.Error() }
func (e *DeclarationError) Unwrap() error { return e.Cause }

// Hold returns a copy of a target's lowering with the terms' promise and declarations.
func (x Terms) Hold(t *Target) (*engine.Lowering, error) {
	l, d := *t.Lowering, t.Definition
	p := &l.Promise
	p.Name = cmp.Or(x.Promise, p.Named())
	if x.Promise == promise.Default && p.Name == promise.Bits {
		p.Name = promise.Stable // what declarations and profiles are for
	}
	if !p.IsBits() && d.IsExact() {
		return nil, fmt.Errorf("%s: results are exact, and admit one value each: want promise bits, without declarations and profiles", d.Name)
	}
	switch {
	case x.IsDeclared:
		p.Declares, p.Order, p.FunctionULP = x.Declares, x.Order, 0
	case x.Declares.Profile != "":
		p.Declares.Profile = x.Declares.Profile
	}
	if err := t.checkDeclaredBy(&l); err != nil {
		return nil, &DeclarationError{err}
	}
	switch p.Name {
	case promise.Bits:
		others := x.Declares
		others.Omits = nil
		if text := promise.Format(others, x.Order); text != "" {
			return nil, fmt.Errorf("promise bits leaves no room for %s, want promise ordered or stable", text)
		}
		p.Order, p.FunctionULP, p.Declares = def.Order{}, 0, promise.Declaration{Omits: p.Declares.Omits}
	case promise.Ordered:
		ulps, err := p.Declares.Ordered(d)
		if err != nil {
			return nil, &DeclarationError{err}
		}
		p.FunctionULP = max(p.FunctionULP, ulps)
	}
	return &l, nil
}

// checkDeclaredBy refuses declarations that make no sense for the definition of a target, or for
// the formula of it that they name.
func (t *Target) checkDeclaredBy(l *engine.Lowering) error {
	d, declares := t.Definition, l.Promise.Declares
	var formulas []string
	if o := t.Operation; o != nil && declares.Formula != "" {
		formula, err := o.FormulaOf(d, declares.Formula)
		if err != nil {
			return err
		}
		formulas = o.FormulasOf(d)
		d = cmp.Or(formula.Definition, d)
	}
	if err := declares.Check(d, formulas); err != nil {
		return err
	}
	return promise.CheckOrder(d, l.Promise.Order)
}
