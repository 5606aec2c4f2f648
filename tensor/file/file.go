// Package file reads and writes files of tensors. The name of a file determines its
// format:
//
//	*.npy     NumPy: one tensor without a name
//	*.npz     NumPy: an archive of named arrays, which is read only
//	*.json    an index of safetensors shards
//	a folder  the index in it, or else its only .safetensors file
//	others    safetensors
//
// Upper and lower case are alike.
//
// The package chooses the format and narrows 64-bit indices. tensor/safetensors and
// tensor/npy know the formats. It knows no operation.
//
// Start with Open and Stage.
package file

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tokitai/num"
	"tokitai/tensor/npy"
	"tokitai/tensor/safetensors"
)

// FormatError reports a file or folder that cannot be used for tensors.
type FormatError struct {
	Path    string
	Problem string
}

func (e *FormatError) Error() string { return e.Path + ": " + e.Problem }

// IsFormat reports whether an error of this package says that a file is there, but does not
// have the format, or hold the tensors, that are needed.
func IsFormat(err error) bool {
	_, isOwn := errors.AsType[*FormatError](err)
	_, isLoss := errors.AsType[*LossError](err)
	return isOwn || isLoss || errors.Is(err, safetensors.ErrFormat) || errors.Is(err, npy.ErrFormat)
}

// Set is an open file of tensors, or an index and its shards.
type Set struct {
	path   string
	names  []string
	source source
}

// source is an open file of one format.
type source interface {
	Names() []string
	Info(name string) (safetensors.Info, error)
	Data(name string) (*io.SectionReader, error)
	Close() error
}

// Open opens a file or folder of tensors. It reads headers only.
func Open(path string) (*Set, error) {
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	s := &Set{path: path}
	switch ending(path) {
	case ".npy":
		s.source, err = openArray(path)
	case ".npz":
		s.source, err = openArchive(path)
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

// ending returns the part of a name that decides the format, in lower case.
func ending(path string) string { return strings.ToLower(filepath.Ext(path)) }

// IsArray reports whether a path names a file of one tensor without a name.
func IsArray(path string) bool { return ending(path) == ".npy" }

// open keeps a nil pointer from becoming a source.
func open[S source](s S, err error) (source, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// resolve returns the file to read if path is a folder, or else path.
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
		case strings.HasSuffix(strings.ToLower(name), safetensors.IndexSuffix):
			indexes = append(indexes, name)
		case ending(name) == ".safetensors":
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
		return "", &FormatError{path, "the folder has no .safetensors file and no index"}
	}
	return "", &FormatError{path, fmt.Sprintf("the folder has %d indexes and %d .safetensors files; give the path of one", len(indexes), len(files))}
}

// Path returns the path of the opened file; for a folder, that of the file in it.
func (s *Set) Path() string { return s.path }

// Files returns the paths of all files that tensors may be read from, the shards of an index
// included.
func (s *Set) Files() []string {
	files := []string{s.path}
	if shards, ok := s.source.(*safetensors.Shards); ok {
		files = append(files, shards.Files()...)
	}
	return files
}

// FileOf returns the path of the file that holds a tensor: a shard, if there are several. Without such a tensor it is "".
func (s *Set) FileOf(name string) string {
	if shards, ok := s.source.(*safetensors.Shards); ok {
		return shards.FileOf(name)
	}
	if s.Has(name) {
		return s.path
	}
	return ""
}

// Names returns the sorted names of all tensors. The name of an array is empty.
func (s *Set) Names() []string { return s.names }

// Has reports whether there is a tensor of that name.
func (s *Set) Has(name string) bool {
	_, ok := slices.BinarySearch(s.names, name)
	return ok
}

// IsArray reports whether the file is an array: one tensor without a name.
func (s *Set) IsArray() bool {
	_, ok := s.source.(*array)
	return ok
}

// Info describes a tensor, of any dtype.
func (s *Set) Info(name string) (safetensors.Info, error) { return s.source.Info(name) }

// Data returns a reader of a tensor's data as the file has it.
func (s *Set) Data(name string) (*io.SectionReader, error) { return s.source.Data(name) }

// Close closes the files.
func (s *Set) Close() error { return s.source.Close() }

// Find finds a tensor. It opens the shard that holds it, and no other.
func (s *Set) Find(name string) (*Tensor, error) {
	return s.find(name, "F16, BF16, F32, F8_E4M3, F8_E5M2, I8, I32 and I64 are supported", false)
}

// FindIndices finds a tensor of indices, of 32 or 64 bits.
func (s *Set) FindIndices(name string) (*Tensor, error) {
	return s.find(name, "indices are I32 or I64", true)
}

func (s *Set) find(name, supported string, mayBeWide bool) (*Tensor, error) {
	info, err := s.source.Info(name)
	if err != nil {
		return nil, err
	}
	t := &Tensor{DType: info.Storage(), Shape: info.Shape, set: s, name: name}
	if mayBeWide && info.DType == safetensors.Int64 {
		t.DType, t.isWide = num.I32, true
	}
	if t.DType == num.NoDType {
		return nil, &FormatError{Path: s.path, Problem: fmt.Sprintf("%s: dtype %q is not supported; %s", t.subject(), info.DType, supported)}
	}
	return t, nil
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

// words maps NumPy's names of dtypes to those of safetensors.
var words = map[string]string{"<f2": "F16", "<f4": "F32", "|i1": "I8", "<i4": "I32", npy.Int64: safetensors.Int64}

func (a *array) Info(name string) (safetensors.Info, error) {
	if name != "" {
		return safetensors.Info{}, errors.New("an array has no name")
	}
	info := a.Reader.Info()
	return safetensors.Info{DType: words[info.Descr], Shape: info.Shape}, nil
}

func (a *array) Data(string) (*io.SectionReader, error) { return a.Reader.Data(), nil }

// archive is a .npz file.
type archive struct {
	*npy.Archive
}

func openArchive(path string) (source, error) {
	a, err := npy.OpenArchive(path)
	if err != nil {
		return nil, err
	}
	return &archive{a}, nil
}

func (a *archive) Info(name string) (safetensors.Info, error) {
	info, err := a.Archive.Info(name)
	return safetensors.Info{DType: words[info.Descr], Shape: info.Shape}, err
}
