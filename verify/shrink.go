package verify

import (
	"context"
	"slices"

	"tokitai/evidence"
	"tokitai/trial"
	"tokitai/verify/cases"
)

// shrunk is a failure and the smallest case that was found for it.
type shrunk struct {
	c        *cases.Case
	original *cases.Case
	found    *finding
	isAlone  bool          // it fails by itself, on a kernel compiled afresh
	where    string        // which elements are wrong in the original case
	origin   *evidence.Map // the same as a picture; nil if it is not known
	culprit  culprit
	state    string // why the case fails after other calls; "" if it fails alone
}

// study finds out more about the first failure: the smallest case, unless one was asked for,
// the terms that are wrong, and what the failing cases have in common.
func (s *verification) study(ctx context.Context) {
	f := s.first
	if s.o.Case != "" {
		s.shrunk = &shrunk{c: f.c, original: f.c, found: f.found, isAlone: true, where: s.t.load(f.c, s.o.Seed).where(f.found)}
	} else {
		s.shrunk = s.shrink(ctx, f, false)
		if !s.shrunk.isAlone && !f.found.IsCause {
			s.findSequence(ctx, f)
		}
		if s.shrunk.found.When == "" {
			s.whenFails = s.when(ctx)
		}
	}
	s.shrunk.culprit = s.culprit(ctx, s.shrunk)
	s.profiles = s.admittedBy(ctx)
}

// mostAttempts limits the search for a smaller case.
const mostAttempts = 120

// shrink searches for a smaller case that fails too. Every attempt compiles the kernel
// again, so that nothing depends on earlier runs. When the context ends, shrink returns the
// smallest case so far. With isFresh, every attempt has a process of its own, if the kernel has one.
func (s *verification) shrink(ctx context.Context, f *failedCase, isFresh bool) *shrunk {
	best := &shrunk{c: f.c, original: f.c, found: f.found}
	first := s.afresh(ctx, f.c)
	if first == nil {
		return best
	}
	best.isAlone = true
	if !s.hasFailed(first.found) { // chance: the report is about what failed in the verification
		return best
	}
	best.c, best.original, best.found = first.c, first.c, first.found
	l := s.t.load(first.c, s.o.Seed)
	best.where, best.origin = l.where(first.found), l.mapOf(first.found, first.c.Name(s.t.Cases()))
	if first.found.IsHang || first.found.Tier == evidence.Statistics { // smaller samples say less
		return best
	}
	best.c = s.t.pinned(first.c, s.o.Seed)
	isSame := func(f *finding) bool {
		return f.IsCause == best.found.IsCause && (f.Clause == "") == (best.found.Clause == "") && !f.IsHang && s.hasFailed(f)
	}
	attempts := 0
	try := func(c *cases.Case) bool {
		if attempts++; attempts > mostAttempts || ctx.Err() != nil {
			return false
		}
		if only := s.o.Restrict; len(only) > 0 && (!only.Fit(c) || c.Name(s.t.Cases()) == best.c.Name(s.t.Cases())) { // rounded to what it was
			return false
		}
		failed := failedIn(s.attempts(ctx, isFresh, c))
		if failed == nil || !isSame(failed.found) {
			return false
		}
		best.c, best.found = failed.c, failed.found
		return true
	}
	for i := range best.c.Sizes { // most faults that need a long axis need it from some length on
		for passes := 0; best.c.Sizes[i].N-passes > 8; {
			c := best.c.Clone()
			middle := (passes + c.Sizes[i].N) / 2
			if c.Sizes[i].N = middle; !try(c) {
				passes = middle
			}
		}
	}
	for isSmaller := true; isSmaller && attempts <= mostAttempts && ctx.Err() == nil; {
		isSmaller = false
		for _, c := range s.smaller(best) {
			if try(c) {
				isSmaller = true
				break
			}
		}
	}
	if best.c.Guards == trial.GuardsOfBytes.String() { // any others do, as far as the fault goes
		unpinned := best.c.Clone()
		unpinned.Guards = f.c.Guards
		attempts = 0
		try(unpinned)
	}
	if s.t.Lowering.Renews && best.c.Name(s.t.Cases()) != first.c.Name(s.t.Cases()) && ctx.Err() == nil {
		// Kernels that are slow to start share processes: a kernel that keeps state may have failed
		// because of the attempts before.
		if confirmed := s.afresh(ctx, best.c); confirmed == nil || !isSame(confirmed.found) {
			best.c, best.found = first.c, first.found
		} else {
			best.c, best.found = confirmed.c, confirmed.found
		}
	}
	return best
}

// hasFailed reports whether the verification failed in the tier of a finding.
func (s *verification) hasFailed(f *finding) bool {
	t := s.tiers[f.Tier]
	return f.IsCause || t != nil && t.Failed > 0
}

// alone runs a case on a device and a kernel of its own. It returns the failure with the case that
// ran, or nil.
func (s *verification) alone(ctx context.Context, c *cases.Case) *failedCase {
	return failedIn(s.attempts(ctx, false, c))
}

// afresh is alone in a process that has computed nothing, if the kernel has one.
func (s *verification) afresh(ctx context.Context, c *cases.Case) *failedCase {
	return failedIn(s.attempts(ctx, true, c))
}

func failedIn(e *caseRun) *failedCase {
	if e == nil || e.r.First == nil {
		return nil
	}
	return &failedCase{e.c, e.r.First}
}

// attempts runs cases one after the other on a device and a kernel of their own, in a process of
// their own if isFresh. It returns the last run, or nil if there is none.
func (s *verification) attempts(ctx context.Context, isFresh bool, list ...*cases.Case) (last *caseRun) {
	b, err := s.t.newBench(ctx, s.o, 0)
	if err != nil {
		return nil
	}
	b.isFresh = isFresh
	defer b.close()
	o := *s.o
	o.InterpretAll = true
	own := &verification{t: s.t, o: &o, bench: b}
	for _, c := range list {
		if last, err = own.attempt(ctx, c); err != nil {
			return nil
		}
	}
	return last
}

// smaller lists cases to try next, the smallest first.
func (s *verification) smaller(best *shrunk) []*cases.Case {
	var list []*cases.Case
	add := func(change func(c *cases.Case)) {
		c := best.c.Clone()
		change(c)
		list = append(list, c)
	}
	for i, size := range best.c.Sizes {
		if size.N == 1 {
			continue
		}
		if at, ok := s.t.along(best.c, best.found, size.Letter); ok {
			if at > 0 || size.N > 1 {
				add(func(c *cases.Case) { c.Sizes[i] = cases.Size{Letter: size.Letter, N: 1, From: size.From + at} })
			}
			if at > 0 && at+1 < size.N {
				add(func(c *cases.Case) { c.Sizes[i] = cases.Size{Letter: size.Letter, N: at + 1, From: size.From} })
			}
		}
		add(func(c *cases.Case) { c.Sizes[i] = cases.Size{Letter: size.Letter, N: 1, From: size.From} })
		add(func(c *cases.Case) {
			c.Sizes[i] = cases.Size{Letter: size.Letter, N: (size.N + 1) / 2, From: size.From}
		})
		if size.N > 4 {
			add(func(c *cases.Case) {
				c.Sizes[i] = cases.Size{Letter: size.Letter, N: size.N - size.N/4, From: size.From}
			})
		}
		if size.N > 2 {
			add(func(c *cases.Case) { c.Sizes[i] = cases.Size{Letter: size.Letter, N: size.N - 1, From: size.From} })
		}
		if size.From > 0 {
			add(func(c *cases.Case) { c.Sizes[i].From = 0 })
		}
	}
	if best.c.Params > 0 {
		add(func(c *cases.Case) { c.Params = 0 })
	}
	if best.c.Gap > 0 {
		add(func(c *cases.Case) { c.Gap = 0 })
	}
	if best.c.Far > 0 {
		add(func(c *cases.Case) { c.Far = 0 })
	}
	if best.c.Uneven > 0 {
		add(func(c *cases.Case) { c.Uneven = 0 })
	}
	if best.c.Offset > 0 {
		add(func(c *cases.Case) { c.Offset = 0 })
	}
	if best.c.InPlace != "" {
		add(func(c *cases.Case) { c.InPlace = "" })
	}
	if plain := trial.GuardsOfBytes.String(); best.c.Guards != plain {
		add(func(c *cases.Case) { c.Guards = plain })
	}
	if usual := s.t.formats()[0]; !slices.Equal(best.c.Formats, usual) {
		add(func(c *cases.Case) { c.Formats = usual })
	}
	for _, simpler := range []string{"ones", "integers", "normal"} {
		if best.c.Pattern == simpler {
			break
		}
		if s.t.Cases().Pattern(simpler) != nil {
			add(func(c *cases.Case) { c.Pattern, c.IsAccuracy, c.IsStatistics = simpler, false, false })
		}
	}
	return list
}

// along returns the index of a finding's element on a letter's axis.
func (t *Target) along(c *cases.Case, f *finding, letter string) (int, bool) {
	if f == nil || f.Operand < 0 || f.Row < 0 {
		return 0, false
	}
	o := &t.Definition.Operands[f.Operand]
	for k, l := range o.Dims {
		if l == letter {
			if isColumn(o, k) {
				return f.Col, true
			}
			per := 1
			for _, inner := range o.Dims[k+1 : max(k+1, len(o.Dims)-1)] {
				n, _ := c.Size(inner)
				per *= n
			}
			n, _ := c.Size(l)
			return f.Row / per % max(n, 1), true
		}
	}
	return 0, false
}
