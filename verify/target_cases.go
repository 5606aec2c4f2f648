package verify

// source returns what makes the target's cases.
func (t *Target) source() *Source {
	return t.sourceOnce.get(func() *Source {
		promised := t.Lowering.Promise
		return New(Facts{
			Operation: t.Operation, Definition: t.Definition, DType: t.DType, Formats: t.formats(),
			Grain: t.Lowering.Grain, IsBits: promised.IsBits(), Flushes: promised.Declares.Flushes(), Fixed: t.fixed,
			Checks: func() []Check {
				var list []Check
				for _, k := range t.allChecks() {
					list = append(list, k.Check)
				}
				return list
			},
			Values: func(key string, n int, build func() []float32) []float32 { return t.shared.valuesOf(key, n, build) },
		})
	})
}

// adjust changes which cases are asked for; tests replace it.
var adjust = func(*Request) {}

// request says which cases the options ask for.
func (o *Options) request(t *Target) *Request {
	r := &Request{
		Level: o.Level, Seed: o.Seed, Shapes: o.Shapes, Restrict: o.Restrict,
		Invariance: o.Invariance, OnlyInvariance: o.OnlyInvariance, HasVariants: len(t.Variants) > 0,
		IsTimed: o.Budget > 0, WorkBudget: o.WorkBudget,
	}
	adjust(r)
	return r
}

// CheckCase returns an *UnknownError if the target has no case of that name.
func (t *Target) CheckCase(name string) error {
	_, err := t.source().parseCase(name)
	return err
}

// CheckShape returns an error unless a shape gives every letter of the target's definition
// a length of at least 1, and no other letter.
func (t *Target) CheckShape(s Shape) error { return t.source().CheckShape(s) }

// CheckRestrictions returns an error for conditions on sizes that the definition does not have, or
// that no size satisfies.
func (t *Target) CheckRestrictions(list Restrictions) error {
	return t.source().CheckRestrictions(list)
}
