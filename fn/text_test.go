package fn

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"

	"tokitai/def"
)

// TestNames: within one expansion, nested functions included, a name means one node.
func TestNames(t *testing.T) {
	for _, f := range All {
		seen := map[string]bool{"x": true}
		for _, n := range newProgram(f).nodes {
			if len(n.Args) == 0 || n.Name == "" {
				continue
			}
			if seen[n.Name] {
				t.Errorf("%s: the name %s is used twice", f.Name, n.Name)
			}
			seen[n.Name] = true
		}
	}
}

// TestBuilds: every function can be called, twice, in a definition.
func TestBuilds(t *testing.T) {
	for _, f := range All {
		_, err := def.Rowwise("test."+f.Name, func(b *def.Builder) {
			x := b.In("x")
			b.Out("y", f.Of(f.Of(x)))
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestDocTable: the table in the package comment is the functions'.
func TestDocTable(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tworst ulp\toperations\tFMAs\t")
	for _, f := range All {
		operations, fmas := newProgram(f).count()
		fmt.Fprintf(w, "\t%v\t%d\t%d\t\n", f.ULPs, operations, fmas)
	}
	w.Flush()
	var table strings.Builder
	for i, numbers := range strings.Split(strings.TrimRight(s.String(), "\n"), "\n") {
		name, domain := "function", "argument"
		if i > 0 {
			name, domain = All[i-1].Name, All[i-1].Domain.String()
		}
		fmt.Fprintf(&table, "//\t%-17s%-24s%s\n", name, domain, strings.TrimRight(numbers, " "))
	}
	if !strings.Contains(string(doc), table.String()) {
		t.Errorf("doc.go: want this table:\n%s", table.String())
	}
}
