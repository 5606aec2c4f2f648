package all_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/answers"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/reference"
)

var update = flag.Bool("update", false, "rewrite the known answers")

const answersFile = "../../internal/answers/answers.txt"

// TestKnownAnswers recomputes every committed answer with the reference, hashed as the
// comment of package answers says and by no code of its own. The list is closed: an
// answer too many or too few is a failure. At level smoke, it recomputes those of a quarter of the
// definitions.
func TestKnownAnswers(t *testing.T) {
	text, err := os.ReadFile(answersFile)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := answers.Parse(string(text))
	if err != nil && !*update {
		t.Fatal(err)
	}
	sections := recompute(t, committed)
	if *update {
		committed, text = sections, []byte(answers.Print(sections))
		if err := os.WriteFile(answersFile, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, want := lines(committed), lines(sections)
	for _, line := range slices.Sorted(maps.Keys(want)) {
		switch found, ok := got[line]; {
		case !ok:
			t.Errorf("%s: no answer is committed", line)
		case found != want[line]:
			t.Errorf("%s: committed is %v, the reference gives %v", line, found, want[line])
		}
	}
	for _, line := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[line]; !ok {
			t.Errorf("%s: an answer is committed, but there is no such self-test", line)
		}
	}
	if !t.Failed() && string(text) != answers.Print(sections) {
		t.Error("answers.txt has the right answers, but not in the order and form that -update gives them")
	}
	if t.Failed() {
		t.Log("if the change is meant, rewrite them: go test ./op/all -run TestKnownAnswers -update")
	}
}

// recompute lists every shipped definition once, in every choice of formats. What is not in the sample of the level
// has the answers that are committed.
func recompute(t *testing.T, committed []answers.Section) []answers.Section {
	var sections []answers.Section
	var seen []*def.Definition
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if slices.Contains(seen, d) {
				continue
			}
			isTried := *update || testlevel.InSample(len(seen), testlevel.Pick(4, 1))
			seen = append(seen, d)
			for _, formats := range d.Formats() {
				s := answers.Section{Name: d.Name, Definition: d.Hash(), Formats: formats}
				if !isTried {
					known := slices.IndexFunc(committed, func(c answers.Section) bool { return c.Definition == s.Definition && slices.Equal(c.Formats, formats) })
					if known < 0 {
						t.Fatalf("%s %v: no answers are committed: write them by go test ./op/all -run TestKnownAnswers -update", d.Name, formats)
					}
					sections = append(sections, committed[known])
					continue
				}
				for _, c := range engine.SelfTestCases(d, formats) {
					a := answers.Answer{Inputs: hashInputs(d, c)}
					if err := reference.Run(d, c.Operands, reference.Options{Params: c.Params}); err != nil {
						t.Fatal(err)
					}
					a.Outputs = hashOutputs(d, c)
					s.Cases = append(s.Cases, answers.Case{Name: c.Name, Answer: a})
				}
				sections = append(sections, s)
			}
		}
	}
	return sections
}

func hashInputs(d *def.Definition, c engine.SelfTestCase) answers.Hash {
	h := sha256.New()
	for i, v := range c.Params {
		fmt.Fprintf(h, "param %s %016x\n", d.Params[i].Name, math.Float64bits(v))
	}
	for i, o := range d.Operands {
		if o.IsIn {
			writeOperand(h, o.Name, c.Operands[i], false)
		}
	}
	return answers.Hash(h.Sum(nil))
}

func hashOutputs(d *def.Definition, c engine.SelfTestCase) answers.Hash {
	h := sha256.New()
	for i, o := range d.Operands {
		if o.IsOut {
			writeOperand(h, o.Name, c.Operands[i], !d.Copies())
		}
	}
	return answers.Hash(h.Sum(nil))
}

func writeOperand(w io.Writer, name string, a num.Array, isCanonical bool) {
	fmt.Fprintf(w, "%s %s %d %d\n", name, a.DType, a.Rows, a.Cols)
	nan := map[num.DType]uint64{num.F16: 0x7e00, num.BF16: 0x7fc0, num.F32: 0x7fc00000}
	row := make([]byte, 0, a.Cols*a.DType.Size())
	for r := range a.Rows {
		row = row[:0]
		for c := range a.Cols {
			bits := a.Bits64(r, c)
			if isCanonical && num.IsNaN(a.DType, bits) {
				bits = nan[a.DType]
			}
			for range a.DType.Size() {
				row = append(row, byte(bits))
				bits >>= 8
			}
		}
		w.Write(row)
	}
}

// lines are the answers by definition, formats and self-test.
func lines(sections []answers.Section) map[string]answers.Answer {
	found := map[string]answers.Answer{}
	for _, s := range sections {
		for _, c := range s.Cases {
			found[fmt.Sprintf("%s %s %v %s", s.Name, s.Definition, s.Formats, c.Name)] = c.Answer
		}
	}
	return found
}

// TestReferenceIsChecked: a reference that computes otherwise here is found out. At level smoke, it is tried on a quarter of
// the operations.
func TestReferenceIsChecked(t *testing.T) {
	for i, o := range all.Operations {
		if !testlevel.InSample(i, testlevel.Pick(4, 1)) {
			continue
		}
		for _, d := range o.Definitions {
			if err := engine.CheckReference(d, d.Formats()[0]); err != nil {
				t.Error(err)
			}
		}
	}
}
