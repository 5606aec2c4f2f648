// Package python_test runs the tests of the Python client against the program.
package python_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	_ "tokitai/kernelprocess/child" // a change of what the program serves runs these tests again

	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
)

// python finds an interpreter that the client runs on.
func python(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skipf("%s: the tests use sealed shared memory, which Linux has", runtime.GOOS)
	}
	path := tool.Need(t, "python3")
	if out, err := exec.Command(path, "-c", "import sys; sys.exit(sys.version_info < (3, 9))").CombinedOutput(); err != nil {
		tool.Missing(t, "python3", fmt.Sprintf("%s is older than 3.9 %s", path, out))
	}
	return path
}

// build makes the program from this tree, so that no older one is tested.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "tokitai")
	if out, err := exec.Command("go", "build", "-o", program, "tokitai/cmd/tokitai").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

func run(t *testing.T, program, python string, arguments ...string) []byte {
	t.Helper()
	c := exec.Command(python, append([]string{"-X", "dev", "-B"}, arguments...)...)
	c.Env = append(os.Environ(), "TOKITAI="+program, "TOKITAI_FAILURES=")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, out)
	}
	return out
}

// watch reads what others execute here, so that a result that go test has kept is not
// taken for one of other files.
func watch(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{"*.py", "*/*.py", "../../cmd/tokitai/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			if _, err := os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestClient(t *testing.T) {
	watch(t)
	interpreter := python(t)
	program := build(t)
	t.Run("loop", func(t *testing.T) {
		unittest(t, program, interpreter, "test_loop.Progress.test_lines", "test_loop.Progress.test_streams", "test_loop.Remember.test_kept", "test_loop.Compare")
	})
	t.Run("numpy", func(t *testing.T) {
		if err := exec.Command(interpreter, "-c", "import numpy").Run(); err != nil {
			tool.Missing(t, "numpy", interpreter+" cannot import it: views of its arrays are not tested")
		}
		unittest(t, program, interpreter, "test_numpy")
	})
	t.Run("demo", func(t *testing.T) {
		out := run(t, program, interpreter, "tokitai_client.py")
		if want := []byte("softmax(4.0) = 0.643914"); !bytes.Contains(out, want) {
			t.Errorf("got\n%s\nwant a line with %q", out, want)
		}
	})
	t.Run("README", func(t *testing.T) {
		readme, err := os.ReadFile("README.md")
		if err != nil {
			t.Fatal(err)
		}
		examples := strings.Split(string(readme), "```python\n")[1:]
		if len(examples) == 0 {
			t.Fatal("README.md has no example")
		}
		for _, text := range examples {
			example, rest, _ := strings.Cut(text, "```\n")
			_, rest, _ = strings.Cut(rest, "```\n")
			want, _, isPrinted := strings.Cut(rest, "```\n")
			if !isPrinted {
				t.Fatalf("README.md does not tell what this prints:\n%s", example)
			}
			if got := run(t, program, interpreter, "-c", example); string(got) != want {
				t.Errorf("the example\n%s\nprints\n%s\nwant, as README.md tells,\n%s", example, got, want)
			}
		}
	})
}

// slowly runs tests that take many seconds, at level quick. None may leave anything open.
func slowly(t *testing.T, tests ...string) {
	t.Helper()
	watch(t)
	testlevel.Need(t, testlevel.Quick, "all tests of the Python client take many seconds")
	interpreter := python(t)
	out := run(t, build(t), interpreter, append([]string{"-W", "error::ResourceWarning", "-m", "unittest"}, tests...)...)
	if !bytes.HasSuffix(out, []byte("\nOK\n")) {
		t.Errorf("want all tests to pass and none to be skipped, got\n%s", out)
	}
	if bytes.Contains(out, []byte("ResourceWarning")) {
		t.Errorf("something is left open:\n%s", out)
	}
}

func TestServed(t *testing.T)  { slowly(t, "test_client", "test_define", "test_judge") }
func TestChecked(t *testing.T) { slowly(t, "test_check") }
func TestLoop(t *testing.T)    { slowly(t, "test_loop.Progress", "test_loop.Remember") }

func TestPytest(t *testing.T) {
	watch(t)
	testlevel.Need(t, testlevel.Quick, "four kernels are checked")
	interpreter := python(t)
	if err := exec.Command(interpreter, "-c", "import pytest").Run(); err != nil {
		t.Skipf("%s has no pytest: the plugin is not tested", interpreter)
	}
	unittest(t, build(t), interpreter, "test_loop.Pytest")
}

// wheels runs scripts/wheel for a folder and returns the wheels that are there afterwards.
func wheels(t *testing.T, interpreter, folder string, environment []string, flags ...string) []string {
	t.Helper()
	c := exec.Command(interpreter, append([]string{"../../scripts/wheel", "--out", folder}, flags...)...)
	c.Env = environment
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("scripts/wheel: %v\n%s", err, out)
	}
	list, err := filepath.Glob(filepath.Join(folder, "tokitai-*.whl")) // as the README's shell does
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestWheels checks that pip install FOLDER/tokitai-*.whl is given the wheel of this machine alone, also
// after a run for all machines. The wheels have a program of one line.
func TestWheels(t *testing.T) {
	t.Parallel()
	watch(t)
	interpreter := python(t)
	folder, tools := t.TempDir(), t.TempDir()
	compiler := "#!" + interpreter + "\nimport sys\nopen(sys.argv[sys.argv.index('-o') + 1], 'w').write('a program')\n"
	if err := os.WriteFile(filepath.Join(tools, "go"), []byte(compiler), 0o777); err != nil {
		t.Fatal(err)
	}
	environment := append(os.Environ(), "PATH="+tools+string(os.PathListSeparator)+os.Getenv("PATH"))
	machine := map[string]string{"amd64": "_x86_64.whl", "arm64": "_aarch64.whl"}[runtime.GOARCH]
	if machine == "" {
		t.Skipf("there is no wheel for %s", runtime.GOARCH)
	}
	if all := wheels(t, interpreter, folder, environment, "--arch", "all"); len(all) != 2 {
		t.Fatalf("scripts/wheel --arch all made %v, want a wheel for amd64 and one for arm64", all)
	}
	if own := wheels(t, interpreter, folder, environment); len(own) != 1 || !strings.HasSuffix(own[0], machine) {
		t.Errorf("scripts/wheel leaves %v, want one wheel, for %s", own, runtime.GOARCH)
	}
}

// TestWheel builds the wheel of this machine twice, compares the bytes, installs it into a fresh
// environment, and judges a right and a wrong kernel there.
func TestWheel(t *testing.T) {
	testlevel.Need(t, testlevel.Full, "the program is compiled once more")
	watch(t)
	interpreter := python(t)
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skipf("there is no wheel for %s to install", runtime.GOARCH)
	}
	folder := t.TempDir()
	if out, err := exec.Command(interpreter, "-m", "venv", filepath.Join(folder, "venv")).CombinedOutput(); err != nil {
		t.Skipf("python3 -m venv: %v, so that no wheel is installed\n%s", err, out)
	}
	own := wheels(t, interpreter, folder, nil)
	all := wheels(t, interpreter, t.TempDir(), nil, "--arch", "all")
	if len(own) != 1 || len(all) != 2 {
		t.Fatalf("scripts/wheel made %v, and for all machines %v, want one wheel and two", own, all)
	}
	first, err := os.ReadFile(own[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		second, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(path) == filepath.Base(own[0]) && !bytes.Equal(first, second) {
			t.Errorf("two builds of %s differ, want the same bytes", filepath.Base(path))
		}
	}
	bin := filepath.Join(folder, "venv", "bin")
	command := func(name string, arguments ...string) string {
		t.Helper()
		c := exec.Command(filepath.Join(bin, name), arguments...)
		c.Dir = folder
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "TOKITAI=") && !strings.HasPrefix(v, "PYTHONPATH=") {
				c.Env = append(c.Env, v)
			}
		}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", c.Args, err, out)
		}
		return string(out)
	}
	command("pip", append([]string{"install", "--no-index", "--disable-pip-version-check"}, own...)...)
	if got := command("python", "-c", "import tokitai; print(tokitai.find_program())"); got != filepath.Join(bin, "tokitai")+"\n" {
		t.Errorf("the client finds %q, want the program of the wheel", got)
	}
	kernels, err := os.ReadFile("test_check.py")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "kernels.py"), kernels, 0o666); err != nil {
		t.Fatal(err)
	}
	got := command("python", "-c", "import kernels; print([kernels.check(f).verdict for f in (kernels.softmax, kernels.without_last)])")
	if want := "['accepted', 'rejected']\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
