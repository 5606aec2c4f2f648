package verify

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	"tokitai/evidence"
	"tokitai/internal/tensorcore"
	"tokitai/verify/cases"
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
	} else if p, kind, _, err := parseProbe(r, listed); err == nil {
		subject, identity = probeSubject(p.instruction), probeIdentity(p.instruction, kind)
	}
	switch former := formerIdentities()[subject+" "+cases.PatternOf(listed.Name)]; former {
	case "":
		return evidence.UnknownInputs
	case identity:
		return evidence.OtherResults
	}
	return evidence.OtherInputs
}

// probeSubject names an instruction in former.txt.
func probeSubject(i tensorcore.Instruction) string {
	return fmt.Sprintf("%s.m%dn%dk%d/%s", i.Family, i.M, i.N, i.K, i.DType)
}

// probeIdentity returns a hash of the tiles that a kind of data makes.
func probeIdentity(i tensorcore.Instruction, kind int) string {
	b := tensorcore.NewBatch(i, kind, 1, 3)
	hash := sha256.Sum256(slices.Concat(b.A, b.B, b.C))
	return hex.EncodeToString(hash[:4])
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
