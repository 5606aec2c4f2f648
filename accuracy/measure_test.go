package accuracy_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"tokitai/accuracy"
	"tokitai/internal/testlevel"
	"tokitai/op"
	"tokitai/op/all"
)

var update = flag.Bool("update", false, "write the document anew")

// measured are the operations whose data are measured: at level smoke a few that take little time.
func measured() []*op.Operation {
	if *update || testlevel.Current() > testlevel.Smoke {
		return all.Operations
	}
	return []*op.Operation{all.Find("softmax.backward"), all.Find("gelu.forward"), all.Find("norm.clip")}
}

// The document is what is measured now. Measuring fails if any element breaks its
// promise.
func TestDocument(t *testing.T) {
	const path = "../docs/accuracy.md"
	operations := measured()
	rows, err := accuracy.Measure(operations, accuracy.Options{})
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
	if len(operations) < len(all.Operations) {
		for _, o := range operations {
			if section(got, o) != section(string(want), o) {
				t.Errorf("%s: %s is not what is measured now; -update writes it anew\ngot\n%s\nwant\n%s", path, o.Name, section(got, o), section(string(want), o))
			}
		}
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if g, w := line(gotLines, i), line(wantLines, i); g != w {
			t.Fatalf("%s:%d is not what is measured now; -update writes it anew\ngot  %s\nwant %s", path, i+1, g, w)
		}
	}
}

// section is what the document says about an operation.
func section(document string, o *op.Operation) string {
	_, rest, _ := strings.Cut(document, "\n## "+o.Name+"\n")
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}
