// Package safetensors reads and writes the safetensors format: named tensors in
// one file, without any code.
//
//	8 bytes    length of the header, little-endian
//	header     JSON: {"name": {"dtype": "F16", "shape": [2, 3], "data_offsets": [0, 12]}, ...},
//	           optionally with "__metadata__": {"key": "value", ...}; padded with spaces
//	data       the tensors' bytes, little-endian and row-major; offsets count from here
//
// A model may be split into several such files, called shards, with an index that
// says which file holds which tensor:
//
//	{"metadata": {"total_size": 24}, "weight_map": {"name": "model-00001-of-00002.safetensors", ...}}
//
// The package knows only these formats: an Entry is a name, a dtype, a shape and
// bytes. tensor.FromBytes puts one on a device. Every file that it accepts is
// complete and unambiguous. For anything else, also where the format is silent, it
// returns a FormatError with the file, the tensor and the problem.
//
// ReadFile and WriteFile read and write a whole file. Open and OpenIndex read
// single tensors of files that may be larger than memory. WriteShards writes
// shards.
package safetensors

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"tokitai/internal/newfile"
	"tokitai/internal/readfile"
	"tokitai/num"
)

// Entry is one tensor of a file.
type Entry struct {
	Name  string
	DType num.DType
	Shape []int  // empty for a scalar; a size may be 0
	Data  []byte // little-endian, row-major
}

// Info describes a tensor of a file without its data.
type Info struct {
	Name  string
	DType string // the format's name, perhaps of an unsupported dtype: F16, I64, F8_E4M3
	Shape []int
}

// Storage returns the storage format of the tensor, or num.NoDType if its dtype is not
// supported.
func (i Info) Storage() num.DType {
	for _, f := range formatNames {
		if f.name == i.DType {
			return f.dtype
		}
	}
	return num.NoDType
}

// Int64 is the dtype of 64-bit integers, the usual dtype of indices.
const Int64 = "I64"

// elemBytes returns the size of an element, or 0 if unknown.
func (i Info) elemBytes() int { return i.Storage().Size() }

// File is the content of a file.
type File struct {
	Entries  []Entry           // after reading: sorted by name
	Metadata map[string]string // nil if the file has none
}

// Entry finds a tensor by name.
func (f *File) Entry(name string) (Entry, bool) {
	if f != nil {
		for _, e := range f.Entries {
			if e.Name == name {
				return e, true
			}
		}
	}
	return Entry{}, false
}

// ErrFormat matches every FormatError, by errors.Is.
var ErrFormat = errors.New("not a safetensors file")

// FormatError reports a file, or a File to be written, that does not follow the
// format.
type FormatError struct {
	File    string // path; empty if there is none
	Tensor  string // name; empty if the problem is not about one tensor
	Problem string
}

// Error returns a message such as "model.safetensors: tensor "w": shape [2 3] of
// F16 needs 12 bytes, but data_offsets [0, 10] hold 10".
func (e *FormatError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
	} else {
		b.WriteString("safetensors")
	}
	b.WriteString(": ")
	if e.Tensor != "" {
		fmt.Fprintf(&b, "tensor %q: ", readfile.Clip(e.Tensor))
	}
	b.WriteString(e.Problem)
	return b.String()
}

// Is reports whether target is ErrFormat.
func (e *FormatError) Is(target error) bool { return target == ErrFormat }

func bad(format string, args ...any) error { return badTensor("", format, args...) }

func badTensor(name, format string, args ...any) error {
	return &FormatError{Tensor: name, Problem: readfile.Clip(fmt.Sprintf(format, args...))}
}

// inFile adds the path to an error.
func inFile(path string, err error) error {
	if f, ok := errors.AsType[*FormatError](err); ok {
		f.File = path
		return f
	}
	if _, ok := errors.AsType[*newfile.Error](err); ok || err == nil {
		return err // it has the path already
	}
	return fmt.Errorf("%s: %w", path, err)
}

// metadataName is the one key of the header that is not a tensor.
const metadataName = "__metadata__"

// maxHeader is the format's own limit.
const maxHeader = 100_000_000

// maxRank is more dimensions than any real tensor has. The format sets no limit,
// and a header could have millions.
const maxRank = 64

// formatNames lists the dtypes that can be read and written, in the order of their
// data in a written file: wide ones first, so that every tensor is aligned to its
// element size. It is the order of the format's reference implementation.
var formatNames = []struct {
	dtype num.DType
	name  string
}{
	{num.I64, Int64},
	{num.F32, "F32"},
	{num.I32, "I32"},
	{num.BF16, "BF16"},
	{num.F16, "F16"},
	{num.E4M3, "F8_E4M3"},
	{num.E5M2, "F8_E5M2"},
	{num.I8, "I8"},
}

const supported = "F16, BF16, F32, F8_E4M3, F8_E5M2, I8, I32 and I64 are supported"

// layoutRank returns the index of d in formatNames, or -1.
func layoutRank(d num.DType) int {
	for i, f := range formatNames {
		if f.dtype == d {
			return i
		}
	}
	return -1
}

// byteCount returns the size of a shape's data. It returns false if the product
// overflows at any step, even if a later size is 0.
func byteCount(elemBytes int, shape []int) (int64, bool) {
	n := uint64(elemBytes)
	for _, size := range shape {
		if size < 0 {
			return 0, false
		}
		high, low := bits.Mul64(n, uint64(size))
		if high != 0 || low > math.MaxInt64 {
			return 0, false
		}
		n = low
	}
	return int64(n), true
}

func sortByName(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
}
