package evidence

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// caseDigits is the length of each half of a case's digest. Two results have the same digest by
// chance once in 2³² times; hundreds of thousands of cases take little space.
const caseDigits = 8

// CaseDigest returns the first digits of the SHA-256 of the case's line in [DigestOf], followed by
// as many of the SHA-256 of its inputs. Running the case again, on any machine, gives the hashes
// of its inputs and outputs and with them this digest. Older reports have the first half only.
func CaseDigest(c Case) string {
	return FingerprintOf([]byte(digestLine(c)))[:caseDigits] + c.InputsSHA256[:min(caseDigits, len(c.InputsSHA256))]
}

// Comparison is the result of comparing a listed case with the same case run again.
type Comparison uint8

const (
	SameResults   Comparison = iota // the same inputs gave the same outputs
	OtherResults                    // the same inputs gave other outputs
	OtherInputs                     // the inputs are others, so the outputs cannot be compared
	UnknownInputs                   // inputs or outputs are others, and an older report does not list which
)

// Compare compares a listed case with the same case run again, which has all hashes.
func (c Case) Compare(again Case) Comparison {
	isSame, isInput, isOlder := c.InputsSHA256 == again.InputsSHA256 && c.OutputsSHA256 == again.OutputsSHA256, c.InputsSHA256 == again.InputsSHA256, false
	if c.Digest != "" {
		digest := CaseDigest(again)
		isSame, isInput, isOlder = strings.HasPrefix(digest, c.Digest), strings.HasSuffix(c.Digest, digest[caseDigits:]), len(c.Digest) == caseDigits
	}
	switch {
	case isSame:
		return SameResults
	case isOlder:
		return UnknownInputs
	case isInput:
		return OtherResults
	}
	return OtherInputs
}

// IsCompact reports whether the report has only digests of its cases.
func (r *Report) IsCompact() bool { return len(r.CaseList) > 0 && r.CaseList[0].Digest != "" }

// Compact returns a copy of the report with a digest of each case instead of its shapes,
// parameters, tiers and hashes. DigestSHA256 stays that of the full list.
func (r *Report) Compact() *Report {
	out := complete(reflect.ValueOf(r)).Interface().(*Report)
	if r.IsCompact() {
		return out
	}
	for i, c := range out.CaseList {
		out.CaseList[i] = Case{Name: c.Name, Elements: c.Elements, Mismatches: c.Mismatches, Digest: CaseDigest(c)}
	}
	return out
}

// MarshalJSON encodes a case as an object or, in a compact report, as a string of its
// name, elements, digest and, if there are any, mismatches.
func (c Case) MarshalJSON() ([]byte, error) {
	if c.Digest == "" {
		type whole Case
		return json.Marshal(whole(c))
	}
	text := fmt.Sprintf("%s %d %s", c.Name, c.Elements, c.Digest)
	if c.Mismatches > 0 {
		text += fmt.Sprintf(" %d", c.Mismatches)
	}
	return json.Marshal(text)
}

// UnmarshalJSON reads either form.
func (c *Case) UnmarshalJSON(data []byte) error {
	*c = Case{}
	if !bytes.HasPrefix(data, []byte(`"`)) {
		type whole Case
		return json.Unmarshal(data, (*whole)(c))
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	words := strings.Split(text, " ")
	var elements, mismatches error
	if len(words) == 4 {
		c.Mismatches, mismatches = strconv.ParseInt(words[3], 10, 64)
	}
	if len(words) == 3 || len(words) == 4 {
		c.Name, c.Digest = words[0], words[2]
		c.Elements, elements = strconv.ParseInt(words[1], 10, 64)
	}
	if err := cmp.Or(elements, mismatches); err != nil || c.Digest == "" {
		return fmt.Errorf("got the case %q, want NAME ELEMENTS DIGEST [MISMATCHES]", text)
	}
	return nil
}
