package mutants

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/testlevel"
	"tokitai/op"
	"tokitai/promise"
	"tokitai/verify"
)

// fewest is the least number of mutants of a definition.
const fewest = 4

// Test judges the kernels of an operation's folder. It fails if the verifier accepts a wrong
// one or does not accept a right one, and if the kernels and outcomes are not those of [File].
//
// At level smoke it judges one wrong kernel of each definition and one right kernel; at level
// quick all that take little time: kernels that there are in several formats in one of them, and
// cheats if level smoke finds them. Both judge a wrong kernel at the least level that finds it,
// until its first failure, and a right one at level smoke. At level full all are judged at all
// levels, and the outcomes compared with File.
//
// The flag -update writes File anew, with the outcomes of levels up to that of the test. Those of
// higher levels are kept where the kernel is the same, and so are those that there was no time for:
// the test then fails, shortly before its -timeout, with what it had found by then written. The flag
// -only REGEXP restricts an update to the kernels whose names match, and -missing to the levels of a
// kernel that File does not have; what is recorded of the others is kept.
//
// Peers returns plain kernels of rowwise definitions, made of given Parts, with which one of
// today's checks compares.
func Test(t *testing.T, operations []*op.Operation, wrong, right []Mutant, peers func(Parts) map[*def.Definition]func(*Call)) {
	t.Helper()
	checkList(t, operations, wrong, right)
	for _, list := range [][]Mutant{wrong, right} {
		for i := range list {
			list[i].peers = peers
		}
	}
	known, err := Read(".")
	if err != nil && !isUpdate() {
		t.Fatalf("%v; -update writes it", err)
	}
	if isUpdate() || testlevel.Current() >= testlevel.Full {
		record(t, wrong, right, known)
		return
	}
	known.compareSubjects(t, wrong, right)
	if testlevel.Current() == testlevel.Smoke {
		wrong, right = sample(wrong), right[:1]
	} else {
		wrong, right = inOneFormat(wrong), inOneFormat(right)
	}
	for i, m := range slices.Concat(wrong, right) {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			m.glance(t, i >= len(wrong))
		})
	}
}

// sample returns one kernel of each definition.
func sample(list []Mutant) []Mutant {
	seen := map[*def.Definition]bool{}
	return slices.DeleteFunc(slices.Clone(list), func(m Mutant) bool {
		isAnother := seen[m.Definition]
		seen[m.Definition] = true
		return isAnother
	})
}

// inOneFormat leaves out kernels that are the same as others but for the format, a different one
// each time, and cheats that take long to find.
func inOneFormat(list []Mutant) []Mutant {
	type kernel struct {
		d              *def.Definition
		name, contract string
	}
	of := func(m *Mutant) kernel { return kernel{m.Definition, m.Lowering.Name, m.contract} }
	count, seen, turn := map[kernel]int{}, map[kernel]int{}, map[kernel]int{}
	for i := range list {
		if k := of(&list[i]); count[k] == 0 {
			turn[k] = len(turn)
		}
		count[of(&list[i])]++
	}
	return slices.DeleteFunc(slices.Clone(list), func(m Mutant) bool {
		k := of(&m)
		seen[k]++
		return (turn[k]+seen[k])%count[k] != 0 || m.Level > Quick || m.IsCheat && m.Level > Smoke
	})
}

// glance judges a kernel in little time.
func (m *Mutant) glance(t *testing.T, isRight bool) {
	level := m.Level
	if level > Quick {
		return
	}
	r, err := m.verify(t.Context(), levels[level], m.Lowering, true)
	if err != nil {
		t.Errorf("%s: %v", m.Name, err)
		return
	}
	if verdict := r.Report.Verdict; !m.isExpected(verdict, level, isRight) {
		t.Errorf("%s (%s): verdict %s at level %s", m.Name, m.Fault, verdict, level)
	}
}

// isExpected reports whether a verdict is the right one.
func (m *Mutant) isExpected(v evidence.Verdict, at Level, isRight bool) bool {
	switch {
	case isRight || m.Level == Never:
		return v == evidence.Accepted
	case m.Level > at:
		return true // it may be found by chance
	case m.IsFailing:
		return v == evidence.Inadmissible
	}
	return v == evidence.Rejected
}

var levels = map[Level]verify.Level{Smoke: verify.Smoke, Quick: verify.Quick, Full: verify.Full}

// Seeds of verifications. A kernel that knows the shapes of one has not seen those of the other.
const (
	seed          = 1
	rehearsalSeed = 2
)

// verify verifies the kernel.
func (m *Mutant) verify(ctx context.Context, level verify.Level, lowering *engine.Lowering, isFirstEnough bool) (*verify.Result, error) {
	target := &verify.Target{Operation: m.Operation, Definition: m.Definition, Lowering: lowering, DType: m.DType}
	if k, ok := m.kernel.(*rehearsal); ok {
		k.isLearning.Store(true)
		if _, err := verify.Run(ctx, target, verify.Options{Level: level, Seed: rehearsalSeed}); err != nil {
			return nil, err
		}
		k.isLearning.Store(false)
	}
	return verify.Run(ctx, target, verify.Options{Level: level, Seed: seed, FirstFailure: isFirstEnough})
}

// record judges all kernels, and compares the outcomes with File or writes it.
func record(t *testing.T, wrong, right []Mutant, known *Found) {
	p, err := NewPractitioner()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx := t.Context()
	if end, ok := t.Deadline(); ok && isUpdate() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-timeToWrite))
		defer cancel()
	}
	only, err := regexp.Compile(flagValue("only"))
	if err != nil {
		t.Fatal("-only:", err)
	}
	outcomes := make([]Outcome, len(wrong)+len(right))
	list := slices.Concat(wrong, right)
	for level := Smoke; level <= min(Full, Level(testlevel.Current())); level++ {
		each(list, func(i int, m *Mutant) {
			o := &outcomes[i]
			o.Subject = m.subject()
			if only.MatchString(m.Name) && !known.isLeft(o.Subject, level) {
				m.judge(ctx, t, p, level, i >= len(wrong), o)
			}
		})
	}
	found := Found{outcomes[:len(wrong)], outcomes[len(wrong):]}
	if !isUpdate() {
		known.compare(t, &found)
		return
	}
	for i := range outcomes {
		o := &outcomes[i]
		if before := known.of(o.Subject); before != nil && before.Subject == o.Subject {
			if o.Smoke == nil { // nor was it compared with today's checks
				o.Practice = before.Practice
			}
			o.Smoke, o.Stable = cmp.Or(o.Smoke, before.Smoke), cmp.Or(o.Stable, before.Stable)
			o.Quick, o.Full = cmp.Or(o.Quick, before.Quick), cmp.Or(o.Full, before.Full)
		}
	}
	if ctx.Err() != nil {
		t.Error("there was no time for all kernels: a longer -timeout has more")
	}
	if err := found.write(); err != nil {
		t.Error(err)
	}
}

// isLeft reports whether the flag -missing leaves the outcome of a kernel at a level, since File has it.
func (f *Found) isLeft(s Subject, at Level) bool {
	o := f.of(s)
	return flagValue("missing") == "true" && o != nil && o.Subject == s &&
		map[Level]bool{Smoke: o.Smoke != nil, Quick: o.Quick != nil, Full: o.Full != nil}[at]
}

// timeToWrite is how long before its deadline a test stops to judge.
const timeToWrite = 10 * time.Second

// judge judges a kernel at a level, at smoke also as stable and by today's checks. What there was no
// time for before the context ended stays nil.
func (m *Mutant) judge(ctx context.Context, t *testing.T, p *Practitioner, level Level, isRight bool, o *Outcome) {
	at := func(level Level, lowering *engine.Lowering, isFirstEnough bool, how string) *Judged {
		if ctx.Err() != nil {
			return nil
		}
		r, err := m.verify(ctx, levels[level], lowering, isFirstEnough)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			return nil
		}
		j := &Judged{r.Report.Verdict, r.RejectedBy()}
		if !m.isExpected(j.Verdict, level, isRight) {
			t.Errorf("%s (%s): %s%s at level %s: %s", m.Name, m.Fault, j.Verdict, how, level, reasonOf(r.Report))
		}
		return j
	}
	switch level {
	case Quick:
		o.Quick = at(Quick, m.Lowering, true, "")
		return
	case Full:
		o.Full = at(Full, m.Lowering, true, "")
		return
	}
	if o.Smoke = at(Smoke, m.Lowering, isRight, ""); o.Smoke == nil {
		return
	}
	if m.Lowering.Promise.Name == promise.Ordered {
		stable := *m.Lowering
		stable.Promise.Name = promise.Stable
		o.Stable = at(min(m.Level, Quick), &stable, true, " as stable")
	}
	var err error
	if o.Practice, err = p.Check(m); err != nil {
		t.Errorf("%s: %v", m.Name, err)
	}
}

// reasonOf returns why a kernel has its verdict, with the case that failed.
func reasonOf(r *evidence.Report) string {
	if f := r.Failure; f != nil {
		return fmt.Sprintf("%s: got %s, want %s, in case %s", r.Reason, f.Got, f.Want, f.Case)
	}
	return cmp.Or(r.Reason, string(r.Verdict))
}

// each calls do with every kernel, as many at a time as there are processors.
func each(list []Mutant, do func(i int, m *Mutant)) {
	next := make(chan int)
	var wait sync.WaitGroup
	for range max(2, runtime.GOMAXPROCS(0)) {
		wait.Go(func() {
			for i := range next {
				do(i, &list[i])
			}
		})
	}
	for i := range list {
		next <- i
	}
	close(next)
	wait.Wait()
}

// isUpdate reports whether the flag -update is set, which package optest gives the tests of
// operations.
func isUpdate() bool {
	return flagValue("update") == "true"
}

func flagValue(name string) string {
	if f := flag.Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
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
		if m.Fault == "" || strings.HasSuffix(m.Fault, ".") {
			t.Errorf("%s: fault %q, want one line without a full stop", m.Name, m.Fault)
		}
		if err := m.Lowering.Promise.Order.Check(); err != nil {
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

// compareSubjects compares the kernels with those of File.
func (f *Found) compareSubjects(t *testing.T, wrong, right []Mutant) {
	t.Helper()
	for _, of := range [...]struct {
		what  string
		list  []Mutant
		known []Outcome
	}{{"wrong", wrong, f.Wrong}, {"right", right, f.Right}} {
		if len(of.list) != len(of.known) {
			t.Errorf("%s has %d %s kernels, want %d; -update writes it anew", File, len(of.known), of.what, len(of.list))
		}
		for i := range of.list {
			s := of.list[i].subject()
			if o := f.of(s); o == nil || o.Subject != s {
				t.Errorf("%s does not have %+v; -update writes it anew", File, s)
			}
		}
	}
}

// compare compares all outcomes with those of File.
func (f *Found) compare(t *testing.T, found *Found) {
	t.Helper()
	for _, of := range [...]struct {
		what       string
		got, known []Outcome
	}{{"wrong", found.Wrong, f.Wrong}, {"right", found.Right, f.Right}} {
		if len(of.got) != len(of.known) {
			t.Errorf("%s has %d %s kernels, want %d; -update writes it anew", File, len(of.known), of.what, len(of.got))
		}
		for _, o := range of.got {
			if known := f.of(o.Subject); known == nil || !reflect.DeepEqual(*known, o) {
				t.Errorf("%s does not have what is found now; -update writes it anew\ngot %+v", File, o)
			}
		}
	}
}
