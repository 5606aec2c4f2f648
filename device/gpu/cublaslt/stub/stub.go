// Package stub builds a library with cuBLASLt's functions whose device is the host, for
// tests. It checks how it is called.
package stub

import (
	_ "embed"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/device/gpu/compile"
	"tokitai/internal/dl"
)

//go:embed testdata/libcublaslt.cc
var text string

// Use builds the library, with pairs of texts replaced in its source, and makes it the one
// that is opened until the test ends.
func Use(t testing.TB, change ...string) (path string) {
	t.Helper()
	if _, err := dl.Open(dl.Request{What: "a library", Files: []string{"libc.so.6"}}); err != nil {
		t.Skipf("needs libraries: %v", err)
	}
	h, err := compile.OpenHost()
	if err != nil {
		t.Skipf("needs a C++ compiler for a library to call: %v", err)
	}
	p, err := h.Compile("", compile.Source{Name: "libcublaslt.cc", Text: strings.NewReplacer(change...).Replace(text)})
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "libcublasLt.so.13")
	if err := os.WriteFile(path, p.Image, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TOKITAI_CUBLASLT", path)
	return path
}
