package filelock_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"tokitai/internal/filelock"
)

func TestTry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first, second := open(), open()
	defer second.Close()
	if err := filelock.Try(first); err != nil {
		t.Fatal(err)
	}
	if err := filelock.Try(second); !errors.Is(err, filelock.ErrHeld) {
		t.Errorf("a lock that is held: %v", err)
	}
	first.Close()
	if err := filelock.Try(second); err != nil {
		t.Errorf("after it was let go: %v", err)
	}
}
