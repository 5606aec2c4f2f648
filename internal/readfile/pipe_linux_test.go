package readfile_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tokitai/internal/readfile"
)

// TestPipe: a pipe without a writer is refused at once.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Skip(err)
	}
	for name, read := range map[string]func(string, int64) ([]byte, error){"Regular": readfile.Regular, "Linked": readfile.Linked} {
		if _, err := read(path, 1); err == nil || !strings.Contains(err.Error(), "is a named pipe, want a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
