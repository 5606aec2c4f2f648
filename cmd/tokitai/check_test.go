package main

import (
	"testing"

	"tokitai/engine"
	"tokitai/op/all"
	"tokitai/promise"
)

// TestEveryDefinitionCanBeJudged checks that a kernel for any definition has a format to be judged in:
// those that compute integers alone, too.
func TestEveryDefinitionCanBeJudged(t *testing.T) {
	t.Parallel()
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			l := &engine.Lowering{Name: "mine", Device: "cpu"}
			if !d.IsExact() {
				l.Promise.Name = promise.Stable
			}
			if len((ofOperation{o, d}).targets(l, nil)) == 0 {
				t.Errorf("%s: no format is left to judge a kernel in", d.Name)
			}
		}
	}
}
