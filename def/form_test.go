package def

import (
	"slices"
	"testing"
)

// TestFactsOfIndices checks what follows from axes and operands alone, with forms that no definition
// has: one that sums the rows that an index names, and one that sums into them.
func TestFactsOfIndices(t *testing.T) {
	pages := Operand{Name: "pages", Dims: []string{"R", "T"}, IsIn: true, IsIndex: true, Bound: "P"}
	x := Operand{Name: "x", Dims: []string{"P", "B"}, IsIn: true}
	axes := []Axis{{"R", Row}, {"P", Indexed}, {"B", Summed}, {"T", Summed}}
	tests := []struct {
		name     string
		operands []Operand
		access   Access
		chosenBy []int
	}{
		{"from", []Operand{x, pages, {Name: "m", Dims: []string{"R"}, IsOut: true}}, FromIndex, []int{1, -1, -1}},
		{"to", []Operand{{Name: "m", Dims: []string{"R"}, IsIn: true}, pages, {Name: "x", Dims: []string{"P", "B"}, IsIn: true, IsOut: true}}, ToIndex, []int{-1, -1, -1}},
	}
	for _, test := range tests {
		d := &Definition{Name: test.name, Operands: test.operands, axes: axes, sums: []Sum{{Over: []string{"B"}}}}
		if got := d.Access(); got != test.access {
			t.Errorf("%s: access is %d, want %d", test.name, got, test.access)
		}
		var chosenBy []int
		for i := range d.Operands {
			chosenBy = append(chosenBy, d.ChosenBy(i))
		}
		if !slices.Equal(chosenBy, test.chosenBy) {
			t.Errorf("%s: rows are chosen by %v, want %v", test.name, chosenBy, test.chosenBy)
		}
	}
}
