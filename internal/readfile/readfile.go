// Package readfile opens and reads files whose content cannot be trusted. It holds what the
// readers of file formats share, and knows none of the formats.
package readfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// Format is how the files of a format are read.
type Format[R any] struct {
	At     func(source io.ReaderAt, size int64) (R, error) // a regular file
	Stream func(source io.Reader) (R, error)               // anything else, such as a pipe: all of it
	InFile func(path string, err error) error              // adds the path to an error of these
}

// Open opens a file for a reader of the format. It returns the reader and the file, which
// the caller closes.
func (f Format[R]) Open(path string) (r R, file io.Closer, err error) {
	source, err := os.Open(path)
	if err != nil {
		return r, nil, err
	}
	defer func() {
		if err != nil {
			source.Close()
		}
	}()
	info, err := source.Stat()
	if err != nil {
		return r, nil, err
	}
	if info.Mode().IsRegular() {
		r, err = f.At(source, info.Size())
	} else {
		r, err = f.Stream(source)
	}
	if err != nil {
		return r, nil, f.InFile(path, err)
	}
	return r, source, nil
}

// Regular reads a regular file of at most n bytes. It follows no link, and waits for no pipe or
// device.
func Regular(path string, n int64) ([]byte, error) {
	before, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if err := CheckRegular(path, before.Mode()); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if now, err := file.Stat(); err != nil || !os.SameFile(before, now) {
		return nil, fmt.Errorf("%s was replaced while it was opened: %w", path, cmp.Or(err, fs.ErrInvalid))
	}
	return Whole(path, file, n)
}

// Linked reads a regular file of at most n bytes. It follows symbolic links, since folders of downloads consist of them, and
// waits for no pipe or device.
func Linked(path string, n int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := CheckRegular(path, info.Mode()); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return Whole(path, file, n)
}

// Whole reads r to its end, of at most n bytes. An error names the path.
func Whole(path string, r io.Reader, n int64) ([]byte, error) {
	data, err := UpTo(r, n+1)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case int64(len(data)) > n:
		return nil, fmt.Errorf("%s has more than %d bytes, which is the most that is read", path, n)
	}
	return data, nil
}

// CheckRegular returns an error that names the path unless the mode is that of a regular file.
func CheckRegular(path string, mode fs.FileMode) error {
	if !mode.IsRegular() {
		return fmt.Errorf("%s is %s, want a regular file", path, kindOf(mode))
	}
	return nil
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "special"
}

// UpTo reads n bytes, or fewer if r ends early. It allocates memory as bytes arrive.
func UpTo(r io.Reader, n int64) ([]byte, error) {
	var buffer bytes.Buffer
	_, err := io.CopyN(&buffer, r, n)
	if err == io.EOF {
		err = nil
	}
	return buffer.Bytes(), err
}

// ErrGoesOn is what End returns if there is more to read.
var ErrGoesOn = errors.New("the file goes on")

// End returns nil if r is at its end.
func End(r io.Reader) error {
	var next [1]byte
	switch n, err := io.ReadFull(r, next[:]); {
	case n > 0:
		return ErrGoesOn
	case err != io.EOF:
		return fmt.Errorf("reading the end of the file: %w", err)
	}
	return nil
}

// Clip shortens a message that quotes what a file holds.
func Clip(s string) string {
	const limit = 400
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}
