package docs

import (
	_ "embed"
	"slices"
	"strings"
)

//go:embed mutants.md
var mutants string

// MutantCounts counts the wrong kernels of an operation in docs/mutants.md.
type MutantCounts struct {
	Wrong              int // kernels with a mistake, and cheats
	Rejected           int // of these, by a verification at level smoke
	RejectedByAllClose int // of these, by allclose(rtol = atol = 1e-2)
}

// Mutants counts the wrong kernels of an operation.
func Mutants(operation string) (n MutantCounts) {
	for _, title := range []string{"Mistakes", "Cheats"} {
		_, section, _ := strings.Cut(mutants, "\n## "+title+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		var smoke, allClose int // columns
		for line := range strings.Lines(section) {
			cells := strings.Split(strings.TrimSpace(line), " | ")
			switch {
			case cells[0] == "| operation":
				smoke, allClose = slices.Index(cells, "smoke"), slices.Index(cells, "allclose 1e-2")
			case cells[0] == "| "+operation && smoke > 0 && len(cells) > allClose:
				n.Wrong++
				if cells[smoke] != "accepted" {
					n.Rejected++
				}
				if cells[allClose] != "accepted" {
					n.RejectedByAllClose++
				}
			}
		}
	}
	return n
}
