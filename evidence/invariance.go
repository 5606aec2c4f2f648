package evidence

import (
	"fmt"
	"slices"
)

// ScopeInvariance is the scope of a report for which no output was judged: properties of the
// results were checked, and what the kernel writes.
const ScopeInvariance = "invariance"

// Property is one that results should have whatever the right answer is: the same bits for a row
// alone and in a batch, or when a call is repeated.
type Property struct {
	Name   string `json:"name"` // rows, elements, reruns, memory, state, queues, callers or threads
	Text   string `json:"text"` // what it says
	Cases  int    `json:"cases"`
	Runs   int64  `json:"runs"`           // of the kernel, besides the first of each case
	Checks int64  `json:"checks"`         // outputs compared with those of another run
	Failed int    `json:"failed"`         // cases in which it does not hold
	Note   string `json:"note,omitempty"` // why it does not apply, or of which outputs it was not asked

	Counterexample *Pair `json:"counterexample,omitempty"` // the first
}

// Pair is an output that two runs of a kernel gave different bits.
type Pair struct {
	Case  string `json:"case"`
	Place string `json:"place"` // C[3,17], or C if the difference is not at one element
	Got   string `json:"got"`
	Want  string `json:"want"`           // what the other run gave
	Text  string `json:"text"`           // how the two runs differ
	When  string `json:"when,omitempty"` // which numbers of rows give the same bits
}

// PropertyNames is the closed list of properties, in the order of reports.
var PropertyNames = []string{"rows", "elements", "reruns", "memory", "state", "queues", "callers", "threads"}

// properties checks the properties of a report.
func (f *faults) properties(r *Report) {
	f.unless(r.Scope == "" || r.Scope == ScopeInvariance, "scope is %q, want %q or none", r.Scope, ScopeInvariance)
	f.unless(r.Scope == "" || len(r.Properties) > 0 && r.Coverage.Produced == 0, "scope is %s, with %d properties and %d outputs to be judged", r.Scope, len(r.Properties), r.Coverage.Produced)
	isFailed := false
	for i, p := range r.Properties {
		field := fmt.Sprintf("properties[%d]", i)
		oneOf(f, field+".name", p.Name, PropertyNames)
		f.unless(!slices.ContainsFunc(r.Properties[:i], func(o Property) bool { return o.Name == p.Name }), "%s.name is %q, that of an earlier property", field, p.Name)
		f.unless(p.Text != "", "%s.text is empty", field)
		f.unless(p.Cases > 0 || p.Note != "", "%s has neither cases nor a note that says why", field)
		f.unless(p.Failed <= p.Cases, "%s: %d failed of %d cases", field, p.Failed, p.Cases)
		f.unless((p.Failed > 0) == (p.Counterexample != nil), "%s: %d cases failed, and there is a counterexample: %v", field, p.Failed, p.Counterexample != nil)
		if c := p.Counterexample; c != nil {
			f.unless(hasCase(r, c.Case), "%s.counterexample.case is %q, which is not in case_list", field, c.Case)
			f.unless(c.Place != "" && c.Text != "", "%s.counterexample has place %q and text %q, want both", field, c.Place, c.Text)
		}
		isFailed = isFailed || p.Failed > 0
	}
	f.unless(!isFailed || slices.ContainsFunc(r.Tiers, failed), "a property failed, but no tier did")
}

// HonestAnswer returns what the report says about honesty. Where invariance was asked for, a
// kernel that fails in that alone is honest: its outputs are admissible, though not always the
// same. Where nothing was judged, nothing is known.
func (r *Summary) HonestAnswer() Answer {
	isOther := slices.ContainsFunc(r.Tiers, func(t Tier) bool { return failed(t) && t.Name != Invariance })
	switch {
	case r.Scope == ScopeInvariance && !isOther:
		return Open
	case len(r.Properties) > 0 && r.Verdict == Rejected && !isOther:
		return Yes
	}
	return HonestOf(r.Verdict)
}

// properties writes what became of each property.
func (p *page) properties(list []Property) {
	if len(list) == 0 {
		return
	}
	p.heading("Invariance")
	var rows [][]string
	for _, x := range list {
		result := "holds"
		switch {
		case x.Failed > 0:
			result = "**differs**"
		case x.Cases == 0:
			result = "–"
		}
		rows = append(rows, []string{escape(x.Name), result, fmt.Sprint(x.Cases), fmt.Sprint(x.Runs), fmt.Sprint(x.Checks), escape(x.about())})
	}
	p.table([]string{"property", "", "cases:", "runs:", "outputs compared:", "what it says"}, rows)
}

// about returns what a property says, and what was found.
func (p *Property) about() string {
	text := p.Text
	if p.Note != "" {
		text += "; " + p.Note
	}
	if c := p.Counterexample; c != nil {
		text += ". Not so: " + c.String()
	}
	return text
}

// String returns the pair in a sentence.
func (p *Pair) String() string {
	text := fmt.Sprintf("%s of %s differs %s", p.Place, p.Case, p.Text)
	if p.Got != "" {
		text += fmt.Sprintf(": %s and %s", p.Got, p.Want)
	}
	if p.When != "" {
		text += "; " + p.When
	}
	return text
}
