package standin

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// ROCmVariable is the environment variable that lists folders which scripts/rocm has made,
// separated like those of PATH.
const ROCmVariable = "TOKITAI_ROCM"

// ROCm is a folder with AMD's libraries, and with the C library and the loader that they
// were built for.
type ROCm struct {
	Folder string
}

// NeedsROCm returns the folders that TOKITAI_ROCM lists. It skips the test if there is none.
func NeedsROCm(t testing.TB) []ROCm {
	t.Helper()
	var list []ROCm
	for _, folder := range filepath.SplitList(os.Getenv(ROCmVariable)) {
		r := ROCm{folder}
		if _, err := os.Stat(r.loader()); err != nil {
			t.Fatalf("%s: not made by scripts/rocm: %v", ROCmVariable, err)
		}
		list = append(list, r)
	}
	if len(list) == 0 {
		t.Skipf("needs AMD's libraries: scripts/rocm unpacks them into a folder; set %s to it", ROCmVariable)
	}
	return list
}

// Name returns the folder's name.
func (r ROCm) Name() string { return filepath.Base(r.Folder) }

// Compiler returns the path of the library with hipRTC, which is HIP's own in version 5.
func (r ROCm) Compiler(t testing.TB) string {
	t.Helper()
	for _, pattern := range []string{"libhiprtc.so.[0-9]", "libamdhip64.so.[0-9]"} {
		if found, _ := filepath.Glob(filepath.Join(r.Libraries(), pattern)); len(found) > 0 {
			return found[0]
		}
	}
	t.Fatalf("%s has no hipRTC", r.Folder)
	return ""
}

// Libraries returns the folder of the libraries.
func (r ROCm) Libraries() string { return filepath.Join(r.Folder, "usr/lib/x86_64-linux-gnu") }

func (r ROCm) loader() string { return filepath.Join(r.Libraries(), "ld-linux-x86-64.so.2") }

// Command returns a command that runs this test binary with the folder's loader and
// libraries instead of the system's.
func (r ROCm) Command(t testing.TB, arguments ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), r.loader(), append([]string{"--library-path", r.Libraries(), self}, arguments...)...)
}
