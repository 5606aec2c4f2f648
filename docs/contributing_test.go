package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tokitai/internal/testlevel"
	"tokitai/lower/cpu/machine"
)

const contributingFile = "../CONTRIBUTING.md"

// TestSteps lists the steps of .ci/run.
func TestSteps(t *testing.T) {
	script, err := os.ReadFile("../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(script), "\nsteps() {\n")
	list, _, _ = strings.Cut(list, "\n}\n")
	step := regexp.MustCompile(`(?m)^\t+([a-z_0-9]+) +(\d+)  (.*)$`)
	table := "| step | budget in s | what it checks |\n|---|---:|---|\n"
	found := step.FindAllStringSubmatch(list, -1)
	for _, m := range found {
		table += fmt.Sprintf("| `%s` | %s | %s |\n", m[1], m[2], m[3])
	}
	if len(found) < 20 {
		t.Fatalf(".ci/run: read %d steps, want all of them", len(found))
	}
	hold(t, contributingFile, "steps", table)
}

// TestDependencies: CONTRIBUTING.md names every module that go.mod requires directly.
func TestDependencies(t *testing.T) {
	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(contributingFile)
	if err != nil {
		t.Fatal(err)
	}
	required := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(string(module), -1)
	for _, m := range required {
		if !strings.Contains(string(text), "`"+m[1]+"`") {
			t.Errorf("CONTRIBUTING.md does not say what %s is for", m[1])
		}
	}
	if len(required) < 5 {
		t.Errorf("go.mod: read %d modules, want all of them", len(required))
	}
}

var recipeFile = regexp.MustCompile("(?s)\n```go ([a-z]+/[a-z0-9]+/[a-z0-9_]+\\.go)\n(.*?)\n```\n")

// TestRecipes follows the recipes for a new operation and a new backend. Their files and rows
// are laid over the tree; then the operation's tests run, and the program verifies it on the
// new backend.
func TestRecipes(t *testing.T) {
	testlevel.Need(t, testlevel.Quick, "compiles a package and the program")
	t.Parallel()
	folder, overlay := t.TempDir(), map[string]string{}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	lay := func(path, text string) {
		file := filepath.Join(folder, path[strings.LastIndexByte(path, '/')+1:])
		if strings.HasSuffix(path, "/all/all.go") { // there are two
			file = filepath.Join(folder, strings.ReplaceAll(path, "/", "-"))
		}
		overlay[filepath.Join(root, path)] = file
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range recipeFile.FindAllStringSubmatch(readText(t, contributingFile), -1) {
		lay(m[1], m[2]+"\n")
	}
	if len(overlay) != 7 {
		t.Fatalf("CONTRIBUTING.md has %d files in its recipes, want 7", len(overlay))
	}
	withRow := func(list, folder, before, row string) string {
		text := readText(t, "../"+list)
		text = strings.Replace(text, "import (\n", fmt.Sprintf("import (\n\t\"tokitai/%s\"\n", folder), 1)
		if !strings.Contains(text, before) {
			t.Fatalf("%s: no %q before which a row can be added", list, before)
		}
		return strings.Replace(text, before, before+"\t"+row+",\n", 1)
	}
	lay("op/all/all.go", withRow("op/all/all.go", "op/square", "slices.Concat(\n", "square.Operations"))
	lay("backend/all/all.go", withRow("backend/all/all.go", "backend/plain", "var Backends = []Backend{\n", "plain.Backend"))
	replace, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	lay("overlay.json", string(replace))

	run := func(dir, program string, args ...string) {
		command := exec.Command(program, args...)
		command.Dir = dir
		command.Env = append(os.Environ(), "TOKITAI_LEVEL=smoke", machine.Variable+"=") // with generated code
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	over, test, program := "-overlay="+filepath.Join(folder, "overlay.json"), filepath.Join(folder, "square.test"), filepath.Join(folder, "tokitai")
	run(root, "go", "test", over, "-vet=off", "-c", "-o", test, "./op/square") // vet does not know folders of an overlay
	run(folder, test, "-update")
	run(folder, test)
	run(root, "go", "test", over, "-vet=off", "-run=TestBoundsAreComplete|TestHostileData|TestPatternNames|TestPatternsRun|TestScalings", "./accuracy", "./op/all")
	run(root, "go", "build", over, "-o", program, "./cmd/tokitai")
	run(folder, program, "verify", "square", "--device", "cpu", "--level", "smoke")
	run(folder, program, "verify", "square", "embedding", "gemm.forward", "--device", "plain", "--dtype", "f16", "--level", "smoke")
	run(folder, program, "doctor", "--device", "plain")
}

func readText(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
