// Package stub builds a library with cuBLASLt's functions whose device is the host, for
// tests. It checks how it is called.
package stub

import (
	_ "embed"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tokitai/device/gpu/compile"
	"tokitai/internal/dl"
	"tokitai/internal/tool"
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
		tool.Missing(t, "g++", err)
	}
	path = filepath.Join(t.TempDir(), "libcublasLt.so.13")
	if err := os.WriteFile(path, build(t, h, strings.NewReplacer(change...).Replace(text)), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TOKITAI_CUBLASLT", path)
	return path
}

var built struct {
	sync.Mutex
	images map[string][]byte // by source
}

// build compiles a source once.
func build(t testing.TB, h *compile.Host, source string) []byte {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if image := built.images[source]; image != nil {
		return image
	}
	p, err := h.Compile("", compile.Source{Name: "libcublaslt.cc", Text: source})
	if err != nil {
		t.Fatal(err)
	}
	if built.images == nil {
		built.images = map[string][]byte{}
	}
	built.images[source] = p.Image
	return p.Image
}
