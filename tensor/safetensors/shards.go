package safetensors

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tokitai/internal/newfile"
	"tokitai/internal/readfile"
)

// IndexSuffix ends the name of an index: the shards of NAME.safetensors.index.json are
// NAME-00001-of-00002.safetensors and so on.
const IndexSuffix = ".safetensors.index.json"

// Shards reads the tensors of an index one by one. It opens a shard when one of its
// tensors is needed.
type Shards struct {
	path   string
	files  map[string]string // by tensor
	opened map[string]*Reader
}

// OpenIndex opens and reads an index.
func OpenIndex(path string) (*Shards, error) {
	source, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	files, err := readIndex(source)
	if err != nil {
		return nil, inFile(path, err)
	}
	return &Shards{path: path, files: files, opened: map[string]*Reader{}}, nil
}

func readIndex(source *os.File) (map[string]string, error) {
	if info, err := source.Stat(); err == nil && info.Size() > maxHeader {
		return nil, bad("the index has %d bytes, want at most %d", info.Size(), maxHeader)
	}
	text, err := readfile.UpTo(source, maxHeader+1)
	if err != nil {
		return nil, err
	}
	return parseIndex(text)
}

// Close closes the files that were opened.
func (s *Shards) Close() error {
	var failed []error
	for _, r := range s.opened {
		failed = append(failed, r.Close())
	}
	return errors.Join(failed...)
}

// Names returns the sorted names of all tensors.
func (s *Shards) Names() []string { return slices.Sorted(maps.Keys(s.files)) }

// Files returns the sorted paths of all shards.
func (s *Shards) Files() []string {
	var paths []string
	for file := range maps.Values(s.files) {
		paths = append(paths, s.shardPath(file))
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// FileOf returns the path of the shard that holds a tensor by the index, or "".
func (s *Shards) FileOf(name string) string {
	file, ok := s.files[name]
	if !ok {
		return ""
	}
	return s.shardPath(file)
}

// shardPath returns the path of a shard from its name in the index.
func (s *Shards) shardPath(file string) string {
	return filepath.Join(filepath.Dir(s.path), filepath.FromSlash(file))
}

// Info describes a tensor.
func (s *Shards) Info(name string) (Info, error) {
	r, err := s.reader(name)
	if err != nil {
		return Info{}, err
	}
	return r.Info(name)
}

// Bytes reads the data of a tensor.
func (s *Shards) Bytes(name string) ([]byte, error) {
	r, err := s.reader(name)
	if err != nil {
		return nil, err
	}
	return r.Bytes(name)
}

// Data returns a reader of a tensor's data.
func (s *Shards) Data(name string) (*io.SectionReader, error) {
	r, err := s.reader(name)
	if err != nil {
		return nil, err
	}
	return r.Data(name)
}

// reader returns the opened shard that holds a tensor.
func (s *Shards) reader(name string) (*Reader, error) {
	file, ok := s.files[name]
	if !ok {
		return nil, inFile(s.path, badTensor(name, "not found"))
	}
	r := s.opened[file]
	if r == nil {
		var err error
		if r, err = Open(s.shardPath(file)); err != nil {
			return nil, fmt.Errorf("%s: tensor %q: %w", s.path, readfile.Clip(name), err)
		}
		s.opened[file] = r
	}
	if _, err := r.find(name); err != nil {
		return nil, inFile(s.path, badTensor(name, "%s has no such tensor", file))
	}
	return r, nil
}

// WriteShards writes the tensors of f to shards of at most shardBytes bytes of data, and
// an index to path. A larger tensor gets a shard of its own. Existing files are replaced
// together once all new ones are complete, and kept if there is an error.
func WriteShards(path string, f *File, shardBytes int64) error {
	var b newfile.Batch
	defer b.Discard()
	if err := StageShards(&b, path, f, shardBytes); err != nil {
		return err
	}
	return b.Commit()
}

// cutSuffix returns the path of an index without IndexSuffix, in upper or lower case.
func cutSuffix(path string) (prefix string, ok bool) {
	if n := len(path) - len(IndexSuffix); n >= 0 && strings.EqualFold(path[n:], IndexSuffix) {
		return path[:n], true
	}
	return path, false
}

// StageShards adds shards and their index to a batch of files that appear together. The
// index should be the last file of the batch.
func StageShards(b *newfile.Batch, path string, f *File, shardBytes int64) error {
	prefix, ok := cutSuffix(filepath.Base(path))
	switch {
	case !ok || prefix == "":
		return inFile(path, bad("want NAME%s, the index of shards", IndexSuffix))
	case shardBytes <= 0:
		return inFile(path, bad("got a shard size of %d bytes, want at least 1", shardBytes))
	case f == nil:
		return inFile(path, bad("nothing to write: the file is nil"))
	}
	shards := cut(f, shardBytes)
	files := map[string]string{} // by tensor
	total := int64(0)
	for i, shard := range shards {
		file := shardFile(path, i, len(shards))
		if err := Stage(b, file, shard); err != nil {
			return err
		}
		for _, e := range shard.Entries {
			if _, isTwice := files[e.Name]; isTwice {
				return inFile(path, bad("the name %q occurs twice", e.Name))
			}
			files[e.Name] = filepath.Base(file)
			total += int64(len(e.Data))
		}
	}
	return b.Write(path, func(w io.Writer) error {
		_, err := w.Write(formatIndex(files, total))
		return err
	})
}

// ShardFiles returns the paths of the shards that StageShards writes for an index at path.
func ShardFiles(path string, f *File, shardBytes int64) []string {
	files := make([]string, len(cut(f, shardBytes)))
	for i := range files {
		files[i] = shardFile(path, i, len(files))
	}
	return files
}

// shardFile returns the path of shard i of n.
func shardFile(index string, i, n int) string {
	prefix, _ := cutSuffix(index)
	return fmt.Sprintf("%s-%05d-of-%05d.safetensors", prefix, i+1, n)
}

// cut divides f into shards, in the order of names. There is at least one. Each shard
// has all of the metadata.
func cut(f *File, shardBytes int64) []*File {
	entries := slices.Clone(f.Entries)
	sortByName(entries)
	shards := []*File{{Metadata: f.Metadata}}
	held := int64(0) // bytes in the last shard
	for _, e := range entries {
		n := int64(len(e.Data))
		if held > 0 && held+n > shardBytes {
			shards, held = append(shards, &File{Metadata: f.Metadata}), 0
		}
		last := shards[len(shards)-1]
		last.Entries = append(last.Entries, e)
		held += n
	}
	return shards
}

func formatIndex(files map[string]string, total int64) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\n  \"metadata\": {\n    \"total_size\": %d\n  },\n  \"weight_map\": {", total)
	for i, name := range slices.Sorted(maps.Keys(files)) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\n    %s: %s", quote(name), quote(files[name]))
	}
	b.WriteString("\n  }\n}\n")
	return b.Bytes()
}
