package file

import (
	"fmt"
	"path/filepath"
	"strings"

	"tokitai/internal/newfile"
	"tokitai/tensor/npy"
	"tokitai/tensor/safetensors"
)

// CheckTarget returns an error if Stage cannot write that many tensors to a file of this
// name.
func CheckTarget(path string, tensors int) error {
	switch ending(path) {
	case ".npy":
		if tensors != 1 {
			return &FormatError{path, fmt.Sprintf("a .npy file holds one array, not %d tensors", tensors)}
		}
	case ".json":
		if name := strings.ToLower(filepath.Base(path)); !strings.HasSuffix(name, safetensors.IndexSuffix) || name == safetensors.IndexSuffix {
			return &FormatError{path, fmt.Sprintf("want NAME%s, the index of shards", safetensors.IndexSuffix)}
		}
	case ".npz":
		return &FormatError{path, "an archive of arrays is read, not written; write NAME.safetensors, or NAME.npy for one array"}
	}
	return nil
}

// IsIndex reports whether a path names an index of shards.
func IsIndex(path string) bool { return ending(path) == ".json" }

// Stage adds a file of tensors to a batch of files that appear together. The path
// determines the format. An index gets shards of at most shardBytes bytes. A .npy file
// has no metadata.
func Stage(b *newfile.Batch, path string, f *safetensors.File, shardBytes int64) error {
	if err := CheckTarget(path, len(f.Entries)); err != nil {
		return err
	}
	switch ending(path) {
	case ".npy":
		e := f.Entries[0]
		return npy.Stage(b, path, npy.Array{DType: e.DType, Shape: e.Shape, Data: e.Data})
	case ".json":
		return safetensors.StageShards(b, path, f, shardBytes)
	}
	return safetensors.Stage(b, path, f)
}
