package verify

import (
	"fmt"
	"maps"
	"slices"

	"tokitai/evidence"
	"tokitai/op"
)

// A clause of the contract says how special and boundary values are handled. If a wrong element is
// covered by such a clause, it counts as a departure from the clause, which can be waived. Any other
// wrong element is an error of arithmetic, which cannot be waived.

// coverage holds a clause, and which elements of a tile it covers.
type coverage struct {
	clause *op.Clause
	has    func(operand, row, col int) bool
}

// coverages returns the clauses that can be waived, with the elements that they cover.
func (v *view) coverages() []coverage {
	list := []coverage{}
	if v.target.Operation == nil {
		return list
	}
	for i := range v.target.Operation.Clauses {
		if c := &v.target.Operation.Clauses[i]; c.Definition == v.target.Definition && c.Covers != nil {
			list = append(list, coverage{c, c.Covers(v.call())})
		}
	}
	return list
}

// outside counts an element outside of its set: as waived if a waived clause covers it, otherwise
// as a mismatch.
func (v *view) outside(j *judgement, s *set, operand, row, col int, x uint64) {
	if v.covers == nil {
		v.covers = v.coverages()
	}
	var clause *op.Clause
	for _, c := range v.covers {
		if !c.has(operand, row, col) {
			continue
		}
		if clause = c.clause; slices.Contains(v.waived, clause.Name()) {
			addCounts(&j.Departures, map[string]int64{clause.Name(): 1})
			j.Waived++
			return
		}
	}
	j.Mismatches++
	j.Misses.count(s, v.got[operand].DType, x)
	if s.isOnGrid {
		j.OffGrid++
	}
	j.note(v, operand, row, col)
	if clause != nil {
		addCounts(&j.Departures, map[string]int64{clause.Name(): 1})
	}
	if j.first != nil && (j.first.Clause == "" || clause != nil) {
		return
	}
	if j.first = v.finding(operand, row, col, x, s); clause != nil {
		j.first.Clause, j.first.Message = clause.Name(), fmt.Sprintf("from clause %s: %s", clause.Name(), clause.Text())
	}
}

// allowed counts an element that only an allowance of the profile admits.
func (v *view) allowed(j *judgement, operand, row, col int) {
	for _, a := range v.target.allowances() {
		if v.target.Definition.Operand(a.Output) == operand {
			addCounts(&j.Allowed, map[string]int64{a.Text: 1})
		}
	}
}

// checkWaived returns an error for a clause that the operation does not have, or that cannot
// be waived.
func (t *Target) checkWaived(names []string) error {
	for _, name := range names {
		if t.Operation == nil {
			return fmt.Errorf("verify: %s: clause %q cannot be waived: the target has no operation, and so no clauses", t.Definition.Name, name)
		}
		if _, err := t.Operation.ClauseOf(name); err != nil {
			return fmt.Errorf("verify: %w", err)
		}
	}
	return nil
}

// isWorse reports whether f says more about a kernel than g: a wrong result says more than an
// error, and wrong arithmetic more than a departure from a clause.
func (f *finding) isWorse(g *finding) bool {
	if f.IsCause || g.IsCause {
		return g.IsCause && !f.IsCause
	}
	return f.Clause == "" && g.Clause != ""
}

// waivable says how to waive all mismatches, if each of them is a departure from a clause. It
// returns "" if some are not.
func (s *verification) waivable() string {
	var mismatches int64
	departures := map[string]int64{}
	for _, c := range s.done {
		for _, t := range c.Tiers {
			mismatches += t.Failed
		}
		mismatches -= c.Tiers[evidence.Grid].Failed // which the main tier counts too
		for name, n := range c.Found.Departures {
			if !slices.Contains(s.o.Waive, name) {
				departures[name] += n
			}
		}
	}
	names, options := slices.Sorted(maps.Keys(departures)), ""
	for _, name := range names {
		mismatches -= departures[name]
		options += " --waive " + name
	}
	if len(names) == 0 || mismatches > 0 {
		return ""
	}
	return "every mismatch is a difference from a clause of the contract, none is one of arithmetic; to leave them out:" + options
}
