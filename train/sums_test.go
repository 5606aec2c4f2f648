package train

import (
	"fmt"
	"slices"
	"testing"
)

// TestPlanOfLeaves: sums of levels are those of the tree, end in the levels that the ranks exchange, and overwrite nothing that waits.
func TestPlanOfLeaves(t *testing.T) {
	t.Parallel()
	for leaves := 1; leaves <= 40; leaves++ {
		for from := range leaves {
			for to := from + 1; to <= leaves; to++ {
				var some []int
				var want []string
				pairs := tree{leaves: leaves}
				for leaf := from; leaf < to; leaf++ {
					some, want = append(some, leaf), append(want, fmt.Sprint(leaf))
					pairs.push(node{0, leaf}, func(at int) error {
						want = append(want[:at], "("+want[at]+" + "+want[at+1]+")")
						return nil
					})
				}
				plan, nodes, most := planLeaves(leaves, some)
				levels := make([]string, most)
				for _, p := range plan {
					if levels[p.level] != "" {
						t.Fatalf("leaves %d to %d of %d: leaf %d goes where %s waits", from, to, leaves, p.leaf, levels[p.level])
					}
					levels[p.level] = fmt.Sprint(p.leaf)
					for _, sum := range p.sums {
						first := sum.first()
						text := sum.formula(func(level int) string { return levels[level] })
						clear(levels[first:][:sum.count()])
						levels[first] = text
					}
				}
				if got := levels[:len(want)]; !slices.Equal(nodes, pairs.nodes) || !slices.Equal(got, want) {
					t.Fatalf("leaves %d to %d of %d: %v in %v, want %v in %v", from, to, leaves, got, nodes, want, pairs.nodes)
				}
			}
		}
	}
}

// TestPassesOverLevels: eight leaves are added up in two passes over memory, which read nine levels and write two, where sums of
// two would read 14 and write 7, with one level more than those need.
func TestPassesOverLevels(t *testing.T) {
	t.Parallel()
	plan, _, levels := planLeaves(8, []int{0, 1, 2, 3, 4, 5, 6, 7})
	var sums []string
	for _, p := range plan {
		for _, sum := range p.sums {
			sums = append(sums, sum.String())
		}
	}
	want := []string{"((0 + 1) + (2 + 3))", "(0 + ((1 + 2) + (3 + 4)))"}
	if !slices.Equal(sums, want) || levels != 5 {
		t.Errorf("%v in %d levels, want %v in 5", sums, levels, want)
	}
	many := make([]int, 1<<14)
	for leaf := range many {
		many[leaf] = leaf
	}
	plan, nodes, _ := planLeaves(len(many), many)
	for _, p := range plan {
		for _, sum := range p.sums {
			if n := sum.count(); n > mostTerms {
				t.Fatalf("leaf %d: %d levels are added up at once, want at most %d", p.leaf, n, mostTerms)
			}
		}
	}
	if len(nodes) != 1 {
		t.Errorf("%d leaves end in %v, want one sum", len(many), nodes)
	}
}
