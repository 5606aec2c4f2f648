package cases

import (
	"maps"
	"math"
	"slices"

	"tokitai/engine"
	"tokitai/internal/gen"
)

// UsualParams are those of the definition's first kind of data, or first pattern, or
// numbers that differ from each other.
func (t *Target) UsualParams() []float64 {
	for _, data := range t.Data() {
		return data.Params
	}
	if t.Operation != nil {
		for _, p := range t.Operation.Patterns {
			if p.Definition == t.Definition && p.Params != nil {
				return p.Params
			}
		}
	}
	var params []float64
	for i := range t.Definition.Params {
		params = append(params, t.Definition.Params[i].Usual(float64(i+1)*0.171875))
	}
	return params
}

// Params are the parameters of a case: those that are fixed, and otherwise those of its pattern or
// a variation.
func (t *Target) Params(c *Case) []float64 {
	usual := t.Pattern(c.Pattern).params
	if len(t.Fixed.settings) > 0 {
		usual = t.derived(t.Fixed.settings, usual)
	}
	if c.Params > 0 {
		usual = t.variation(c.Params, usual)
	}
	return t.Fixed.apply(usual)
}

// variation returns parameters each of which is kept, scaled, negated, made tiny, huge, or
// something between 0 and 1, as far as the definition allows it. A kernel that promises no bits may
// rely on how parameters depend on each other, so the parameters that users set are varied for it;
// and so they are where some of them are fixed.
func (t *Target) variation(n int, usual []float64) []float64 {
	if t.HasSettings() {
		settings := t.settings(n)
		maps.Copy(settings, t.Fixed.given)
		return t.derived(settings, usual)
	}
	var g gen.Generator
	varied := slices.Clone(usual)
	for i, p := range t.Definition.Params {
		g.Place(gen.New(p.Name).Next(), n, i)
		if p.IsInt {
			integers := [...]float64{0, 1, 2, 3, 7, 127, 128, 255, 256, 300, 65535, 65537, 1 << 24, math.MaxInt32, -1, -2, -100, math.MinInt32, usual[i]}
			varied[i] = p.Nearest(integers[g.Below(len(integers))], usual[i])
			continue
		}
		fraction := float64(g.Uniform(0, 1))
		choices := [...]float64{usual[i], usual[i], usual[i] * (0.5 + fraction), -usual[i], fraction, 1 - fraction*0x1p-6, 1, 0, 1e-40, 3e7 * (1 + fraction), -fraction}
		varied[i] = p.Nearest(choices[g.Below(len(choices))], usual[i])
		if math.Abs(varied[i]) < 0x1p-126 && t.Flushes {
			varied[i] = p.Nearest(0, usual[i]) // as the kernel takes it, or as usual if it may not be 0
		}
	}
	return varied
}

// HasSettings reports whether the parameters that users set are varied.
func (t *Target) HasSettings() bool {
	return t.Operation != nil && t.Operation.Settings != nil && (!t.IsBits || len(t.Fixed.settings) > 0)
}

// derived returns the definition's parameters for given parameters of users. Parameters that users
// do not set, or that cannot be set together, have their usual values.
func (t *Target) derived(given engine.Params, usual []float64) []float64 {
	params, err := t.derive(given, usual)
	if err != nil {
		return slices.Clone(usual)
	}
	return params
}

// derive is like derived, and returns an error for parameters that cannot be set together.
func (t *Target) derive(given engine.Params, usual []float64) ([]float64, error) {
	given = maps.Clone(given)
	for i, p := range t.Definition.Params {
		if _, isSet := given[p.Name]; p.IsInt && !isSet {
			given[p.Name] = usual[i]
		}
	}
	derived, err := t.Operation.Derive(t.Definition, given)
	if err != nil {
		return nil, err
	}
	var params []float64
	for _, p := range t.Definition.Params {
		params = append(params, derived[p.Name])
	}
	return params, nil
}

// settings returns a variation of the parameters that Operation.Derive takes, or nil if the
// operation has none.
func (t *Target) settings(variation int) engine.Params {
	if t.Operation == nil || t.Operation.Settings == nil {
		return nil
	}
	var g gen.Generator
	g.Place(gen.New(t.Definition.Name).Next(), variation, 0)
	return t.Operation.Settings(&g)
}
