package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/promise"
	"tokitai/verify/cases"
)

// Functions of PyTorch, Triton or CUDA have larger errors than the promise stable grants by itself. A
// kernel that is rejected for them alone is judged again by each profile, so that the report can say
// which of them admits it.

// mostAdmitted is how many failing cases are run again for a profile, the smallest first.
const mostAdmitted = 16

// otherProfiles returns the lowering with each named profile in the place of none. There are none
// if the target has a profile, or if profiles do not matter to its promise.
func (t *Target) otherProfiles() map[string]*engine.Lowering {
	if t.Promised() != promise.Stable || t.Lowering.Promise.Declares.Profile != "" {
		return nil
	}
	list := map[string]*engine.Lowering{}
	for _, name := range promise.Profiles() {
		terms := Terms{}
		terms.Declares.Profile = name
		if l, err := terms.Hold(t); err == nil {
			list[name] = l
		}
	}
	return list
}

// Under returns the target with another lowering.
func (t *Target) Under(l *engine.Lowering) *Target {
	return &Target{Operation: t.Operation, Definition: t.Definition, Lowering: l, DType: t.DType, Backend: t.Backend, Variants: t.Variants, fixed: t.fixed}
}

// admittedBy says which profiles admit the kernel: the smallest case, and other cases that failed,
// pass when they are judged by the profile. It returns "" if there is none.
func (s *verification) admittedBy(ctx context.Context) string {
	for name, tier := range s.tiers {
		if tier.Failed > 0 && name != evidence.Set && name != evidence.Statistics {
			return ""
		}
	}
	lowerings := s.t.otherProfiles()
	if !s.shrunk.isAlone || s.shrunk.found.IsCause || len(lowerings) == 0 {
		return ""
	}
	failing, list := 0, []*cases.Case{s.shrunk.c}
	for i := range s.done {
		if c, err := s.t.Cases().Parse(s.done[i].Name); err == nil && s.done[i].First != nil {
			failing++
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list[1:], func(a, b *cases.Case) int {
		return cmp.Compare(a.Outputs(s.t.Definition), b.Outputs(s.t.Definition))
	})
	tried := list[:min(len(list), mostAdmitted+1)]
	var names []string
	for _, name := range promise.Profiles() {
		if l := lowerings[name]; l != nil && s.passes(ctx, s.t.Under(l), tried) {
			names = append(names, name)
		}
	}
	which := fmt.Sprintf("all %d failing cases pass", failing)
	switch {
	case failing == 1:
		which = "the failing case passes"
	case len(tried) < len(list):
		which = fmt.Sprintf("the %d smallest of %d failing cases pass", len(tried)-1, failing)
	}
	return profileNote(names, which)
}

// passes reports whether all cases pass for another target.
func (s *verification) passes(ctx context.Context, t *Target, list []*cases.Case) bool {
	other := newVerification(t, s.o, cases.Schedule{})
	for _, c := range list {
		if e := other.attempts(ctx, false, c); e == nil || e.r.First != nil {
			return false
		}
	}
	return ctx.Err() == nil
}

// profileNote says that profiles admit results, or returns "".
func profileNote(names []string, which string) string {
	if len(names) == 0 {
		return ""
	}
	text := fmt.Sprintf("profile %s admits this: %s with --profile %s, in Python profile=%q", names[0], which, names[0], names[0])
	if len(names) > 1 {
		text += fmt.Sprintf(" (so do %s)", strings.Join(names[1:], ", "))
	}
	return text
}

// admittedBy says which profiles admit the outputs of a call, unless they are so many that judging
// them again takes long.
func (o *observed) admittedBy(ctx context.Context, out *outcome, how manner) string {
	const most = 1 << 22 // elements of an output
	var names []string
	if a := o.l.array(outputOf(o.target.Definition)); a.Rows > most/a.Cols {
		return ""
	}
	how.progress = nil
	lowerings := o.target.otherProfiles()
	for _, name := range promise.Profiles() {
		if lowerings[name] == nil {
			continue
		}
		t, l := o.target.Under(lowerings[name]), *o.l
		t.formatList.get(func() [][]num.DType { return o.target.formats() })
		l.target = t
		if j, err := t.judge(ctx, &l, out, how); err == nil && j.Mismatches == 0 {
			names = append(names, name)
		}
	}
	return profileNote(names, "no output is wrong")
}
