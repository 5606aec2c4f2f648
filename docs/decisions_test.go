package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var decisionName = regexp.MustCompile(`^(\d{4})-[a-z0-9-]+\.md$`)

// TestDecisions checks that the decisions are numbered without gaps and have all parts, and
// holds the index to them.
func TestDecisions(t *testing.T) {
	files, err := filepath.Glob("decisions/[0-9]*.md")
	if err != nil {
		t.Fatal(err)
	}
	var index strings.Builder
	for i, file := range files {
		name := filepath.Base(file)
		if m := decisionName.FindStringSubmatch(name); m == nil || m[1] != fmt.Sprintf("%04d", i+1) {
			t.Errorf("decisions/%s: want a name that begins with %04d-, in lower case", name, i+1)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		title, rest, _ := strings.Cut(strings.TrimPrefix(string(data), "# "), "\n")
		summary, _, _ := strings.Cut(strings.TrimSpace(rest), "\n\n")
		for _, part := range []string{"Context", "Decision", "What we gave up", "What would change our mind", "Evidence"} {
			if !strings.Contains(rest, "\n## "+part+"\n\n") {
				t.Errorf("decisions/%s has no part %q", name, part)
			}
		}
		fmt.Fprintf(&index, "- [%s](%s). %s\n", title, name, strings.ReplaceAll(summary, "\n", " "))
	}
	if len(files) < 5 {
		t.Errorf("%d decisions: the test does not see them", len(files))
	}
	hold(t, "decisions/README.md", "decisions", index.String())
}
