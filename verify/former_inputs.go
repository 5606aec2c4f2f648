package verify

import (
	_ "embed"
	"strings"
	"sync"

	"tokitai/evidence"
	"tokitai/verify/cases"
	"tokitai/verify/probe"
)

// Inputs belong to the identity of a case: a report lists the hash of each case's inputs, whole
// or its first digits, so that a replay can tell other inputs from other results. Compact reports
// were once written without these digits. For them, former.txt has the identities that the
// patterns had then: hashes of the values that they made on a few shapes.

// resolve returns whether inputs or results differ, for a case of an older report that does not
// list its inputs: UnknownInputs if former.txt does not have the pattern. The target is nil for
// a report of Probe.
func resolve(t *Target, r *evidence.Report, listed evidence.Case) evidence.Comparison {
	subject, identity := r.Definition.Name, ""
	if t != nil {
		identity = t.Cases().PatternIdentity(cases.PatternOf(listed.Name))
	} else if instruction, hash, err := probe.Identity(r, listed, mostReplayed); err == nil {
		subject, identity = instruction, hash
	}
	switch former := formerIdentities()[subject+" "+cases.PatternOf(listed.Name)]; former {
	case "":
		return evidence.UnknownInputs
	case identity:
		return evidence.OtherResults
	}
	return evidence.OtherInputs
}

//go:embed former.txt
var formerText string

// formerIdentities returns the identities in former.txt by definition, a space and pattern.
var formerIdentities = sync.OnceValue(func() map[string]string {
	list := map[string]string{}
	definition := ""
	for line := range strings.Lines(formerText) {
		switch words := strings.Fields(line); {
		case len(words) == 1:
			definition = words[0]
		case len(words) == 2:
			list[definition+" "+words[0]] = words[1]
		}
	}
	return list
})
