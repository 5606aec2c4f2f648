package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/evidence"
	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
)

// batch runs check --batch in a process, since it starts itself, and returns its results by
// kernel.
func batch(t *testing.T, wantCode int, args ...string) map[string]batchResult {
	t.Helper()
	c := exec.Command(asProgram(t), append([]string{"check", "--json", "--level", "smoke", "--seed", "5"}, args...)...)
	var notes strings.Builder
	c.Stderr = &notes
	out, _ := c.Output()
	if code := c.ProcessState.ExitCode(); code != wantCode {
		t.Fatalf("%v: exit code %d, want %d: %s%s", args, code, wantCode, out, &notes)
	}
	results := map[string]batchResult{}
	for line := range strings.Lines(string(out)) {
		var r batchResult
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		results[r.Kernel] = r
	}
	return results
}

// asProgram returns this test as the program tokitai.
func asProgram(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), toolName)
	if err := os.Link(self, path); err == nil {
		return path
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o777); err != nil {
		t.Fatal(err)
	}
	return path
}

// judged compares results with the verdicts that they should have and what the reasons should
// say.
func judged(t *testing.T, results map[string]batchResult, want map[string][2]string) {
	t.Helper()
	if len(results) != len(want) {
		t.Errorf("got %d results, want %d", len(results), len(want))
	}
	for name, w := range want {
		r := results[name]
		if r.Verdict != w[0] || !strings.Contains(r.Reason, w[1]) || (w[1] == "") != (r.Reason == "") || strings.Contains(r.Reason, "--help") {
			t.Errorf("%s: %s, %q, want %s, %q", name, r.Verdict, r.Reason, w[0], w[1])
		}
		if isRejected := r.Verdict == string(evidence.Rejected); isRejected != (len(r.Failures) == 1) {
			t.Errorf("%s is %s, with %d failures", name, r.Verdict, len(r.Failures))
		}
	}
}

func TestCheckBatchOfLibraries(t *testing.T) {
	t.Parallel()
	gcc := tool.Need(t, "gcc")
	folder, sources := t.TempDir(), t.TempDir()
	code, header, stderr := program(t.Context(), "check", "--emit", "header")
	if code != exitOK {
		t.Fatal(stderr)
	}
	text, err := os.ReadFile("../../example/kernel/softmax.c")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(sources, "tokitai.h"), header)
	for name, change := range map[string][2]string{
		"right":   {},
		"wrong":   {"total += exp(in[c] - top)", "total += c < 9 ? exp(in[c] - top) : 0"},
		"unnamed": {"int softmax(", "int other("},
		"refuses": {"x->dtype != TOKITAI_F32", "x->dtype != TOKITAI_F16"},
	} {
		source := filepath.Join(sources, name+".c")
		write(t, source, strings.Replace(string(text), change[0], change[1], 1))
		if out, err := exec.Command(gcc, "-O2", "-shared", "-fPIC", "-I", sources, "-o", filepath.Join(folder, name+".so"), source, "-lm").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	write(t, filepath.Join(folder, "notes.txt"), "no library")
	results := batch(t, exitRejected, "softmax.forward", "--batch", folder, "--library", "{}", "--symbol", "softmax", "--dtype", "f32", "--level", testlevel.Pick("smoke", "quick"))
	judged(t, results, map[string][2]string{
		"right.so":   {"accepted", ""},
		"wrong.so":   {"rejected", "differs: got "},
		"unnamed.so": {"undecided", "it has no softmax; it exports other"},
		"refuses.so": {"undecided", "it computes f32 alone"},
		"notes.txt":  {"undecided", "it is no shared library"},
	})
	// Formats that the kernel refuses do not use up the time of the one that it takes.
	for _, name := range []string{"wrong.so", "unnamed.so", "refuses.so", "notes.txt"} {
		if err := os.Remove(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	judged(t, batch(t, exitOK, "softmax.forward", "--batch", folder, "--library", "{}", "--symbol", "softmax", "--budget", "10m", "--level", testlevel.Pick("smoke", "quick")), map[string][2]string{"right.so": {"accepted", ""}})
	judged(t, batch(t, exitUnfinished, "softmax.forward", "--batch", folder, "--library", "{}", "--symbol", "softmax", "--budget", "1ns", "--dtype", "f32"), map[string][2]string{"right.so": {"unfinished", "no fault in "}})
}

func TestCheckBatchOfSources(t *testing.T) {
	t.Parallel()
	tool.Need(t, "g++")
	folder := t.TempDir()
	text, err := os.ReadFile("../../foreign/testdata/wrong/lost_tail.hip")
	if err != nil {
		t.Fatal(err)
	}
	wrong := string(text)
	right := strings.Replace(strings.Replace(wrong, "if (i + 4 > n) return;", "", 1), "k < 4;", "k < 4 && i + k < n;", 1)
	broken := strings.Replace(wrong, "y[i + k] = v", "y[i + k] = w", 1)
	for name, source := range map[string]string{"right.hip": right, "lost_tail.hip": wrong, "broken.hip": broken} {
		write(t, filepath.Join(folder, name), source)
	}
	results := batch(t, exitRejected, "gelu.forward", "--batch", folder, "--hip", "{}", "--entry", "gelu", "--launch", "grid=ceil(R*C/256) block=64 args=x,y,R*C:i64", "--device", "sim", "--dtype", "f32", "--level", testlevel.Pick("smoke", "quick"))
	judged(t, results, map[string][2]string{
		"right.hip":     {"accepted", ""},
		"lost_tail.hip": {"rejected", "it is not written"},
		"broken.hip":    {"undecided", "broken.hip:10:"},
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}
