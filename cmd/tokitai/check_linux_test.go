package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"tokitai/evidence"
	"tokitai/internal/tool"
)

// The kernels in example/kernel are right, and a variant of each that loses the last term of a
// sum is found.
func TestCheckExamples(t *testing.T) {
	for _, c := range []struct {
		file, needs    string
		right, wrong   string
		build, command []string
	}{
		{file: "softmax.py", needs: "python3", right: "math.fsum(powers)", wrong: "math.fsum(powers[:9])", command: []string{"--exec", "python3 softmax.py"}},
		{file: "softmax.cpp", needs: "g++", right: "total += std::exp(x[c] - top)", wrong: "total += c < 9 ? std::exp(x[c] - top) : 0",
			build: []string{"g++", "-std=c++17", "-o", "softmax", "softmax.cpp"}, command: []string{"--exec", "./softmax"}},
		{file: "softmax.c", needs: "gcc", right: "total += exp(in[c] - top)", wrong: "total += c < 9 ? exp(in[c] - top) : 0",
			build: []string{"gcc", "-O2", "-shared", "-fPIC", "-o", "libsoftmax.so", "softmax.c", "-lm"}, command: []string{"--library", "./libsoftmax.so", "--symbol", "softmax"}},
	} {
		t.Run(c.file, func(t *testing.T) {
			tool.Need(t, c.needs)
			t.Chdir(t.TempDir())
			for _, isWrong := range []bool{false, true} {
				if isWrong {
					copyExample(t, c.file, c.right, c.wrong)
				} else {
					copyExample(t, c.file)
				}
				if c.build != nil {
					writeHeader(t)
					if out, err := exec.Command(c.build[0], c.build[1:]...).CombinedOutput(); err != nil {
						t.Fatalf("%v: %s", err, out)
					}
				}
				code, stdout, stderr := program(t.Context(), slices.Concat([]string{"check", "softmax.forward", "--level", "smoke", "--seed", "5"}, c.command)...)
				switch {
				case !isWrong && (code != exitOK || !strings.Contains(stdout, "1 accepted, 0 rejected, 0 undecided, 2 skipped")):
					t.Errorf("exit code %d, want %d: %s%s", code, exitOK, stdout, stderr)
				case isWrong && (code != exitRejected || !strings.Contains(stdout, "tokitai check softmax.forward "+strings.Join(c.command[:1], " "))):
					t.Errorf("with %s: exit code %d, want %d and a replay: %s%s", c.wrong, code, exitRejected, stdout, stderr)
				}
			}
		})
	}
}

// writeHeader writes tokitai.h, as the program prints it.
func writeHeader(t *testing.T) {
	t.Helper()
	code, stdout, stderr := program(t.Context(), "check", "--emit", "header")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if err := os.WriteFile("tokitai.h", []byte(stdout), 0o666); err != nil {
		t.Fatal(err)
	}
}

// A library and a symbol that cannot be called are wrong use.
func TestCheckLibraryErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	for args, want := range map[string]string{
		"--library libmine.so":               "--library needs --symbol",
		"--library libmine.so --symbol f":    "--library: libmine.so: no such file or directory",
		"--library /bin/sh --symbol f":       "--library: /bin/sh: it has no f",
		"--library libmine.so --exec ./mine": "--exec and --library are given, want one of them",
		"--emit header":                      "--emit is given with something else",
	} {
		code, _, stderr := program(t.Context(), append([]string{"check", "softmax.forward"}, strings.Fields(args)...)...)
		if code != exitWrongUse || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, want %d and %s: %s", args, code, exitWrongUse, want, stderr)
		}
	}
}

// A replay repeats the failure: the seed, drawn anew for each run, is part of it.
func TestCheckReplay(t *testing.T) {
	tool.Need(t, "python3")
	t.Chdir(t.TempDir())
	copyExample(t, "softmax.py", "p / total", "p / total if len(row) != 7 else 0.0")
	check := func() (*evidence.Report, string) {
		code, stdout, stderr := program(t.Context(), "check", "softmax.forward", "--dtype", "f32", "--level", "smoke", "--exec", "./softmax.py", "--json", "--out", "reports")
		if code != exitRejected {
			t.Fatalf("exit code %d, want %d: %s%s", code, exitRejected, stdout, stderr)
		}
		text, err := os.ReadFile("reports/softmax.forward_check.process_f32.json")
		if err != nil {
			t.Fatal(err)
		}
		r := &evidence.Report{}
		if err := json.Unmarshal(text, r); err != nil {
			t.Fatal(err)
		}
		return r, r.Failure.Replay
	}
	first, replay := check()
	second, _ := check()
	if *first.Generator.Seed == *second.Generator.Seed {
		t.Errorf("two runs have the seed %d, want different ones", *first.Generator.Seed)
	}
	code, output := inShell(t, replay)
	if want := "got     " + first.Failure.Got; code != exitRejected || !strings.Contains(output, want) {
		t.Errorf("%s: exit code %d, want %d and %q: %s", replay, code, exitRejected, want, output)
	}
}

// A group is asked for by the names of its definitions; what the kernel does not have is left
// out.
func TestCheckGroup(t *testing.T) {
	tool.Need(t, "python3")
	t.Chdir(t.TempDir())
	copyExample(t, "softmax.py")
	code, stdout, stderr := program(t.Context(), "check", "softmax", "--dtype", "f32", "--level", "smoke", "--exec", "./softmax.py", "--json")
	if want := "left out: ./softmax.py: the kernel does not have softmax.backward: it lists softmax.forward\n"; code != exitOK || stderr != want {
		t.Errorf("exit code %d, %q, want 0, %q: %s", code, stderr, want, stdout)
	}
	if code, stdout, stderr = program(t.Context(), "check", "gelu", "--exec", "./softmax.py"); code != exitWrongUse || !strings.Contains(stderr, "the kernel has nothing of gelu") {
		t.Errorf("exit code %d, want %d: %s%s", code, exitWrongUse, stdout, stderr)
	}
}

func TestSplitWords(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string
	}{
		{"python3  my\tkernel.py ", []string{"python3", "my", "kernel.py"}},
		{`sh -c 'a "b" \n' "c 'd' \" \x" e\ f '' g'h'i`, []string{"sh", "-c", `a "b" \n`, `c 'd' " \x`, "e f", "", "ghi"}},
		{"", nil},
	} {
		if got, err := splitWords(c.line); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, %v, want %q", c.line, got, err, c.want)
		}
	}
	for _, line := range []string{`a "b`, `a 'b`, `a\`} {
		if got, err := splitWords(line); err == nil {
			t.Errorf("%q: got %q, want an error", line, got)
		}
	}
}
