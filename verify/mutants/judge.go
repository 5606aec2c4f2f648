package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"tokitai/def"
	"tokitai/evidence"
	"tokitai/internal/testlevel"
	"tokitai/op"
	"tokitai/verify"
)

// fewest is the least number of mutants of a definition.
const fewest = 4

// File is the file in an operation's folder that records the outcomes of its kernels.
const File = "testdata/mutants.json"

// Found holds the outcomes of an operation's kernels.
type Found struct {
	Wrong []Outcome `json:"wrong"`
	Right []Outcome `json:"right"`
}

// Test judges the kernels of an operation's folder: it fails if the verifier accepts a
// wrong one or does not accept a right one, and if the outcomes are not those of [File],
// which the flag -update writes anew. At level smoke it judges one wrong kernel of each definition
// and one right kernel. Peers returns plain kernels of rowwise definitions, made of given
// Parts, with which one of today's checks compares.
func Test(t *testing.T, operations []*op.Operation, wrong, right []Mutant, peers func(Parts) map[*def.Definition]func(*Call)) {
	t.Helper()
	update := isUpdate()
	checkList(t, operations, wrong, right)
	for _, list := range [][]Mutant{wrong, right} {
		for i := range list {
			list[i].peers = peers
		}
	}
	if !update && testlevel.Current() == testlevel.Smoke {
		seen := map[*def.Definition]bool{}
		wrong = slices.DeleteFunc(slices.Clone(wrong), func(m Mutant) bool {
			isAnother := seen[m.Definition]
			seen[m.Definition] = true
			return isAnother
		})
		right = right[:1]
	}
	outcomes := judgeAll(t, slices.Concat(wrong, right))
	found := Found{outcomes[:len(wrong)], outcomes[len(wrong):]}
	for i, o := range found.Wrong {
		want := evidence.Rejected
		if wrong[i].IsFailing {
			want = evidence.Inadmissible
		}
		if o.Verdict != want {
			t.Errorf("%s (%s): verdict %s, want %s", wrong[i].Name, o.Fault, o.Verdict, want)
		}
	}
	for i, o := range found.Right {
		if !o.IsAccepted() {
			t.Errorf("%s: verdict %s by %s, want accepted", right[i].Name, o.Verdict, o.by())
		}
	}
	if update {
		write(t, &found)
		return
	}
	compare(t, &found)
}

// isUpdate reports whether the flag -update is set, which package optest gives the tests of
// operations.
func isUpdate() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

// checkList checks a list of kernels: unique names, a fault and an origin each, and every
// definition covered.
func checkList(t *testing.T, operations []*op.Operation, wrong, right []Mutant) {
	t.Helper()
	seen, count := map[string]bool{}, map[*def.Definition]int{}
	for _, m := range slices.Concat(wrong, right) {
		if seen[m.Name] {
			t.Errorf("%s: two kernels have that name", m.Name)
		}
		seen[m.Name] = true
		if m.Fault == "" || strings.HasSuffix(m.Fault, ".") || strings.Contains(m.Fault, "|") {
			t.Errorf("%s: fault %q, want one line without a full stop", m.Name, m.Fault)
		}
		if err := m.Lowering.Order.Check(); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
	for _, m := range wrong {
		if count[m.Definition]++; m.Origin == "" {
			t.Errorf("%s: no origin", m.Name)
		}
	}
	for _, o := range operations {
		for _, d := range o.Definitions {
			if count[d] < fewest {
				t.Errorf("%s has %d mutants, want at least %d", d.Name, count[d], fewest)
			}
		}
	}
	if len(right) == 0 {
		t.Fatal("there is no kernel that is right")
	}
}

// judgeAll judges kernels, two at a time.
func judgeAll(t *testing.T, list []Mutant) []Outcome {
	p, err := NewPractitioner()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	outcomes := make([]Outcome, len(list))
	next := make(chan int)
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for i := range next {
				outcomes[i] = judge(t, p, &list[i])
			}
		})
	}
	for i := range list {
		next <- i
	}
	close(next)
	wait.Wait()
	return outcomes
}

func judge(t *testing.T, p *Practitioner, m *Mutant) Outcome {
	level := verify.Smoke
	if m.Level == Quick {
		level = verify.Quick
	}
	o := Outcome{Definition: m.Definition.Name, DType: m.DType.String(), Contract: m.contract(), Fault: m.Fault, Origin: m.Origin, Level: m.Level.String()}
	target := &verify.Target{Operation: m.Operation, Definition: m.Definition, Lowering: m.Lowering, DType: m.DType}
	r, err := verify.Run(context.Background(), target, verify.Options{Level: level, Seed: 1})
	if err != nil {
		t.Errorf("%s: %v", m.Name, err)
		return o
	}
	o.Verdict, o.Tiers = r.Report.Verdict, r.RejectedBy()
	if o.Practice, err = p.Check(m); err != nil {
		t.Errorf("%s: %v", m.Name, err)
	}
	return o
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

// write writes File, one outcome per line.
func write(t *testing.T, found *Found) {
	t.Helper()
	var b bytes.Buffer
	lines := func(name string, list []Outcome, end string) {
		b.WriteString("\"" + name + "\": [\n")
		for i := range list {
			line, err := json.Marshal(&list[i])
			if err != nil {
				t.Fatal(err)
			}
			if b.Write(line); i < len(list)-1 {
				b.WriteByte(',')
			}
			b.WriteByte('\n')
		}
		b.WriteString("]" + end)
	}
	b.WriteByte('{')
	lines("wrong", found.Wrong, ",\n")
	lines("right", found.Right, "}\n")
	if err := os.MkdirAll(filepath.Dir(File), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(File, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// compare compares the outcomes with File.
func compare(t *testing.T, found *Found) {
	t.Helper()
	known, err := Read(".")
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	isAll := testlevel.Current() > testlevel.Smoke
	for _, of := range [...]struct {
		what       string
		got, known []Outcome
	}{{"wrong", found.Wrong, known.Wrong}, {"right", found.Right, known.Right}} {
		if isAll && len(of.got) != len(of.known) {
			t.Errorf("%s has %d %s kernels, want %d; -update writes it anew", File, len(of.known), of.what, len(of.got))
		}
		for _, o := range of.got {
			if !slices.ContainsFunc(of.known, func(k Outcome) bool { return reflect.DeepEqual(k, o) }) {
				t.Errorf("%s does not have what is found now; -update writes it anew\ngot %+v", File, o)
			}
		}
	}
}
