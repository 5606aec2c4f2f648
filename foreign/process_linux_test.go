package foreign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/kernelprocess/protocol"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/verify"
)

var scaled = func() *def.Definition {
	d, err := def.Parse("tokitai-def 1\nrowwise scaled\n  in x[R,C] f32\n  param a float default 2\n  out y[R,C] as x\n  y <- a*x\n")
	if err != nil {
		panic(err)
	}
	return d
}()

// patience is the deadline of calls that should come back: after that something hangs.
const patience = 5 * time.Minute

// inRole opens the test binary as a kernel process in a role.
func inRole(t *testing.T, name string, deadline time.Duration, output ...io.Writer) (*Kernel, error) {
	t.Helper()
	if roles[name] == nil {
		t.Fatalf("there is no role %q", name)
	}
	o := optionsOf(name)
	o.Deadline = deadline
	if len(output) > 0 {
		o.Stderr = output[0]
	}
	k, err := Process([]string{"/proc/self/exe"}, o)
	if err == nil {
		t.Cleanup(func() { k.Close() })
	}
	return k, err
}

func optionsOf(role string) Options {
	return Options{Definition: scaled, Seed: 7, Deadline: patience, Environment: []string{roleVariable + "=" + role}}
}

func judge(t *testing.T, k *Kernel, o verify.Options) *verify.Result {
	t.Helper()
	o.Deadline, o.Tool, o.Version = patience, "test", "1"
	r, err := verify.Run(t.Context(), &verify.Target{Definition: scaled, Lowering: k.Lowering, DType: num.F32}, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Report.Check(); err != nil {
		t.Errorf("the report contradicts itself: %v", err)
	}
	return r
}

const oneCase = "normal/R=5,C=33"

// TestVerdicts holds kernels that answer to the judge.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		role    string
		only    string // this case
		verdict evidence.Verdict
		reason  string
	}{
		{"honest", "", evidence.Accepted, ""},
		{"prints", "", evidence.Accepted, ""},
		{"wrong", "", evidence.Rejected, "y[0,6] differs"},
		{"answers by size", "", evidence.Rejected, "differs"},
		{"differs the second time", "", evidence.Rejected, "differs"},
		{"goes wrong after 30 calls", "", evidence.Rejected, "differs"},
		{"refuses f16", "", evidence.Skipped, "the kernel answered CALL with error 2: x is f16, want f32"},
		{"refuses long rows", "", evidence.Inadmissible, "rows of 33, want at most 16"},
		{"reads little", "", evidence.Inadmissible, "and the kernel's max-frame is 200"},
		{"raises", oneCase, evidence.Inadmissible, "error 11: ValueError: operands could not be broadcast"},
		{"returns another shape", oneCase, evidence.Rejected, "scaled/check.process: it has the shape [3], want [5 33]"},
		{"returns too little", oneCase, evidence.Rejected, "the kernel returned 328 bytes of outputs, want 660"},
		{"writes garbage", oneCase, evidence.Inadmissible, "to CALL is malformed: got kind"},
		{"answers another request", oneCase, evidence.Inadmissible, "got the number of request 4, want 3"},
		{"announces a long body", oneCase, evidence.Inadmissible, "got a body of 140737488355328 bytes, want at most"},
		{"sends descriptors", oneCase, evidence.Inadmissible, "got 1 descriptors, want none"},
		{"stops in a frame", oneCase, evidence.Inadmissible, "at CALL: kernel process"},
		{"answers twice", "", evidence.Inadmissible, "got the number of request 3, want 4"},
		{"has no results", oneCase, evidence.Inadmissible, "malformed: byte 0: nanoseconds takes 8 bytes"},
		{"names two lowerings", oneCase, evidence.Inadmissible, "got 2 names of lowerings, want 1"},
		{"closes its socket", oneCase, evidence.Inadmissible, "closed its socket at CALL, without exiting"},
	} {
		t.Run(c.role, func(t *testing.T) {
			t.Parallel()
			k, err := inRole(t, c.role, patience)
			if err != nil {
				t.Fatal(err)
			}
			r := judge(t, k, verify.Options{Seed: 3, Case: c.only}).Report
			if r.Verdict != c.verdict || !strings.Contains(r.Reason, c.reason) {
				t.Errorf("got %s: %s\nwant %s: %s", r.Verdict, r.Reason, c.verdict, c.reason)
			}
		})
	}
}

// TestReplay: a replay command names the kernel as the caller does, and the report says what
// it is.
func TestReplay(t *testing.T) {
	k, err := inRole(t, "wrong", patience)
	if err != nil {
		t.Fatal(err)
	}
	r := judge(t, k, verify.Options{Seed: 3, Case: oneCase, Command: "tokitai check scaled.def --exec ./wrong"})
	if want := "tokitai check scaled.def --exec ./wrong --dtype f32 --seed 3 --promise stable --case '" + oneCase + "'"; r.Replay != want {
		t.Errorf("got %s\nwant %s", r.Replay, want)
	}
	want := "/proc/self/exe, which calls itself test 1.0, on cpu (a processor); processes started: "
	if got := r.Report.Fingerprints[1].Note; !strings.HasPrefix(got, want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestNotOpened has programs that are no kernels.
func TestNotOpened(t *testing.T) {
	for _, c := range []struct{ role, want string }{
		{"exits at once", "died: exit status 7; its last words: no module named numpy"},
		{"speaks version 9", "got version 9, want 1"},
		{"speaks no version", "the kernel answered HELLO with error 12: no common version"},
		{"has a short welcome", "to HELLO is malformed: byte 0"},
		{"has nothing", "the kernel does not have scaled: its LIST is empty"},
		{"has others", "the kernel does not have scaled: it lists softmax.forward, mish.forward"},
		{"has other operands", "the kernel lists scaled with the operands input, y, want x, y"},
	} {
		t.Run(c.role, func(t *testing.T) {
			t.Parallel()
			if _, err := inRole(t, c.role, patience); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	_, err := inRole(t, "never answers", 20*time.Millisecond)
	if want := "did not answer HELLO within 20ms, and was killed"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := inRole(t, "has nothing", patience); err != nil {
		if _, ok := errors.AsType[*MissingError](err); !ok {
			t.Errorf("got %T, want *MissingError", err)
		}
	}
	for _, command := range [][]string{nil, {"no-such-program-anywhere"}, {"/"}} {
		if _, err := Process(command, Options{Definition: scaled}); err == nil {
			t.Errorf("%q: got no error", command)
		}
	}
	if _, err := Process([]string{"true"}, Options{}); err == nil {
		t.Error("without a definition: got no error")
	}
}

// TestDeaths: a process that dies or hangs is replaced, and the cases that it computed before
// count.
func TestDeaths(t *testing.T) {
	k, err := inRole(t, "crashes", patience)
	if err != nil {
		t.Fatal(err)
	}
	r := judge(t, k, verify.Options{Seed: 3}).Report
	if want := "died: signal killed, which the system sends when memory runs out; its last words: core dumped"; r.Verdict != evidence.Inadmissible || !strings.Contains(r.Reason, want) {
		t.Errorf("got %s: %s\nwant inadmissible: %s", r.Verdict, r.Reason, want)
	}
	if r.Cases < 4 { // two in each of three processes, at most one of which started with another kind of check
		t.Errorf("got %d cases, want more than one process has computed", r.Cases)
	}

	p := newPool("/proc/self/exe", []string{"/proc/self/exe"}, optionsOf("hangs"))
	defer p.close()
	if k, err = p.opened(); err != nil {
		t.Fatal(err)
	}
	p.options.Deadline = 50 * time.Millisecond
	r = judge(t, k, verify.Options{Seed: 3, Case: oneCase}).Report
	if want := "did not answer CALL within 50ms, and was killed"; r.Verdict != evidence.Inadmissible || !strings.Contains(r.Reason, want) {
		t.Errorf("got %s: %s\nwant inadmissible: %s", r.Verdict, r.Reason, want)
	}
}

// TestForked: what a kernel process has started is killed with it.
func TestForked(t *testing.T) {
	says, output := io.Pipe()
	k, err := inRole(t, "forks", patience, output)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan *evidence.Report)
	go func() { done <- judge(t, k, verify.Options{Seed: 3, Case: oneCase}).Report }()
	var pid int
	if _, err := fmt.Fscanf(says, "child %d\n", &pid); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, says)
	k.Close()
	if r := <-done; r.Verdict != evidence.Inadmissible || !strings.Contains(r.Reason, "died: signal killed") {
		t.Errorf("got %s: %s, want inadmissible", r.Verdict, r.Reason)
	}
	for limit := time.Now().Add(patience); syscall.Kill(pid, 0) == nil; time.Sleep(5 * time.Millisecond) {
		if stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); strings.Contains(string(stat), ") Z ") {
			break // nobody waits for it
		}
		if time.Now().After(limit) {
			t.Fatalf("process %d is still there", pid)
		}
	}
}

// TestFresh: a result that depends on the process is found, and other kernels have more than
// one process too.
func TestFresh(t *testing.T) {
	k, err := inRole(t, "differs in each process", patience)
	if err != nil {
		t.Fatal(err)
	}
	r := judge(t, k, verify.Options{Seed: 3}).Report
	if r.Verdict != evidence.Rejected || !strings.Contains(r.Reason, "differs") {
		t.Errorf("got %s: %s, want rejected", r.Verdict, r.Reason)
	}
}

// TestProcesses counts processes. All cases of a format run in one, but for those that ask for a
// process that has seen nothing; under a budget these come last. Only the start of a process and its
// first call are time that a budget does not count.
func TestProcesses(t *testing.T) {
	t.Parallel()
	k, err := inRole(t, "honest", patience)
	if err != nil {
		t.Fatal(err)
	}
	var kernels []engine.Renewer
	compile := k.Lowering.Compile
	k.Lowering.Compile = func(dev device.Device, d *def.Definition, dtypes []num.DType, class int) (engine.Kernel, error) {
		made, err := compile(dev, d, dtypes, class)
		kernels = append(kernels, made.(engine.Renewer))
		return made, err
	}
	began := time.Now()
	r := judge(t, k, verify.Options{Seed: 3, Budget: time.Hour}).Report
	if r.Verdict != evidence.Accepted || len(kernels) != 1 {
		t.Fatalf("got %s: %s, from %d kernels, want accepted, from one", r.Verdict, r.Reason, len(kernels))
	}
	fresh := 0
	for i, c := range r.CaseList {
		switch isFresh := strings.HasPrefix(c.Name, "fresh:"); {
		case isFresh:
			fresh++
		case fresh > 0:
			t.Fatalf("case %d is %s, after one in a new process", i, c.Name)
		}
	}
	if want := fmt.Sprintf("processes started: %d", 1+fresh); fresh == 0 || !strings.Contains(r.Fingerprints[1].Note, want) {
		t.Errorf("got %d cases in new processes and %q, want %s", fresh, r.Fingerprints[1].Note, want)
	}
	if waited := kernels[0].Waited(); waited <= 0 || waited > time.Since(began) {
		t.Errorf("it has waited %v for processes, want more than nothing and less than all the time", waited)
	}
}

// TestWaited checks that only calls that a process answers first count as waits.
func TestWaited(t *testing.T) {
	t.Parallel()
	k, err := inRole(t, "honest", patience)
	if err != nil {
		t.Fatal(err)
	}
	made, err := k.Lowering.Compile(nil, scaled, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	kernel := made.(engine.Renewer)
	waited := func() time.Duration {
		t.Helper()
		l := &engine.Launch{Call: lower.Call{Params: []float64{2}, Operands: []lower.Operand{
			{Array: num.ArrayOf(num.F32, 1, 2, 3, 4)}, {Array: num.NewArray(num.F32, 1, 2)},
		}}}
		if err := kernel.Launch(l); err != nil || l.Operands[1].At(0, 1) != 8 {
			t.Fatalf("got %v, want 8: %v", l.Operands[1].At(0, 1), err)
		}
		return kernel.Waited()
	}
	first, second := waited(), waited()
	kernel.Renew()
	fresh, after := waited(), waited()
	if first <= 0 || second != first || fresh <= second || after != fresh {
		t.Errorf("got waits of %v, %v, in a new process %v and in the old one again %v, want the first and the third to add to them", first, second, fresh, after)
	}
}

// TestClose ends a process that computes, and whoever waits for it.
func TestClose(t *testing.T) {
	k, err := inRole(t, "hangs", patience)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan *verify.Result)
	go func() {
		r, _ := verify.Run(ctx, &verify.Target{Definition: scaled, Lowering: k.Lowering, DType: num.F32}, verify.Options{Case: oneCase})
		done <- r
	}()
	time.Sleep(20 * time.Millisecond)
	cancel()
	<-done
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	if err := k.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

// TestBadIndexReplies checks what error replies become: a refusal, which may name the index that is
// out of range, an error about an output, or an error that the kernel raised.
func TestBadIndexReplies(t *testing.T) {
	gather, err := def.Parse("tokitai-def 1\ngather rows\n  in index[Q] i32 in [0,V)\n  in weight[V,D] f16 bf16 f32\n  out out[Q,D] as weight\n  out[q,d] <- bits of weight[index[q],d], +0 for a bad index\n")
	if err != nil {
		t.Fatal(err)
	}
	k := &processKernel{pool: &pool{kind: "process"}, definition: gather}
	reply := func(code protocol.Code, details ...protocol.Detail) error {
		return k.meaning(&RefusedError{Kind: protocol.KindCall, Failure: &protocol.Failure{Code: code, Message: "no", Details: details}})
	}
	for _, c := range []struct{ operand, index string }{{"index", "index"}, {"weight", ""}, {"table", ""}, {"", ""}} {
		err := reply(protocol.CodeBadArgument, protocol.Detail{Name: "operand", Value: c.operand})
		if unsuited, ok := errors.AsType[*engine.UnsuitedError](err); !ok || !unsuited.IsRefused || unsuited.Index != c.index {
			t.Errorf("operand %q: %#v, want a refusal that names %q", c.operand, err, c.index)
		}
	}
	if _, ok := errors.AsType[*engine.RaisedError](reply(protocol.CodeInternal)); !ok {
		t.Error("an internal error is not one of the kernel's own")
	}
	if _, ok := errors.AsType[*engine.OutputError](reply(protocol.CodeInternal, protocol.Detail{Name: "output", Value: "out"})); !ok {
		t.Error("an error about an output is not one")
	}
}
