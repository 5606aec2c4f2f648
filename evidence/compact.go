package evidence

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// compactSuffix is the suffix of compact reports: JSON compressed by gzip.
const compactSuffix = ".json.gz"

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

// WriteCompact is Write with compact reports, compressed by gzip: a run of hundreds of
// thousands of cases takes a few megabytes.
func WriteCompact(dir string, reports []*Report) error {
	var compact []*Report
	for _, r := range reports {
		if err := r.Check(); err != nil { // with all cases
			return err
		}
		compact = append(compact, r.Compact())
	}
	return write(disk{}, dir, compact)
}

// suffix returns the suffix of the report's JSON file.
func (r *Report) suffix() string {
	if r.IsCompact() {
		return compactSuffix
	}
	return ".json"
}

// encoded returns the content of the report's JSON file, and its suffix.
func (r *Report) encoded() (data []byte, suffix string, err error) {
	data, err = r.JSON()
	if err != nil || !r.IsCompact() {
		return data, r.suffix(), err
	}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // a valid level
	if _, err := w.Write(data); err != nil {
		return nil, "", err
	}
	err = w.Close()
	return packed.Bytes(), r.suffix(), err
}

// Read reads a report written by Write or WriteCompact. It does not check the report.
func Read(path string) (*Report, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return decodeReport(path, data)
}

func decodeReport(path string, data []byte) (*Report, error) {
	if strings.HasSuffix(path, compactSuffix) {
		unpacked, err := gzip.NewReader(bytes.NewReader(data))
		if err == nil {
			data, err = io.ReadAll(unpacked)
		}
		if err != nil {
			return nil, fmt.Errorf("evidence: %s: %w", path, err)
		}
	}
	var r Report
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return nil, fmt.Errorf("evidence: %s: %w", path, err)
	}
	return &r, nil
}

// ReadFolder reads the index of a folder and its reports. It checks everything that can be
// checked without running a case: that every file has the SHA-256 in the index, that every
// report is consistent, and that the index agrees with the reports.
func ReadFolder(dir string) (*Index, []*Report, error) {
	data, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		return nil, nil, err
	}
	var x Index
	if err := json.Unmarshal(data, &x); err != nil {
		return nil, nil, fmt.Errorf("evidence: %s: %w", filepath.Join(dir, "index.json"), err)
	}
	var reports []*Report
	var names, hashes []string
	for _, e := range x.Reports {
		path := filepath.Join(dir, filepath.Base(e.JSON))
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, err
		}
		if got := FingerprintOf(data); got != e.SHA256 {
			return nil, nil, fmt.Errorf("evidence: %s has SHA-256 %s, want %s as in the index", path, got, e.SHA256)
		}
		r, err := decodeReport(path, data)
		if err == nil {
			err = r.Check()
		}
		if err != nil {
			return nil, nil, err
		}
		reports = append(reports, r)
		names, hashes = append(names, strings.TrimSuffix(e.Markdown, ".md")), append(hashes, e.SHA256)
	}
	if len(reports) == 0 {
		return nil, nil, errors.New("evidence: the index lists no reports")
	}
	if want := indexOf(reports, names, hashes); !reflect.DeepEqual(complete(reflect.ValueOf(&x)).Interface(), complete(reflect.ValueOf(want)).Interface()) {
		return nil, nil, fmt.Errorf("evidence: %s does not agree with its reports", filepath.Join(dir, "index.json"))
	}
	return &x, reports, nil
}
