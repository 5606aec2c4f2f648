package main

import (
	"strings"
	"testing"

	"tokitai/evidence"
	"tokitai/verify"
)

// What became of promises is printed for each kernel that promises no bits, and what was
// declared, inferred and forgiven once.
func TestPrintTerms(t *testing.T) {
	report := func(dtype string) *evidence.Report {
		r := &evidence.Report{}
		r.Lowering, r.DType, r.Verdict = "gelu.forward/cuda.other", dtype, evidence.Accepted
		r.WorstErrorShare, r.MedianAdmissible = new(1.5), new(3.0)
		r.Terms = evidence.Terms{
			Promise: "stable", Profile: "torch", Declared: "profile=torch", Honest: evidence.Yes, Accurate: evidence.No,
			Own: &evidence.Errors{WorstErrorShare: new(0.998)}, MedianAllClose: new(16384.0),
			Decided:    []evidence.Decided{{Output: "y", Known: 100, Decided: 100, Share: 1}, {Output: "z", Known: 8, Decided: 5, Share: 0.625}, {Output: "none"}},
			Heights:    []evidence.Height{{MostLength: 64, Height: 7}, {MostLength: 4096, Height: 5}},
			Clauses:    []evidence.Departure{{Clause: "gelu.forward.C3", Text: "an infinity", Outputs: 12, IsWaived: true}, {Clause: "gelu.forward.C4", Text: "a zero", Outputs: 1}},
			Allowances: []evidence.Allowance{{Text: "absolute error u*|x|", Outputs: 34}, {Text: "another", Outputs: 0}},
			Omitted:    []string{"mean", "rstd"},
		}
		return r
	}
	bits := &evidence.Report{}
	bits.Lowering, bits.Promise = "softmax.forward/cpu.rowwise", "bits"
	skipped := report("bf16")
	skipped.Verdict = evidence.Skipped
	v := &verification{results: []*verify.Result{{Report: bits}, {Report: report("f16")}, {Report: skipped}, {Report: report("f32")}}}
	var w strings.Builder
	v.printTerms(&w)
	const row = "gelu.forward/cuda.other  f16    yes        no          1.500   0.998         3    16.4 k    62.5 %\n"
	const declared = `
declared  profile=torch
height    gelu.forward/cuda.other, f16: no sum of up to 4096 terms needs more than 7 additions on the way of a term
waived    gelu.forward/cuda.other, f16: 12 outputs differ from clause gelu.forward.C3, an infinity
allowed   gelu.forward/cuda.other, f16: 34 outputs only by the allowance absolute error u*|x|
omitted   gelu.forward/cuda.other: mean, rstd
height    gelu.forward/cuda.other, f32: `
	for _, part := range []string{
		"\npromise kept             dtype  honest     accurate    worst     own    values  allclose   decided\n", row, strings.Replace(row, "f16", "f32", 1), declared,
	} {
		if !strings.Contains(w.String(), part) {
			t.Errorf("got\n%s\nwant in it\n%s", &w, part)
		}
	}
	for _, part := range []string{"softmax", "bf16", "C4", "another"} {
		if strings.Contains(w.String(), part) {
			t.Errorf("got\n%s\nwant no %s", &w, part)
		}
	}
	if strings.Count(w.String(), "declared  ") != 1 || strings.Count(w.String(), "omitted  ") != 1 {
		t.Errorf("got\n%s\nwant what is the same once", &w)
	}
	w.Reset()
	v.results = v.results[:1]
	if v.printTerms(&w); w.Len() > 0 {
		t.Errorf("got %q of a kernel that promises bits, want nothing", w.String())
	}
}

// A verdict says one word for undecided, and never "rejected" beside no reason at all.
func TestVerdictText(t *testing.T) {
	t.Parallel()
	rejected := func(mismatches int64, tiers ...evidence.Tier) *evidence.Report {
		r := &evidence.Report{}
		r.Verdict, r.Mismatches, r.Tiers = evidence.Rejected, mismatches, tiers
		return r
	}
	undecided := &evidence.Report{}
	undecided.Verdict = evidence.Inadmissible
	for _, c := range []struct {
		report *evidence.Report
		want   string
	}{
		{rejected(3, evidence.Tier{Name: evidence.Bits, Failed: 3}), "rejected"},
		{rejected(0, evidence.Tier{Name: evidence.Structure, Failed: 1}, evidence.Tier{Name: evidence.Bits}, evidence.Tier{Name: evidence.Statistics, Failed: 2}), "rejected by structure and statistics"},
		{undecided, "undecided"},
	} {
		if got := verdictText(c.report); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
