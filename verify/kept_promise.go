package verify

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"tokitai/evidence"
	"tokitai/promise"
	"tokitai/verify/cases"
)

// terms returns what the target promises and declares, as reports state it.
func (t *Target) terms() evidence.Terms {
	l := t.Lowering
	return evidence.Terms{
		Promise: t.Promised().String(), Profile: l.Promise.Declares.Profile, Omitted: l.Promise.Declares.Omits,
		Declared: promise.Format(l.Promise.Declares.WithFunctions(t.Definition, l.Promise.FunctionULP), l.Promise.Order),
	}
}

// checkDeclared returns an error for declarations that make no sense for the definition.
func (t *Target) checkDeclared() error {
	l := t.Lowering
	if err := l.Promise.Order.Check(); err != nil {
		return err
	}
	var formulas []string
	if t.Operation != nil {
		formulas = t.Operation.FormulasOf(t.Definition)
	}
	return l.Promise.Declares.Check(t.Definition, formulas)
}

// setTerms reports how the kernel kept its promise, from the results of all cases.
func (s *verification) setTerms(r *evidence.Report, total *judgement) {
	r.Terms = s.t.terms()
	if a := &total.AllClose; a.N > 0 {
		r.MeanAllClose, r.MedianAllClose = new(a.Sum/float64(a.N)), new(a.median())
	}
	if own := &total.Own; own.Elements > 0 {
		r.Own = &evidence.Errors{Misrounded: new(float64(own.Misrounded) / float64(own.Elements))}
		if own.WorstError.IsSeen {
			r.Own.WorstErrorULP = new(own.WorstError.Value)
		}
		if own.WorstShare.IsSeen {
			r.Own.WorstErrorShare = new(own.WorstShare.Value)
		}
	}
	switch a := &total.Accuracy; {
	case a.Lost > 0 || a.WorstShare.IsSeen && a.WorstShare.Value > 1:
		r.Accurate = evidence.No
	case a.WorstShare.IsSeen:
		r.Accurate = evidence.Yes
	default:
		r.Accurate = evidence.Open
	}
	s.setDecided(r)
	r.Heights = s.heights()
	for _, name := range slices.Sorted(maps.Keys(total.Departures)) {
		c := evidence.Departure{Clause: name, Outputs: total.Departures[name], IsWaived: slices.Contains(s.o.Waive, name)}
		for i := range s.t.Operation.Clauses {
			if clause := &s.t.Operation.Clauses[i]; clause.Name() == name {
				c.Text = clause.Text()
			}
		}
		r.Clauses = append(r.Clauses, c)
	}
	for _, a := range s.t.allowances() {
		r.Allowances = append(r.Allowances, evidence.Allowance{Text: a.Text, Outputs: total.Allowed[a.Text]})
	}
}

// setDecided counts the decided elements of each output: on the operation's own kinds of data, in
// their own sizes; if it has none, on pattern normal; if only one case is run, on that case.
func (s *verification) setDecided(r *evidence.Report) {
	if s.t.Promised() == promise.Bits || s.o.OnlyInvariance {
		return
	}
	own, all := &judgement{}, &judgement{}
	for _, c := range s.done {
		all.addTallies(c.Found.Outputs)
		if c.IsOwnData || len(s.done) == 1 {
			own.addTallies(c.Found.Outputs)
		}
	}
	for i := range s.t.Definition.Operands {
		if !s.t.isJudged(i) {
			continue
		}
		name := s.t.Definition.Operands[i].Name
		o, a := own.output(name), all.output(name)
		d := evidence.Decided{Output: name, Known: o.Known, Decided: o.Decided, Of: a.Known, OfThem: a.Decided}
		if s.t.Promised() == promise.Stable {
			d.Needed = leastDecided
		}
		for _, z := range []*tally{o, a} {
			if z.Known > 0 {
				d.Share = max(d.Share, float64(z.Decided)/float64(z.Known))
			}
		}
		r.Decided = append(r.Decided, d)
	}
}

// isOwnData reports whether a case has one of the operation's own kinds of data in its own
// size or, if the operation has none, pattern normal.
func (t *Target) isOwnData(c *cases.Case) bool {
	if len(t.Cases().Data()) == 0 {
		return c.Check == "" && c.Pattern == "normal"
	}
	return c.IsStatistics
}

// tooFew returns why too few outputs are decided, or "".
func tooFew(r *evidence.Report) string {
	var reasons []string
	for _, d := range r.Decided {
		if d.Known > 0 && d.Share < d.Needed || (d.Known == 0 || d.OfThem == 0) && len(r.CaseList) > 1 {
			reasons = append(reasons, fmt.Sprintf("%s: the sets of %d of %d outputs are small enough to say something (%.3g %%, want at least %g %%)", d.Output, d.Decided, d.Known, 100*d.Share, 100*max(d.Needed, 0.01)))
		}
	}
	if reasons == nil {
		return ""
	}
	return "no output is wrong, but too many could be anything: " + strings.Join(reasons, "; ")
}

// heights returns the heights of sums that were inferred, by powers of two of their lengths.
func (s *verification) heights() []evidence.Height {
	found := map[int]*evidence.Height{}
	values := map[int]float64{}
	for _, c := range s.done {
		for _, t := range c.Found.Outputs {
			if t.Length < 2 || t.Known == 0 {
				continue
			}
			group := bits.Len(uint(t.Length - 1))
			h := found[group]
			if h == nil {
				h = &evidence.Height{LeastLength: t.Length}
				found[group] = h
			}
			h.LeastLength, h.MostLength = min(h.LeastLength, t.Length), max(h.MostLength, t.Length)
			h.Height, h.Share = max(h.Height, t.Height), max(h.Share, float64(t.Height)/float64(t.Length-1))
			h.Outputs += t.Known
			values[group] += t.Values
		}
	}
	var list []evidence.Height
	for _, group := range slices.Sorted(maps.Keys(found)) {
		h := *found[group]
		h.MeanValues = values[group] / float64(h.Outputs)
		list = append(list, h)
	}
	return list
}

// termClaims returns what a report of a bounded kernel does not claim.
func (s *verification) termClaims(r *evidence.Report) (nonClaims []string) {
	for _, name := range r.Omitted {
		nonClaims = append(nonClaims, fmt.Sprintf("output %s was not judged: the kernel is declared not to write it", name))
	}
	for _, c := range r.Clauses {
		if c.IsWaived {
			nonClaims = append(nonClaims, fmt.Sprintf("%d outputs differ from clause %s, which was waived: %s", c.Outputs, c.Clause, c.Text))
		}
	}
	for _, a := range r.Allowances {
		if a.Outputs > 0 {
			nonClaims = append(nonClaims, fmt.Sprintf("%d outputs are admissible only because profile %s allows a known error, %s", a.Outputs, r.Profile, a.Text))
		}
	}
	for _, d := range r.Decided {
		if d.OfThem < d.Of {
			nonClaims = append(nonClaims, fmt.Sprintf("%d of %d known values of %s have more admissible values than say something", d.Of-d.OfThem, d.Of, d.Output))
		}
	}
	return nonClaims
}

// flags returns the flags that give the promise, declarations and waived clauses.
func (s *verification) flags() string {
	l, text := s.t.Lowering, ""
	if l.Promise.Name != promise.Default {
		text += " --promise " + l.Promise.Name.String()
	}
	if declared := promise.Format(l.Promise.Declares, l.Promise.Order); declared != "" {
		text += " --declare '" + declared + "'"
	}
	for _, name := range s.o.Waive {
		text += " --waive " + name
	}
	switch {
	case s.o.OnlyInvariance:
		text += " --invariance-only"
	case s.o.Invariance && s.o.Case == "":
		text += " --invariance"
	}
	return text
}
