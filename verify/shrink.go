package verify

import (
	"context"
	"slices"

	"tokitai/evidence"
	"tokitai/trial"
)

// shrunk is a failure and the smallest case that was found for it.
type shrunk struct {
	c        *Case
	original *Case
	found    *finding
	isAlone  bool          // it fails by itself, on a kernel compiled afresh
	where    string        // which elements are wrong in the original case
	origin   *evidence.Map // the same as a picture; nil if it is not known
	culprit  culprit
}

// study finds out more about the first failure: the smallest case, unless one was asked for,
// the terms that are wrong, and what the failing cases have in common.
func (s *verification) study(ctx context.Context) {
	f := s.first
	if s.o.Case != "" {
		s.shrunk = &shrunk{c: f.c, original: f.c, found: f.found, isAlone: true, where: s.t.load(f.c, s.o.Seed).where(f.found)}
	} else {
		s.shrunk = s.shrink(ctx, f)
		if f.found.When == "" {
			s.whenFails = s.when(ctx)
		}
	}
	s.shrunk.culprit = s.culprit(ctx, s.shrunk)
}

// mostAttempts limits the search for a smaller case.
const mostAttempts = 120

// shrink searches for a smaller case that fails too. Every attempt compiles the kernel
// again, so that nothing depends on earlier runs. When the context ends, shrink returns the
// smallest case so far.
func (s *verification) shrink(ctx context.Context, f *failedCase) *shrunk {
	best := &shrunk{c: f.c, original: f.c, found: f.found}
	found := s.alone(ctx, f.c)
	if found == nil {
		return best
	}
	best.found, best.isAlone = found, true
	l := s.t.load(f.c, s.o.Seed)
	best.where, best.origin = l.where(found), l.mapOf(found, f.c.name(s.t))
	if found.IsHang || found.Tier == evidence.Statistics { // smaller samples say less
		return best
	}
	best.c = f.c.pinned(s.t, s.o.Seed)
	attempts := 0
	try := func(c *Case) bool {
		if attempts++; attempts > mostAttempts || ctx.Err() != nil {
			return false
		}
		if only := s.o.Restrict; len(only) > 0 && (!only.fit(c) || c.name(s.t) == best.c.name(s.t)) { // rounded to what it was
			return false
		}
		if found := s.alone(ctx, c); found != nil && found.IsCause == best.found.IsCause && (found.Clause == "") == (best.found.Clause == "") && !found.IsHang {
			best.c, best.found = c, found
			return true
		}
		return false
	}
	for i := range best.c.Sizes { // most faults that need a long axis need it from some length on
		for passes := 0; best.c.Sizes[i].N-passes > 8; {
			c := best.c.clone()
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
		unpinned := best.c.clone()
		unpinned.Guards = f.c.Guards
		attempts = 0
		try(unpinned)
	}
	return best
}

// alone runs a case on a device and a kernel of its own and returns the failure, or nil.
func (s *verification) alone(ctx context.Context, c *Case) *finding {
	b, err := s.t.newBench(ctx, s.o, 0)
	if err != nil {
		return nil
	}
	defer b.close()
	o := *s.o
	o.InterpretAll = true
	fresh := &verification{t: s.t, o: &o, bench: b}
	r, err := fresh.attempt(ctx, c)
	if err != nil {
		return nil
	}
	return r.First
}

// smaller lists cases to try next, the smallest first.
func (s *verification) smaller(best *shrunk) []*Case {
	var list []*Case
	add := func(change func(c *Case)) {
		c := best.c.clone()
		change(c)
		list = append(list, c)
	}
	for i, size := range best.c.Sizes {
		if size.N == 1 {
			continue
		}
		if at, ok := s.t.along(best.c, best.found, size.Letter); ok {
			if at > 0 || size.N > 1 {
				add(func(c *Case) { c.Sizes[i] = Size{size.Letter, 1, size.From + at} })
			}
			if at > 0 && at+1 < size.N {
				add(func(c *Case) { c.Sizes[i] = Size{size.Letter, at + 1, size.From} })
			}
		}
		add(func(c *Case) { c.Sizes[i] = Size{size.Letter, 1, size.From} })
		add(func(c *Case) { c.Sizes[i] = Size{size.Letter, (size.N + 1) / 2, size.From} })
		if size.N > 4 {
			add(func(c *Case) { c.Sizes[i] = Size{size.Letter, size.N - size.N/4, size.From} })
		}
		if size.N > 2 {
			add(func(c *Case) { c.Sizes[i] = Size{size.Letter, size.N - 1, size.From} })
		}
		if size.From > 0 {
			add(func(c *Case) { c.Sizes[i].From = 0 })
		}
	}
	if best.c.Params > 0 {
		add(func(c *Case) { c.Params = 0 })
	}
	if best.c.Gap > 0 {
		add(func(c *Case) { c.Gap = 0 })
	}
	if best.c.Far > 0 {
		add(func(c *Case) { c.Far = 0 })
	}
	if best.c.Uneven > 0 {
		add(func(c *Case) { c.Uneven = 0 })
	}
	if best.c.Offset > 0 {
		add(func(c *Case) { c.Offset = 0 })
	}
	if best.c.InPlace != "" {
		add(func(c *Case) { c.InPlace = "" })
	}
	if plain := trial.GuardsOfBytes.String(); best.c.Guards != plain {
		add(func(c *Case) { c.Guards = plain })
	}
	if usual := s.t.formats()[0]; !slices.Equal(best.c.Formats, usual) {
		add(func(c *Case) { c.Formats = usual })
	}
	for _, simpler := range []string{"ones", "integers", "normal"} {
		if best.c.Pattern == simpler {
			break
		}
		if s.t.pattern(simpler) != nil {
			add(func(c *Case) { c.Pattern, c.isAccuracy, c.isStatistics = simpler, false, false })
		}
	}
	return list
}

// along returns the index of a finding's element on a letter's axis.
func (t *Target) along(c *Case, f *finding, letter string) (int, bool) {
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
				n, _ := c.size(inner)
				per *= n
			}
			n, _ := c.size(l)
			return f.Row / per % max(n, 1), true
		}
	}
	return 0, false
}
