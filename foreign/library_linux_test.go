package foreign

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"tokitai/evidence"
	"tokitai/internal/tool"
	"tokitai/verify"
)

// built compiles a file of testdata/library to a shared library.
func built(t *testing.T, compiler, file string, flags ...string) string {
	t.Helper()
	compiler = tool.Need(t, compiler)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tokitai.h"), []byte(LibraryHeader), 0o666); err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(dir, "libtest.so")
	words := append([]string{"-Wall", "-Wextra", "-Werror", "-O1", "-I", dir, "-o", made, filepath.Join("testdata/library", file)}, flags...)
	if out, err := exec.Command(compiler, words...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", compiler, strings.Join(words, " "), err, out)
	}
	return made
}

var asLibrary = []string{"-shared", "-fPIC", "-pthread"}

// TestLibraryVerdicts holds C functions to the judge.
func TestLibraryVerdicts(t *testing.T) {
	path := built(t, "gcc", "scaled.c", asLibrary...)
	const rejected, undecided = evidence.Rejected, evidence.Inadmissible
	for _, c := range []struct {
		symbol    string
		isStrided bool
		only      string // this case
		verdict   evidence.Verdict
		reason    string
	}{
		{symbol: "right", verdict: evidence.Accepted},
		{symbol: "right", isStrided: true, verdict: evidence.Accepted},
		{symbol: "prints", verdict: evidence.Accepted},
		{symbol: "large_stack", verdict: evidence.Accepted},
		{symbol: "ignores_strides", verdict: evidence.Accepted},
		{symbol: "ignores_strides", isStrided: true, verdict: rejected, reason: "y"},
		{symbol: "int_offsets", verdict: evidence.Accepted},
		{symbol: "int_offsets", isStrided: true, verdict: undecided, reason: "died: signal segmentation fault"},
		{symbol: "wrong_column", verdict: rejected, reason: "y[0,6] differs"},
		{symbol: "leaves_the_tail", verdict: rejected, reason: "differs"},
		{symbol: "writes_after", only: oneCase, verdict: rejected, reason: "it writes outside y: 4 bytes changed, first at element 1 after the last one"},
		{symbol: "writes_before", only: oneCase, verdict: rejected, reason: "it writes outside y: "},
		{symbol: "writes_between", isStrided: true, verdict: rejected, reason: "it writes between the rows of y"},
		{symbol: "changes_its_input", only: oneCase, verdict: rejected, reason: "it writes to its input x: "},
		{symbol: "reads_beyond", verdict: rejected, reason: "differs"},
		{symbol: "writes_later", verdict: rejected, reason: "writes_later changed y after it had returned"},
		{symbol: "far_away", only: oneCase, verdict: undecided, reason: "died: signal segmentation fault"},
		{symbol: "crashes", only: oneCase, verdict: undecided, reason: "died: signal segmentation fault"},
		{symbol: "recurses", only: oneCase, verdict: undecided, reason: "died: signal segmentation fault"},
		{symbol: "aborts", only: oneCase, verdict: undecided, reason: "died: signal aborted; its last words: an invariant is broken"},
		{symbol: "leaves", only: oneCase, verdict: undecided, reason: "died: exit status 5"},
		{symbol: "leaves_in_peace", only: oneCase, verdict: undecided, reason: "at CALL: kernel process"},
		{symbol: "allocates", only: oneCase, verdict: undecided, reason: "allocates returned 12: there is no more memory"},
		{symbol: "fails", only: oneCase, verdict: undecided, reason: "fails returned 3: no thread could be started"},
		{symbol: "fails_silently", only: oneCase, verdict: undecided, reason: "fails_silently returned -1"},
		{symbol: "fills_the_message", only: oneCase, verdict: undecided, reason: "fills_the_message returned 4: xxxx"},
		{symbol: "refuses", verdict: evidence.Skipped, reason: "refuses refused: it wants a plan"},
		{symbol: "refuses_long_rows", verdict: undecided, reason: "rows of at most 16"},
	} {
		name := c.symbol
		if c.isStrided {
			name += " strided"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, err := Library(path, c.symbol, Options{Definition: scaled, Seed: 7, Deadline: patience, IsStrided: c.isStrided})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			r := judge(t, k, verify.Options{Seed: 3, Case: c.only}).Report
			if r.Verdict != c.verdict || !strings.Contains(r.Reason, c.reason) {
				t.Errorf("got %s: %s\nwant %s: %s", r.Verdict, r.Reason, c.verdict, c.reason)
			}
		})
	}
	if runtime.GOARCH == "amd64" { // where a division by zero traps
		k, err := Library(path, "divides", Options{Definition: scaled, Deadline: patience})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		if r := judge(t, k, verify.Options{Case: oneCase}).Report; !strings.Contains(r.Reason, "died: signal floating point exception") {
			t.Errorf("got %s: %s", r.Verdict, r.Reason)
		}
	}
}

// TestLibraryHangs: a function that does not return is killed with its process.
func TestLibraryHangs(t *testing.T) {
	path := built(t, "gcc", "scaled.c", asLibrary...)
	k, err := Library(path, "hangs", Options{Definition: scaled, Deadline: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	r := judge(t, k, verify.Options{Seed: 3, Case: oneCase}).Report
	if want := "did not answer CALL within 2s, and was killed"; r.Verdict != evidence.Inadmissible || !strings.Contains(r.Reason, want) {
		t.Errorf("got %s: %s\nwant inadmissible: %s", r.Verdict, r.Reason, want)
	}
}

// TestLibraryNotOpened has files and symbols that cannot be called.
func TestLibraryNotOpened(t *testing.T) {
	path := built(t, "gcc", "scaled.c", asLibrary...)
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o666); err != nil {
			t.Fatal(err)
		}
		return file
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := append([]byte(nil), content...)
	other[18] = 8 // the ELF machine: MIPS
	for _, c := range []struct{ path, symbol, want string }{
		{path, "rihgt", "it has no rihgt (did you mean right?); it exports aborts, "},
		{path, "variable", "variable is no function but a variable"},
		{path, "hidden", "it does not export hidden, which is static or hidden"},
		{path, "malloc", "it uses malloc, which another library defines"},
		{write("text.so", []byte("INPUT(libm.so.6)")), "f", "it is no shared library: it does not begin as ELF files do"},
		{write("empty.so", nil), "f", "it is no shared library: "},
		{write("other.so", other), "right", "it is for another machine: got EM_MIPS"},
		{write("half.so", content[:len(content)/2]), "right", "it is no shared library, or a part of one: "},
		{filepath.Join(dir, "none.so"), "f", "no such file or directory"},
		{dir, "f", "is a directory"},
		{built(t, "gcc", "scaled.c", "-c"), "right", "its type is ET_REL; link it with -shared"},
		{built(t, "g++", "mangled.cc", asLibrary...), "scaled", "it has no scaled, but _Z6scaledPK12tokitai_call, as C++ names it; declare it extern \"C\""},
		{built(t, "gcc", "missing.c", asLibrary...), "right", "it cannot be loaded: "},
	} {
		k, err := Library(c.path, c.symbol, Options{Definition: scaled, Deadline: patience})
		if err == nil {
			k.Close()
			t.Errorf("%s in %s: got no error, want %s", c.symbol, c.path, c.want)
			continue
		}
		if _, ok := errors.AsType[*LibraryError](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in %s: got %T: %v\nwant a LibraryError: %s", c.symbol, c.path, err, err, c.want)
		}
	}
	if _, err := Library(path, "right", Options{}); err == nil {
		t.Error("without a definition: got no error")
	}
	// A constructor that ends the process says nothing of the function.
	dies := built(t, "gcc", "constructor.c", asLibrary...)
	if _, err := Library(dies, "right", Options{Definition: scaled, Deadline: patience}); err == nil || !strings.Contains(err.Error(), "at HELLO: kernel process") {
		t.Errorf("got %v, want the death of the process", err)
	}
}

// TestLibraryInCXX: the header is C++ as well.
func TestLibraryInCXX(t *testing.T) {
	path := built(t, "g++", "mangled.cc", asLibrary...)
	k, err := Library(path, "plain", Options{Definition: scaled, Deadline: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if r := judge(t, k, verify.Options{Seed: 3}).Report; r.Verdict != evidence.Accepted {
		t.Errorf("got %s: %s", r.Verdict, r.Reason)
	}
}
