package readfile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/internal/readfile"
)

func TestRegular(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	if err := os.WriteFile(in("file"), []byte("abc"), 0o666); err != nil {
		t.Fatal(err)
	}
	if got, err := readfile.Regular(in("file"), 3); err != nil || !bytes.Equal(got, []byte("abc")) {
		t.Errorf("a file: got %q, %v", got, err)
	}
	if _, err := readfile.Regular(in("none"), 3); !os.IsNotExist(err) {
		t.Errorf("no file: got %v", err)
	}
	for path, want := range map[string]string{
		in("file"): "more than 2 bytes",
		folder:     "is a folder, want a regular file",
		os.DevNull: "is a device, want a regular file",
	} {
		if _, err := readfile.Regular(path, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
	if err := os.Symlink(in("file"), in("link")); err == nil {
		if _, err := readfile.Regular(in("link"), 3); err == nil || !strings.Contains(err.Error(), "is a symbolic link, want a regular file") {
			t.Errorf("a link: got %v", err)
		}
	}
}
