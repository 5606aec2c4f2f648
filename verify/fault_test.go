package verify_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/op/softmax"
	"tokitai/verify"
)

type panicking struct{}

func (panicking) Do(_, item int) {
	if item == 3 {
		panic("boom in a worker")
	}
}

// TestKernelEndsInAnError checks that an error of the kernel ends the verification after a few
// cases, without a decision and with the reason.
func TestKernelEndsInAnError(t *testing.T) {
	t.Parallel()
	plain := func() *engine.Lowering { return bitwise(honest) }
	for _, test := range []struct {
		what, text string
		lowering   func() *engine.Lowering
	}{
		{"panic in Launch", "boom in a launch", func() *engine.Lowering {
			return bitwise(func(*def.Definition, *engine.Launch) error { panic("boom in a launch") })
		}},
		{"panic in Compile", "boom in compile", func() *engine.Lowering {
			l := plain()
			l.Compile = func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) {
				panic("boom in compile")
			}
			return l
		}},
		{"panic in Class", "boom in class", func() *engine.Lowering {
			l := plain()
			l.Class = func(*def.Definition, *lower.Call) int { panic("boom in class") }
			return l
		}},
		{"panic in a worker", "boom in a worker", func() *engine.Lowering {
			return bitwise(func(_ *def.Definition, l *engine.Launch) error {
				return l.Device.(*cpu.Device).Pool().Run(l.Context, 5, panicking{})
			})
		}},
		{"error of Launch", "no luck today", func() *engine.Lowering {
			return bitwise(func(*def.Definition, *engine.Launch) error { return errors.New("no luck today\nand a second line") })
		}},
		{"error of Compile", "does not compile", func() *engine.Lowering {
			l := plain()
			l.Compile = func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) {
				return nil, errors.New("does not compile")
			}
			return l
		}},
		{"nothing compiled", "", func() *engine.Lowering {
			l := plain()
			l.Compile = func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) { return nil, nil }
			return l
		}},
	} {
		t.Run(test.what, func(t *testing.T) {
			last := 0
			r := run(t, target(softmax.ForwardDefinition, num.F16, test.lowering()), verify.Options{Progress: func(done, _ int) { last = done }}).Report
			if r.Verdict != evidence.Inadmissible || !strings.Contains(r.Reason, test.text) || strings.Contains(r.Reason, "\n") {
				t.Errorf("%s: %q, want inadmissible with %q in one line", r.Verdict, r.Reason, test.text)
			}
			if last != 3 || r.Cases != 0 || r.Failure != nil {
				t.Errorf("stopped after %d cases, %d listed, failure %v; want 3, none, none", last, r.Cases, r.Failure)
			}
		})
	}
}

// TestErrorInACheck checks a kernel whose first run is right and whose further runs fail.
func TestErrorInACheck(t *testing.T) {
	t.Parallel()
	k := bitwise(func(d *def.Definition, l *engine.Launch) error {
		if l.Operands[0].Rows == 1 {
			return errors.New("one row is too few")
		}
		return honest(d, l)
	})
	r := run(t, target(softmax.ForwardDefinition, num.F16, k), verify.Options{Case: "split-R:normal/R=5,C=33"}).Report
	if r.Verdict != evidence.Inadmissible || !strings.Contains(r.Reason, "one row is too few") {
		t.Errorf("%s: %q, want inadmissible for one row", r.Verdict, r.Reason)
	}
}

// TestRejectedDespiteErrors checks that a wrong case outweighs an earlier one that ended in an
// error.
func TestRejectedDespiteErrors(t *testing.T) {
	t.Parallel()
	var launches atomic.Int64
	k := bitwise(damaged(func(l *engine.Launch, out []num.Array) {
		if launches.Add(1) == 1 {
			panic("not yet")
		}
		out[1].SetBits(0, 0, out[1].Bits(0, 0)^1)
	}))
	r := run(t, target(softmax.ForwardDefinition, num.F16, k), verify.Options{}).Report
	if r.Verdict != evidence.Rejected || r.Failure.Place != "y[0,0]" || r.Failure.Case != "ones/R=1,C=1" {
		t.Errorf("%s: %s, %+v; want rejected at y[0,0] of one element", r.Verdict, r.Reason, r.Failure)
	}
}

// TestHang checks that a launch that hangs is given up, and that the next target runs as usual.
func TestHang(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	var hangs atomic.Int64
	hanging := bitwise(func(d *def.Definition, l *engine.Launch) error {
		if l.Operands[0].Cols == 9 {
			hangs.Add(1)
			<-release
		}
		return honest(d, l)
	})
	// Launches that do not hang must return in time, however busy the machine is.
	r := run(t, target(softmax.ForwardDefinition, num.F16, hanging), verify.Options{Deadline: 3 * time.Second}).Report
	if r.Verdict != evidence.Inadmissible || !strings.Contains(r.Reason, "did not return in time") || !strings.Contains(r.Reason, "C=9") {
		t.Errorf("%s: %q, want inadmissible for a hang with C=9", r.Verdict, r.Reason)
	}
	if r.Failure != nil || r.Cases == 0 {
		t.Errorf("failure %v, %d cases; want none, and those before the hang", r.Failure, r.Cases)
	}
	if n := hangs.Load(); n != 2 {
		t.Errorf("it hung %d times, want twice: the device is not used again, and the case is tried once on another", n)
	}
	next := run(t, target(softmax.ForwardDefinition, num.F16, bitwise(honest)), verify.Options{}).Report
	if next.Verdict != evidence.Accepted {
		t.Errorf("the next target: %s: %s", next.Verdict, next.Reason)
	}
}

// TestTargetsThatAreNone checks that invalid targets are refused with an error.
func TestTargetsThatAreNone(t *testing.T) {
	t.Parallel()
	nameless := bitwise(honest)
	nameless.Name = ""
	hollow := bitwise(honest)
	hollow.Compile = nil
	disorder := bounded(def.Order{Kind: def.Lanes}, honest)
	for _, test := range []struct {
		text string
		x    *verify.Target
		o    verify.Options
	}{
		{"no definition", nil, verify.Options{}},
		{"no definition", &verify.Target{Lowering: bitwise(honest)}, verify.Options{}},
		{"no definition", &verify.Target{Definition: &def.Definition{}, Lowering: bitwise(honest)}, verify.Options{}},
		{"no lowering", target(softmax.ForwardDefinition, num.F16, nil), verify.Options{}},
		{"no lowering", target(softmax.ForwardDefinition, num.F16, hollow), verify.Options{}},
		{"no name", target(softmax.ForwardDefinition, num.F16, nameless), verify.Options{}},
		{"results are exact, want promise bits", target(gemm.ZPKDefinition, num.I64, bounded(def.Order{}, honest)), verify.Options{}},
		{"names none of its formats", target(softmax.ForwardDefinition, num.I32, bitwise(honest)), verify.Options{}},
		{"width of at least 1", target(softmax.ForwardDefinition, num.F16, disorder), verify.Options{}},
		{"unknown level", target(softmax.ForwardDefinition, num.F16, bitwise(honest)), verify.Options{Level: 4}},
		{"there is no pattern", target(softmax.ForwardDefinition, num.F16, bitwise(honest)), verify.Options{Case: "what/R=1,C=1"}},
	} {
		if _, err := verify.Run(t.Context(), test.x, test.o); err == nil || !strings.Contains(err.Error(), test.text) {
			t.Errorf("got %v, want an error with %q", err, test.text)
		}
	}
	// A missing device is reported.
	r := run(t, target(softmax.ForwardDefinition, num.F16, bitwise(honest)), verify.Options{Device: "cuda:0"}).Report
	if r.Verdict != evidence.Inadmissible || r.Cases != 0 {
		t.Errorf("%s: %s, %d cases; want inadmissible without cases", r.Verdict, r.Reason, r.Cases)
	}
	elsewhere := bitwise(honest)
	elsewhere.Device = "cuda"
	if r := run(t, target(softmax.ForwardDefinition, num.F16, elsewhere), verify.Options{}).Report; r.Verdict != evidence.Inadmissible {
		t.Errorf("a lowering for another device: %s, want inadmissible", r.Verdict)
	}
}

func TestLevelNames(t *testing.T) {
	t.Parallel()
	for l := verify.Smoke; l <= verify.Exhaustive; l++ {
		if got, err := verify.ParseLevel(l.String()); err != nil || got != l {
			t.Errorf("%s: got %v, %v", l, got, err)
		}
	}
	if _, err := verify.ParseLevel("quickly"); err == nil || err.Error() != `unknown level "quickly"` {
		t.Errorf("got %v", err)
	}
}
