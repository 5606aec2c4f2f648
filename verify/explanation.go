package verify

import (
	"context"
	"slices"

	"tokitai/evidence"
	"tokitai/num"
	"tokitai/trial"
	"tokitai/verify/cases"
	"tokitai/verify/explain"
)

// when says what the failing cases have in common that the others do not, or how many there are.
// It returns "" if there is only one case. It runs further cases until the context ends.
func (s *verification) when(ctx context.Context) string {
	if s.shrunk != nil && s.shrunk.state != "" {
		return "" // it depends on earlier calls, which no property of a case shows
	}
	search := &explain.Search{
		Target: s.t.Cases(),
		Try: func(c *cases.Case) (fails, ok bool) {
			failed := s.alone(ctx, c)
			if ctx.Err() != nil || failed != nil && failed.found.IsCause { // it may hang, or refuse the size
				return false, false
			}
			return failed != nil, true
		},
		Inputs: func(c *cases.Case) []num.Array { return s.t.load(c, s.o.Seed).inputs() },
	}
	if s.shrunk != nil && s.shrunk.isAlone {
		search.Smallest = s.shrunk.c
	}
	return search.When(s.examples())
}

// examples returns the cases that were run. If the first runs of some cases fail, the further runs
// of checks add nothing; otherwise the examples are the cases with checks.
func (s *verification) examples() []*explain.Example {
	var plain, checks []*explain.Example
	for _, r := range s.done {
		c, err := s.t.Cases().Parse(r.Name)
		if err != nil || r.First != nil && r.First.IsCause {
			continue
		}
		e, k := &explain.Example{Case: c, Params: s.t.Cases().Params(c)}, &explain.Example{Case: c, Params: s.t.Cases().Params(c)}
		for name, tier := range r.Tiers {
			if isFailed := tier.Failed > 0; name == evidence.Relations || name == evidence.Invariance {
				k.Fails = k.Fails || isFailed
			} else {
				e.Fails = e.Fails || isFailed
			}
		}
		if plain = append(plain, e); c.Check != "" {
			checks = append(checks, k)
		}
	}
	if slices.ContainsFunc(plain, func(e *explain.Example) bool { return e.Fails }) {
		return plain
	}
	return checks
}

// where says which elements of a finding's output are wrong. It returns "" if that is not known, or
// if there is only one element.
func (l *loaded) where(f *finding) string {
	if f.Operand < 0 || f.Row < 0 || len(f.places) == 0 || len(f.places) >= mostPlaces {
		return ""
	}
	if l = l.callOf(f); l == nil {
		return ""
	}
	o, a := &l.target.Definition.Operands[f.Operand], l.array(f.Operand)
	places := slices.DeleteFunc(slices.Clone(f.places), func(p trial.Place) bool { return p.Operand != f.Operand })
	return explain.Where(o, a, places, func(row, col int) string { return place(o, a, row, col) })
}
