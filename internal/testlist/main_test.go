package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
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
		args, err := arguments(root, property, strings.Fields(patterns), sample{})
		got := strings.Join(args, " ")
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", words, got, want)
		}
	}
	for from, want := range []string{"-run ^(TestByHelper|TestThroughTwo)$ ./a ./a/b", "-run ^(TestOwn)$ ./a"} {
		if args, err := arguments(root, "level", []string{"./a/..."}, sample{every: 2, from: from + 4}); err != nil || strings.Join(args, " ") != want {
			t.Errorf("every second from %d: %s, %v, want %s", from, args, err, want)
		}
	}
	if args, err := arguments(root, "goroutines", []string{"./a"}, sample{skip: "Con"}); err != nil || strings.Join(args, " ") != "-run ^(TestGroup)$ ./a" {
		t.Errorf("but one: %s, %v", args, err)
	}
	if _, err := arguments(root, "level", []string{"./a/b"}, sample{skip: "."}); err == nil || err.Error() != "-skip . leaves no test" {
		t.Errorf("none: %v", err)
	}
	if args, err := arguments(root, "level", []string{"./a"}, sample{every: 7, from: 5}); err != nil || strings.Join(args, " ") != "-run ^(TestThroughTwo)$ ./a" {
		t.Errorf("every seventh of two: %s, %v, want one", args, err)
	}
}

// TestCosts: a sample by cost takes no longer than it may, is another one for another number, and has every test at times.
func TestCosts(t *testing.T) {
	where := map[string][]string{"TestDear": {"./a"}, "TestCheap": {"./a", "./b"}, "TestCheaper": {"./b"}, "TestOther": {"./c"}, "TestNever": {"./c"}}
	names := slices.Sorted(maps.Keys(where))
	known := map[[2]string]float64{{"./a", "TestDear"}: 13, {"./a", "TestCheap"}: 4, {"./b", "TestCheap"}: 5, {"./b", "TestCheaper"}: 1, {"./c", "TestNever"}: 21}
	var log strings.Builder
	c := costs{known: known, other: 2, times: 1, linked: 3, log: &log}
	found := map[string]int{}
	for from := range 100 {
		taken, err := c.within(20, from, names, where)
		if err != nil {
			t.Fatal(err)
		}
		cost, folders := 0.0, map[string]bool{}
		for _, test := range taken {
			found[test]++
			for _, folder := range where[test] {
				s, isKnown := known[[2]string{folder, test}]
				if !isKnown {
					s = 2
				}
				cost += s
				folders[folder] = true
			}
		}
		if cost += 3 * float64(len(folders)); cost > 20 {
			t.Errorf("sample %d takes %g s, want 20 at most: %v", from, cost, taken)
		}
		if again, err := c.within(20, from, names, where); err != nil || !slices.Equal(again, taken) {
			t.Errorf("sample %d is %v, then %v, %v", from, taken, again, err)
		}
	}
	for _, test := range names {
		if isNever := test == "TestNever"; (found[test] == 0) != isNever || found[test] == 100 {
			t.Errorf("%s is in %d samples of 100", test, found[test])
		}
	}
	if want := "testlist: TestNever of ./c takes 21 s, and the sample at most 20: it is in none\n"; strings.ReplaceAll(log.String(), want, "") != "" || log.Len() == 0 {
		t.Errorf("it says %q, want %q alone", log.String(), want)
	}
	if taken, err := c.within(4, 0, names, where); err != nil || !slices.Equal(taken, []string{"TestCheaper"}) {
		t.Errorf("in 4 s: %v, %v", taken, err)
	}
	if _, err := c.within(3, 0, names, where); err == nil || err.Error() != "no test takes at most 3 s" {
		t.Errorf("in 3 s: %v", err)
	}
	for text, want := range map[string]string{
		"./a TestA":       `"./a TestA" is not a folder, a test and one or two numbers of seconds`,
		"./a TestA 1 -2":  `"-2" is no number of seconds`,
		"./a TestA one 2": `"one" is no number of seconds`,
	} {
		if rows, err := parseCosts([]byte("# a\n./a TestA 1\n./b TestB 2 3.5\n")); err != nil || len(rows) != 2 || rows[0] != (cost{"./a", "TestA", [2]float64{1, 1}, false}) || rows[1] != (cost{"./b", "TestB", [2]float64{2, 3.5}, true}) {
			t.Errorf("two lines are read as %v, %v", rows, err)
		}
		if _, err := parseCosts([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestCostsAreOfTests: the committed costs are those of tests that there are, one line for each.
func TestCostsAreOfTests(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, costsFile))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := parseCosts(text)
	if err != nil {
		t.Fatal(err)
	}
	all, err := parse(root)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[[2]string]bool{}
	for _, r := range rows {
		key := [2]string{r.folder, r.test}
		if !slices.Contains(with("all", all[strings.TrimPrefix(r.folder, "./")], nil), r.test) {
			t.Errorf("%s: %s has no %s", costsFile, r.folder, r.test)
		}
		if seen[key] {
			t.Errorf("%s: two lines for %s %s", costsFile, r.folder, r.test)
		}
		seen[key] = true
	}
	if len(rows) < 10 {
		t.Errorf("%s has %d tests, want those that take long", costsFile, len(rows))
	}
}

// TestRecord: the file gets what go test has measured, and keeps what it has not.
func TestRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "costs")
	if err := os.WriteFile(file, []byte("# Costs\n./b TestKept 3.0\n./a TestOld 2.0 30\n./a TestQuicker 9.0\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	steps := []struct{ level, output, want string }{
		{
			"smoke",
			"=== RUN   TestOld\n--- PASS: TestOld (4.04s)\n    --- PASS: TestOld/part (4.00s)\n--- PASS: TestQuicker (0.52s)\n--- PASS: TestNew (12.60s)\n--- FAIL: TestBad (7.00s)\n--- PASS: ExampleA (7.00s)\nok  \ttokitai/a\t17.2s\n" +
				"--- PASS: TestFast (0.99s)\nFAIL\ttokitai/c/d\t1.0s\n",
			"# Costs\n./a TestNew 13\n./a TestOld 4.0 30\n./b TestKept 3.0\n",
		},
		{
			"quick",
			"--- PASS: TestRoot (0.50s)\nok  \ttokitai\t0.6s\n--- PASS: TestNew (61.00s)\n--- PASS: TestQuick (0.25s)\nok  \ttokitai/a\t61.2s\n",
			"# Costs\n. TestRoot 0.0 0.5\n./a TestNew 13 61\n./a TestOld 4.0 30\n./a TestQuick 0.0 0.2\n./b TestKept 3.0\n",
		},
	}
	for _, s := range steps {
		if err := record(file, s.level, strings.NewReader(s.output)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != s.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", s.level, err, got, s.want)
		}
	}
	if err := record(file, "full", strings.NewReader("")); err == nil || err.Error() != `-record is "full", want smoke or quick` {
		t.Errorf("level full: %v", err)
	}
}
