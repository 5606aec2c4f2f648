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
	"crypto/sha256"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tokitai/internal/dl"
)

// LibraryVariable is the environment variable with which package hip finds the library.
const LibraryVariable = "TOKITAI_HIP"

//go:embed testdata/forward.c
var forwardText string

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
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skipf("needs a C compiler for a library to call: %v", err)
	}
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
