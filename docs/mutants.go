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
		_, section, _ = strings.Cut(section, "\n### "+operation+"\n")
		section, _, _ = strings.Cut(section, "\n### ")
		var found, missed int // columns
		for line := range strings.Lines(section) {
			cells := strings.Split(strings.TrimSpace(line), " | ")
			switch {
			case cells[0] == "| dtype":
				found, missed = slices.Index(cells, "found"), slices.Index(cells, "missed by |")
			case found > 0 && len(cells) > missed:
				kernels := len(strings.Fields(cells[0])) - 1 // one for each dtype
				n.Wrong += kernels
				if strings.HasPrefix(cells[found], "smoke: ") {
					n.Rejected += kernels
				}
				if !strings.Contains(cells[missed], "allclose") {
					n.RejectedByAllClose += kernels
				}
			}
		}
	}
	return n
}
