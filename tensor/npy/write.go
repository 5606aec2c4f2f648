package npy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"tokitai/internal/newfile"
	"tokitai/num"
)

// Write writes an array in version 1.0 of the format. It checks everything before it
// writes the first byte.
func Write(w io.Writer, a Array) error {
	head, err := layOut(a)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	_, err = w.Write(a.Data)
	return err
}

// WriteFile writes a file atomically: an existing file is replaced once the new one is
// complete and on disk, and kept if there is an error.
func WriteFile(path string, a Array) error {
	var b newfile.Batch
	defer b.Discard()
	if err := Stage(&b, path, a); err != nil {
		return err
	}
	return b.Commit()
}

// Stage adds a file to a batch of files that appear together.
func Stage(b *newfile.Batch, path string, a Array) error {
	if _, err := layOut(a); err != nil {
		return inFile(path, err)
	}
	return b.Write(path, func(w io.Writer) error { return Write(w, a) })
}

// layOut checks a and returns the bytes before its data, a multiple of 64.
func layOut(a Array) ([]byte, error) {
	info := Info{Descr: descrOf(a.DType), Shape: a.Shape}
	switch {
	case a.DType == num.BF16 || a.DType.IsFP8():
		return nil, bad("%v has no dtype in NumPy: write a .safetensors file instead", a.DType)
	case info.Descr == "":
		return nil, bad("dtype %v has no dtype in NumPy", a.DType)
	case len(a.Shape) > maxRank:
		return nil, bad("the shape has %d sizes, want at most %d", len(a.Shape), maxRank)
	}
	want, ok := info.byteCount()
	switch {
	case !ok:
		return nil, bad("shape %v of %v is negative or overflows 64 bits", a.Shape, a.DType)
	case int64(len(a.Data)) != want:
		return nil, bad("shape %v of %v needs %d bytes, but the data has %d", a.Shape, a.DType, want, len(a.Data))
	}

	var b bytes.Buffer
	b.WriteString(magic + "\x01\x00" + "..") // the length is filled in below
	fmt.Fprintf(&b, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", info.Descr, tuple(a.Shape))
	for (b.Len()+1)%64 != 0 {
		b.WriteByte(' ')
	}
	b.WriteByte('\n')
	head := b.Bytes()
	binary.LittleEndian.PutUint16(head[8:], uint16(len(head)-10))
	return head, nil
}

// tuple formats a shape as a Python tuple: (), (3,), (2, 3).
func tuple(shape []int) string {
	s := strings.ReplaceAll(strings.Trim(fmt.Sprint(shape), "[]"), " ", ", ")
	if len(shape) == 1 {
		s += ","
	}
	return "(" + s + ")"
}
