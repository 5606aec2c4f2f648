package evidence

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	if got != string(want) {
		t.Errorf("%s has changed; -update writes it anew\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

func TestMarkdown(t *testing.T) {
	for name, r := range samples() {
		golden(t, name+".md", r.Markdown())
	}
	golden(t, "index.md", sampleIndex().Markdown())
}

// TestUndecidedIsOneWord checks that no text for people has the word by which data tell one reason of
// being undecided from the others.
func TestUndecidedIsOneWord(t *testing.T) {
	list := []string{sampleIndex().Markdown(), sampleIndex().Counts.String()}
	for _, r := range samples() {
		list = append(list, r.Markdown())
	}
	for _, text := range list {
		if i := strings.Index(text, string(Inadmissible)); i >= 0 {
			t.Errorf("%q, want %s", text[max(0, i-60):i+len(Inadmissible)], Undecided)
		}
	}
}

func TestGoldenJSON(t *testing.T) {
	golden(t, "rejected.json", string(mustJSON(t, samples()["rejected"])))
	golden(t, "index.json", string(mustJSON(t, sampleIndex())))
}

// TestMachineStandsLast: two machines' pages differ in their last section only.
func TestMachineStandsLast(t *testing.T) {
	const section = "\n## Where and when\n"
	for name, r := range samples() {
		here, hereLast, ok := strings.Cut(r.Markdown(), section)
		there, thereLast, _ := strings.Cut(elsewhere(r).Markdown(), section)
		if !ok || here != there {
			t.Errorf("%s: pages of two machines differ before the last section:\n%s\n%s", name, here, there)
		}
		if hereLast == thereLast {
			t.Errorf("%s: pages of two machines do not differ", name)
		}
	}
}

// TestMarkdownShowsTextAsItIs: nothing in a text becomes markup, or ends a table.
func TestMarkdownShowsTextAsItIs(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{escape("a|b *c* _d_ [e](f) <g> `h`\n# i\\"), "a\\|b \\*c\\* \\_d\\_ \\[e\\](f) \\<g\\> \\`h\\` \\# i\\\\"},
		{code("x"), "`x`"},
		{code("a`b"), "`` a`b ``"},
		{code("a``b|c\nd"), "``` a``b\\|c d ```"},
		{code(""), ""},
		{Integer(0), "0"},
		{Integer(999), "999"},
		{Integer(1234567), "1,234,567"},
		{figure(new(0.1)), "0.1"},
		{figure(new(1.0)), "1"},
		{figure(new(1e300)), "1e+300"},
		{figure[float64](nil), "not measured"},
		{count(1, "mismatch"), "1 mismatch"},
		{count(2, "mismatch"), "2 mismatches"},
		{count(1000, "case"), "1,000 cases"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}
