package verify

import (
	"fmt"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/verify/cases"
)

// With Options.Invariance, results are also checked for properties that need no reference: a row
// has the same bits as alone, and a call the same bits as before. Kernels that promise bits have
// most of them anyway. For a kernel that leaves its order of sums open, they show whether the order
// depends on anything but the lengths of the sums.
//
// Every property has checks, and these have cases, such as rows-M:normal/M=65,K=512,N=64. Some
// checks are part of every verification (check.go, check_callers.go) and count here too.

// Variant is another way to run a target's kernel, with the same bits: in a fresh process, or
// with another number of threads.
type Variant struct {
	Name     string // as messages state it: with OMP_NUM_THREADS=1
	Lowering *engine.Lowering
}

// property is a property of results that does not depend on the answer.
type property struct {
	name, text string
	checks     []string // names; those that end in a dash are followed by a letter
}

var properties = []property{
	{"rows", "a row has the bits that it has alone: among any number of rows, whatever they hold, at any place", []string{"rows-", "company-", "batch-", "split-", "reverse-"}},
	{"elements", "an element has the same bits at any place in its row", []string{"place-"}},
	{"reruns", "a call gives the same bits again", []string{"rerun", "repeat", "endure"}},
	{"memory", "the memory around operands, old contents of outputs, alignment and strides do not matter", []string{"around", "layout"}},
	{"state", "earlier calls do not matter, whatever their sizes and values", []string{"between", "late-change", "cancel"}},
	{"queues", "the queue or stream of a call does not matter, nor what runs on another", []string{"queues"}},
	{"callers", "calls at the same time do not matter", []string{"concurrent", "scratch"}},
	{"threads", "the number of workers or threads does not matter", []string{"workers", "variants"}},
}

// has reports whether a check is about the property.
func (p *property) has(d *def.Definition, check string) bool {
	return slices.ContainsFunc(p.checks, func(name string) bool {
		if !strings.HasSuffix(name, "-") {
			return check == name
		}
		letter, ok := strings.CutPrefix(check, name)
		if !ok || !slices.Contains(d.Sizes(), letter) {
			return false
		}
		isRows := slices.Contains(cases.BatchAxes(d), letter)
		return isRows == (p.name == "rows")
	})
}

// propertyOf returns the property that a check is about, or nil.
func (t *Target) propertyOf(check string) *property {
	for i := range properties {
		if properties[i].has(t.Definition, check) {
			return &properties[i]
		}
	}
	return nil
}

// invarianceChecks lists the checks that Options.Invariance adds.
func (t *Target) invarianceChecks() []*check { return t.invarianceList.get(t.makeInvarianceChecks) }

func (t *Target) makeInvarianceChecks() []*check {
	var list []*check
	add := func(name string, run func(*trialRun) (int64, *finding, error)) {
		list = append(list, &check{cases.Check{Name: name, IsInvariance: true, IsAsked: true}, run})
	}
	d := t.Definition
	for _, letter := range cases.BatchAxes(d) {
		add("rows-"+letter, rowsAlone(letter))
		add("company-"+letter, func(x *trialRun) (int64, *finding, error) { return x.inCompany(letter, evidence.Invariance) })
	}
	for _, letter := range placeAxes(d) {
		add("place-"+letter, shifted(letter))
	}
	add("rerun", rerun)
	add("around", surrounded)
	add("between", betweenOthers)
	add("queues", onQueues)
	add("variants", asVariants)
	return list
}

// placeAxes lists the letters, besides those of a batch, along which elements of outputs depend
// neither on each other nor on their place.
func placeAxes(d *def.Definition) []string {
	if d.Access() != def.AlongRows {
		return slices.DeleteFunc(d.Independent(), func(l string) bool { return slices.Contains(cases.BatchAxes(d), l) })
	}
	if !d.IsFlat() || d.Divisible() == "" {
		return nil
	}
	return []string{"C"}
}

// whyNot says why a property is not checked for the target's outputs, or for some of them. It
// returns "" if it is checked for all.
func (t *Target) whyNot(p *property) string {
	d := t.Definition
	var reasons []string
	switch p.name {
	case "rows":
		for i := range d.Operands {
			if use, why := d.BatchUse(i); d.Operands[i].IsOut && use == def.WholeBatch && len(cases.BatchAxes(d)) == 0 {
				reasons = append(reasons, fmt.Sprintf("%s %s", d.Operands[i].Name, why))
			} else if d.Operands[i].IsOut && use != def.OwnRow {
				reasons = append(reasons, fmt.Sprintf("%s %s", d.Operands[i].Name, why))
			}
		}
	case "elements":
		if len(placeAxes(d)) == 0 {
			reasons = append(reasons, "an element depends on others, or on its place")
		}
	case "threads":
		if t.Lowering.Device != "cpu" && len(t.Variants) == 0 {
			reasons = append(reasons, "the device has no number of workers to choose")
		}
	}
	return strings.Join(reasons, "; ")
}

// setProperties reports whether every property holds.
func (s *verification) setProperties(r *evidence.Report) {
	if !s.o.Invariance {
		return
	}
	for i := range properties {
		p := &properties[i]
		e := evidence.Property{Name: p.name, Text: p.text}
		for k := range s.done {
			c := &s.done[k]
			parsed, err := s.t.Cases().Parse(c.Name)
			if err != nil || s.t.propertyOf(parsed.Check) != p {
				continue
			}
			e.Cases++
			e.Runs += c.Runs
			e.Checks += c.Extra
			if c.Check == nil {
				continue
			}
			if e.Failed++; e.Counterexample == nil {
				e.Counterexample = s.t.load(parsed, s.o.Seed).pair(c)
			}
		}
		why := s.t.whyNot(p)
		switch {
		case e.Cases == 0 && why != "":
			e.Note = "does not apply: " + why
		case e.Cases == 0:
			e.Note = "nothing of this kind was run"
		case why != "" && p.name == "rows":
			e.Note = "asked as far as rows do not depend on others or on their place: " + why
		}
		r.Properties = append(r.Properties, e)
	}
}

// pair returns the two results of a case that differ.
func (l *loaded) pair(c *caseResult) *evidence.Pair {
	fail := l.failureOf(c.Check)
	return &evidence.Pair{Case: c.Name, Place: fail.Place, Got: fail.Got, Want: fail.Want, Text: c.Check.Message, When: c.Check.When}
}
