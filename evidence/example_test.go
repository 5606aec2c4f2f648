package evidence_test

import (
	"fmt"
	"strings"
	"time"

	"tokitai/evidence"
)

// A report on one case of an operation with two outputs.
func Example() {
	text := "copy: y[r,c] = x[r,c]\n"
	cases := []evidence.Case{{
		Name: "normal/R=1,C=2", Shapes: []string{"x f32[1,2]", "y f32[1,2]"}, Tiers: []evidence.TierName{evidence.Bits}, Elements: 2,
		InputsSHA256:  evidence.FingerprintOf([]byte("the inputs")),
		OutputsSHA256: evidence.FingerprintOf([]byte("the outputs")),
	}}
	r := &evidence.Report{
		Schema: evidence.SchemaID, Tool: "example", Version: "v1.0.0", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Host: evidence.Host{OS: "linux", Arch: "amd64"},
		Summary: evidence.Summary{
			Op: "copy", Lowering: "copy/cpu.plain", DType: "f32", Device: "cpu", Level: "smoke", Contract: evidence.ContractBits, Model: "fma",
			Cases: 1, Elements: 2,
			Coverage: evidence.Coverage{Produced: 2, Judged: 2, Tiles: 1},
			Tiers:    []evidence.Tier{{Name: evidence.Bits, Checks: 2}},
			Verdict:  evidence.Accepted,
		},
		Fingerprints: []evidence.Fingerprint{
			{Of: "definition", SHA256: evidence.FingerprintOf([]byte(text))},
			{Of: "source", Note: "written by hand in this example"},
			{Of: "compiler", Note: "not at hand"},
			{Of: "artifact", Note: "not kept"},
		},
		Definition:   evidence.Definition{Name: "copy", Text: text, SHA256: evidence.FingerprintOf([]byte(text))},
		Generator:    evidence.Generator{Name: "by hand"},
		CaseList:     cases,
		DigestSHA256: evidence.DigestOf(cases),
		Evidence:     []string{"both outputs of one case have the reference's bits"},
		NonClaims:    []string{"any other input"},
		Obtained:     map[string]string{},
	}
	for _, field := range evidence.Fields() {
		r.Obtained[field] = "written by hand in this example"
	}
	if err := r.Check(); err != nil {
		fmt.Println(err)
		return
	}
	page, _, _ := strings.Cut(r.Markdown(), "## How tightly")
	fmt.Print(page)

	r.Mismatches = 1
	fmt.Println(r.Check())
	// Output:
	// # copy/cpu.plain, f32: accepted
	//
	// **accepted**: `copy/cpu.plain` on `cpu`, contract bits, level smoke. 1 case, 2 outputs compared, no mismatch.
	//
	// ## What was checked
	//
	// | tier | checks | failed |  |
	// | --- | ---: | ---: | --- |
	// | bits | 2 | 0 |  |
	//
	// Of 2 outputs produced, 2 judged, in 1 tile.
	//
	// evidence: report of copy/cpu.plain, f32, contradicts itself: mismatches is 1, want 0, the sum over case_list; mismatches is 1, but no tier failed
}
