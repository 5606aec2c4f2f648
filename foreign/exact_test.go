package foreign

import (
	"testing"

	"tokitai/def"
	"tokitai/op/gemm"
	"tokitai/promise"
)

// TestExactResults: a kernel whose results are integers in a ring is held to promise bits, and all
// others to stable, unless they say more.
func TestExactResults(t *testing.T) {
	for d, want := range map[*def.Definition]promise.Name{gemm.ZPKDefinition: promise.Bits, gemm.Int8Definition: promise.Stable, gemm.ForwardDefinition: promise.Stable} {
		k, err := Given(nil, Options{Definition: d})
		if err != nil {
			t.Fatal(err)
		}
		if got := k.Lowering.Promise.Named(); got != want {
			t.Errorf("%s: a kernel promises %s, want %s", d.Name, got, want)
		}
		for _, f := range d.Formats() {
			if err := k.Lowering.Takes(d, f); err != nil {
				t.Error(err)
			}
		}
	}
}
