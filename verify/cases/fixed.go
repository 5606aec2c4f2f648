package cases

import (
	"maps"
	"math"
	"slices"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/op"
)

// Fixed are parameters that have one value in every case.
type Fixed struct {
	Texts    []string        // as they were given, in the order of the operation: eps=1e-3
	numbers  map[int]float64 // parameters of the definition, by position
	given    engine.Params   // parameters that Operation.Derive takes
	settings engine.Params   // those, and the usual values of the others that it takes
}

// FixableParams lists the parameters of the target's operation that Fix takes: those that
// select the definition, those that the definition has, and those from which its own are derived.
func (t *Target) FixableParams() []string {
	o := t.Operation
	if o == nil {
		return nil
	}
	selecting, settings := o.Selecting(), t.settings(0)
	var names []string
	for _, p := range o.Params {
		_, isSetting := settings[p.Name]
		if isSetting || slices.Contains(selecting, p.Name) || t.Definition.Param(p.Name) >= 0 {
			names = append(names, p.Name)
		}
	}
	return names
}

// Fix returns the target with one value for each of the given parameters in every case. They are
// parameters of the operation, such as eps or p and k of gemm.zpk, as text; those that are not
// among FixableParams are ignored. It returns nil if a parameter selects another
// definition of the operation, and an error for a value that is not allowed. Parameters that were
// fixed before are not kept.
func (t *Target) Fix(given map[string]string) (*Target, error) {
	o, fixable := t.Operation, t.FixableParams()
	given = maps.Clone(given)
	maps.DeleteFunc(given, func(name, _ string) bool { return !slices.Contains(fixable, name) })
	if len(given) == 0 {
		return t, nil
	}
	values, err := o.NewValues(given)
	if err != nil {
		return nil, err
	}
	fixed := New(t.Facts)
	selecting := o.Selecting()
	if slices.ContainsFunc(selecting, values.IsGiven) {
		d := o.Variant(values)
		switch isListed := slices.Contains(o.Definitions, d); {
		case values.Err() != nil:
			return nil, values.Err()
		case isListed && d != t.Definition:
			return nil, nil
		case !isListed:
			fixed.Operation, fixed.Definition = o.For(d), d
		}
	}
	f := Fixed{numbers: map[int]float64{}, given: engine.Params{}}
	settings := t.settings(0)
	for _, p := range o.Params {
		text, isGiven := given[p.Name]
		if !isGiven {
			continue
		}
		f.Texts = append(f.Texts, p.Name+"="+text)
		i := fixed.Definition.Param(p.Name)
		switch _, isSetting := settings[p.Name]; {
		case slices.Contains(selecting, p.Name):
		case isSetting:
			f.given[p.Name] = values.Float(p.Name)
		case fixed.Definition.Params[i].IsInt:
			f.numbers[i] = float64(values.Int(p.Name, math.MinInt32, math.MaxInt32))
		default:
			f.numbers[i] = values.Float(p.Name)
		}
		if i < 0 || values.Err() != nil {
			continue
		}
		if v, isNumber := f.numbers[i]; isNumber && !fixed.Definition.Params[i].Allows(v) {
			return nil, &device.ArgumentError{Op: o.Name, Operand: p.Name, Clause: fixed.Definition.ParamClause(p.Name), Got: "is " + text, Want: fixed.Definition.Params[i].Want()}
		}
	}
	if values.Err() != nil {
		return nil, values.Err()
	}
	if len(f.given) > 0 {
		for _, p := range o.Params {
			if _, isSetting := settings[p.Name]; isSetting && p.Default != "" {
				settings[p.Name] = values.Float(p.Name) // the default of one that is not given
			}
		}
		maps.Copy(settings, f.given)
		f.settings = settings
		if _, err := fixed.derive(settings, fixed.UsualParams()); err != nil {
			return nil, op.Named(o.Name, err)
		}
	}
	fixed.Fixed = f
	return fixed, nil
}

// apply returns parameters of the definition with those that are fixed.
func (f *Fixed) apply(params []float64) []float64 {
	if len(f.numbers) == 0 {
		return params
	}
	params = slices.Clone(params)
	for i, v := range f.numbers {
		params[i] = v
	}
	return params
}

// Keeps reports whether a relation changes no parameter that is fixed.
func (f *Fixed) Keeps(d *def.Definition, s op.Scaling) bool {
	for name, exponent := range s.Params {
		if exponent != 0 && !f.IsFree(d.Param(name)) {
			return false
		}
	}
	return true
}

// IsFree reports whether a relation may give the parameter at a position another value.
func (f *Fixed) IsFree(param int) bool {
	_, isFixed := f.numbers[param]
	return !isFixed && len(f.settings) == 0
}
