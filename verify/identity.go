package verify

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	"tokitai/def"
	"tokitai/evidence"
	"tokitai/internal/tensorcore"
	"tokitai/num"
	"tokitai/trial"
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
		identity = t.patternIdentity(patternOf(listed.Name))
	} else if p, kind, _, err := parseProbe(r, listed); err == nil {
		subject, identity = probeSubject(p.instruction), probeIdentity(p.instruction, kind)
	}
	switch former := formerIdentities()[subject+" "+patternOf(listed.Name)]; former {
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
	return shortIdentity(hash[:])
}

// patternOf returns the pattern in the name of a case.
func patternOf(name string) string {
	name, _, _ = strings.Cut(name, "/")
	_, pattern, hasCheck := strings.Cut(name, ":")
	if hasCheck {
		return pattern
	}
	return name
}

// patternIdentity returns a hash of the inputs that a pattern makes on a few shapes, in every
// format of the definition, or "" if the definition has no such pattern.
func (t *Target) patternIdentity(name string) string {
	if t.pattern(name) == nil {
		return ""
	}
	const seed = 1
	h := sha256.New()
	for _, shape := range identityShapes(t.Definition.Access()) {
		for _, formats := range usualFormats(t.Definition) {
			c := &Case{Pattern: name, Sizes: (&lister{t: t}).shape(shape...), Formats: formats}
			operands := trial.New(t.Definition, formats, c.sizes(), func(int) trial.Layout { return trial.Layout{} }).Arrays()
			t.fill(c, seed, operands)
			h.Write([]byte(trial.EvidenceInputs(t.Definition, operands, t.params(c))))
		}
	}
	return shortIdentity(h.Sum(nil))
}

// identityShapes returns shapes with many rows, columns and terms, in the order of lister.shape.
func identityShapes(a def.Access) [][]int {
	switch a {
	case def.OfProducts:
		return [][]int{{67, 43, 7}, {3, 1100, 35}}
	case def.FromIndex, def.ToIndex:
		return [][]int{{300, 43, 7}, {9, 3, 1100}}
	}
	return [][]int{{70, 43}, {3, 1100}, {200, 5}}
}

// usualFormats returns one choice of formats, the usual one, for each format that names some.
func usualFormats(d *def.Definition) [][]num.DType {
	var list [][]num.DType
	for _, f := range d.Formats() {
		if !slices.ContainsFunc(list, func(g []num.DType) bool { return d.Format(g) == d.Format(f) }) {
			list = append(list, f)
		}
	}
	return list
}

func shortIdentity(hash []byte) string { return hex.EncodeToString(hash[:4]) }

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
