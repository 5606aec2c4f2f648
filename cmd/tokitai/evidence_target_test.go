package main

import (
	"strings"
	"testing"

	"tokitai/backend/cuda"
	"tokitai/evidence"
)

// TestTargetOf: a report is replayed by its own lowering where the device has it. Another one with the
// same accumulation rule may refuse its shapes.
func TestTargetOf(t *testing.T) {
	targets := verifyTargets(cuda.Backend)
	rules := map[string]string{}
	for _, x := range targets {
		if x.Definition.Name != "gemm.forward" || x.DType.String() != "f16" || !x.Lowering.Promise.IsBits() {
			continue
		}
		seed := uint64(1)
		r := &evidence.Report{CaseList: make([]evidence.Case, 1)}
		r.Lowering, r.DType, r.Model, r.Contract = x.ID(), "f16", x.Lowering.Promise.Accum.String(), evidence.ContractBits
		r.Generator.Seed, r.Definition.SHA256 = &seed, x.Definition.Hash()
		if got := targetOf(targets, r); got == nil || got.ID() != x.ID() {
			t.Errorf("a report of %s is replayed by %v", x.ID(), got)
		}
		rules[r.Model] += x.Lowering.Name + " "
		r.Lowering = strings.Replace(x.ID(), "cuda.", "other.", 1)
		if got := targetOf(targets, r); got == nil {
			t.Errorf("a report of %s has no target", r.Lowering)
		}
	}
	for _, names := range rules {
		if len(strings.Fields(names)) > 1 {
			return
		}
	}
	t.Errorf("no two lowerings have one accumulation rule: %v", rules)
}
