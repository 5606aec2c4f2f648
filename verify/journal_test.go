package verify_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/softmax"
	"tokitai/promise"
	"tokitai/verify"
)

func openJournal(t *testing.T, path string, resume bool) *verify.Journal {
	t.Helper()
	j, err := verify.OpenJournal(path, resume)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func closeJournal(t *testing.T, j *verify.Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// counting counts launches of a lowering.
func counting(l *engine.Lowering, launches *int) *engine.Lowering {
	c := *l
	c.Compile = func(dev device.Device, d *def.Definition, dtypes []num.DType, class int) (engine.Kernel, error) {
		k, err := l.Compile(dev, d, dtypes, class)
		if err != nil {
			return nil, err
		}
		return engine.KernelFunc(func(l *engine.Launch) error { *launches++; return k.Launch(l) }), nil
	}
	return &c
}

// TestResume checks that a resumed verification gives the same report as one that was not
// interrupted.
func TestResume(t *testing.T) {
	t.Parallel()
	for name, x := range reported(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := run(t, x, verify.Options{Seed: 1}).Report
			for _, after := range testlevel.Pick([]int{40}, []int{1, 2, 40, 95}) {
				path := filepath.Join(t.TempDir(), "journal")
				j := openJournal(t, path, false)
				ctx, cancel := context.WithCancel(context.Background())
				runUnder(t, ctx, x, verify.Options{Seed: 1, Journal: j, Progress: func(done, _ int) {
					if done == after {
						cancel()
					}
				}})
				cancel()
				closeJournal(t, j)
				j = openJournal(t, path, true)
				same(t, "resumed", run(t, x, verify.Options{Seed: 1, Journal: j}).Report, whole)
				closeJournal(t, j)
				j = openJournal(t, path, true)
				same(t, "resumed when all is done", run(t, x, verify.Options{Seed: 1, Journal: j}).Report, whole)
				closeJournal(t, j)
			}
		})
	}
}

// TestJournalIsUsed checks that known results are not computed again, unless something that they
// depend on has changed.
func TestJournalIsUsed(t *testing.T) {
	t.Parallel()
	launches := 0
	x := target(softmax.ForwardDefinition, num.F16, counting(bitwise(honest), &launches))
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path, false)
	o := verify.Options{Seed: 1, Program: strings.Repeat("ab", 32), Case: "normal/R=2,C=3", Journal: j}
	run(t, x, o)
	closeJournal(t, j)
	if launches == 0 {
		t.Fatal("nothing ran")
	}
	for _, test := range []struct {
		what   string
		isUsed bool
		change func(o *verify.Options, x *verify.Target)
	}{
		{"the same", true, func(*verify.Options, *verify.Target) {}},
		{"another program", false, func(o *verify.Options, _ *verify.Target) { o.Program = strings.Repeat("cd", 32) }},
		{"another seed", false, func(o *verify.Options, _ *verify.Target) { o.Seed = 2 }},
		{"another case", false, func(o *verify.Options, _ *verify.Target) { o.Case = "normal/R=2,C=4" }},
		{"another format", false, func(_ *verify.Options, x *verify.Target) { x.DType = num.F32 }},
		{"another lowering", false, func(_ *verify.Options, x *verify.Target) { x.Lowering.Name = "test.other" }},
		{"another contract", false, func(_ *verify.Options, x *verify.Target) { x.Lowering.Promise.Name = promise.Stable }},
	} {
		j := openJournal(t, path, true)
		launches = 0
		o := o
		o.Journal = j
		x := target(softmax.ForwardDefinition, num.F16, counting(bitwise(honest), &launches))
		test.change(&o, x)
		if r := run(t, x, o).Report; r.Verdict != evidence.Accepted {
			t.Errorf("%s: %s %s", test.what, r.Verdict, r.Reason)
		}
		if (launches == 0) != test.isUsed {
			t.Errorf("%s: %d launches, want the journal used: %t", test.what, launches, test.isUsed)
		}
		closeJournal(t, j)
	}
	j = openJournal(t, path, false)
	launches, o.Journal = 0, j
	if run(t, x, o); launches == 0 {
		t.Error("a journal that begins anew was used")
	}
	closeJournal(t, j)
}

// TestErrorsAreNotKept checks that a case that ended in an error is run again.
func TestErrorsAreNotKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path, false)
	o := verify.Options{Seed: 1, Case: "normal/R=2,C=3", Journal: j}
	fails := true
	x := target(softmax.ForwardDefinition, num.F16, bitwise(func(d *def.Definition, l *engine.Launch) error {
		if fails {
			return context.DeadlineExceeded
		}
		return honest(d, l)
	}))
	if r := run(t, x, o).Report; r.Verdict != evidence.Inadmissible {
		t.Errorf("%s, want inadmissible", r.Verdict)
	}
	closeJournal(t, j)
	fails = false
	o.Journal = openJournal(t, path, true)
	if r := run(t, x, o).Report; r.Verdict != evidence.Accepted {
		t.Errorf("%s %s, want accepted when it does not fail", r.Verdict, r.Reason)
	}
	closeJournal(t, o.Journal)
}

// TestDamagedJournal checks that a truncated last line is ignored and overwritten, and that a
// damaged line is an error.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	launches := 0
	x := target(softmax.ForwardDefinition, num.F16, counting(bitwise(honest), &launches))
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path, false)
	for _, name := range []string{"normal/R=2,C=3", "normal/R=2,C=4"} {
		run(t, x, verify.Options{Case: name, Journal: j})
	}
	closeJournal(t, j)
	whole, err := os.ReadFile(path)
	if err != nil || bytes.Count(whole, []byte("\n")) != 2 {
		t.Fatalf("%v, %d lines, want 2", err, bytes.Count(whole, []byte("\n")))
	}
	cut := whole[:len(whole)-7]
	if err := os.WriteFile(path, cut, 0o644); err != nil {
		t.Fatal(err)
	}
	j = openJournal(t, path, true)
	launches = 0
	if run(t, x, verify.Options{Case: "normal/R=2,C=3", Journal: j}); launches != 0 {
		t.Error("the whole line was not used")
	}
	if run(t, x, verify.Options{Case: "normal/R=2,C=4", Journal: j}); launches == 0 {
		t.Error("the line that was cut short was used")
	}
	closeJournal(t, j)
	mended, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(mended, []byte("\n")); lines != 2 || !bytes.HasPrefix(mended, whole[:bytes.IndexByte(whole, '\n')]) {
		t.Errorf("%d lines after the run, want 2, the first as it was", lines)
	}
	closeJournal(t, openJournal(t, path, true))

	// A piece of a line that is longer than what is written over it.
	if err := os.WriteFile(path, append(bytes.Clone(whole), bytes.Repeat([]byte("x"), 1<<16)...), 0o644); err != nil {
		t.Fatal(err)
	}
	j = openJournal(t, path, true)
	run(t, x, verify.Options{Case: "normal/R=2,C=5", Journal: j})
	closeJournal(t, j)
	j = openJournal(t, path, true)
	launches = 0
	if run(t, x, verify.Options{Case: "normal/R=2,C=5", Journal: j}); launches != 0 {
		t.Error("what was written after a piece of a line was not used")
	}
	closeJournal(t, j)
	if rest, err := os.ReadFile(path); err != nil || bytes.Contains(rest, []byte("xx")) || bytes.Count(rest, []byte("\n")) != 3 {
		t.Errorf("%v, %d lines; want 3 and nothing else", err, bytes.Count(rest, []byte("\n")))
	}

	damaged := bytes.Replace(whole, []byte(`"result"`), []byte(`"result`), 1)
	if err := os.WriteFile(path, damaged, 0o644); err != nil {
		t.Fatal(err)
	}
	if j, err := verify.OpenJournal(path, true); err == nil {
		j.Close()
		t.Error("a damaged line was read")
	} else if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "byte 0") {
		t.Errorf("got %v, want the file and the place", err)
	}
	if _, err := verify.OpenJournal(filepath.Join(t.TempDir(), "no", "journal"), false); err == nil {
		t.Error("a journal in no folder was opened")
	}
}

// TestNoJournal checks that a nil journal works and records nothing.
func TestNoJournal(t *testing.T) {
	t.Parallel()
	var j *verify.Journal
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	expectAccepted(t, target(softmax.ForwardDefinition, num.F16, bitwise(honest)), "normal/R=2,C=3")
}

// TestClosedJournal checks that Close returns an error of writing, and that the verification
// continues after it.
func TestClosedJournal(t *testing.T) {
	t.Parallel()
	j := openJournal(t, filepath.Join(t.TempDir(), "journal"), false)
	closeJournal(t, j)
	r := run(t, target(softmax.ForwardDefinition, num.F16, bitwise(honest)), verify.Options{Case: "normal/R=2,C=3", Journal: j}).Report
	if r.Verdict != evidence.Accepted {
		t.Errorf("%s %s", r.Verdict, r.Reason)
	}
	if err := j.Close(); err == nil {
		t.Error("Close said nothing of what could not be written")
	}
}
