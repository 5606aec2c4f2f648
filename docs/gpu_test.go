package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGPUDocument: gpu.md names every environment variable that the code of devices and
// their tests reads, and every test of internal/ondevice.
func TestGPUDocument(t *testing.T) {
	text, err := os.ReadFile("gpu.md")
	if err != nil {
		t.Fatal(err)
	}
	variable, test := regexp.MustCompile(`"(TOKITAI_[A-Z]+)"`), regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(t \*testing\.T\)`)
	found := 0
	find := func(file string, pattern *regexp.Regexp) {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range pattern.FindAllStringSubmatch(string(source), -1) {
			found++
			name := match[1]
			if strings.HasPrefix(name, "TestLarge") {
				name = "TestLarge…"
			}
			if !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("%s: gpu.md does not name %s", file, name)
			}
		}
	}
	for _, folder := range []string{"../device/gpu", "../internal/dl"} {
		err := filepath.WalkDir(folder, func(file string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
				find(file, variable)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	tests, err := filepath.Glob("../internal/ondevice/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range tests {
		find(file, test)
	}
	if found < 20 {
		t.Errorf("found %d names in the code, want all of them: the patterns no longer fit", found)
	}
}
