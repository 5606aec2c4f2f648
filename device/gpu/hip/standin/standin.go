// Package standin stands in for AMD's HIP in tests, on machines that have neither a GPU nor
// ROCm. It builds shared libraries in C that export the functions which package hip uses:
//
//   - Forward starts a process that serves a driver's devices, such as those of the
//     emulator, and a library that forwards each call there. Every call takes the path that
//     it takes with AMD's library, and kernels run.
//   - Plain builds a library whose device is host memory and which runs no kernel. It checks
//     its arguments, counts what is created and destroyed, and fails where it is told to.
//
// It needs a C compiler.
package standin

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"tokitai/internal/dl"
	"tokitai/internal/tool"
)

// LibraryVariable is the environment variable with which package hip finds the library.
const LibraryVariable = "TOKITAI_HIP"

// libraryName is the name of the library's file, from which package hip takes the version.
const libraryName = "libamdhip64.so.6"

//go:embed testdata/forward.c
var forwardText string

//go:embed testdata/plain.c
var plainText string

// Plain makes a library that runs no kernel the one that package hip opens until the test
// ends. Pairs of texts are replaced in its source. The environment
// variables that testdata/plain.c lists say what it does wrong.
func Plain(t testing.TB, change ...string) *Library {
	t.Helper()
	return &Library{path: use(t, libraryName, plainText, change...)}
}

// Library is a library that Plain has made.
type Library struct{ path string }

// Live returns what was created and not destroyed: "1 streams, 2 events".
func (l *Library) Live(t testing.TB) string {
	t.Helper()
	said.Lock()
	defer said.Unlock()
	n := l.call(t, "standin_live", uintptr(unsafe.Pointer(&said.text)), uintptr(len(said.text)))
	return string(said.text[:n])
}

var said struct { // not on a stack, which may move
	sync.Mutex
	text [256]byte
}

// Path returns the path of the library's file.
func (l *Library) Path() string { return l.path }

// Forget makes the library forget what is alive.
func (l *Library) Forget(t testing.TB) {
	t.Helper()
	l.call(t, "standin_forget")
}

// Failed reports whether a call has failed as STANDIN_FAIL says, since Failed was called
// before. It counts calls anew.
func (l *Library) Failed(t testing.TB) bool {
	t.Helper()
	return l.call(t, "standin_failed") != 0
}

func (l *Library) call(t testing.TB, name string, arguments ...uintptr) uintptr {
	t.Helper()
	opened, err := dl.Open(dl.Request{What: "the library", Files: []string{l.path}})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	proc, err := opened.Proc(name)
	if err != nil {
		t.Fatal(err)
	}
	return proc.Call(arguments)
}

// use makes a library, built from C with pairs of texts replaced in it, the one that package
// hip opens until the test ends. It returns the library's path.
func use(t testing.TB, name, text string, change ...string) (path string) {
	t.Helper()
	if _, err := dl.Open(dl.Request{What: "a library", Files: []string{"libc.so.6"}}); err != nil {
		t.Skipf("needs libraries: %v", err)
	}
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, build(t, strings.NewReplacer(change...).Replace(text)), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(LibraryVariable, path)
	return path
}

var built struct {
	sync.Mutex
	images map[[sha256.Size]byte][]byte // by source
}

// build compiles a source to a shared library, once in each process.
func build(t testing.TB, source string) []byte {
	t.Helper()
	compiler := tool.Need(t, cmp.Or(os.Getenv("CC"), "cc"))
	built.Lock()
	defer built.Unlock()
	key := sha256.Sum256([]byte(source))
	if image := built.images[key]; image != nil {
		return image
	}
	path := filepath.Join(t.TempDir(), "library.so")
	command := exec.Command(compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-fPIC", "-shared", "-fvisibility=hidden",
		"-x", "c", "-", "-o", path, "-pthread")
	command.Stdin = strings.NewReader(source)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if built.images == nil {
		built.images = map[[sha256.Size]byte][]byte{}
	}
	built.images[key] = image
	return image
}
