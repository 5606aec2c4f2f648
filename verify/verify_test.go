package verify_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/softmax"
	"tokitai/verify"
)

// testLevel returns the level of verifications at the current test level.
func testLevel() verify.Level {
	return testlevel.Pick(verify.Smoke, verify.Smoke, verify.Full, verify.Exhaustive)
}

// someOf returns all targets or, at level smoke, some of every kind.
func someOf(targets []*verify.Target) []*verify.Target {
	var list []*verify.Target
	for i := 0; i < len(targets); i += testlevel.Pick(41, 1) {
		list = append(list, targets[i])
	}
	return list
}

// ofFewFormats returns all targets or, at level smoke, those in f16 and in the first format of their
// definition.
func ofFewFormats(targets []*verify.Target) []*verify.Target {
	if testlevel.Current() > testlevel.Smoke {
		return targets
	}
	return slices.DeleteFunc(targets, func(x *verify.Target) bool {
		return x.DType != num.F16 && x.DType != x.Definition.Format(x.Definition.Formats()[0])
	})
}

// isTried reports whether a test tries entry i of a list: one in n in plain go test, all of them from
// level quick on.
func isTried(i, n int) bool { return i%testlevel.Pick(n, 1) == 0 }

// same compares two reports, except for what depends on the machine and the time.
func same(t *testing.T, what string, a, b *evidence.Report) {
	t.Helper()
	if x, y := a.Stable(), b.Stable(); !reflect.DeepEqual(x, y) {
		one, _ := x.JSON()
		two, _ := y.JSON()
		lines, others := strings.Split(string(one), "\n"), strings.Split(string(two), "\n")
		for i := range lines {
			if i >= len(others) || lines[i] != others[i] {
				t.Errorf("%s: reports differ at line %d: %s", what, i, lines[i])
				return
			}
		}
		t.Errorf("%s: reports differ", what)
	}
}

// reported returns targets with every verdict that a run can have.
func reported(t *testing.T) map[string]*verify.Target {
	list := map[string]*verify.Target{}
	for _, x := range cpuTargets() {
		isAsked := x.Definition == softmax.ForwardDefinition && x.DType == num.F16 || isTried(1, 2) && x.Definition == layernorm.BackwardDefinition && x.DType == num.BF16
		if isAsked && list[x.Definition.Name] == nil { // with the first of its lowerings
			list[x.Definition.Name] = x
		}
	}
	if want := testlevel.Pick(1, 2); len(list) != want {
		t.Fatalf("%d targets, want %d", len(list), want)
	}
	list["rejected"] = target(softmax.BackwardDefinition, num.F16, flipWhere(func(_ *engine.Launch, r, c int) bool { return r == 2 && c > 3 }))
	list["bounded"] = brief(target(gemm.ForwardDefinition, num.F16, bounded(lanes16, plainProduct(lanes(16)))))
	list["inadmissible"] = target(softmax.ForwardDefinition, num.F32, bitwise(damaged(func(_ *engine.Launch, out []num.Array) {
		if out[0].Cols == 9 {
			panic("nine")
		}
	})))
	return list
}

// TestDeterminism checks that repeated and concurrent verifications of a target give the same
// report.
func TestDeterminism(t *testing.T) {
	t.Parallel()
	targets, again := reported(t), reported(t)
	first := map[string]*evidence.Report{}
	for name, x := range targets {
		first[name] = run(t, x, verify.Options{Seed: 3}).Report
	}
	want := map[string]evidence.Verdict{"rejected": evidence.Rejected, "inadmissible": evidence.Inadmissible, "bounded": evidence.Accepted}
	for name, verdict := range want {
		if first[name].Verdict != verdict {
			t.Errorf("%s: %s %s", name, first[name].Verdict, first[name].Reason)
		}
	}
	var group sync.WaitGroup
	for name, x := range again {
		for range testlevel.Pick(1, 2) {
			group.Go(func() { same(t, name, run(t, x, verify.Options{Seed: 3}).Report, first[name]) })
		}
	}
	group.Wait()
	other := run(t, targets["bounded"], verify.Options{Seed: 4}).Report
	if other.DigestSHA256 == first["bounded"].DigestSHA256 {
		t.Error("another seed gives the same inputs")
	}
}

// TestInterrupted checks that an interrupted verification reports the cases that were judged, and
// decides nothing unless one of them failed.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	x := reported(t)["softmax.forward"]
	for _, after := range []int{0, 1, 40} {
		ctx, cancel := context.WithCancel(context.Background())
		if after == 0 {
			cancel()
		}
		all := 0
		r := runUnder(t, ctx, x, verify.Options{Seed: 1, Progress: func(done, total int) {
			all = total
			if done == after {
				cancel()
			}
		}}).Report
		if after > 0 && r.Cases == all { // all had been judged by then
			cancel()
			continue
		}
		if r.Verdict != evidence.Interrupted || r.Cases < after || !strings.HasPrefix(r.Reason, "interrupted: ") {
			t.Errorf("after %d: %s %q, %d cases", after, r.Verdict, r.Reason, r.Cases)
		}
		cancel()
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	wrong := target(softmax.ForwardDefinition, num.F16, flipWhere(func(*engine.Launch, int, int) bool { return true }))
	r := runUnder(t, ctx, wrong, verify.Options{Seed: 1, Progress: func(int, int) { cancel() }}).Report
	if r.Verdict != evidence.Rejected || r.Cases < 1 || r.Failure.Case != r.Failure.OriginalCase {
		t.Errorf("%s after %d cases: %+v; want rejected after one or a few, unshrunk", r.Verdict, r.Cases, r.Failure)
	}
}

// TestInterruptedWhileItRuns checks that an interrupted verification waits for neither a compiler
// nor a kernel, and does not blame the kernel.
func TestInterruptedWhileItRuns(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	defer close(goOn)
	for name, l := range map[string]func(cancel func()) *engine.Lowering{
		"compiling": func(cancel func()) *engine.Lowering {
			l := bitwise(nil)
			l.Compile = func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) {
				cancel()
				<-goOn
				return nil, errors.New("killed")
			}
			return l
		},
		"running": func(cancel func()) *engine.Lowering {
			return bitwise(func(*def.Definition, *engine.Launch) error {
				cancel()
				<-goOn
				return errors.New("killed")
			})
		},
		"failing at that moment": func(cancel func()) *engine.Lowering {
			return bitwise(func(*def.Definition, *engine.Launch) error {
				cancel()
				return errors.New("killed")
			})
		},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		r := runUnder(t, ctx, target(softmax.ForwardDefinition, num.F16, l(cancel)), verify.Options{}).Report
		if r.Verdict != evidence.Interrupted || r.Cases != 0 || r.Reason != "interrupted: no case is done" {
			t.Errorf("%s: %s %q, %d cases", name, r.Verdict, r.Reason, r.Cases)
		}
		cancel()
	}
}

// TestProgress counts every case once.
func TestProgress(t *testing.T) {
	t.Parallel()
	x := reported(t)["softmax.forward"]
	want := len(verify.CasesOf(x, verify.Smoke))
	calls := 0
	run(t, x, verify.Options{Progress: func(done, total int) {
		if calls++; done != calls || total != want {
			t.Errorf("call %d: %d of %d, want %d of %d", calls, done, total, calls, want)
		}
	}})
	if calls != want {
		t.Errorf("%d calls, want %d", calls, want)
	}
}

// TestTargets checks that Targets lists every definition once in every format that it allows, with
// every lowering.
func TestTargets(t *testing.T) {
	t.Parallel()
	got := map[string]int{}
	for _, x := range verify.Targets(all.Operations, cpu.Backend) {
		got[x.ID()+" "+x.DType.String()]++
	}
	want := map[string]int{}
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			for _, f := range d.Formats() {
				for _, l := range engine.Lowerings(cpu.Backend, d) {
					if l.Promise.Accum == def.FMAChain || f[0] != num.F32 { // tensor cores multiply f16 and bf16
						want[l.ID(d)+" "+d.Format(f).String()] = 1
					}
				}
			}
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestSmokeIsSmall limits the work of level smoke, which emulators and sanitizers run.
func TestSmokeIsSmall(t *testing.T) {
	t.Parallel()
	for _, x := range someOf(cpuTargets()) {
		r := run(t, x, verify.Options{Seed: 1, Level: verify.Smoke}).Report
		if r.Verdict != evidence.Accepted {
			t.Errorf("%s %s: %s: %s %+v", x.ID(), x.DType, r.Verdict, r.Reason, r.Failure)
		}
		most := int64(0) // gradients and dispatches have several outputs
		for i := range x.Definition.Operands {
			if x.Definition.Operands[i].IsOut {
				most += 350_000
			}
		}
		if r.Elements > most || r.Cases < 100 {
			t.Errorf("%s %s: %d outputs in %d cases, want at most %d in at least 100", x.ID(), x.DType, r.Elements, r.Cases, most)
		}
		_, grids := verify.PatternNames(x)
		for _, tier := range r.Tiers {
			applies := tier.Name != evidence.Set && tier.Name != evidence.Statistics && (tier.Name != evidence.Grid || len(grids) > 0) &&
				(tier.Name != evidence.Relations || len(verify.ChecksOf(x)[evidence.Relations]) > 0)
			if (tier.Checks > 0) != applies || tier.Failed > 0 || applies != (tier.Note == "") {
				t.Errorf("%s %s: tier %+v, applies %t", x.ID(), x.DType, tier, applies)
			}
		}
	}
}

// cpuTargets returns the targets of a verification of the CPU.
func cpuTargets() []*verify.Target {
	return slices.DeleteFunc(verify.Targets(all.Operations, cpu.Backend), func(x *verify.Target) bool {
		return slices.Contains(cpu.Backend.OnDemand(x.Definition), x.Lowering)
	})
}
