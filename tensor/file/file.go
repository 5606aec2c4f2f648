// Package file opens files of tensors in any format, and reads the tensors that are
// asked for. The name of a file says its format:
//
//	*.npy     NumPy's: one tensor without a name
//	*.json    an index of safetensors shards
//	a folder  the index in it, or else the only .safetensors file
//	others    safetensors
//
// It owns the choice of a format and the narrowing of 64-bit indices. The formats are
// the business of tensor/safetensors and tensor/npy, operations that of nobody here.
package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tokitai/num"
	"tokitai/tensor"
	"tokitai/tensor/npy"
	"tokitai/tensor/safetensors"
)

// Entry is a tensor in memory.
type Entry = safetensors.Entry

// Set is the tensors of one file, or of an index and its shards, on the disk.
type Set struct {
	path   string
	names  []string
	source source
}

// source is a format.
type source interface {
	Names() []string
	Info(name string) (safetensors.Info, error)
	Bytes(name string) ([]byte, error)
	Close() error
}

// Open opens what path names.
func Open(path string) (*Set, error) {
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	s := &Set{path: path}
	switch filepath.Ext(path) {
	case ".npy":
		s.source, err = openArray(path)
	case ".json":
		s.source, err = open(safetensors.OpenIndex(path))
	default:
		s.source, err = open(safetensors.Open(path))
	}
	if err != nil {
		return nil, err
	}
	s.names = s.source.Names()
	return s, nil
}

// open keeps a nil pointer from becoming a source.
func open[S source](s S, err error) (source, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// resolve finds the file that stands for a folder.
func resolve(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return path, err
	}
	list, err := os.ReadDir(path)
	if err != nil {
		return "", err
	}
	var indexes, files []string
	for _, e := range list {
		switch name := e.Name(); {
		case strings.HasSuffix(name, safetensors.IndexSuffix):
			indexes = append(indexes, name)
		case strings.HasSuffix(name, ".safetensors"):
			files = append(files, name)
		}
	}
	const usual = "model" + safetensors.IndexSuffix
	switch {
	case slices.Contains(indexes, usual):
		return filepath.Join(path, usual), nil
	case len(indexes) == 1:
		return filepath.Join(path, indexes[0]), nil
	case len(indexes) == 0 && len(files) == 1:
		return filepath.Join(path, files[0]), nil
	case len(indexes)+len(files) == 0:
		return "", fmt.Errorf("%s: the folder has no .safetensors file, and no index of them", path)
	}
	return "", fmt.Errorf("%s: the folder has %d indexes and %d .safetensors files: name one of them", path, len(indexes), len(files))
}

// Path returns the file that was opened, which is not a folder.
func (s *Set) Path() string { return s.path }

// Names returns the names of all tensors in their order. That of an array without a
// name is empty.
func (s *Set) Names() []string { return s.names }

// Has reports whether there is a tensor of that name.
func (s *Set) Has(name string) bool {
	_, ok := slices.BinarySearch(s.names, name)
	return ok
}

// IsArray reports whether the set is one array without a name.
func (s *Set) IsArray() bool {
	_, ok := s.source.(*array)
	return ok
}

// Close closes the files.
func (s *Set) Close() error { return s.source.Close() }

// Find opens the file that holds a tensor, so that what is in the way is found before
// anything is read.
func (s *Set) Find(name string) error {
	_, err := s.source.Info(name)
	return err
}

// Read reads a tensor.
func (s *Set) Read(name string) (Entry, error) {
	info, err := s.source.Info(name)
	if err != nil {
		return Entry{}, err
	}
	if info.Storage() == num.NoDType {
		return Entry{}, s.unsupported(info, "F16, BF16, F32 and I32 are supported, and I64 for indices")
	}
	return s.read(info)
}

// ReadIndices reads a tensor of indices: one of 64-bit integers, if each of them fits
// into 32 bits, becomes one of I32. Any other is read as Read does.
func (s *Set) ReadIndices(name string) (Entry, error) {
	info, err := s.source.Info(name)
	switch {
	case err != nil:
		return Entry{}, err
	case info.DType != safetensors.Int64 && info.Storage() == num.NoDType:
		return Entry{}, s.unsupported(info, "indices are I32 or I64")
	}
	e, err := s.read(info)
	if err != nil || info.DType != safetensors.Int64 {
		return e, err
	}
	n := len(e.Data) / 8
	for i := range n { // in place: the narrow indices end before the wide ones begin
		wide := int64(binary.LittleEndian.Uint64(e.Data[8*i:]))
		if int64(int32(wide)) != wide {
			return Entry{}, &tensor.BadArgument{
				Op: s.path, Operand: s.Describe(name), Got: fmt.Sprintf("has %d at %v", wide, position(i, e.Shape)),
				Want: fmt.Sprintf("indices from %d to %d", math.MinInt32, math.MaxInt32),
			}
		}
		binary.LittleEndian.PutUint32(e.Data[4*i:], uint32(wide))
	}
	e.DType, e.Data = num.I32, e.Data[:4*n]
	return e, nil
}

func (s *Set) read(info safetensors.Info) (Entry, error) {
	data, err := s.source.Bytes(info.Name)
	return Entry{Name: info.Name, DType: info.Storage(), Shape: info.Shape, Data: data}, err
}

func (s *Set) unsupported(info safetensors.Info, want string) error {
	return fmt.Errorf("%s: %s: dtype %q is not supported; %s", s.path, s.Describe(info.Name), info.DType, want)
}

// Describe names a tensor in an error.
func (s *Set) Describe(name string) string {
	if s.IsArray() {
		return "the array"
	}
	return fmt.Sprintf("tensor %q", name)
}

// position returns the place of the i-th element in row-major order.
func position(i int, shape []int) []int {
	at := make([]int, len(shape))
	for k := len(shape) - 1; k >= 0; k-- {
		at[k], i = i%shape[k], i/shape[k]
	}
	return at
}

// array is a .npy file as a set of one tensor, whose name is empty.
type array struct {
	*npy.Reader
}

func openArray(path string) (source, error) {
	r, err := npy.Open(path)
	if err != nil {
		return nil, err
	}
	return &array{r}, nil
}

func (a *array) Names() []string { return []string{""} }

// words are the dtypes of arrays in the words of safetensors.
var words = map[string]string{"<f2": "F16", "<f4": "F32", "<i4": "I32", npy.Int64: safetensors.Int64}

func (a *array) Info(name string) (safetensors.Info, error) {
	if name != "" {
		return safetensors.Info{}, errors.New("an array has no name")
	}
	info := a.Reader.Info()
	return safetensors.Info{DType: words[info.Descr], Shape: info.Shape}, nil
}

func (a *array) Bytes(string) ([]byte, error) { return a.Reader.Bytes() }
