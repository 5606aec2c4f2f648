package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"tokitai/internal/readfile"
	"tokitai/tensor/npy"
	"tokitai/tensor/safetensors"
)

// LossError reports a file whose replacement would lose data.
type LossError struct {
	Path string
	Lost []string // names of the tensors that would be lost; nil if Err says more
	Err  error    // why the file cannot be read as one of tensors
}

func (e *LossError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s is there already, and is no file of tensors that can be read: %v", e.Path, problemOf(e.Err))
	}
	return fmt.Sprintf("%s has tensors that would be lost: %s", e.Path, some(e.Lost))
}

func (e *LossError) Unwrap() error { return e.Err }

// some lists the first few of many names.
func some(names []string) string {
	const most = 8
	var list []string
	for _, name := range names[:min(len(names), most)] {
		list = append(list, readfile.Clip(name))
	}
	if more := len(names) - most; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, ", ")
}

// problemOf returns the problem of an error of a format without the path, which the reader
// knows already.
func problemOf(err error) string {
	if e, ok := errors.AsType[*safetensors.FormatError](err); ok && e.Tensor == "" {
		return e.Problem
	}
	if e, ok := errors.AsType[*npy.FormatError](err); ok {
		return e.Problem
	}
	return err.Error()
}

// CheckReplaced returns a LossError if writing tensors of these names to path would lose
// tensors of other names, or replace something that is no file of tensors. It looks at the
// file that is there now, by whatever name it is reached. A file that is missing or empty may
// be replaced, and so may an array, which has no name. Of an index it looks at the tensors
// that the index names; CheckShards looks at the shards.
func CheckReplaced(path string, names []string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return &FormatError{path, "not a regular file"}
	case info.Size() == 0:
		return nil
	}
	s, err := Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err != nil {
		return &LossError{Path: path, Err: err}
	}
	defer s.Close()
	if s.IsArray() {
		return nil
	}
	lost := slices.DeleteFunc(slices.Clone(s.Names()), func(name string) bool { return slices.Contains(names, name) })
	if len(lost) > 0 {
		return &LossError{Path: path, Lost: lost}
	}
	return nil
}

// CheckShards returns a LossError if the shards that Stage would write for an index replace
// files that have other tensors.
func CheckShards(path string, f *safetensors.File, shardBytes int64) error {
	var names []string
	for _, e := range f.Entries {
		names = append(names, e.Name)
	}
	for _, shard := range safetensors.ShardFiles(path, f, shardBytes) {
		if err := CheckReplaced(shard, names); err != nil {
			return err
		}
	}
	return nil
}
