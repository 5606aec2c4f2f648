package cases

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/num"
	"tokitai/trial"
)

// PatternOf returns the pattern in the name of a case.
func PatternOf(name string) string {
	name, _, _ = strings.Cut(name, "/")
	_, pattern, hasCheck := strings.Cut(name, ":")
	if hasCheck {
		return pattern
	}
	return name
}

// PatternIdentity returns a hash of the inputs that a pattern makes on a few shapes, in every
// format of the definition, or "" if the definition has no such pattern.
func (t *Target) PatternIdentity(name string) string {
	if t.Pattern(name) == nil {
		return ""
	}
	const seed = 1
	h := sha256.New()
	for _, shape := range byAccess[t.Definition.Access()].identity {
		for _, formats := range usualFormats(t.Definition) {
			c := &Case{Pattern: name, Sizes: (&lister{t: t}).shape(shape...), Formats: formats}
			operands := trial.New(t.Definition, formats, c.Lengths(), func(int) trial.Layout { return trial.Layout{} }).Arrays()
			t.Fill(c, seed, operands)
			h.Write([]byte(trial.EvidenceInputs(t.Definition, operands, t.Params(c))))
		}
	}
	return shortIdentity(h.Sum(nil))
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
