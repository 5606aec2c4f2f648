package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
	"tokitai/op/softmax"
	"tokitai/tensor/safetensors"
	"tokitai/verify"
)

// target returns a definition's usual lowering in f16, changed by a test: after is called
// when its kernel has run, and its error is the kernel's.
func target(t *testing.T, operation, definition string, after func(d *def.Definition, l *engine.Launch) error) *verify.Target {
	t.Helper()
	for _, found := range verify.Targets(all.Operations, cpu.Backend) {
		if found.Operation.Name != operation || found.Definition.Name != definition || found.DType != num.F16 {
			continue
		}
		if after != nil {
			changed, usual := *found.Lowering, found.Lowering.Compile
			changed.Compile = func(dev device.Device, d *def.Definition, dtypes []num.DType, class int) (engine.Kernel, error) {
				k, err := usual(dev, d, dtypes, class)
				return changedKernel{k, func(l *engine.Launch) error { return after(d, l) }}, err
			}
			found.Lowering = &changed
		}
		return found
	}
	t.Fatalf("there is no %s in f16", definition)
	return nil
}

type changedKernel struct {
	engine.Kernel
	after func(l *engine.Launch) error
}

func (k changedKernel) Launch(l *engine.Launch) error {
	if err := k.Kernel.Launch(l); err != nil {
		return err
	}
	return k.after(l)
}

func (k changedKernel) String() string { return fmt.Sprint(k.Kernel) }

// useTargets lets the program verify these instead of its own.
func useTargets(t *testing.T, targets ...*verify.Target) {
	usual := verifyTargets
	verifyTargets = func(engine.Backend) []*verify.Target { return targets }
	t.Cleanup(func() { verifyTargets = usual })
}

// dropsTail spoils the last column of outputs with more than 64 columns.
func dropsTail(d *def.Definition, l *engine.Launch) error {
	for i, a := range l.Arrays() {
		if d.Operands[i].IsOut && a.Cols > 64 {
			for r := range a.Rows {
				a.SetBits(r, a.Cols-1, 0x1234)
			}
		}
	}
	return nil
}

// block returns what the program says about the failure of a lowering: a line each, by label.
func block(stdout, message string) map[string]string {
	_, after, ok := strings.Cut(stdout, "\n\n"+message)
	if !ok {
		return nil
	}
	lines := map[string]string{}
	for i, line := range strings.Split(after, "\n") {
		if i > 0 && !strings.HasPrefix(line, "  ") {
			break
		}
		if i == 0 {
			lines["message"] = message + line
			continue
		}
		if label := strings.TrimSpace(line[:10]); label != "" {
			lines[label] = line[10:]
		}
	}
	return lines
}

// words divides a command as a shell does.
func words(command string) (list []string) {
	for _, word := range strings.Fields(command) {
		list = append(list, strings.Trim(word, "'"))
	}
	return list
}

// A kernel that is wrong is shown with its smallest case, and the command that is shown
// shows it again.
func TestVerifyRejects(t *testing.T) {
	for _, row := range []struct{ operation, definition, place string }{
		{"softmax.backward", "softmax.backward", "dx[0,64]"},
		{"gemm.forward", "gemm.forward", "C[0,64]"},
		{"gemm.forward", "gemm.forward.accumulate", "C[0,64]"},
	} {
		useTargets(t, target(t, "softmax.forward", "softmax.forward", nil),
			target(t, "gemm.forward", "gemm.forward", nil), target(t, "gemm.forward", "gemm.forward.accumulate", nil))
		targets := verifyTargets(cpu.Backend)
		broken := target(t, row.operation, row.definition, dropsTail)
		at := slices.IndexFunc(targets, func(x *verify.Target) bool { return x.Definition == broken.Definition })
		if at < 0 {
			targets = append(targets, nil)
			at = len(targets) - 1
		}
		targets[at] = broken
		useTargets(t, targets...)

		code, stdout, stderr := program(t.Context(), "verify", "--level", "smoke", "--seed", "7")
		if want := fmt.Sprintf("tokitai verify: 1 of %d are rejected\n", len(targets)); code != exitRejected || stderr != want {
			t.Fatalf("%s: exit code %d, %q, want %q\n%s", row.definition, code, stderr, want, stdout)
		}
		if n := strings.Count(stdout, " accepted\n"); n != len(targets)-1 || !strings.Contains(stdout, " rejected\n") || !strings.Contains(stdout, "FAILED") {
			t.Errorf("%d rows are accepted:\n%s", n, stdout)
		}
		shown := block(stdout, broken.ID()+": ")
		if shown == nil || shown["message"] != fmt.Sprintf("%s: %s differs", broken.ID(), row.place) ||
			!strings.HasSuffix(shown["case"], " seed=7") || !strings.HasPrefix(shown["got"], "0x1234 (") || !strings.Contains(shown["want"], "truth ") || shown["inputs"] == "" {
			t.Errorf("%s is shown as %q in\n%s", broken.ID(), shown, stdout)
		}
		args := words(shown["replay"])
		if args[0] != "tokitai" || args[1] != "verify" {
			t.Fatalf("replay is %q", shown["replay"])
		}
		if !strings.HasPrefix(shown["when"], "only where ") || !strings.HasPrefix(shown["where"], "in ") {
			t.Errorf("%s fails %q, %q, want where its cases and its elements fail", broken.ID(), shown["when"], shown["where"])
		}
		code, stdout, stderr = program(t.Context(), args[1:]...)
		again := block(stdout, broken.ID()+": ")
		for _, label := range []string{"when", "where", "kinds"} { // of all cases, and of the one found first
			delete(shown, label)
			delete(again, label)
		}
		if code != exitRejected || !reflect.DeepEqual(again, shown) {
			t.Errorf("%q gives %d, %s and %q, want %q", shown["replay"], code, stderr, again, shown)
		}
	}
}

// The same for machines, and in reports.
func TestVerifyRejectsForMachines(t *testing.T) {
	t.Chdir(t.TempDir())
	useTargets(t, target(t, "softmax.forward", "softmax.forward", dropsTail), target(t, "gelu.forward", "gelu.forward", nil))
	code, stdout, _ := program(t.Context(), "verify", "--level", "smoke", "--json", "--out", "evidence")
	var run evidence.Run
	if err := json.Unmarshal([]byte(stdout), &run); err != nil || code != exitRejected || len(run.Results) != 2 {
		t.Fatalf("exit code %d, %v, %s", code, err, stdout)
	}
	if r := run.Results[0]; r.Verdict != evidence.Rejected || r.Mismatches == 0 || r.Reason != "softmax.forward/cpu.rowwise: y[0,64] differs" {
		t.Errorf("%+v", r)
	}
	if r := run.Results[1]; r.Verdict != evidence.Accepted || r.Reason != "" {
		t.Errorf("%+v", r)
	}
	report := readReport(t, "evidence/softmax.forward_cpu.rowwise_f16.json")
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if sum := fmt.Sprintf("%x", sha256.Sum256(program)); err != nil || report.Host.ProgramSHA256 != sum || report.Version != version || report.Failure == nil {
		t.Errorf("%v, %+v", err, report.Host)
	}
	if _, err := os.Stat("evidence/" + journalFile); err == nil {
		t.Error("the journal stayed")
	}
}

func readReport(t *testing.T, path string) *evidence.Report {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := &evidence.Report{}
	if err := json.Unmarshal(data, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// A kernel that ends in an error or not at all is undecided; a rejected one weighs more.
func TestVerifyUndecided(t *testing.T) {
	fails := target(t, "gelu.forward", "gelu.forward", func(*def.Definition, *engine.Launch) error { return errors.New("no such luck") })
	release := make(chan struct{})
	defer close(release)
	hangs := target(t, "gelu.backward", "gelu.backward", func(*def.Definition, *engine.Launch) error {
		<-release
		return nil
	})
	good := target(t, "softmax.forward", "softmax.forward", nil)

	useTargets(t, good, fails, hangs)
	code, stdout, stderr := program(t.Context(), "verify", "--level", "smoke", "--deadline", "100ms")
	if code != exitUndecided || stderr != "tokitai verify: 2 of 3 are undecided\n" || !strings.Contains(stdout, "\n1 accepted, 0 rejected, 2 undecided: 3 lowerings in 1 format\n") {
		t.Errorf("exit code %d, %q\n%s", code, stderr, stdout)
	}
	for _, row := range []struct{ id, reason string }{{fails.ID(), "no such luck"}, {hangs.ID(), "it did not return in time"}} {
		shown := block(stdout, row.id+", f16: undecided")
		if !strings.Contains(shown["reason"], row.reason) || !strings.HasPrefix(shown["replay"], "tokitai verify gelu.") {
			t.Errorf("%s is shown as %q in\n%s", row.id, shown, stdout)
		}
		args := append(words(shown["replay"])[1:], "--deadline", "100ms")
		if code, stdout, _ := program(t.Context(), args...); code != exitUndecided || !strings.Contains(block(stdout, row.id+", f16: undecided")["reason"], row.reason) {
			t.Errorf("%q gives %d\n%s", args, code, stdout)
		}
	}

	useTargets(t, fails, target(t, "softmax.forward", "softmax.forward", dropsTail))
	if code, stdout, stderr := program(t.Context(), "verify", "--level", "smoke"); code != exitRejected {
		t.Errorf("exit code %d, %q\n%s", code, stderr, stdout)
	}
}

// After an interrupt what was done is told as a part, and --resume ends with the reports
// of a run that nothing disturbed.
func TestVerifyResume(t *testing.T) {
	t.Chdir(t.TempDir())
	var launches, limit atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	counting := func(d *def.Definition, l *engine.Launch) error {
		if launches.Add(1) == limit.Load() {
			cancel()
		}
		if d == softmax.BackwardDefinition {
			return dropsTail(d, l)
		}
		return nil
	}
	useTargets(t, target(t, "softmax.forward", "softmax.forward", counting), target(t, "softmax.backward", "softmax.backward", counting),
		target(t, "layernorm.forward", "layernorm.forward", counting))
	verifyInto := func(ctx context.Context, dir string, more ...string) (int, string, string) {
		return program(ctx, append([]string{"verify", "--level", "smoke", "--out", dir}, more...)...)
	}
	if code, stdout, _ := verifyInto(ctx, "whole"); code != exitRejected {
		t.Fatalf("exit code %d\n%s", code, stdout)
	}
	files, err := filepath.Glob("whole/*_*.json")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	whole := launches.Load()
	for _, file := range files {
		if i := slices.IndexFunc(readReport(t, file).Fingerprints, func(f evidence.Fingerprint) bool { return f.Of == "source" && f.SHA256 != "" }); i < 0 {
			t.Errorf("%s has no fingerprint of the kernels' programs", file)
		}
	}

	for _, at := range []int64{1, whole / 4, whole / 2, whole * 3 / 4} { // late enough, and before the last cases: those launched may still be judged
		dir := fmt.Sprintf("part%d", at)
		launches.Store(0)
		limit.Store(at)
		ctx, cancel = context.WithCancel(t.Context())
		code, stdout, stderr := verifyInto(ctx, dir)
		cancel()
		if code != exitUndecided && code != exitRejected || !strings.Contains(stdout, "\npartial: ") || !strings.Contains(stdout, "--resume continues\n") {
			t.Errorf("%d: exit code %d, %q\n%s", at, code, stderr, stdout)
		}
		if at == 1 && (code != exitUndecided || stderr != "tokitai verify: interrupted: 0 of 3 were fully verified\n") {
			t.Errorf("exit code %d, %q", code, stderr)
		}
		isPartial := false
		for _, file := range files {
			r := readReport(t, filepath.Join(dir, filepath.Base(file)))
			isPartial = isPartial || r.Verdict == evidence.Interrupted && strings.HasPrefix(r.Reason, "interrupted: ")
		}
		if _, err := os.Stat(filepath.Join(dir, journalFile)); err != nil || !isPartial {
			t.Errorf("%d: %v, or no report says that it is a part", at, err)
		}

		limit.Store(-1)
		launches.Store(0)
		code, _, stderr = verifyInto(t.Context(), dir, "--resume")
		var taken int
		if _, err := fmt.Sscanf(stderr, "%d cases resumed from "+dir+"/journal.jsonl\n", &taken); code != exitRejected || (err == nil && taken > 0) != (at > 1) {
			t.Errorf("%d: resumed, exit code %d, %q", at, code, stderr)
		}
		if n := launches.Load(); at > 1 && n >= whole {
			t.Errorf("%d: resumed with %d launches, of %d in all", at, n, whole)
		}
		for _, file := range files {
			got, want := readReport(t, filepath.Join(dir, filepath.Base(file))).Stable(), readReport(t, file).Stable()
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%d: %s differs from that of an undisturbed run:\n%+v\n%+v", at, file, got, want)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, journalFile)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%d: the journal stayed: %v", at, err)
		}
	}

	// Without --resume a run begins anew.
	if code, _, stderr := verifyInto(t.Context(), "absent", "--resume"); code != exitRejected || !strings.Contains(stderr, "there is no absent/journal.jsonl to resume from: starting from the beginning\n") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// The command that is shown has the values of --param: without them the kernel is right.
func TestVerifyParamRejects(t *testing.T) {
	useTargets(t, target(t, "layernorm.forward", "layernorm.forward", func(d *def.Definition, l *engine.Launch) error {
		if l.Params[0] == 0.03 {
			l.Arrays()[d.Operand("y")].SetBits(0, 0, 0x1234)
		}
		return nil
	}))
	if code, stdout, _ := program(t.Context(), "verify", "layernorm.forward", "--level", "smoke", "--param", "eps=0.02"); code != exitOK {
		t.Errorf("eps=0.02: exit code %d\n%s", code, stdout)
	}
	code, stdout, _ := program(t.Context(), "verify", "layernorm.forward", "--level", "smoke", "--param", "eps=0.03")
	shown := block(stdout, "layernorm.forward/")
	if code != exitRejected || !strings.Contains(shown["replay"], " --param eps=0.03 ") {
		t.Fatalf("eps=0.03: exit code %d\n%s", code, stdout)
	}
	code, stdout, stderr := program(t.Context(), words(shown["replay"])[1:]...)
	if again := block(stdout, "layernorm.forward/"); code != exitRejected || again["got"] != shown["got"] || again["case"] != shown["case"] {
		t.Errorf("%q gives %d, %s and %q, want %q", shown["replay"], code, stderr, again, shown)
	}
}

// Entries of a journal with another seed are not used, and a note says so.
func TestVerifyResumeOther(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	var launches atomic.Int64
	useTargets(t, target(t, "softmax.forward", "softmax.forward", func(*def.Definition, *engine.Launch) error {
		if launches.Add(1) == 200 {
			cancel()
		}
		return nil
	}))
	args := []string{"verify", "--level", "smoke", "--out", "evidence"}
	if code, _, stderr := program(ctx, args...); code != exitUndecided {
		t.Fatalf("exit code %d, %q", code, stderr)
	}
	code, _, stderr := program(t.Context(), append(args, "--seed", "2", "--resume")...)
	if want := "nothing in evidence/journal.jsonl could be used: it belongs to other lowerings or parameters, or another seed, level or program\n"; code != exitOK || stderr != want {
		t.Errorf("exit code %d, %q, want %q", code, stderr, want)
	}
}

// A folder that another run writes to is left alone; a journal that is gone at the end
// is what was wanted.
func TestVerifyJournalOfOthers(t *testing.T) {
	t.Chdir(t.TempDir())
	useTargets(t, target(t, "softmax.forward", "softmax.forward", func(*def.Definition, *engine.Launch) error {
		os.Remove("evidence/" + journalFile)
		return nil
	}))
	args := []string{"verify", "--level", "smoke", "--out", "evidence"}
	if code, _, stderr := program(t.Context(), args...); code != exitOK || stderr != "" {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	other, err := verify.OpenJournal("evidence/"+journalFile, false)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	code, stdout, stderr := program(t.Context(), args...)
	if code != exitFailed || stdout != "" || !strings.Contains(stderr, "tokitai verify: evidence/journal.jsonl: another verification is writing there") {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
}

// Reports that cannot be written: the verdicts are told all the same, and what was done
// is kept.
func TestVerifyUnwritten(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("evidence/softmax.forward_cpu.rowwise_f16.json", 0o777); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		after   func(*def.Definition, *engine.Launch) error
		code    int
		verdict string
	}{{nil, exitFailed, "accepted"}, {dropsTail, exitRejected, "rejected"}} {
		useTargets(t, target(t, "softmax.forward", "softmax.forward", row.after))
		code, stdout, stderr := program(t.Context(), "verify", "--level", "smoke", "--out", "evidence")
		if code != row.code || !strings.Contains(stdout, "  "+row.verdict+"\n") || strings.Contains(stdout, "reports: ") || !strings.Contains(stderr, "softmax.forward_cpu.rowwise_f16.json was not written: ") {
			t.Errorf("exit code %d, %q\n%s", code, stderr, stdout)
		}
		if _, err := os.Stat("evidence/" + journalFile); err != nil {
			t.Error(err)
		}
	}
}

// Targets are verified several at a time, and told in order.
func TestVerifyOrder(t *testing.T) {
	slow := func(*def.Definition, *engine.Launch) error {
		time.Sleep(time.Millisecond)
		return nil
	}
	useTargets(t, target(t, "norm.square_sum", "norm.square_sum", slow), target(t, "gelu.forward", "gelu.forward", nil), target(t, "softmax.forward", "softmax.forward", nil))
	code, stdout, stderr := program(t.Context(), "verify", "--level", "smoke")
	first, second, third := strings.Index(stdout, "\nnorm.square_sum/"), strings.Index(stdout, "\ngelu.forward/"), strings.Index(stdout, "\nsoftmax.forward/")
	if code != exitOK || first < 0 || second < first || third < second {
		t.Errorf("exit code %d, %q\n%s", code, stderr, stdout)
	}
}

// A run whose kernel is wrong writes what the kernel gave, says so and exits with 3.
func TestRunReportRejects(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, "x.safetensors", "x:f16:2x70=1")
	usual := all.Find("softmax.forward").Run
	broken := target(t, "softmax.forward", "softmax.forward", dropsTail).Lowering
	all.Find("softmax.forward").Run = func(q *engine.Queue, in engine.Args, p *op.Values, opts ...engine.CallOption) (engine.Args, error) {
		return usual(q, in, p, append(opts, engine.Using(broken))...)
	}
	t.Cleanup(func() { all.Find("softmax.forward").Run = usual })

	args := []string{"run", "softmax.forward", "--in", "x.safetensors", "--out", "it's y.safetensors", "--report", "evidence", "--admission", "off"}
	code, stdout, stderr := program(t.Context(), args...)
	replay := "tokitai run softmax.forward --in " + absolute("x.safetensors") + ` --out 'it'\''s y.safetensors' --report evidence --admission off`
	shown := block(stdout, "softmax.forward/cpu.rowwise: ")
	if code != exitRejected || !strings.HasPrefix(stderr, "tokitai run: softmax.forward/cpu.rowwise: y[0,69] differs; the outputs in it's y.safetensors are wrong: do not use them\n") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if !strings.Contains(stdout, " rejected\n") || shown["message"] != "softmax.forward/cpu.rowwise: y[0,69] differs" || shown["got"] != "0x1234 (0.00075721741)" || shown["replay"] != replay {
		t.Errorf("%q in\n%s", shown, stdout)
	}
	if f, err := safetensors.ReadFile("it's y.safetensors"); err != nil || len(f.Entries) != 1 {
		t.Errorf("the outputs were not written: %v", err)
	}
	r := readReport(t, "evidence/softmax.forward_cpu.rowwise_f16.json")
	if r.Verdict != evidence.Rejected || r.Mismatches != 2 || r.Elements != 140 || r.Failure.Replay != replay || r.Level != "call" {
		t.Errorf("%+v", r)
	}

	code, stdout, _ = program(t.Context(), append(args, "--json")...)
	var result runResult
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != exitRejected || len(result.Reports) != 1 || result.Reports[0].Verdict != evidence.Rejected {
		t.Errorf("exit code %d, %v, %s", code, err, stdout)
	}
}

// A checked kernel that ends in an error leaves a report, no outputs, and no verdict.
func TestRunReportUndecided(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, "x.safetensors", "x:f16:2x70=1")
	usual := all.Find("softmax.forward").Run
	fails := target(t, "softmax.forward", "softmax.forward", func(*def.Definition, *engine.Launch) error { return errors.New("no such luck") }).Lowering
	all.Find("softmax.forward").Run = func(q *engine.Queue, in engine.Args, p *op.Values, opts ...engine.CallOption) (engine.Args, error) {
		return usual(q, in, p, append(opts, engine.Using(fails))...)
	}
	t.Cleanup(func() { all.Find("softmax.forward").Run = usual })
	code, stdout, stderr := program(t.Context(), "run", "softmax.forward", "--in", "x.safetensors", "--out", "y.safetensors", "--report", "evidence", "--admission", "off")
	if code != exitUndecided || stdout != "" || !strings.Contains(stderr, "no such luck") {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	if r := readReport(t, "evidence/softmax.forward_cpu.rowwise_f16.json"); r.Verdict != evidence.Inadmissible || !strings.Contains(r.Reason, "no such luck") {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat("y.safetensors"); err == nil {
		t.Error("an output was written")
	}

	var nothing verify.CallReport
	if err := (&runFlags{}).verdict(&nothing, &filePlan{}); exitCode(err) != exitUndecided {
		t.Errorf("nothing gives %v", err)
	}
}

func TestShellQuoted(t *testing.T) {
	for text, want := range map[string]string{
		"a-b_c./=:,+@%9": "a-b_c./=:,+@%9", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'", "a\nb": "'a\nb'", "~": "'~'", "é": "'é'",
	} {
		if got := shellQuoted(text); got != want {
			t.Errorf("%q becomes %s, want %s", text, got, want)
		}
	}
}

func TestRounded(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1.0 k", 1049: "1.0 k", 66_660: "66.7 k", 999_949: "999.9 k", 999_950: "1.0 M", 2_200_000: "2.2 M", 3_100_000_000: "3.1 G", 5e12: "5.0 T", 2e15: "2000.0 T",
	} {
		if got := rounded(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
