package docs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// link matches [text](target), also of an image; inlineCode matches code, which may look like
// a link.
var (
	link       = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	inlineCode = regexp.MustCompile("``[^\n]*?``|`[^`]*`") // which may span lines
	heading    = regexp.MustCompile(`(?m)^#{1,6} +(.*?) *$`)
)

// TestLinks follows every relative link of every document, to its file and to its
// heading.
func TestLinks(t *testing.T) {
	documents, followed := 0, 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") && path != ".."):
			return fs.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		documents++
		for _, target := range linksOf(t, path) {
			followed++
			if problem := follow(t, path, target); problem != "" {
				t.Errorf("%s: the link to %s is dead: %s", path, target, problem)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if documents < 10 || followed < 100 {
		t.Errorf("%d links in %d documents: the test does not see them", followed, documents)
	}
}

// TestIndex: README.md lists every document.
func TestIndex(t *testing.T) {
	listed := linksOf(t, "README.md")
	for _, pattern := range []string{"../*.md", "*.md", "*/README.md"} {
		documents, err := filepath.Glob(pattern)
		if err != nil || len(documents) == 0 {
			t.Fatalf("%s: %d documents, %v", pattern, len(documents), err)
		}
		for _, document := range documents {
			if document = filepath.ToSlash(document); document != "README.md" && !slices.Contains(listed, document) {
				t.Errorf("docs/README.md does not list %s", document)
			}
		}
	}
}

// sourcePath is a file of this repository in inline code; recipes are files that a reader is
// told to make.
var (
	sourcePath = regexp.MustCompile("`((?:[a-z0-9_]+/)+[A-Za-z0-9_.-]+\\.(?:go|h|cc|md|txt|json))`")
	recipes    = regexp.MustCompile(`^(op/square|backend/plain)/`)
)

// TestSourcePaths looks for every file that a document names in inline code.
func TestSourcePaths(t *testing.T) {
	found := 0
	for _, pattern := range []string{"../*.md", "*.md", "decisions/*.md"} {
		documents, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range documents {
			for _, m := range sourcePath.FindAllStringSubmatch(textOf(t, document), -1) {
				if recipes.MatchString(m[1]) {
					continue
				}
				found++
				if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
					t.Errorf("%s: there is no file %s", document, m[1])
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("found %d paths: the test does not see them", found)
	}
}

// TestDeadLinks: the test finds a dead link of each kind.
func TestDeadLinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.md")
	text := "# A b: `c`, d\n\n[x](#a-b-c-d) [x](a.md) [x](a.md#a-b-c-d) [x](https://example.org) `[x](code.md)`\n```\n[x](code.md)\n# no heading\n```\n[y](#nowhere) [y](a.md#no-heading) [y](b.md)\n"
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	var dead []string
	for _, target := range linksOf(t, path) {
		if follow(t, path, target) != "" {
			dead = append(dead, target)
		}
	}
	if got, want := strings.Join(dead, " "), "#nowhere a.md#no-heading b.md"; got != want {
		t.Errorf("dead are %q, want %q", got, want)
	}
}

// textOf returns a document without its code blocks.
func textOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	isCode := false
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			isCode = !isCode
		} else if !isCode {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// linksOf returns the targets of a document's relative links.
func linksOf(t *testing.T, path string) (targets []string) {
	t.Helper()
	for _, m := range link.FindAllStringSubmatch(inlineCode.ReplaceAllString(textOf(t, path), ""), -1) {
		if !strings.Contains(m[1], "://") && !strings.HasPrefix(m[1], "mailto:") {
			targets = append(targets, m[1])
		}
	}
	return targets
}

// follow returns the reason why a link is dead, or "".
func follow(t *testing.T, from, target string) string {
	t.Helper()
	file, anchor, hasAnchor := strings.Cut(target, "#")
	path := from
	if file != "" {
		path = filepath.Join(filepath.Dir(from), file)
	}
	if _, err := os.Stat(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "there is no such file"
		}
		return err.Error()
	}
	if !hasAnchor {
		return ""
	}
	for _, m := range heading.FindAllStringSubmatch(textOf(t, path), -1) {
		if slug(m[1]) == anchor {
			return ""
		}
	}
	return "there is no such heading"
}

// slug returns the anchor of a heading.
func slug(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}
