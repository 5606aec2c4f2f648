package docs_test

import (
	"path/filepath"
	"strings"
	"testing"

	"tokitai/internal/mutants"
	"tokitai/op/all"
)

// TestMutants compares mutants.md with what the tests of the operations have found.
func TestMutants(t *testing.T) { hold(t, "mutants.md", "mutants", mutantsPage(t)) }

// mutantsPage returns the page on wrong and right kernels. Those of an operation are in the
// folder that its name begins with.
func mutantsPage(t *testing.T) string {
	t.Helper()
	var wrong, right []mutants.Outcome
	seen := map[string]bool{}
	for _, o := range all.Operations {
		folder, _, _ := strings.Cut(o.Name, ".")
		if seen[folder] {
			continue
		}
		seen[folder] = true
		found, err := mutants.Read(filepath.Join("..", "op", folder))
		if err != nil {
			t.Fatalf("%v; go test ./op/%s -run TestMutants -update writes it", err, folder)
		}
		wrong, right = append(wrong, found.Wrong...), append(right, found.Right...)
	}
	bounded := 0
	for _, o := range wrong {
		if o.Contract != "bits" {
			bounded++
		}
	}
	if n := len(wrong); n < 140 || len(right) < 20 || bounded < n/4 || n-bounded < n/4 {
		t.Errorf("got %d mutants (%d bounded) and %d variants, want 140, a quarter of each contract, and 20", n, bounded, len(right))
	}
	return mutants.Markdown(wrong, right)
}
