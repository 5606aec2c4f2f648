package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"tokitai/evidence"
	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
)

// noting is a tokitai that knows one device, and notes how it is called. notingTest is in
// the place of a package's tests.
const (
	noting = `#!/bin/sh
echo "tokitai $*" >>"$NOTES"
case "$*" in
*--out*) echo report >"${*##*--out }" ;;
*--device*) case "$*" in *"--device $ONLY"*) ;; *) echo "tokitai doctor: no device like this" >&2; exit 4 ;; esac ;;
esac
`
	notingTest = `#!/bin/sh
echo "test level $TOKITAI_LEVEL on $TOKITAI_DEVICE requires $TOKITAI_REQUIRE" >>"$NOTES"
`
)

// TestRunTests starts scripts/run-tests in a bundle whose programs note how they are called.
func TestRunTests(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the script is for Linux")
	}
	bash, tar := tool.Need(t, "bash"), tool.Need(t, "tar")
	for _, name := range []string{"sh", "gzip", "sed", "grep"} { // what the script uses besides
		tool.Need(t, name)
	}
	bundle := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(bundle, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("tokitai", noting)
	write("tests/some/package/test", notingTest)
	write("about.txt", "commit 1\n")
	write("run-tests", readText(t, "../scripts/run-tests"))

	for _, c := range []struct {
		only        string // the device that there is
		settings    []string
		exit        int
		said, notes []string // texts that must occur
	}{
		{only: "cuda:0", said: []string{"device  cuda:0\n", "ok      test-some-package ", "all passed: "},
			notes: []string{"test level quick on cuda:0 requires cuda,nvrtc\n", "tokitai verify --device cuda:0 --level quick --out "}},
		{only: "hip:0", said: []string{"device  hip:0\n", "ok      bench ", "results.tar.gz\n"},
			notes: []string{"test level quick on hip:0 requires hip\n", "tokitai verify --device hip:0 --level smoke\n", "tokitai bench --device hip:0 --json\n"}},
		{only: "hip:1", settings: []string{"DEVICE=hip:1", "LEVEL=full"}, said: []string{"device  hip:1\n"},
			notes: []string{"test level quick on hip:1 requires hip\n", "tokitai verify --device hip:1 --level full --out "}},
		{only: "none", exit: 1, said: []string{"no GPU that can be used:\n    tokitai doctor: no device like this\n    tokitai doctor: no device like this\n"}},
	} {
		folder := t.TempDir()
		command := exec.Command(bash, filepath.Join(bundle, "run-tests"), filepath.Join(folder, "results"))
		command.Env = append(os.Environ(), append(c.settings, "NOTES="+filepath.Join(folder, "notes"), "ONLY="+c.only)...)
		out, _ := command.CombinedOutput()
		if command.ProcessState.ExitCode() != c.exit {
			t.Errorf("%s: exit code %d, want %d\n%s", c.only, command.ProcessState.ExitCode(), c.exit, out)
		}
		for _, want := range c.said {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: said\n%swant %q", c.only, out, want)
			}
		}
		notes := readText(t, filepath.Join(folder, "notes"))
		for _, want := range c.notes {
			if !strings.Contains(notes, want) {
				t.Errorf("%s: it ran\n%swant %q", c.only, notes, want)
			}
		}
		if c.exit != 0 {
			continue
		}
		list, err := exec.Command(tar, "tzf", filepath.Join(folder, "results.tar.gz")).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"results/about.txt\n", "results/bench.json\n", "results/evidence.zip\n", "results/doctor.txt\n"} {
			if !strings.Contains(string(list), want) {
				t.Errorf("%s: the archive has\n%swant %q", c.only, list, want)
			}
		}
	}
}

// amdCommand matches the program's commands in docs/amd.md.
var amdCommand = regexp.MustCompile(`(?m)^go run \./cmd/tokitai ([^>\n]*)`)

// TestBundle makes the archive for machines with a GPU, unpacks it where there is none, and
// follows docs/amd.md: there is no device, but all commands are known.
func TestBundle(t *testing.T) {
	testlevel.Need(t, testlevel.Full, "builds the program and the tests that need a GPU")
	if runtime.GOOS != "linux" {
		t.Skip("GPUs are supported on Linux")
	}
	folder := t.TempDir()
	run := func(program string, arguments ...string) (string, int) {
		t.Helper()
		command := exec.Command(program, arguments...)
		command.Dir = folder
		command.Env = append(os.Environ(), "TOKITAI_CUDA=/nonexistent/libcuda.so", "TOKITAI_HIP=/nonexistent/libamdhip64.so")
		out, _ := command.CombinedOutput()
		return string(out), command.ProcessState.ExitCode()
	}
	script, err := filepath.Abs("../scripts/bundle")
	if err != nil {
		t.Fatal(err)
	}
	out, code := run(script)
	if size := regexp.MustCompile(`tokitai-gpu.tar.gz: (\d+) bytes\n$`); code != 0 || !size.MatchString(out) || !strings.Contains(out, "tests of internal/ondevice\n") {
		t.Fatalf("exit code %d: %s", code, out)
	}
	if out, code = run("tar", "xzf", "tokitai-gpu.tar.gz"); code != 0 {
		t.Fatal(out)
	}
	out, code = run("tokitai-gpu/run-tests")
	for _, want := range []string{"ok      doctor ", "no GPU that can be used:\n", `no device "cuda:0": `, `no device "hip:0": `} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, said\n%s\nwant 1, and %q", code, out, want)
		}
	}
	commands := amdCommand.FindAllStringSubmatch(readText(t, "amd.md"), -1)
	if len(commands) != 2 {
		t.Fatalf("amd.md has the commands %q, want two", commands)
	}
	for _, c := range commands {
		if out, code := run("tokitai-gpu/tokitai", strings.Fields(c[1])...); code != 4 || !strings.Contains(out, `no device "hip:0": `) {
			t.Errorf("tokitai %s: exit code %d, said\n%s\nwant 4, and that there is no device", c[1], code, out)
		}
	}
}

// TestAMD writes the table of the AMD devices that committed reports are of.
func TestAMD(t *testing.T) {
	archives, err := committedEvidence()
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	hasHardware := false
	for _, archive := range archives {
		name, index, reports := archive.name, archive.index, archive.reports
		first := reports[0]
		if !strings.HasPrefix(first.Machine.Architecture, "gfx") {
			continue
		}
		where := "emulated instructions"
		if !isEmulated(first) {
			where, hasHardware = first.Machine.Name+", "+first.Machine.Driver, true
		}
		fmt.Fprintf(&rows, "| %s | %s | %s %s | %s | [%d of %d](evidence/%s) | %s | %s | %s |\n",
			first.Machine.Architecture, where, first.Toolchain.Compiler, first.Toolchain.Version, first.Level,
			index.Counts.Accepted, index.Totals.Reports-index.Counts.Skipped, name, thousands(index.Totals.Cases), thousands(index.Totals.Elements), thousands(index.Totals.Mismatches))
	}
	text := "No report of an AMD device is in this repository yet, neither emulated nor of hardware."
	if rows.Len() > 0 {
		text = "| architecture | ran on | compiler | level | accepted | cases | outputs | mismatches |\n|---|---|---|---|---:|---:|---:|---:|\n" + rows.String()
		if !hasHardware {
			text += "\nAll of these ran on emulated instructions. No report from an AMD GPU is here yet."
		}
	}
	hold(t, "amd.md", "runs", text)
}

// isEmulated reports whether a report is of the emulator.
func isEmulated(r *evidence.Report) bool {
	return strings.Contains(strings.ToLower(r.Machine.Name+r.Machine.Driver), "emulat")
}
