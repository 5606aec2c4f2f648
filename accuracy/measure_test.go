package accuracy_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"tokitai/accuracy"
	"tokitai/op/all"
)

var update = flag.Bool("update", false, "write the document anew")

// The document is what is measured now. Measuring fails if any element breaks its
// promise.
func TestDocument(t *testing.T) {
	const path = "../docs/accuracy.md"
	rows, err := accuracy.Measure(all.Operations, accuracy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := accuracy.Markdown(rows)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if g, w := line(gotLines, i), line(wantLines, i); g != w {
			t.Fatalf("%s:%d is not what is measured now; -update writes it anew\ngot  %s\nwant %s", path, i+1, g, w)
		}
	}
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}
