package docs_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"tokitai/docs"
	"tokitai/op/all"
)

// TestMutantCounts: the counts of all operations add up to those of the document's first table.
func TestMutantCounts(t *testing.T) {
	text, err := os.ReadFile("mutants.md")
	if err != nil {
		t.Fatal(err)
	}
	var sum docs.MutantCounts
	isCounted := map[string]bool{}
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if isCounted[d.Name] {
				continue
			}
			isCounted[d.Name] = true
			n := docs.Mutants(d.Name)
			sum.Wrong += n.Wrong
			sum.Rejected += n.Rejected
			sum.RejectedByAllClose += n.RejectedByAllClose
		}
	}
	accepted := func(check string) (n, of int) {
		for line := range strings.Lines(string(text)) {
			if cells := strings.Split(line, "|"); len(cells) == 6 && strings.Contains(cells[1], check) {
				for _, cell := range cells[2:4] {
					var some, all int
					if _, err := fmt.Sscanf(strings.TrimSpace(cell), "%d of %d", &some, &all); err != nil {
						t.Fatalf("%s: %v", cell, err)
					}
					n, of = n+some, of+all
				}
				return n, of
			}
		}
		t.Fatalf("the document has no line of %s", check)
		return 0, 0
	}
	missed, of := accepted("verify --level smoke")
	missedByAllClose, _ := accepted("allclose, atol")
	if want := (docs.MutantCounts{Wrong: of, Rejected: of - missed, RejectedByAllClose: of - missedByAllClose}); sum != want {
		t.Errorf("got %+v, want %+v", sum, want)
	}
	if n := docs.Mutants("no.such.operation"); n != (docs.MutantCounts{}) {
		t.Errorf("of an unknown operation: got %+v", n)
	}
}
