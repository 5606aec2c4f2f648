package verify_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/softmax"
	"tokitai/verify"
)

// lines returns what a report prints about a failure and its replay prints again.
func lines(f *evidence.Failure) string {
	return strings.Join(slices.Concat([]string{
		"case   " + f.Case, "tier   " + string(f.Tier), "place  " + f.Place, f.Message,
		"got    " + f.Got, "want   " + f.Want, "truth  " + f.Truth,
	}, f.Inputs, f.Row), "\n")
}

// atLaunch returns a kernel that is right but for its n-th launch after it was compiled, in which it
// changes the outputs.
func atLaunch(n int64, change func(l *engine.Launch, out []num.Array)) *engine.Lowering {
	l := bitwise(nil)
	l.Compile = func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
		launches := new(atomic.Int64)
		return engine.KernelFunc(func(l *engine.Launch) error {
			out := answer(d, l)
			if launches.Add(1) == n {
				change(l, out)
			}
			store(d, l, out, nil)
			return nil
		}), nil
	}
	return l
}

// addOne adds 1 to the last element of the last operand, which is an output.
func addOne(_ *engine.Launch, out []num.Array) {
	y := out[len(out)-1]
	r, c := y.Rows-1, y.Cols-1
	y.Set(r, c, y.At(r, c)+1)
}

// addsWithoutRepeats is dweight[index] += dout: of rows with the same index only the last counts. It
// refuses indices out of range.
var addsWithoutRepeats = bitwise(func(d *def.Definition, l *engine.Launch) error {
	x := l.Arrays()
	at := func(name string) num.Array { return x[d.Operand(name)] }
	dout, index, dweight := at("dout"), at("index"), at("dweight")
	for r := range index.Rows {
		if isOutside(index.Int(r, 0), dweight.Rows) {
			return saysIndex(d)
		}
	}
	sum := dweight.Clone()
	for r := range sum.Rows {
		for c := range sum.Cols {
			sum.Set(r, c, 0)
		}
	}
	for r := range dout.Rows {
		for c := range dout.Cols {
			sum.Set(int(index.Int(r, 0)), c, dout.At(r, c))
		}
	}
	for r := range sum.Rows {
		for c := range sum.Cols {
			dweight.SetBits64(r, c, sum.Bits64(r, c))
		}
	}
	return nil
})

// TestReplayPrintsTheSame checks that a report of a wrong kernel and the replay of its case agree in
// every line, and that the case of the report is the one that ran.
func TestReplayPrintsTheSame(t *testing.T) {
	t.Parallel()
	sameMemory := func(a, b num.Array) bool { return &a.Data[0] == &b.Data[0] }
	for i, test := range []struct {
		what string
		d    *def.Definition
		l    *engine.Lowering
	}{
		{"rows of a repeated index are lost", embedding.BackwardDefinition, addsWithoutRepeats},
		{"the last element", embedding.BackwardDefinition, bitwise(damaged(addOne))},
		{"in place", gelu.ForwardDefinition, bitwise(damaged(func(l *engine.Launch, out []num.Array) {
			if sameMemory(l.Operands[0].Array, l.Operands[1].Array) {
				addOne(l, out)
			}
		}))},
		{"inputs in one memory", gelu.BackwardDefinition, bitwise(damaged(func(l *engine.Launch, out []num.Array) {
			if sameMemory(l.Operands[0].Array, l.Operands[1].Array) {
				addOne(l, out)
			}
		}))},
		{"one row", softmax.ForwardDefinition, bitwise(damaged(func(l *engine.Launch, out []num.Array) {
			if out[0].Rows == 1 && out[0].Cols == 33 {
				addOne(l, out)
			}
		}))},
	} {
		if !isTried(i, 2) {
			continue
		}
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			x := target(test.d, num.F32, test.l)
			r := run(t, x, verify.Options{IsNamed: true, Seed: 1, Invariance: true}).Report
			if r.Failure == nil {
				t.Fatalf("%s %s, want rejected", r.Verdict, r.Reason)
			}
			again := run(t, x, verify.Options{Case: r.Failure.Case, Seed: r.Failure.Seed}).Report
			if again.Failure == nil {
				t.Fatalf("%s passes when it is run again", r.Failure.Case)
			}
			if a, b := lines(r.Failure), lines(again.Failure); a != b {
				t.Errorf("the report has\n%s\nand the replay\n%s", a, b)
			}
			if got, want := r.Failure.Case, again.CaseList[0].Name; got != want {
				t.Errorf("the report has case %s, and case %s ran", got, want)
			}
		})
	}
}

// TestTruthIsOfTheRun checks that the truth in a report is that of the call that was wrong, also
// where a check has made that call from the case: the kernels compute exact sums, and one of their
// launches is wrong, so of the two results that differ one is the truth.
func TestTruthIsOfTheRun(t *testing.T) {
	t.Parallel()
	for d, must := range map[*def.Definition][]string{
		gemm.ForwardDefinition:       {"reverse-N", "split-M", "transpose", "pad-K", "late-change", "scale-scaled-left-up"},
		gemm.GradADefinition:         {"reverse-K", "split-M", "late-change"},
		embedding.ForwardDefinition:  {"reverse-Q", "split-Q", "late-change", "repeat"},
		embedding.BackwardDefinition: {"reverse-D", "late-change", "repeat"},
	} {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			sizes, compared := "Q=5,V=4,D=3", map[string]bool{}
			if d.Product() != nil {
				sizes = "M=3,K=4,N=5"
			}
			for n := int64(2); n <= 4; n++ {
				x := target(d, num.F32, atLaunch(n, addOne))
				for _, names := range verify.ChecksOf(x) {
					for _, check := range names {
						name := fmt.Sprintf("%s:integers/%s", check, sizes)
						f := run(t, x, verify.Options{Case: name, Seed: 1}).Report.Failure
						if f == nil || f.Got == "" || f.Truth == "" {
							continue
						}
						compared[check] = true
						if got, want := valueIn(t, f.Got), valueIn(t, f.Want); fmt.Sprint(got) != f.Truth && fmt.Sprint(want) != f.Truth {
							t.Errorf("%s, wrong at launch %d: %s: got %v, want %v, truth %s", name, n, f.Message, got, want, f.Truth)
						}
					}
				}
			}
			for _, check := range must {
				if !compared[check] {
					t.Errorf("no failure of %s was compared, want one", check)
				}
			}
		})
	}
}

// valueIn returns the value in a text such as 0x3c00 (1).
func valueIn(t *testing.T, text string) float64 {
	t.Helper()
	_, text, _ = strings.Cut(strings.TrimSuffix(text, ")"), "(")
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}
