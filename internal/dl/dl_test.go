package dl

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

func TestOpenSaysWhatWasTried(t *testing.T) {
	if !supported {
		t.Skip(unsupportedReason)
	}
	dir := t.TempDir()
	junk := filepath.Join(dir, "libnone.so.3")
	if err := os.WriteFile(junk, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Request{What: "nothing", Env: "TOKITAI_TEST_LIBRARY", Files: []string{"libnone.so.3", "libnone.so.2"},
		Dirs: []string{dir, "/does/not/exist"}, Hint: "it cannot be got"})
	var missing *NotFoundError
	if !errors.As(err, &missing) || !errors.Is(err, ErrNotFound) {
		t.Fatalf("got %v, want a NotFoundError", err)
	}
	if len(missing.Tried) != 3 {
		t.Errorf("tried %v, want both names and the one file that is there", missing.Tried)
	}
	for _, want := range []string{"nothing: not found", junk, "libnone.so.2", "it cannot be got", "or set TOKITAI_TEST_LIBRARY"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}

	t.Setenv("TOKITAI_TEST_LIBRARY", dir)
	_, err = Open(Request{What: "nothing", Env: "TOKITAI_TEST_LIBRARY", Files: []string{"libnone.so.3"}, Dirs: []string{"/usr/lib"}})
	if !errors.As(err, &missing) || len(missing.Tried) != 1 || missing.Tried[0].Path != junk {
		t.Errorf("with a folder named: %v, want only %s", err, junk)
	}
	t.Setenv("TOKITAI_TEST_LIBRARY", "/named/file.so")
	_, err = Open(Request{What: "nothing", Env: "TOKITAI_TEST_LIBRARY", Files: []string{"libc.so.6"}})
	if !errors.As(err, &missing) || len(missing.Tried) != 1 || missing.Tried[0].Path != "/named/file.so" {
		t.Errorf("with a file named: %v, want no other tried", err)
	}
}

func TestOpenUnsupported(t *testing.T) {
	if supported {
		t.Skip("this build opens libraries")
	}
	if _, err := Open(Request{What: "the C library", Files: []string{"libc.so.6"}}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
}

func libc(t testing.TB) *Library {
	t.Helper()
	if !supported {
		t.Skip(unsupportedReason)
	}
	l, err := Open(Request{What: "the C library", Files: []string{"libc.so.6"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func proc(t testing.TB, name string) Proc {
	t.Helper()
	p, err := libc(t).Proc(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// arguments lie in the heap, as Call wants them.
type arguments struct {
	list [16]uintptr
	text [64]byte
}

func TestCall(t *testing.T) {
	l := libc(t)
	if !strings.Contains(l.Path(), "/libc.so.6") {
		t.Errorf("path %q, want that of the file", l.Path())
	}
	if int32(proc(t, "abs").Call([]uintptr{^uintptr(6)})) != 7 {
		t.Error("abs(-7) is not 7")
	}
	a := new(arguments)
	copy(a.text[:], "eleven bytes")
	a.list[0] = uintptr(unsafe.Pointer(&a.text))
	if got := proc(t, "strlen").Call(a.list[:1]); got != 12 {
		t.Errorf("strlen = %d, want 12", got)
	}
	// More arguments than registers: the last ones go over the stack.
	copy(a.text[32:], "%d %d %d %d %d %d %d %d\x00")
	a.list = [16]uintptr{uintptr(unsafe.Pointer(&a.text)), 32, uintptr(unsafe.Pointer(&a.text[32])), 1, 2, 3, 4, 5, 6, 7, 8}
	n := proc(t, "snprintf").Call(a.list[:11])
	if got, want := string(a.text[:n]), "1 2 3 4 5 6 7 8"; got != want {
		t.Errorf("eleven arguments gave %q, want %q", got, want)
	}
	if _, err := l.Proc("no_such_function"); err == nil || !strings.Contains(err.Error(), "has no no_such_function") {
		t.Errorf("a missing function gave %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("33 arguments were taken")
		}
	}()
	proc(t, "abs").Call(make([]uintptr, 33))
}

func TestCloseTwice(t *testing.T) {
	l := libc(t)
	if errors.Join(l.Close(), l.Close()) != nil {
		t.Error("closing twice is an error")
	}
}

func TestCallAllocatesNothing(t *testing.T) {
	abs, a := proc(t, "abs"), new(arguments)
	if n := testing.AllocsPerRun(1000, func() { abs.Call(a.list[:11]) }); n != 0 {
		t.Errorf("a call allocates %v times", n)
	}
}

func TestPythonDirs(t *testing.T) {
	root := t.TempDir()
	for _, version := range []string{"python3.11", "python3.12"} {
		if err := os.MkdirAll(filepath.Join(root, "lib", version, "site-packages/nvidia/cu13/lib"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("VIRTUAL_ENV", root)
	got := PythonDirs("nvidia/cu13/lib")
	if len(got) < 2 || !strings.HasPrefix(got[0], root+"/lib/python3.12/") || !strings.HasPrefix(got[1], root+"/lib/python3.11/") {
		t.Errorf("got %v, want the active environment's folders first", got)
	}
}

// TestFirst: folders that come first win for every file name, also where the loader would
// find the library by a name that is preferred.
func TestFirst(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"libnone.so.1", "libc.so.6"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("no library"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := Request{Files: []string{"libc.so.6", "libnone.so.1"}, First: []string{"/does/not/exist", dir}, Dirs: []string{dir}}
	want := []string{filepath.Join(dir, "libc.so.6"), filepath.Join(dir, "libnone.so.1"), "libc.so.6", "libnone.so.1"}
	if got := r.candidates(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestROCmDirs(t *testing.T) {
	t.Setenv("ROCM_PATH", "/chosen")
	t.Setenv("HIP_PATH", "/also")
	if got, want := ROCmChosen(), []string{"/chosen/lib", "/chosen/lib64", "/also/lib", "/also/lib64"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if dirs := ROCmDirs(); dirs[0] != "/opt/rocm/lib" || !slices.Contains(dirs, "/usr/lib/x86_64-linux-gnu") {
		t.Errorf("got %v, want /opt/rocm/lib first, and the system's folders", dirs)
	}
}

func TestNewestFirst(t *testing.T) {
	root := t.TempDir()
	want := []string{"rocm-10.0.0", "rocm-6.10.1", "rocm-6.4.3", "rocm-6.4", "rocm-5.7.1", "rocm"}
	for _, name := range want {
		if err := os.Mkdir(filepath.Join(root, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, path := range newestFirst(filepath.Join(root, "rocm*")) {
		got = append(got, filepath.Base(path))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func BenchmarkCall(b *testing.B) {
	abs, a := proc(b, "abs"), new(arguments)
	b.ReportAllocs()
	for b.Loop() {
		abs.Call(a.list[:11])
	}
}
