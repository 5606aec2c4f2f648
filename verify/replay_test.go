package verify_test

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/evidence"
	"tokitai/internal/gen"
	"tokitai/op"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/verify"
)

// withPattern returns a target of gelu with one pattern of its own.
func withPattern(value op.Element) *verify.Target {
	o := *gelu.Operations[0]
	o.Patterns = []op.Pattern{{Name: "own", Definition: gelu.ForwardDefinition, Values: map[string]op.Element{"x": value}}}
	return verify.Targets([]*op.Operation{&o}, cpu.Backend)[0]
}

// older returns a report as it was when compact reports did not list inputs.
func older(r *evidence.Report) *evidence.Report {
	r = r.Compact()
	for i := range r.CaseList {
		r.CaseList[i].Digest = r.CaseList[i].Digest[:8]
	}
	return r
}

// TestReplayListed: other results are told from other inputs, in whole and in compact reports.
func TestReplayListed(t *testing.T) {
	t.Parallel()
	made := withPattern(op.Normal)
	result, err := verify.Run(t.Context(), made, verify.Options{Seed: 3, Case: "own/R=3,C=40", Tool: "test", Version: "0"})
	if err != nil {
		t.Fatal(err)
	}
	whole := result.Report
	forged := *whole
	forged.CaseList = []evidence.Case{whole.CaseList[0]}
	forged.CaseList[0].OutputsSHA256 = strings.Repeat("0", 64)
	// Only one value of the pattern is another one.
	changed := withPattern(func(g *gen.Generator, r, c int) float32 {
		if x := g.Normal(); r != 2 || c != 39 {
			return x
		}
		return 7
	})
	for _, test := range []struct {
		what   string
		report *evidence.Report
		target *verify.Target
		want   evidence.Comparison
		reason string
	}{
		{"the same, whole", whole, made, evidence.SameResults, ""},
		{"the same, compact", whole.Compact(), made, evidence.SameResults, ""},
		{"the same, older", older(whole), made, evidence.SameResults, ""},
		{"other results, whole", &forged, made, evidence.OtherResults, ""},
		{"other results, compact", forged.Compact(), made, evidence.OtherResults, ""},
		{"unknown, older", older(&forged), made, evidence.UnknownInputs, "the report does not say which version of the pattern own made its inputs"},
		{"other inputs, whole", whole, changed, evidence.OtherInputs, "its inputs were made by another version of the pattern own"},
		{"other inputs, compact", whole.Compact(), changed, evidence.OtherInputs, "its inputs were made by another version of the pattern own"},
	} {
		again, err := verify.Replay(t.Context(), test.target, test.report, test.report.CaseList[0], verify.Options{Tool: "test", Version: "0"})
		if err != nil || again != (verify.Replayed{Comparison: test.want, Reason: test.reason}) {
			t.Errorf("%s: %+v, %v", test.what, again, err)
		}
	}
	for name, reason := range map[string]string{
		"gone/R=1,C=1":         `there is no pattern "gone"`,
		"own/R=100000,C=10000": "at most 268435456 are replayed",
	} {
		again, err := verify.Replay(t.Context(), made, whole, evidence.Case{Name: name}, verify.Options{})
		if err != nil || again.IsCompared() || !strings.Contains(again.Reason, reason) {
			t.Errorf("%s: %+v, %v", name, again, err)
		}
	}
}

// TestFormerPatterns: a case of an older report differs in its results where its pattern makes the
// inputs that it made then, and in its inputs where it does not. Both patterns are those of the
// committed reports of an H200, of which the second has changed since.
func TestFormerPatterns(t *testing.T) {
	t.Parallel()
	archive, err := zip.OpenReader("../docs/evidence/h200.zip")
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	data, err := fs.ReadFile(archive, "gemm.forward_cuda.fma_f32.json")
	if err != nil {
		t.Fatal(err)
	}
	report := new(evidence.Report)
	if err := json.Unmarshal(data, report); err != nil {
		t.Fatal(err)
	}
	targets := verify.Targets(gemm.Operations, cpu.Backend)
	if targets[0].Definition.Hash() != report.Definition.SHA256 {
		t.Fatalf("%s is not the definition of %s", targets[0].ID(), report.Lowering)
	}
	for pattern, want := range map[string]evidence.Comparison{"normal": evidence.OtherResults, "zeros-against-infinities": evidence.OtherInputs} {
		if got := verify.Resolve(targets[0], report, evidence.Case{Name: pattern + "/M=1,K=1,N=1"}); got != want {
			t.Errorf("%s: %d, want %d", pattern, got, want)
		}
	}
}

// TestFormerIdentities: every pattern that reports without inputs may name has an identity, and the
// way of making identities has not changed: most patterns still have theirs.
func TestFormerIdentities(t *testing.T) {
	t.Parallel()
	former := verify.FormerIdentities()
	if n := len(former); n != 1380 {
		t.Errorf("%d identities, want 1380: none is added or removed", n)
	}
	target := verify.Targets(gelu.Operations, cpu.Backend)[0]
	names, _ := verify.PatternNames(target)
	same := 0
	for _, name := range names {
		if former[fmt.Sprintf("%s %s", target.Definition.Name, name)] == verify.PatternIdentity(target, name) {
			same++
		}
	}
	if same < len(names)/2 {
		t.Errorf("%d of %d patterns have their former identity", same, len(names))
	}
}
