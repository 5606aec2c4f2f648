package readfile_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"tokitai/internal/readfile"
)

// text reads whole files, and says which way they came.
var text = readfile.Format[string]{
	At: func(source io.ReaderAt, size int64) (string, error) {
		b, err := io.ReadAll(io.NewSectionReader(source, 0, size))
		if string(b) == "bad" {
			err = errors.New("is bad")
		}
		return "at " + string(b), err
	},
	Stream: func(source io.Reader) (string, error) {
		b, err := io.ReadAll(source)
		return "stream " + string(b), err
	},
	InFile: func(path string, err error) error { return fmt.Errorf("%s %w", filepath.Base(path), err) },
}

func TestOpen(t *testing.T) {
	folder := t.TempDir()
	for name, content := range map[string]string{"good": "abc", "bad": "bad"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	r, file, err := text.Open(filepath.Join(folder, "good"))
	if err != nil || r != "at abc" {
		t.Fatalf("a file: got %q, %v", r, err)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	if _, file, err := text.Open(filepath.Join(folder, "bad")); err == nil || err.Error() != "bad is bad" || file != nil {
		t.Errorf("a bad file: got %v, %v", file, err)
	}
	if _, file, err := text.Open(filepath.Join(folder, "none")); !errors.Is(err, fs.ErrNotExist) || strings.Count(err.Error(), "none") != 1 || file != nil {
		t.Errorf("no file: got %v, %v", file, err)
	}
	if r, file, err := text.Open(os.DevNull); err != nil || r != "stream " || file == nil {
		t.Errorf("a device: got %q, %v", r, err)
	}
}

func TestUpToAndEnd(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		source io.Reader
		n      int64
		want   string
		end    error
	}{
		{strings.NewReader("abc"), 2, "ab", readfile.ErrGoesOn},
		{strings.NewReader("abc"), 3, "abc", nil},
		{strings.NewReader("abc"), 1 << 60, "abc", nil}, // allocates what is there
		{io.MultiReader(strings.NewReader("a"), iotest.ErrReader(broken)), 1, "a", broken},
	} {
		got, err := readfile.UpTo(test.source, test.n)
		if err != nil || string(got) != test.want {
			t.Errorf("up to %d: got %q, %v, want %q", test.n, got, err, test.want)
		}
		if err := readfile.End(test.source); !errors.Is(err, test.end) {
			t.Errorf("end after %d: got %v, want %v", test.n, err, test.end)
		}
	}
	if _, err := readfile.UpTo(iotest.ErrReader(broken), 1); !errors.Is(err, broken) {
		t.Errorf("a broken reader: got %v", err)
	}
}

func TestClip(t *testing.T) {
	if got := readfile.Clip("short"); got != "short" {
		t.Errorf("got %q", got)
	}
	if got := readfile.Clip(strings.Repeat("é", 300)[1:]); len(got) > 403 || !utf8.ValidString(strings.TrimPrefix(got, "\xa9")) || !strings.HasSuffix(got, "...") {
		t.Errorf("got %d bytes, %q", len(got), got)
	}
}
