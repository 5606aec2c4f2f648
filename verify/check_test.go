package verify_test

import (
	"runtime"
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
	"tokitai/op/gemm"
	"tokitai/op/softmax"
	"tokitai/verify"
)

// The results of the kernels below are always admissible: they sum in lanes or, under some
// condition, in ascending order. Only a check that creates the condition notices this.

func eitherProduct(o def.Order, isOther func(l *engine.Launch) bool) *engine.Lowering {
	return bounded(o, func(d *def.Definition, l *engine.Launch) error {
		if isOther(l) {
			return plainProduct(sequential)(d, l)
		}
		return plainProduct(lanes(16))(d, l)
	})
}

func eitherSoftmax(isOther func(l *engine.Launch) bool) *engine.Lowering {
	l := bounded(def.Order{}, func(d *def.Definition, l *engine.Launch) error {
		if isOther(l) {
			return softmaxOf(sequential)(d, l)
		}
		return softmaxOf(lanes(16))(d, l)
	})
	l.Promise.FunctionULP = 1
	return l
}

// rejecting lists the checks that reject a target, each on one shape.
func rejecting(t *testing.T, x *verify.Target, shape string, tier evidence.TierName) []string {
	t.Helper()
	var list []string
	for _, name := range verify.ChecksOf(x)[tier] {
		r := run(t, x, verify.Options{Case: name + ":normal/" + shape, Seed: 1})
		switch got := r.RejectedBy(); {
		case slices.Equal(got, []evidence.TierName{tier}):
			list = append(list, name)
		case got != nil || r.Report.Verdict != evidence.Accepted:
			t.Errorf("%s: %s by %v: %s", name, r.Report.Verdict, got, r.Report.Reason)
		}
	}
	return list
}

var lanes16 = def.Order{Kind: def.Lanes, Width: 16}

func abs(x float32) float32 { return max(x, -x) }

func TestRelationsBite(t *testing.T) {
	t.Parallel()
	const shape = "M=5,K=37,N=7"
	at := func(l *engine.Launch, operand, r, c int) float32 { return l.Arrays()[operand].At(r, c) }
	rows := func(l *engine.Launch) int { return l.Operands[2].Rows }
	cols := func(l *engine.Launch) int { return l.Operands[2].Cols }
	size := func(l *engine.Launch) float32 { return abs(at(l, 0, 0, 0)) + abs(at(l, 0, 0, 1)) + abs(at(l, 0, 0, 2)) }
	for i, test := range []struct {
		what string
		is   func(l *engine.Launch) bool
		want []string
	}{
		{"never", func(*engine.Launch) bool { return false }, nil},
		{"always", func(*engine.Launch) bool { return true }, nil},
		{"one row", func(l *engine.Launch) bool { return rows(l) == 1 }, []string{"split-M", "batch-M"}},
		{"four rows", func(l *engine.Launch) bool { return rows(l) == 4 }, []string{"split-M"}},
		{"one column", func(l *engine.Launch) bool { return cols(l) == 1 }, []string{"split-N"}},
		{"a long sum", func(l *engine.Launch) bool { return l.Operands[0].Cols > 40 }, []string{"pad-K"}},
		{"more rows than columns", func(l *engine.Launch) bool { return rows(l) == 7 }, []string{"transpose"}},
		{"the first row is smaller than the last", func(l *engine.Launch) bool {
			return rows(l) == 5 && abs(at(l, 0, 0, 0)) < abs(at(l, 0, 4, 0))
		}, []string{"reverse-M"}},
		{"the first column is smaller than the last", func(l *engine.Launch) bool {
			return cols(l) == 7 && rows(l) == 5 && abs(at(l, 1, 0, 0)) < abs(at(l, 1, 0, 6))
		}, []string{"reverse-N"}},
		{"large numbers", func(l *engine.Launch) bool { return size(l) > 12 }, []string{"scale-scaled-left-up", "scale-scaled-against-each-other-up"}},
		{"small numbers", func(l *engine.Launch) bool { return size(l) < 0.5 }, []string{"scale-scaled-left-down", "scale-scaled-against-each-other-down"}},
	} {
		if !isTried(i, 3) {
			continue
		}
		t.Run(test.what, func(t *testing.T) {
			x := target(gemm.ForwardDefinition, num.F32, eitherProduct(lanes16, test.is))
			if got := rejecting(t, x, shape, evidence.Relations); !slices.Equal(got, test.want) {
				t.Errorf("rejected by %v, want %v", got, test.want)
			}
		})
	}
	negative := target(gemm.ForwardDefinition, num.F32, eitherProduct(def.Order{}, func(l *engine.Launch) bool { return at(l, 0, 0, 0) < 0 }))
	if got := rejecting(t, negative, shape, evidence.Relations); !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "scale-negated-left") }) {
		t.Errorf("negative numbers in another order: rejected by %v, want scale-negated-left", got)
	}
	replaced := target(softmax.ForwardDefinition, num.F32, eitherSoftmax(func(l *engine.Launch) bool { return &l.Operands[0].Data[0] == &l.Operands[1].Data[0] }))
	if got := rejecting(t, replaced, "R=5,C=133", evidence.Relations); !slices.Equal(got, []string{"in-place-y-x"}) {
		t.Errorf("another order in place: rejected by %v, want in-place-y-x", got)
	}
	// Of a kernel that declares no order, nothing is asked that depends on it.
	undeclared := target(gemm.ForwardDefinition, num.F32, eitherProduct(def.Order{}, func(l *engine.Launch) bool { return rows(l) != 5 }))
	if got := rejecting(t, undeclared, shape, evidence.Relations); got != nil {
		t.Errorf("no order is declared: rejected by %v, want nothing", got)
	}
}

func TestInvarianceBites(t *testing.T) {
	const shape = "R=5,C=133"
	workers := func(l *engine.Launch) int { return l.Device.(*cpu.Device).Pool().Workers() }
	own := runtime.GOMAXPROCS(0)
	var calls atomic.Int64 // of one target: its checks run one after the other
	for i, test := range []struct {
		what string
		is   func(l *engine.Launch) bool
		want []string
	}{
		{"never", func(*engine.Launch) bool { return false }, nil},
		{"every seventh call", func(*engine.Launch) bool { return calls.Add(1)%7 == 0 }, nil},
		{"rows lie apart", func(l *engine.Launch) bool { return l.Operands[0].Stride > l.Operands[0].Cols }, []string{"layout"}},
		{"outputs lie apart", func(l *engine.Launch) bool { return l.Operands[1].Stride == 133+64 }, []string{"layout"}},
		{"an odd address", func(l *engine.Launch) bool { return l.Operands[0].Address()%8 != 0 }, []string{"layout"}},
		{"three workers", func(l *engine.Launch) bool { return own != 3 && workers(l) == 3 }, []string{"workers"}},
		{"one worker", func(l *engine.Launch) bool { return own != 1 && workers(l) == 1 }, []string{"workers"}},
		{"eight workers", func(l *engine.Launch) bool { return own != 8 && workers(l) == 8 }, []string{"workers"}},
	} {
		if !isTried(i, 2) {
			continue
		}
		t.Run(test.what, func(t *testing.T) {
			calls.Store(0)
			got := rejecting(t, target(softmax.ForwardDefinition, num.F32, eitherSoftmax(test.is)), shape, evidence.Invariance)
			if test.what == "every seventh call" {
				if !slices.Contains(got, "repeat") {
					t.Errorf("rejected by %v, want repeat among them", got)
				}
				return
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("rejected by %v, want %v", got, test.want)
			}
		})
	}
}

// TestRepeatFindsTheEleventhCall checks a kernel that is right ten times. Its counter belongs to
// the compiled kernel.
func TestRepeatFindsTheEleventhCall(t *testing.T) {
	t.Parallel()
	l := bounded(def.Order{}, nil)
	l.Promise.FunctionULP = 1
	l.Compile = func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
		var calls atomic.Int64
		return engine.KernelFunc(func(l *engine.Launch) error {
			if calls.Add(1) > 10 {
				return softmaxOf(sequential)(d, l)
			}
			return softmaxOf(lanes(16))(d, l)
		}), nil
	}
	expectRejected(t, target(softmax.ForwardDefinition, num.F32, l), "repeat:normal/R=5,C=133", "run again, time", evidence.Invariance)
}

// TestConcurrentLaunches checks a kernel that is wrong only while another launch runs. Every launch
// waits a moment for another one.
func TestConcurrentLaunches(t *testing.T) {
	var under atomic.Int64
	l := bounded(def.Order{}, func(d *def.Definition, l *engine.Launch) error {
		under.Add(1)
		defer under.Add(-1)
		isCrowded := false
		for began := time.Now(); !isCrowded && time.Since(began) < 20*time.Millisecond; {
			isCrowded = under.Load() > 1
			time.Sleep(time.Millisecond)
		}
		if isCrowded {
			return softmaxOf(sequential)(d, l)
		}
		return softmaxOf(lanes(16))(d, l)
	})
	l.Promise.FunctionULP = 1
	x := target(softmax.ForwardDefinition, num.F32, l)
	if got := rejecting(t, x, "R=5,C=133", evidence.Invariance); !slices.Equal(got, []string{"concurrent", "scratch"}) {
		t.Errorf("rejected by %v, want concurrent and scratch", got)
	}
}

// TestChecksOfBits lists the checks of kernels that promise bits.
func TestChecksOfBits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		d    *def.Definition
		want string
	}{
		{gemm.ForwardDefinition, "scale-scaled-left-up scale-scaled-left-down scale-negated-left-up scale-negated-left-down scale-scaled-right-up scale-scaled-right-down" +
			" scale-negated-right-up scale-negated-right-down scale-scaled-against-each-other-up scale-scaled-against-each-other-down" +
			" reverse-M split-M reverse-N split-N batch-M pad-K transpose share-A-B; repeat late-change endure layout workers concurrent scratch cancel"},
		{softmax.ForwardDefinition, "reverse-R split-R batch-R in-place-y-x; repeat late-change endure layout workers concurrent scratch cancel"},
		{softmax.BackwardDefinition, "scale-scaled-dy-up scale-scaled-dy-down scale-negated-dy-up scale-negated-dy-down reverse-R split-R batch-R" +
			" in-place-dx-dy in-place-dx-y share-dy-y; repeat late-change endure layout workers concurrent scratch cancel"},
	} {
		checks := verify.ChecksOf(target(test.d, num.F16, bitwise(honest)))
		got := strings.Join(checks[evidence.Relations], " ") + "; " + strings.Join(checks[evidence.Invariance], " ")
		if got != test.want {
			t.Errorf("%s: checks\n%s\nwant\n%s", test.d.Name, got, test.want)
		}
	}
}

// TestCheckSeesStructure checks that writes outside of the outputs are found in further runs, too.
func TestCheckSeesStructure(t *testing.T) {
	t.Parallel()
	k := bitwise(func(d *def.Definition, l *engine.Launch) error {
		store(d, l, answer(d, l), nil)
		if l.Operands[0].Rows == 1 {
			poke(l, 1, -1)
		}
		return nil
	})
	expectRejected(t, target(softmax.ForwardDefinition, num.F16, k), "split-R:normal/R=5,C=33", "with R 0 to 1 alone: it writes outside y", evidence.Structure)
}
