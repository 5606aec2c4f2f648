package verify

import "tokitai/verify/cases"

// Cases returns what makes the target's cases.
func (t *Target) Cases() *cases.Target {
	return t.caseTarget.get(func() *cases.Target {
		promised := t.Lowering.Promise
		return cases.New(cases.Facts{
			Operation: t.Operation, Definition: t.Definition, DType: t.DType, Formats: t.formats(),
			Grain: t.Lowering.Grain, IsBits: promised.IsBits(), Flushes: promised.Declares.Flushes(), Fixed: t.fixed,
			Checks: func() []cases.Check {
				var list []cases.Check
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
var adjust = func(*cases.Request) {}

// request says which cases the options ask for.
func (o *Options) request(t *Target) *cases.Request {
	r := &cases.Request{
		Level: o.Level, Seed: o.Seed, Shapes: o.Shapes, Restrict: o.Restrict,
		Invariance: o.Invariance, OnlyInvariance: o.OnlyInvariance, HasVariants: len(t.Variants) > 0,
		IsTimed: o.Budget > 0, WorkBudget: o.WorkBudget,
	}
	adjust(r)
	return r
}

// CheckCase returns an *UnknownError if the target has no case of that name.
func (t *Target) CheckCase(name string) error {
	_, err := t.Cases().Parse(name)
	return err
}

// CheckShape returns an error unless a shape gives every letter of the target's definition
// a length of at least 1, and no other letter.
func (t *Target) CheckShape(s Shape) error { return s.Check(t.Definition) }

// CheckRestrictions returns an error for conditions on sizes that the definition does not have, or
// that no size satisfies.
func (t *Target) CheckRestrictions(list Restrictions) error {
	return list.Check(t.Definition)
}

// The names that callers use of package cases.
type (
	// Level says how much is checked.
	Level = cases.Level

	// Shape is a length for each letter of a definition.
	Shape = cases.Shape

	// Restriction is a condition on one size that a kernel's author declares, such as C % 16 == 0.
	Restriction = cases.Restriction

	// Restrictions are conditions that hold together. A kernel that is declared for some shapes alone is
	// run on these.
	Restrictions = cases.Restrictions

	// UnknownError reports an unknown name.
	UnknownError = cases.UnknownError
)

// The levels, as package cases describes them.
const (
	Smoke      = cases.Smoke
	Quick      = cases.Quick
	Full       = cases.Full
	Exhaustive = cases.Exhaustive
)

// ParseLevel returns the level with the given name.
func ParseLevel(s string) (Level, error) { return cases.ParseLevel(s) }

// ParseShape parses a shape such as R=5,C=4096.
func ParseShape(text string) (Shape, error) { return cases.ParseShape(text) }

// ParseRestrictions parses conditions such as "C % 16 == 0 and R <= 64"; a comma means and.
func ParseRestrictions(text string) (Restrictions, error) { return cases.ParseRestrictions(text) }

// WorkBudgets divides an amount of work among verifications, given the work of each: every one gets
// the same amount, but for those that need less, whose rest the others share. 0 means no limit.
func WorkBudgets(total float64, works []float64) []float64 { return cases.WorkBudgets(total, works) }
