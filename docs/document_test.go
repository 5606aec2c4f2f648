package docs_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the generated parts of the documents")

// tablesByHand counts the tables that are not generated: formats and notations, which are
// specified where they stand.
var tablesByHand = map[string]int{
	"definitions.md": 1, // the notation of nodes; TestDefinitionNodes wants every node in it
	"protocol.md":    3, // frames, requests, errors; TestProtocolTables compares the numbers
	"serving.md":     2, // members of requests, and paths
	"stdio.md":       3, // formats; the tests of kernelprocess/stdio compare kernels and codes
	"accuracy.md":    0, // generated as a whole, by the tests of accuracy
	"kernels.md":     0, // generated as a whole, by the tests of lower/gpu/compiletest
}

// TestTablesAreGenerated: the tables of documents are generated, but for those above.
func TestTablesAreGenerated(t *testing.T) {
	generated := regexp.MustCompile(`(?s)<!-- generated: (.*?) -->.*?<!-- end: .*? -->`)
	for _, pattern := range []string{"../*.md", "*.md", "*/README.md", "decisions/*.md", "../clients/python/*.md"} {
		documents, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range documents {
			want, isListed := tablesByHand[document]
			if isListed && want == 0 {
				continue
			}
			text := generated.ReplaceAllString(readText(t, document), "")
			if got := strings.Count(text, "\n|---") + strings.Count(text, "\n|--:"); got != want {
				t.Errorf("%s has %d tables that are not generated, want %d", document, got, want)
			}
		}
	}
}

// hold compares a generated part of a document with want, or rewrites it with -update. The
// part is between two lines:
//
//	<!-- generated: NAME -->
//	<!-- end: NAME -->
func hold(t *testing.T, file, name, want string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	begin, end := "<!-- generated: "+name+" -->\n", "<!-- end: "+name+" -->\n"
	from, to := strings.Index(text, begin)+len(begin), strings.Index(text, end)
	if from < len(begin) || to < from || strings.Count(text, begin) != 1 || strings.Count(text, end) != 1 {
		t.Fatalf("%s: want one line %q, and one line %q after it", file, begin, end)
	}
	if want = "\n" + strings.TrimSpace(want) + "\n\n"; text[from:to] == want {
		return
	}
	if *update {
		if err := os.WriteFile(file, []byte(text[:from]+want+text[to:]), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	before := strings.Count(text[:from], "\n")
	gotLines, wantLines := strings.Split(text[from:to], "\n"), strings.Split(want, "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if g, w := lineAt(gotLines, i), lineAt(wantLines, i); g != w {
			t.Fatalf("%s:%d does not match the code; go test ./docs -update rewrites it\ngot  %s\nwant %s", file, before+i+1, g, w)
		}
	}
}

// holdFile is hold for a file that is generated as a whole.
func holdFile(t *testing.T, file, want string) {
	t.Helper()
	switch data, err := os.ReadFile(file); {
	case *update:
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	case err != nil:
		t.Fatal(err)
	case string(data) != want:
		t.Fatalf("%s does not match its record; go test ./docs -update rewrites it", file)
	}
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}
