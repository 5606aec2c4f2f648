package verify

import "tokitai/verify/cases"

// FixableParams lists the parameters of the target's operation that [Target.Fix] takes: those that
// select the definition, those that the definition has, and those from which its own are derived.
func (t *Target) FixableParams() []string { return t.parameters().FixableParams() }

// Fix returns the target with one value for each of the given parameters in every case. They are
// parameters of the operation, such as eps or p and k of gemm.zpk, as text; those that are not
// among [Target.FixableParams] are ignored. It returns nil if a parameter selects another
// definition of the operation, and an error for a value that is not allowed. Parameters that were
// fixed before are not kept.
func (t *Target) Fix(given map[string]string) (*Target, error) {
	unfixed := t.parameters()
	made, err := unfixed.Fix(given)
	switch {
	case err != nil || made == nil:
		return nil, err
	case made == unfixed:
		return t, nil
	}
	fixed := t.Under(t.Lowering)
	fixed.Operation, fixed.Definition, fixed.fixed = made.Operation, made.Definition, made.Fixed
	return fixed, nil
}

// parameters returns as much of the target as its parameters depend on, none of them fixed.
func (t *Target) parameters() *cases.Target {
	return cases.New(cases.Facts{Operation: t.Operation, Definition: t.Definition})
}
