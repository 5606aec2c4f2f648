package mutants

import (
	"context"
	"flag"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"tokitai/def"
	"tokitai/internal/testlevel"
	"tokitai/op/all"
	"tokitai/verify"
)

var update = flag.Bool("update", false, "write the document anew")

// fewest is how many mutants every definition has.
const fewest = 4

// TestList holds the list together: unique names, a fault and an origin each, and
// every definition of every operation covered.
func TestList(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range slices.Concat(Mutants(), Variants()) {
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
	count := map[*def.Definition]int{}
	contracts := map[bool]int{}
	for _, m := range Mutants() {
		count[m.Definition]++
		contracts[m.Lowering.IsBounded]++
		if m.Origin == "" {
			t.Errorf("%s: no origin", m.Name)
		}
	}
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if count[d] < fewest {
				t.Errorf("%s has %d mutants, want at least %d", d.Name, count[d], fewest)
			}
		}
	}
	if n := len(Mutants()); n < 140 || len(Variants()) < 20 || contracts[true] < n/4 || contracts[false] < n/4 {
		t.Errorf("got %d mutants (%d bounded) and %d variants, want 140, a quarter of each contract, and 20", n, contracts[true], len(Variants()))
	}
}

// TestMutants: no kernel that is wrong is accepted. One that ends in an error is not
// accepted either, without being rejected.
func TestMutants(t *testing.T) {
	endsInError := []string{"gelu.forward/f16/refuses-one-row", "gelu.forward/f16/panics-on-odd-columns"}
	for _, o := range outcomes(t).mutants {
		want := "rejected"
		if slices.Contains(endsInError, o.Mutant.Name) {
			want = "inadmissible"
		}
		if o.Verdict != want {
			t.Errorf("%s (%s): verdict %s, want %s", o.Mutant.Name, o.Mutant.Fault, o.Verdict, want)
		}
	}
}

// TestVariants: every kernel that keeps its contract is accepted.
func TestVariants(t *testing.T) {
	for _, o := range outcomes(t).variants {
		if !o.IsAccepted() {
			t.Errorf("%s: verdict %s by %s, want accepted", o.Mutant.Name, o.Verdict, o.by())
		}
	}
}

// TestDocument compares docs/mutants.md with what is found now.
func TestDocument(t *testing.T) {
	const path = "../../docs/mutants.md"
	got := Markdown(outcomes(t).mutants, outcomes(t).variants)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !isAll() {
		_, rows, _ := strings.Cut(got, "\n## Mutants\n")
		for row := range strings.Lines(rows) {
			if !strings.Contains(string(want), "\n"+row) {
				t.Errorf("%s is not what is found now; -update writes it anew\ngot  %s", path, row)
			}
		}
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(gotLines), len(wantLines)) {
		if gotLines[i] != wantLines[i] {
			t.Fatalf("%s:%d is not what is found now; -update writes it anew\ngot  %s\nwant %s", path, i+1, gotLines[i], wantLines[i])
		}
	}
	if len(gotLines) != len(wantLines) {
		t.Fatalf("%s has %d lines, want %d; -update writes it anew", path, len(wantLines), len(gotLines))
	}
}

// TestPracticeBites: the checks of today, as they are run here, accept the honest
// peer and reject zeros.
func TestPracticeBites(t *testing.T) {
	p, err := NewPractitioner()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	l := &list{}
	for _, m := range Mutants() {
		if m.Name != "gemm.forward/f16/zeros" {
			continue
		}
		l.of(m.Definition, m.DType)
		l.add("peer", "nothing", anyOrder, m.peer())
		for _, c := range []struct {
			kernel Mutant
			want   Practice
		}{{m, Practice{}}, {l.all[0], Practice{AllClose: true, Defaults: true, TwicePeer: true}}} {
			got, err := p.Check(&c.kernel)
			if err != nil || got != c.want {
				t.Errorf("%s: got %+v, %v, want %+v", c.kernel.Name, got, err, c.want)
			}
		}
		return
	}
	t.Fatal("gemm.forward/f16/zeros is no mutant")
}

type found struct{ mutants, variants []Outcome }

var (
	judging sync.Once
	judged  found
)

// isAll is whether all kernels are judged: at level smoke it is a wrong one of each
// definition, and a right one of each kind of definition.
func isAll() bool { return *update || testlevel.Current() > testlevel.Smoke }

// chosen are the kernels to judge.
func chosen[K comparable](all []Mutant, kind func(*def.Definition) K) []Mutant {
	if isAll() {
		return all
	}
	seen := map[K]bool{}
	return slices.DeleteFunc(slices.Clone(all), func(m Mutant) bool {
		isAnother := seen[kind(m.Definition)]
		seen[kind(m.Definition)] = true
		return isAnother
	})
}

// outcomes judges the chosen kernels, once.
func outcomes(t *testing.T) *found {
	t.Helper()
	judging.Do(func() {
		wrong := chosen(Mutants(), func(d *def.Definition) *def.Definition { return d })
		right := chosen(Variants(), func(d *def.Definition) def.Kind { return d.Kind })
		list := slices.Concat(wrong, right)
		results := make([]Outcome, len(list))
		p, err := NewPractitioner()
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		next := make(chan int)
		var wait sync.WaitGroup
		for range 2 {
			wait.Go(func() {
				for i := range next {
					results[i] = judge(t, p, list[i])
				}
			})
		}
		for i := range list {
			next <- i
		}
		close(next)
		wait.Wait()
		judged = found{results[:len(wrong)], results[len(wrong):]}
	})
	return &judged
}

func judge(t *testing.T, p *Practitioner, m Mutant) Outcome {
	level := verify.Smoke
	if m.Level == Quick {
		level = verify.Quick
	}
	target := &verify.Target{Operation: m.Operation, Definition: m.Definition, Lowering: m.Lowering, DType: m.DType}
	r, err := verify.Run(context.Background(), target, verify.Options{Level: level, Seed: 1})
	if err != nil {
		t.Errorf("%s: %v", m.Name, err)
		return Outcome{Mutant: m}
	}
	practice, err := p.Check(&m)
	if err != nil {
		t.Errorf("%s: %v", m.Name, err)
	}
	return Outcome{Mutant: m, Verdict: string(r.Report.Verdict), Tiers: r.RejectedBy(), Practice: practice}
}
