package verify_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/embedding"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/softmax"
	"tokitai/reference"
	"tokitai/trial"
	"tokitai/verify"
)

// elsewhere is the host under the name of another kind of device.
type elsewhere struct{ *cpu.Device }

func (elsewhere) Kind() string { return "elsewhere" }

// openElsewhere opens such a device.
func openElsewhere(string) (engine.Device, error) {
	inner, err := cpu.New(cpu.Options{Workers: 1})
	if err != nil {
		return nil, err
	}
	d := &elsewhere{inner}
	inner.EmbedIn(d)
	return d, nil
}

// onElsewhere makes a lowering for such a device.
func onElsewhere(run kernelFunc) *engine.Lowering {
	l := bitwise(run)
	l.Device = "elsewhere"
	return l
}

// runElsewhere verifies on such a device.
func runElsewhere(t *testing.T, d *def.Definition, dtype num.DType, run kernelFunc, interpretAll bool) *verify.Result {
	t.Helper()
	return runAs(t, target(d, dtype, onElsewhere(run)), interpretAll)
}

func runAs(t *testing.T, x *verify.Target, interpretAll bool) *verify.Result {
	t.Helper()
	return run(t, x, verify.Options{Device: "elsewhere", Open: openElsewhere, Level: verify.Quick, Seed: 1, InterpretAll: interpretAll})
}

// judgedKinds has a definition for each way to choose what is interpreted: rows, rows of a
// product, matrices of a stack, columns of a table, whole cases.
var judgedKinds = []struct {
	d     *def.Definition
	dtype num.DType
}{
	{softmax.ForwardDefinition, num.F16},
	{gemm.GradBDefinition, num.BF16},
	{gemm.BatchedForwardDefinition, num.F16},
	{embedding.BackwardDefinition, num.F32},
	{layernorm.BackwardDefinition, num.F32},
}

// TestCompiledAnswers checks that compiled answers give the same verdict and figures as the
// interpreter, that at least one output in 16 is interpreted, and that many are not.
func TestCompiledAnswers(t *testing.T) {
	defer verify.SetCompiled(nil)()
	for i, k := range judgedKinds {
		if !isTried(i, 3) {
			continue
		}
		compiled, all := runElsewhere(t, k.d, k.dtype, honest, false), runElsewhere(t, k.d, k.dtype, honest, true)
		for _, r := range []*verify.Result{compiled, all} {
			if r.Report.Verdict != evidence.Accepted || len(r.JudgeFaults) > 0 {
				t.Errorf("%s: %s %s %v", k.d.Name, r.Report.Verdict, r.Report.Reason, r.JudgeFaults)
			}
		}
		c := compiled.Report.Coverage
		if all.Report.Coverage.Compiled != 0 || c.Compiled < c.Judged/4 || 16*(c.Judged-c.Compiled) < c.Judged {
			t.Errorf("%s: %d of %d outputs compiled, %d with everything interpreted", k.d.Name, c.Compiled, c.Judged, all.Report.Coverage.Compiled)
		}
		if want := fmt.Sprintf("the answers to %d outputs come from compiled code", c.Compiled); !strings.Contains(strings.Join(compiled.Report.NonClaims, "\n"), want) {
			t.Errorf("%s: the report does not say that %s: %q", k.d.Name, want, compiled.Report.NonClaims)
		}
		one, two := compiled.Report.Stable(), all.Report.Stable()
		one.Coverage.Compiled, one.NonClaims = 0, two.NonClaims
		if !reflect.DeepEqual(one, two) {
			t.Errorf("%s: the reports differ beyond who computed the answers", k.d.Name)
		}
	}
}

// TestCompiledAnswersFindFaults checks that a wrong kernel is rejected as with the interpreter.
func TestCompiledAnswersFindFaults(t *testing.T) {
	defer verify.SetCompiled(nil)()
	for i, k := range judgedKinds {
		if !isTried(i, 3) {
			continue
		}
		wrong := damaged(func(_ *engine.Launch, out []num.Array) {
			for i := range out {
				if a := &out[i]; k.d.Operands[i].IsOut && a.Rows*a.Cols > 100 {
					a.SetBits(a.Rows-1, a.Cols-1, a.Bits(a.Rows-1, a.Cols-1)^1)
				}
			}
		})
		compiled, all := runElsewhere(t, k.d, k.dtype, wrong, false).Report, runElsewhere(t, k.d, k.dtype, wrong, true).Report
		if compiled.Verdict != evidence.Rejected || compiled.Mismatches != all.Mismatches || !reflect.DeepEqual(compiled.Failure, all.Failure) {
			t.Errorf("%s: %s with %d mismatches, %+v; want rejected with %d, %+v", k.d.Name, compiled.Verdict, compiled.Mismatches, compiled.Failure, all.Mismatches, all.Failure)
		}
		if compiled.Coverage.Compiled == 0 {
			t.Errorf("%s: everything was interpreted", k.d.Name)
		}
	}
}

// TestWrongJudge checks that wrong compiled code is found, by its own verification or by comparison
// with interpreted answers, and that no verdict depends on it.
func TestWrongJudge(t *testing.T) {
	isSmall := func(l *engine.Launch) bool { return l.Operands[0].Rows*l.Operands[0].Cols < 10_000 }
	flip := func(when func(*engine.Launch) bool) *engine.Lowering {
		l := bitwise(damaged(func(l *engine.Launch, out []num.Array) {
			for r := range out[len(out)-1].Rows {
				if a := &out[len(out)-1]; when(l) {
					a.SetBits(r, 0, a.Bits(r, 0)^1)
				}
			}
		}))
		l.Name = "test.judge"
		return l
	}
	for name, test := range map[string]struct {
		judge *engine.Lowering
		fault string
	}{
		"always": {flip(func(*engine.Launch) bool { return true }), "test.judge is rejected at level smoke: "},
		"large":  {flip(func(l *engine.Launch) bool { return !isSmall(l) }), "test.judge computes wrong answers: "},
	} {
		for i, k := range []struct {
			d     *def.Definition
			dtype num.DType
		}{{softmax.ForwardDefinition, num.F16}, {layernorm.BackwardDefinition, num.F32}} {
			if !isTried(i, 2) {
				continue
			}
			func() {
				defer verify.SetCompiled([]*engine.Lowering{test.judge})()
				if name == "large" {
					defer verify.SetPlanOutputs(verify.Quick, 1<<15)()
				}
				right := runElsewhere(t, k.d, k.dtype, honest, false)
				if len(right.JudgeFaults) == 0 || !strings.Contains(right.JudgeFaults[0], test.fault) {
					t.Errorf("%s, %s: got %q, want %q", name, k.d.Name, right.JudgeFaults, test.fault)
				}
				if c := right.Report.Coverage; right.Report.Verdict != evidence.Accepted || c.Compiled != 0 || c.Judged == 0 {
					t.Errorf("%s, %s: %s %s, %+v; want accepted, with everything interpreted", name, k.d.Name, right.Report.Verdict, right.Report.Reason, c)
				}
				if !strings.Contains(strings.Join(right.Report.NonClaims, "\n"), test.fault) {
					t.Errorf("%s, %s: the report does not say so: %q", name, k.d.Name, right.Report.NonClaims)
				}
			}()
		}
	}
}

// TestCPUIsInterpreted checks that only the interpreter judges kernels for the CPU.
func TestCPUIsInterpreted(t *testing.T) {
	defer verify.SetCompiled(nil)()
	r := run(t, target(softmax.ForwardDefinition, num.F16, bitwise(honest)), verify.Options{Level: verify.Quick, Seed: 1}).Report
	if r.Verdict != evidence.Accepted || r.Coverage.Compiled != 0 {
		t.Errorf("%s, %+v", r.Verdict, r.Coverage)
	}
}

// TestPicked checks that the answer for some lines of the inputs is those lines of the answer.
func TestPicked(t *testing.T) {
	t.Parallel()
	for _, k := range judgedKinds {
		letter := verify.Divisible(k.d)
		if letter == "" {
			continue
		}
		x := target(k.d, k.dtype, bitwise(honest))
		for _, name := range []string{verify.CaseName(x, verify.CasesOf(x, verify.Smoke)[0]), verify.CaseName(x, verify.CasesOf(x, verify.Smoke)[40])} {
			operands, params, err := verify.Operands(x, name)
			if err != nil {
				t.Fatal(err)
			}
			answer := func(of []num.Array) []num.Array {
				of = slices.Clone(of)
				for i := range of {
					of[i] = of[i].Clone()
				}
				if err := reference.Run(k.d, of, reference.Options{Params: params}); err != nil {
					t.Fatal(err)
				}
				return of
			}
			c, err := verify.ParseCase(x, name)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, s := range c.Sizes {
				if s.Letter == letter {
					n = s.N
				}
			}
			lines := verify.Drawn(n, 7)
			got, want := answer(verify.Picked(k.d, operands, letter, lines)), verify.Picked(k.d, answer(operands), letter, lines)
			for i := range k.d.Operands {
				if f := trial.RuleOf(k.d).Difference(k.d.Operands[i].Name, got[i], want[i]); f != nil && k.d.Operands[i].IsOut {
					t.Errorf("%s %s, lines %v of %d: %s", k.d.Name, name, lines, n, f)
				}
			}
		}
	}
}

// TestDrawn checks that at least one index in 16 is drawn, each once, and that keys draw different
// ones.
func TestDrawn(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for n := 1; n <= 100; n++ {
		for key := range uint64(40) {
			list := verify.Drawn(n, key)
			if 16*len(list) < n || !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) || list[len(list)-1] >= n {
				t.Fatalf("%d, key %d: %v", n, key, list)
			}
			for _, i := range list {
				seen[i] = true
			}
		}
	}
	if len(seen) != 100 {
		t.Errorf("%d of 100 are ever drawn", len(seen))
	}
}
