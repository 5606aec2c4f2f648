package mutants

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tokitai/evidence"
)

// File is the file in an operation's folder that records the outcomes of its kernels.
const File = "testdata/mutants.json"

// Found holds the outcomes of an operation's kernels.
type Found struct {
	Wrong []Outcome `json:"wrong"`
	Right []Outcome `json:"right"`
}

// Outcome is what was found about a kernel.
type Outcome struct {
	Subject
	Smoke    *Judged  `json:"smoke,omitempty"`
	Quick    *Judged  `json:"quick,omitempty"`  // nil if it was not judged at that level since it last changed
	Full     *Judged  `json:"full,omitempty"`   // likewise
	Stable   *Judged  `json:"stable,omitempty"` // of a kernel that promises an order: as if it promised to be stable, at the least level that finds its fault
	Practice Practice `json:"practice"`
}

// Subject says which kernel an outcome is about.
type Subject struct {
	Name       string `json:"name"`
	Definition string `json:"definition"`
	DType      string `json:"dtype"`
	Contract   string `json:"contract"`
	Fault      string `json:"fault"`            // or what is different
	Origin     string `json:"origin,omitempty"` // of a fault
	Level      string `json:"level"`            // the least that finds the fault
	IsCheat    bool   `json:"cheat,omitempty"`
}

func (m *Mutant) subject() Subject {
	return Subject{
		Name: m.Name, Definition: m.Definition.Name, DType: m.DType.String(), Contract: m.contract,
		Fault: m.Fault, Origin: m.Origin, Level: m.Level.String(), IsCheat: m.IsCheat,
	}
}

// Judged is what the verifier said at one level.
type Judged struct {
	Verdict evidence.Verdict    `json:"verdict"`
	Tiers   []evidence.TierName `json:"tiers,omitempty"` // that rejected it: at level smoke all, else those of the first case that failed
}

// IsAccepted reports whether the verifier accepted the kernel. One that was not judged is not
// accepted.
func (j *Judged) IsAccepted() bool { return j != nil && j.Verdict == evidence.Accepted }

// String returns the verdict, and what a kernel was rejected by.
func (j *Judged) String() string {
	if j == nil {
		return ""
	}
	var names []string
	for _, name := range j.Tiers {
		names = append(names, string(name))
	}
	switch {
	case len(names) > 0:
		return strings.Join(names, ", ")
	case j.Verdict == evidence.Inadmissible:
		return "ended in an error"
	}
	return string(j.Verdict)
}

// Read returns the outcomes in an operation's folder.
func Read(folder string) (*Found, error) {
	text, err := os.ReadFile(filepath.Join(folder, File))
	if err != nil {
		return nil, err
	}
	found := &Found{}
	return found, json.Unmarshal(text, found)
}

// of returns the recorded outcome of a kernel, or nil. A nil Found has none.
func (f *Found) of(s Subject) *Outcome {
	if f == nil {
		return nil
	}
	for _, list := range [][]Outcome{f.Wrong, f.Right} {
		if i := slices.IndexFunc(list, func(o Outcome) bool { return o.Name == s.Name }); i >= 0 {
			return &list[i]
		}
	}
	return nil
}

// write writes File, one outcome per line.
func (f *Found) write() error {
	var b bytes.Buffer
	lines := func(name string, list []Outcome, end string) error {
		b.WriteString("\"" + name + "\": [\n")
		for i := range list {
			line, err := json.Marshal(&list[i])
			if err != nil {
				return err
			}
			if b.Write(line); i < len(list)-1 {
				b.WriteByte(',')
			}
			b.WriteByte('\n')
		}
		b.WriteString("]" + end)
		return nil
	}
	b.WriteByte('{')
	if err := lines("wrong", f.Wrong, ",\n"); err != nil {
		return err
	}
	if err := lines("right", f.Right, "}\n"); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(File), 0o755); err != nil {
		return err
	}
	return os.WriteFile(File, b.Bytes(), 0o644)
}
