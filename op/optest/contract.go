package optest

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
)

var (
	update = flag.Bool("update", false, "rewrite the contracts in package comments, and the outcomes of wrong kernels")
	_      = flag.String("only", "", "with -update: judge only kernels whose names match this expression")
	_      = flag.Bool("missing", false, "with -update: judge kernels only at levels that have no outcome yet")
)

// Doc compares the contracts in a file's package comment with those of the definitions.
// Each is a code block below a heading with the definition's name; other headings have more
// than one word. With -update the blocks are rewritten.
func Doc(t testing.TB, file string, definitions ...*def.Definition) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	var names []string
	for _, d := range definitions {
		names = append(names, d.Name)
		start, end, ok := findBlock(lines, d.Name)
		if !ok {
			t.Errorf("%s: no line %q", file, heading+d.Name)
			continue
		}
		want := comment(d.Contract().Table())
		got := lines[start:end]
		if slices.Equal(got, want) {
			continue
		}
		if *update {
			if start == end { // a heading without a block
				if lines[start-1] != "//" {
					want = slices.Concat([]string{"//"}, want)
				}
				if strings.HasPrefix(lines[end], "//") {
					want = append(want, "//")
				}
			}
			lines = slices.Concat(lines[:start:start], want, lines[end:])
			continue
		}
		t.Errorf("%s: the contract of %s differs from its definition (go test -update rewrites it)\n%s", file, d.Name, difference(got, want))
	}
	for i, line := range lines {
		if name, isHeading := strings.CutPrefix(line, heading); isHeading && !strings.Contains(name, " ") && !slices.Contains(names, name) {
			t.Errorf("%s:%d: %s is not among the definitions %v", file, i+1, name, names)
		}
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const heading = "// # "

// findBlock finds the lines of the code block below a heading.
func findBlock(lines []string, name string) (start, end int, ok bool) {
	start = slices.Index(lines, heading+name) + 1
	if start == 0 {
		return 0, 0, false
	}
	for start < len(lines) && lines[start] == "//" {
		start++
	}
	for end = start; end < len(lines) && (lines[end] == "//" || strings.HasPrefix(lines[end], "//\t")); end++ {
	}
	for end > start && lines[end-1] == "//" {
		end--
	}
	return start, end, true
}

func comment(table string) []string {
	lines := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	for i, l := range lines {
		if lines[i] = "//"; l != "" {
			lines[i] += "\t" + l
		}
	}
	return lines
}

// difference returns the lines that only one side has.
func difference(got, want []string) string {
	var s strings.Builder
	for _, l := range got {
		if !slices.Contains(want, l) {
			s.WriteString("- " + l + "\n")
		}
	}
	for _, l := range want {
		if !slices.Contains(got, l) {
			s.WriteString("+ " + l + "\n")
		}
	}
	if s.Len() == 0 {
		return "the lines are in another order\n"
	}
	return s.String()
}

// Clauses runs the tests of a contract's clauses as subtests. Their names begin
// with the clause: C2_nan.
func Clauses(t *testing.T, d *def.Definition, tests map[string]func(t *testing.T)) {
	t.Helper()
	names, problems := clauseTests(d.Contract(), slices.Sorted(maps.Keys(tests)))
	for _, p := range problems {
		t.Errorf("%s: %s", d.Name, p)
	}
	for _, name := range names {
		t.Run(name, tests[name])
	}
}

// clauseTests orders tests by clause and reports clauses without tests and tests without
// clauses.
func clauseTests(c def.Contract, tests []string) (names, problems []string) {
	isUsed := map[string]bool{}
	for _, clause := range c.Clauses {
		found := len(names)
		for _, name := range tests {
			if slug, ok := strings.CutPrefix(name, clause.ID+"_"); ok && slug != "" {
				names = append(names, name)
				isUsed[name] = true
			}
		}
		if len(names) == found {
			problems = append(problems, fmt.Sprintf("clause %s has no test: %s", clause.ID, clause.Text))
		}
	}
	for _, name := range tests {
		if !isUsed[name] {
			problems = append(problems, fmt.Sprintf("test %q has no clause, want a name like C2_nan", name))
		}
	}
	return names, problems
}
