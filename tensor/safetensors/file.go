// Package safetensors reads and writes the safetensors format: named tensors in
// one file, with nothing in it that runs.
//
//	8 bytes    length of the header, little-endian
//	header     JSON: {"name": {"dtype": "F16", "shape": [2, 3], "data_offsets": [0, 12]}, ...},
//	           perhaps with "__metadata__": {"key": "value", ...}; padded with spaces
//	data       the tensors' bytes, little-endian and row-major; offsets count from here
//
// A model may be cut into several such files, shards, with an index beside them
// that says which one holds which tensor:
//
//	{"metadata": {"total_size": 24}, "weight_map": {"name": "model-00001-of-00002.safetensors", ...}}
//
// The package owns these formats alone: an Entry is a name, a dtype, a shape and bytes.
// Placing them on a device is tensor.FromBytes. Every file it accepts is whole
// and means one thing; what the format forbids, or leaves open, is refused with
// a FormatError that names the file, the tensor and the fault.
//
// ReadFile and WriteFile take a file as a whole. Open and OpenIndex read single
// tensors of files that need not fit into memory; WriteShards writes shards.
package safetensors

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"tokitai/internal/newfile"
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
	DType string // in the format's words, and perhaps one that this package cannot read: F16, I64, F8_E4M3
	Shape []int
}

// Storage returns the storage format of the tensor, or num.NoDType if the project has
// none like it.
func (i Info) Storage() num.DType {
	for _, f := range formatNames {
		if f.name == i.DType {
			return f.dtype
		}
	}
	return num.NoDType
}

// Int64 is the dtype of 64-bit integers, which Reader.Bytes reads though no
// num.DType stores them: people's indices have it.
const Int64 = "I64"

// elemBytes returns the size of an element, or 0 if it is not known.
func (i Info) elemBytes() int {
	if i.DType == Int64 {
		return 8
	}
	return i.Storage().Size()
}

// File is what a file holds.
type File struct {
	Entries  []Entry           // in order of their names, once read
	Metadata map[string]string // nil where the file has none
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

// ErrFormat is what errors.Is finds in every FormatError.
var ErrFormat = errors.New("not a safetensors file")

// FormatError is a file, or what shall become one, that does not follow the
// format.
type FormatError struct {
	File    string // path; empty where there is none
	Tensor  string // name; empty where the fault is not one tensor's
	Problem string
}

// Error reads "model.safetensors: tensor "w": shape [2 3] of F16 needs 12 bytes,
// but the data offsets hold 10".
func (e *FormatError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
	} else {
		b.WriteString("safetensors")
	}
	b.WriteString(": ")
	if e.Tensor != "" {
		fmt.Fprintf(&b, "tensor %q: ", clip(e.Tensor))
	}
	b.WriteString(e.Problem)
	return b.String()
}

// Is makes every FormatError an ErrFormat.
func (e *FormatError) Is(target error) bool { return target == ErrFormat }

func bad(format string, args ...any) error { return badTensor("", format, args...) }

func badTensor(name, format string, args ...any) error {
	return &FormatError{Tensor: name, Problem: clip(fmt.Sprintf(format, args...))}
}

// clip keeps an error readable when a header's names or numbers are not.
func clip(s string) string {
	const limit = 400
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

// inFile adds the path to an error.
func inFile(path string, err error) error {
	if f, ok := errors.AsType[*FormatError](err); ok {
		f.File = path
		return f
	}
	if _, ok := errors.AsType[*newfile.Error](err); ok || err == nil {
		return err // which names the path
	}
	return fmt.Errorf("%s: %w", path, err)
}

// metadataName is the one key of the header that is not a tensor.
const metadataName = "__metadata__"

// maxHeader is the format's own limit.
const maxHeader = 100_000_000

// maxRank is more than anyone's tensors have. The format sets no limit, and a
// header could ask for millions.
const maxRank = 64

// formatNames are the dtypes that can be read and written, in the order in which
// their data is laid down: the wide ones first, so that every tensor begins at a
// multiple of its element. It is the order of the format's first library.
var formatNames = []struct {
	dtype num.DType
	name  string
}{
	{num.F32, "F32"},
	{num.I32, "I32"},
	{num.BF16, "BF16"},
	{num.F16, "F16"},
}

const supported = "F16, BF16, F32 and I32 are supported"

// layoutRank is the index of d in formatNames, -1 where it is not there.
func layoutRank(d num.DType) int {
	for i, f := range formatNames {
		if f.dtype == d {
			return i
		}
	}
	return -1
}

// byteCount is the size of a shape's data. It refuses a product that overflows
// at any step, even where a later size is 0.
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
