package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestArguments(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"helper/helper.go": `package helper; import "tokitai/internal/testlevel"; var N = testlevel.Pick(1, 2)`,
		"a/a_test.go": `package a
			import "tokitai/internal/testlevel"
			var count = testlevel.Pick(1, 2)
			func many() int { return count }
			func TestOwn(t *testing.T) { testlevel.Need(t, 1, "") }
			func TestThroughTwo(t *testing.T) { many() }
			func TestNone(t *testing.T) { few() }
			func TestConcurrent(t *testing.T) { both() }
			func both() { go few() }
			func TestGroup(t *testing.T) { var g sync.WaitGroup; g.Go(func() {}) }
			func few() int { return 1 }`,
		"a/b/b_test.go":        `package b; import h "tokitai/helper"; func TestByHelper(t *testing.T) { h.N++ }; func TestPlain(t *testing.T) {}`,
		"c/c_test.go":          `package c; func TestSame(t *testing.T) {}`,
		"d/d_test.go":          `package d; import "tokitai/internal/testlevel"; func TestMain(m *testing.M) { testlevel.Current() }; func TestAny(t *testing.T) {}`,
		"e/testdata/x_test.go": `no Go`,
		"f/f_test.go":          `package f; import "tokitai/internal/tool"; func TestCompiled(t *testing.T) { tool.Need(t, "gcc") }; func TestPure(t *testing.T) {}`,
	} {
		name = filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for words, want := range map[string]string{
		"level ./a":             "-run ^(TestOwn|TestThroughTwo)$ ./a",
		"level ./a/... ./c":     "-run ^(TestByHelper|TestOwn|TestThroughTwo)$ ./a ./a/b",
		"level ./d ./a/b ./a/b": "-run ^(TestAny|TestByHelper)$ ./a/b ./d",
		"level ./c":             "no test in ./c has property level",
		"goroutines ./a/...":    "-run ^(TestConcurrent|TestGroup)$ ./a",
		"tools ./...":           "-run ^(TestCompiled)$ ./f",
		"all ./a/b ./c":         "-run ^(TestByHelper|TestPlain|TestSame)$ ./a/b ./c",
		"goroutines ./...":      "-run ^(TestConcurrent|TestGroup)$ ./a",
		"all ./nowhere":         "no folder ./nowhere",
		"slow ./a":              `unknown property "slow", want level, tools, goroutines or all`,
	} {
		property, patterns, _ := strings.Cut(words, " ")
		args, err := arguments(root, property, strings.Fields(patterns), 1, 0)
		got := strings.Join(args, " ")
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", words, got, want)
		}
	}
	for from, want := range []string{"-run ^(TestByHelper|TestThroughTwo)$ ./a ./a/b", "-run ^(TestOwn)$ ./a"} {
		if args, err := arguments(root, "level", []string{"./a/..."}, 2, from+4); err != nil || strings.Join(args, " ") != want {
			t.Errorf("every second from %d: %s, %v, want %s", from, args, err, want)
		}
	}
	if args, err := arguments(root, "level", []string{"./a"}, 7, 5); err != nil || strings.Join(args, " ") != "-run ^(TestThroughTwo)$ ./a" {
		t.Errorf("every seventh of two: %s, %v, want one", args, err)
	}
}
