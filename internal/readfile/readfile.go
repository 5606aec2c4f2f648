// Package readfile opens and reads files whose content cannot be trusted. It holds what the
// readers of file formats share, and knows none of the formats.
package readfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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
