// Package npy reads and writes NumPy's .npy format: one array without a name.
//
//	6 bytes    \x93NUMPY
//	2 bytes    version of the format: 1.0, 2.0 or 3.0
//	2 bytes    length of the header, little-endian; 4 bytes from version 2.0
//	header     a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), },
//	           padded with spaces, with a newline at its end
//	data       the elements
//
// The package reads little-endian, row-major arrays of '<f2', '<f4', '<i4' and, for
// indices, '<i8'. For everything else it returns a FormatError that says how to convert
// it: other byte and element orders, other dtypes, and pickled objects, which can run
// code. It rounds nothing. NumPy has no dtype for bf16.
//
// An Archive reads .npz files, zip archives of such files.
//
// Start with ReadFile and WriteFile. Open reads only the header.
package npy

import (
	"errors"
	"fmt"

	"tokitai/internal/readfile"
	"tokitai/num"
)

// Array is an array in memory.
type Array struct {
	DType num.DType
	Shape []int  // empty for a scalar; a size may be 0
	Data  []byte // little-endian, row-major
}

// Info describes an array without its data.
type Info struct {
	Descr string // NumPy's name of the dtype: one of '<f2', '<f4', '|i1', '<i4' and '<i8'
	Shape []int
}

// Int64 is the Descr of 64-bit integers, the usual dtype of indices.
const Int64 = "<i8"

// Storage returns the storage format of the array.
func (i Info) Storage() num.DType {
	for _, d := range descrs {
		if d.name == i.Descr {
			return d.dtype
		}
	}
	return num.NoDType
}

func (i Info) elemBytes() int { return i.Storage().Size() }

// descrs lists the dtypes that can be read and written.
var descrs = []struct {
	dtype num.DType
	name  string
}{
	{num.F16, "<f2"},
	{num.F32, "<f4"},
	{num.I8, "|i1"},
	{num.I32, "<i4"},
	{num.I64, Int64},
}

// descrOf returns NumPy's name of a dtype, or "" if it has none.
func descrOf(d num.DType) string {
	for _, known := range descrs {
		if known.dtype == d {
			return known.name
		}
	}
	return ""
}

// ErrFormat matches every FormatError, by errors.Is.
var ErrFormat = errors.New("not a .npy file that can be read")

// FormatError reports a file or an array that does not follow the format or is not
// supported.
type FormatError struct {
	File    string // path; empty if there is none
	Problem string
}

func (e *FormatError) Error() string {
	if e.File == "" {
		return "npy: " + e.Problem
	}
	return e.File + ": " + e.Problem
}

// Is reports whether target is ErrFormat.
func (e *FormatError) Is(target error) bool { return target == ErrFormat }

func bad(format string, args ...any) error {
	return &FormatError{Problem: readfile.Clip(fmt.Sprintf(format, args...))}
}

// inFile adds the path to an error.
func inFile(path string, err error) error {
	if f, ok := errors.AsType[*FormatError](err); ok {
		f.File = path
		return f
	}
	return fmt.Errorf("%s: %w", path, err)
}
