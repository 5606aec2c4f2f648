package verify

import (
	"context"
	"fmt"
	"slices"
	"tokitai/verify/cases"
)

// A kernel that keeps state, such as a cache by shape, fails in a case because of other calls before
// it. The case passes alone, so findSequence looks for calls that show the fault by themselves.

// stateChecks are the checks that make several calls in one process and judge the later ones, the
// most telling first.
var stateChecks = []string{"late-change", "repeat", "between", "endure"}

// mostSequences limits the pairs of cases that are tried.
const mostSequences = 24

// findSequence looks for the shortest sequence of calls with the fault of a case that passes alone:
// a check that makes these calls itself, which has a replay, or else an earlier case and this one.
func (s *verification) findSequence(ctx context.Context, f *failedCase) {
	passes := fmt.Sprintf("the kernel keeps state: case %s passes in a fresh process, and fails after other calls", f.c.Name(s.t.Cases()))
	for _, name := range stateChecks {
		c := f.c.Clone()
		c.Check, c.IsAccuracy, c.IsStatistics = name, false, false
		if c.Far > 0 || s.t.checkNamed(name) == nil || s.o.OnlyInvariance && !s.t.checkNamed(name).NeedsNoAnswer() {
			continue
		}
		e := s.attempts(ctx, true, c)
		failed := failedIn(e)
		if failed == nil || failed.found.IsCause || !e.r.HasOutputs {
			continue
		}
		s.total++
		s.take(e.c, e.r)
		if small := s.shrink(ctx, failed, true); small.isAlone {
			small.state = fmt.Sprintf("%s; check %s makes such calls, one after another: the first is right, and a later one is not", passes, name)
			s.shrunk = small
			return
		}
	}
	for _, before := range s.before(f.c) {
		if ctx.Err() != nil {
			return
		}
		if failed := failedIn(s.attempts(ctx, true, before, f.c)); failed != nil && !failed.found.IsCause && failed.c.Name(s.t.Cases()) == f.c.Name(s.t.Cases()) {
			s.shrunk.found = failed.found
			s.shrunk.state = fmt.Sprintf("%s; the failing sequence is case %s and then case %s, in one process: no single case shows it, so the replay runs all of them", passes, before.Name(s.t.Cases()), f.c.Name(s.t.Cases()))
			return
		}
	}
}

// before lists cases that ran before another: those of the same sizes, then one of each other size,
// the last first.
func (s *verification) before(c *cases.Case) (list []*cases.Case) {
	var earlier []*cases.Case
	for i := range s.done {
		if s.done[i].Name == c.Name(s.t.Cases()) {
			break
		}
		if e, err := s.t.Cases().Parse(s.done[i].Name); err == nil {
			earlier = append(earlier, e)
		}
	}
	slices.Reverse(earlier)
	add := func(is func(e *cases.Case) bool) {
		for _, e := range earlier {
			if len(list) < mostSequences && is(e) && !slices.Contains(list, e) {
				list = append(list, e)
			}
		}
	}
	add(func(e *cases.Case) bool { return slices.Equal(e.Sizes, c.Sizes) })
	add(func(e *cases.Case) bool {
		return !slices.ContainsFunc(list, func(x *cases.Case) bool { return slices.Equal(x.Sizes, e.Sizes) })
	})
	return list
}
