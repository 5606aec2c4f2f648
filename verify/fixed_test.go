package verify_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/crossentropy"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/verify"
)

// fixed returns a target with parameters that have one value in every case.
func fixed(t testing.TB, x *verify.Target, params ...string) *verify.Target {
	t.Helper()
	given := map[string]string{}
	for _, text := range params {
		name, value, _ := strings.Cut(text, "=")
		given[name] = value
	}
	y, err := x.Fix(given)
	if err != nil || y == nil {
		t.Fatalf("%s with %v: %v, %v", x.ID(), params, y, err)
	}
	return y
}

// onlyWith computes what the definition says if the call satisfies a condition, and otherwise
// damages an output.
func onlyWith(isRight func(d *def.Definition, l *engine.Launch) bool) *engine.Lowering {
	return bitwise(func(d *def.Definition, l *engine.Launch) error {
		out := answer(d, l)
		if !isRight(d, l) {
			for i := range out {
				if d.Operands[i].IsOut {
					out[i].SetBits64(0, 0, out[i].Bits64(0, 0)^1)
				}
			}
		}
		store(d, l, out, nil)
		return nil
	})
}

// A kernel that is right for one value of a parameter alone is accepted with that value, whatever
// case or relation would vary it, and rejected with another one and without any.
func TestFixedParams(t *testing.T) {
	t.Parallel()
	const eps, scale = 1e-3, 0.5
	forEps := target(layernorm.ForwardDefinition, num.F32, onlyWith(func(_ *def.Definition, l *engine.Launch) bool { return l.Params[0] == eps }))
	forScale := target(crossentropy.Definition, num.F32, onlyWith(func(d *def.Definition, l *engine.Launch) bool {
		return l.Params[d.Param("scale")] == scale && l.Params[d.Param("ignore")] == 3
	}))
	forRing := target(gemm.ZPKDefinition, num.I64, onlyWith(func(d *def.Definition, _ *engine.Launch) bool { return d.Ring() == def.Ring{P: 7, K: 4} }))
	// decay is lr times weight_decay, and only a step of 100 has this correction.
	forStep := target(adamw.StochasticDefinition, num.F16, onlyWith(func(d *def.Definition, l *engine.Launch) bool {
		return l.Params[d.Param("decay")] == 3e-4*0.25 && l.Params[d.Param("t")] == 100 && l.Params[d.Param("tensor")] == 5
	}))
	for i, x := range []struct {
		name   string
		target *verify.Target
		params []string
		want   evidence.Verdict
	}{
		{"eps", forEps, []string{"eps=1e-3"}, evidence.Accepted},
		{"another eps", forEps, []string{"eps=1e-4"}, evidence.Rejected},
		{"no eps", forEps, nil, evidence.Rejected},
		{"scale and ignore", forScale, []string{"scale=0.5", "ignore=3"}, evidence.Accepted},
		{"scale alone", forScale, []string{"scale=0.5"}, evidence.Rejected},
		{"ring", forRing, []string{"p=7", "k=4"}, evidence.Accepted},
		{"another ring", forRing, []string{"p=7", "k=5"}, evidence.Rejected},
		{"no ring", forRing, nil, evidence.Rejected},
		{"settings", forStep, []string{"lr=3e-4", "weight_decay=0.25", "t=100", "tensor=5"}, evidence.Accepted},
		{"settings without the step", forStep, []string{"lr=3e-4", "weight_decay=0.25", "tensor=5"}, evidence.Rejected},
	} {
		if !isTried(i, 3) {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			y := fixed(t, x.target, x.params...)
			r := run(t, y, verify.Options{Level: verify.Smoke, IsNamed: true})
			if r.Report.Verdict != x.want || !sameTexts(r.Report.Params, x.params) {
				t.Errorf("%s with %v: %s", r.Report.Verdict, r.Report.Params, r.Report.Reason)
			}
			for _, text := range x.params {
				if !strings.Contains(r.Replay, " --param "+text) {
					t.Errorf("the replay does not have %s: %s", text, r.Replay)
				}
			}
		})
	}
}

func sameTexts(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// Parameters that are derived from fixed ones belong together in every case, and those that do not
// depend on them still vary.
func TestFixedSettings(t *testing.T) {
	t.Parallel()
	d := adamw.InPlaceDefinition
	x := fixed(t, target(d, num.F32, bitwise(honest)), "beta1=0.75")
	decays := map[float64]bool{}
	for n := range 40 {
		p := verify.ParamsOf(x, n)
		if p[d.Param("beta1")] != 0.75 || p[d.Param("one_minus_beta1")] != 0.25 || p[d.Param("one_minus_beta2")] != 1-p[d.Param("beta2")] {
			t.Errorf("variation %d: %v", n, p)
		}
		decays[p[d.Param("decay")]] = true
	}
	if len(decays) < 3 {
		t.Errorf("%d values of decay, want more", len(decays))
	}
}

// A value that is not allowed is refused, a parameter that the target does not have is ignored, and
// one that selects another definition leaves nothing.
func TestFixRefuses(t *testing.T) {
	t.Parallel()
	honestly := bitwise(honest)
	for _, x := range []struct {
		definition  *def.Definition
		name, value string
		want        string
	}{
		{layernorm.ForwardDefinition, "eps", "-1", "layernorm.forward: eps is -1, want a finite binary32 of at least 0 (layernorm.forward.C2)"},
		{layernorm.ForwardDefinition, "eps", "1e60", "layernorm.forward: eps is 1e60, want a finite binary32 of at least 0 (layernorm.forward.C2)"},
		{layernorm.ForwardDefinition, "eps", "small", `layernorm.forward: eps is "small", want a number`},
		{crossentropy.Definition, "ignore", "0.5", `crossentropy: ignore is "0.5", want an integer from -2147483648 to 2147483647`},
		{gemm.ZPKDefinition, "p", "6", `gemm.zpk: p is "6", want a prime`},
		{adamw.MasterDefinition, "beta2", "1", "adamw.step: beta2 is 1, want a number in [0, 1) (adamw.step.master.C2)"},
		{adamw.MasterDefinition, "mode", "outplace", `adamw.step: mode is "outplace", want inplace, master or stochastic`},
	} {
		dtype := num.F32
		if x.definition == gemm.ZPKDefinition {
			dtype = num.I64
		}
		if _, err := target(x.definition, dtype, honestly).Fix(map[string]string{x.name: x.value}); err == nil || err.Error() != x.want {
			t.Errorf("%s=%s: got %v, want %s", x.name, x.value, err, x.want)
		}
	}
	plain := target(layernorm.BackwardDefinition, num.F32, honestly)
	if y, err := plain.Fix(map[string]string{"eps": "1"}); y != plain || err != nil {
		t.Errorf("%v, %v: want the target itself", y, err)
	}
	if y, err := target(adamw.MasterDefinition, num.F32, honestly).Fix(map[string]string{"mode": "stochastic"}); y != nil || err != nil {
		t.Errorf("%v, %v: want no target", y, err)
	}
}

// Replays and resumed runs use the parameters of the run, and no others.
func TestFixedAgain(t *testing.T) {
	t.Parallel()
	plain := target(layernorm.ForwardDefinition, num.F32, bitwise(honest))
	with, other := fixed(t, plain, "eps=1e-3"), fixed(t, plain, "eps=1e-2")
	report := run(t, with, verify.Options{Seed: 3, Case: "normal/R=3,C=40/params=2"}).Report
	if params := report.CaseList[0].Params; !slices.Equal(params, []string{"eps=0.001"}) {
		t.Errorf("the case ran with %v", params)
	}
	for _, x := range []struct {
		target *verify.Target
		want   evidence.Comparison
	}{{with, evidence.SameResults}, {other, evidence.OtherInputs}, {plain, evidence.OtherInputs}} {
		again, err := verify.Replay(t.Context(), x.target, report, report.CaseList[0], verify.Options{Tool: "test", Version: "0"})
		if err != nil || again.Comparison != x.want {
			t.Errorf("%+v, %v, want %v", again, err, x.want)
		}
	}
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path, false)
	first := run(t, with, verify.Options{Journal: j}).Report
	closeJournal(t, j)
	for _, x := range []*verify.Target{with, other, plain} {
		j := openJournal(t, path, true)
		r := run(t, x, verify.Options{Journal: j}).Report
		if want := map[bool]int{true: first.Cases}[x == with]; j.Taken() != want {
			t.Errorf("with %v: %d cases were resumed, want %d", r.Params, j.Taken(), want)
		}
		closeJournal(t, j)
	}
}

// A report without fixed parameters does not mention them.
func TestNotFixed(t *testing.T) {
	t.Parallel()
	plain := target(layernorm.ForwardDefinition, num.F32, bitwise(honest))
	var texts [2][]byte
	for i, x := range []*verify.Target{plain, fixed(t, plain)} {
		r := run(t, x, verify.Options{Seed: 3, Case: "normal/R=3,C=40"}).Report
		text, err := r.Stable().JSON()
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = text
		if _, ok := r.Obtained["params"]; ok || bytes.Contains(text, []byte("\n  \"params\"")) {
			t.Errorf("params are mentioned: %s", text)
		}
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Errorf("%s\n%s", texts[0], texts[1])
	}
}
