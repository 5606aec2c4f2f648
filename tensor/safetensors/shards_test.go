package safetensors

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tokitai/num"
)

// model has four tensors of 8 bytes and one of 40.
func model() *File {
	f := &File{Metadata: map[string]string{"by": "hand"}}
	for i, name := range []string{"e", "b", "d", "a"} {
		f.Entries = append(f.Entries, Entry{Name: name, DType: num.F32, Shape: []int{2}, Data: bytes.Repeat([]byte{byte(i)}, 8)})
	}
	f.Entries = append(f.Entries, Entry{Name: "c", DType: num.BF16, Shape: []int{4, 5}, Data: bytes.Repeat([]byte{7}, 40)})
	return f
}

func TestWriteShards(t *testing.T) {
	for _, c := range []struct {
		shardBytes int64
		want       string // names by shard
	}{
		{1, "a b c d e"},
		{8, "a b c d e"},
		{15, "a b c d e"},
		{16, "ab c de"},
		{39, "ab c de"},
		{48, "ab cd e"},
		{56, "abc de"},
		{71, "abcd e"},
		{72, "abcde"},
		{1 << 62, "abcde"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "m.safetensors.index.json")
		if err := WriteShards(path, model(), c.shardBytes); err != nil {
			t.Fatal(err)
		}
		shards := strings.Fields(c.want)
		want := []string{}
		for i, tensors := range shards {
			name := fmt.Sprintf("m-%05d-of-%05d.safetensors", i+1, len(shards))
			want = append(want, name)
			f, err := ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, e := range f.Entries {
				got += e.Name
			}
			if got != tensors || f.Metadata["by"] != "hand" {
				t.Errorf("%d bytes: shard %d holds %q with %v, want %q", c.shardBytes, i, got, f.Metadata, tensors)
			}
		}
		want = append(want, "m.safetensors.index.json")
		if got := names(t, dir); got != strings.Join(want, " ") {
			t.Errorf("%d bytes: the folder holds %s", c.shardBytes, got)
		}

		s, err := OpenIndex(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Names(); !slices.Equal(got, []string{"a", "b", "c", "d", "e"}) {
			t.Errorf("names %q", got)
		}
		for _, e := range model().Entries {
			info, err := s.Info(e.Name)
			if err != nil || info.Storage() != e.DType || !slices.Equal(info.Shape, e.Shape) {
				t.Errorf("%s is %v, %v", e.Name, info, err)
			}
			if data, err := s.Bytes(e.Name); err != nil || !bytes.Equal(data, e.Data) {
				t.Errorf("%s holds %v, %v", e.Name, data, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The index is the one that other programs read.
func TestIndexText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.safetensors.index.json")
	f := &File{Entries: []Entry{
		{Name: `h.0/"w"<é`, DType: num.F16, Shape: []int{2}, Data: make([]byte, 4)},
		{Name: "a", DType: num.F32, Shape: []int{}, Data: make([]byte, 4)},
	}}
	if err := WriteShards(path, f, 4); err != nil {
		t.Fatal(err)
	}
	const want = `{
  "metadata": {
    "total_size": 8
  },
  "weight_map": {
    "a": "m-00001-of-00002.safetensors",
    "h.0/\"w\"<é": "m-00002-of-00002.safetensors"
  }
}
`
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	if err := WriteShards(path, &File{}, 4); err != nil {
		t.Fatal(err)
	}
	if s, err := OpenIndex(path); err != nil || len(s.Names()) != 0 {
		t.Errorf("a file of nothing: %v", err)
	}
}

func TestWriteShardsRefuses(t *testing.T) {
	dir := t.TempDir()
	index := filepath.Join(dir, "m.safetensors.index.json")
	if err := WriteShards(index, model(), 8); err != nil {
		t.Fatal(err)
	}
	before := names(t, dir)
	twice, wrong := model(), model()
	twice.Entries[4].Name = "a"
	wrong.Entries[0].Data = nil // the last in order: others are written before
	for _, c := range []struct {
		path string
		f    *File
		size int64
		want string
	}{
		{index, model(), 0, "a shard size of 0 bytes"},
		{index, model(), -1, "a shard size of -1 bytes"},
		{index, nil, 8, "the file is nil"},
		{index, twice, 8, `the name "a" occurs twice`},
		{index, twice, 80, `the name "a" occurs twice`},
		{index, wrong, 8, `tensor "e": shape [2] of f32 needs 8 bytes`},
		{filepath.Join(dir, "m.json"), model(), 8, "want NAME.safetensors.index.json"},
		{filepath.Join(dir, ".safetensors.index.json"), model(), 8, "want NAME"},
		{filepath.Join(dir, "absent", "m.safetensors.index.json"), model(), 8, "no such file"},
	} {
		if err := WriteShards(c.path, c.f, c.size); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got %v, want %q", c.path, err, c.want)
		}
		if got := names(t, dir); got != before {
			t.Fatalf("%s: the folder holds %s", c.want, got)
		}
	}
}

func TestOpenIndexRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.safetensors.index.json")
	put := func(name string, content []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	put("m.safetensors.index.json", []byte(`{"weight_map":{"here":"1.safetensors","there":"2.safetensors","not":"1.safetensors","broken":"3.safetensors","folder":"sub"}}`))
	put("1.safetensors", raw(`{"here":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},"extra":{"dtype":"F16","shape":[1],"data_offsets":[2,4]}}`, 4))
	put("3.safetensors", []byte("short"))
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o777); err != nil {
		t.Fatal(err)
	}
	s, err := OpenIndex(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if data, err := s.Bytes("here"); err != nil || !bytes.Equal(data, []byte{1, 2}) {
		t.Errorf("here holds %v, %v", data, err)
	}
	for name, want := range map[string]string{
		"there":  path + `: tensor "there": open ` + filepath.Join(dir, "2.safetensors") + ": no such file",
		"not":    path + `: tensor "not": 1.safetensors has no such tensor`,
		"broken": filepath.Join(dir, "3.safetensors") + ": the file ends after 5 bytes",
		"folder": "sub",
		"extra":  path + `: tensor "extra": not found`, // in a shard, but not in the index
	} {
		_, err := s.Bytes(name)
		if _, infoErr := s.Info(name); err == nil || infoErr == nil || !strings.Contains(err.Error(), want) || infoErr.Error() != err.Error() {
			t.Errorf("%s: %v and %v, want %q", name, err, infoErr, want)
		}
	}
	if _, err := OpenIndex(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	if _, err := OpenIndex(dir); err == nil || errors.Is(err, ErrFormat) {
		t.Errorf("a folder: %v", err)
	}
	put("bad.json", []byte(`{}`))
	if _, err := OpenIndex(filepath.Join(dir, "bad.json")); !errors.Is(err, ErrFormat) || !strings.HasPrefix(err.Error(), filepath.Join(dir, "bad.json")+": weight_map is missing") {
		t.Errorf("got %v", err)
	}
}

// An index that is far too long is refused before it is understood.
func TestOpenIndexTooLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "huge.json")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(maxHeader + 1); err != nil { // zeros that take no room
		t.Fatal(err)
	}
	if _, err := OpenIndex(path); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "the index has 100000001 bytes, want at most 100000000") {
		t.Errorf("got %v", err)
	}
}

// Caches keep shards as links to files elsewhere.
func TestShardsMayBeLinks(t *testing.T) {
	elsewhere, dir := t.TempDir(), t.TempDir()
	blob := filepath.Join(elsewhere, "0123abcd")
	if err := errors.Join(
		os.WriteFile(blob, raw(`{"w":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}}`, 2), 0o666),
		os.Symlink(blob, filepath.Join(dir, "m-00001-of-00001.safetensors")),
		os.WriteFile(filepath.Join(dir, "i.json"), []byte(`{"weight_map":{"w":"m-00001-of-00001.safetensors"}}`), 0o666),
	); err != nil {
		t.Fatal(err)
	}
	s, err := OpenIndex(filepath.Join(dir, "i.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if data, err := s.Bytes("w"); err != nil || !bytes.Equal(data, []byte{1, 2}) {
		t.Errorf("w holds %v, %v", data, err)
	}
}
