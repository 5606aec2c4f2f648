package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheck checks a module with a function that one system lacks and a test of it that all have.
func TestCheck(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":        "module m\ngo 1.24\n",
		"a/a.go":        "package a\n\nimport \"unicode/utf8\"\n\nfunc A() int { return utf8.RuneLen('a') }\n",
		"a/a_linux.go":  "package a\n\nfunc B() int { return 1 }\n",
		"a/a_test.go":   "package a_test\n\nimport \"m/a\"\n\nvar B = a.B()\n",
		"a/in_test.go":  "package a\n\nvar inside = A()\n",
		"b/b_tagged.go": "//go:build tagged\n\npackage b\n\nvar b int = \"text\"\n",
		"b/b.go":        "package b\n",
	} {
		name = filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ target, tags, want string }{
		{"linux/amd64", "", ""},
		{"linux/arm64", "", ""},
		{"windows/amd64", "", "undefined: a.B"},
		{"linux/amd64", "tagged", "cannot use \"text\""},
		{"linux", "", "linux is no system and architecture"},
		{"linux/none", "", "linux/none is no system and architecture"},
	} {
		n, err := check(folder, c.target, c.tags)
		switch {
		case c.want == "" && (err != nil || n != 4): // a, a with its tests, its tests outside, b
			t.Errorf("%s %s: %d packages, %v, want 4", c.target, c.tags, n, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s %s: %v, want %s", c.target, c.tags, err, c.want)
		}
	}
}
