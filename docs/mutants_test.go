package docs_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/op/all"
	"tokitai/verify/mutants"
)

// TestMutants compares mutants.md, and the README's table of checks, with what the tests of
// the operations have found. The kernels of an operation are in the folder that its name
// begins with.
func TestMutants(t *testing.T) {
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
	_, _, beyond := mutants.Kinds(wrong)
	page := mutants.Markdown(wrong, right)
	hold(t, "mutants.md", "mutants", page)

	_, table, _ := strings.Cut(page, "\n| check |")
	table, _, isTable := strings.Cut(table, "\n\n")
	if !isTable {
		t.Fatal("mutants.md has no table of checks")
	}
	hold(t, "../README.md", "checks", fmt.Sprintf("| check, on %d wrong and %d right kernels |%s\n", len(wrong)-len(beyond), len(right), table))
}
