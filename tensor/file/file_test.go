package file

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tokitai/internal/newfile"
	"tokitai/num"
	"tokitai/tensor"
	"tokitai/tensor/npy"
	"tokitai/tensor/safetensors"
)

// put writes a file below dir.
func put(t *testing.T, content []byte, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, content, 0o666)); err != nil {
		t.Fatal(err)
	}
	return name
}

// raw is a safetensors file of one tensor w.
func raw(dtype, shape string, data []byte) []byte {
	header := fmt.Sprintf(`{"w":{"dtype":"%s","shape":[%s],"data_offsets":[0,%d]}}`, dtype, shape, len(data))
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), []byte(header), data)
}

// rawArray is a .npy file.
func rawArray(descr, shape string, data []byte) []byte {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s)}\n", descr, shape)
	return slices.Concat([]byte("\x93NUMPY\x01\x00"), binary.LittleEndian.AppendUint16(nil, uint16(len(header))), []byte(header), data)
}

// zipped is a .npz file of one array.
func zipped(t *testing.T, name string, array []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.Create(name)
	if err == nil {
		_, err = f.Write(array)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func int64s(values ...int64) (data []byte) {
	for _, v := range values {
		data = binary.LittleEndian.AppendUint64(data, uint64(v))
	}
	return data
}

func int32s(values ...int32) (data []byte) {
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, uint32(v))
	}
	return data
}

func mustOpen(t *testing.T, path string) *Set {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// read reads what was found.
func read(found *Tensor, err error) (*Tensor, []byte, error) {
	if err != nil {
		return found, nil, err
	}
	n := found.DType.Size()
	for _, size := range found.Shape {
		n *= size
	}
	memory := make([]byte, n)
	return found, memory, found.Read(context.Background(), memory)
}

// TestOpen reads one tensor from every format and expects the same bytes.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	data := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	plain := put(t, raw("F32", "1,2", data), dir, "plain")
	index := put(t, []byte(`{"weight_map":{"w":"1.safetensors","z":"gone.safetensors"}}`), dir, "sharded", "any.json")
	put(t, raw("F32", "1,2", data), dir, "sharded", "1.safetensors")
	for path, name := range map[string]string{
		plain: "w",
		index: "w",
		put(t, rawArray("<f4", "1, 2", data), dir, "x.npy"):                     "",
		put(t, zipped(t, "w.npy", rawArray("<f4", "1, 2", data)), dir, "x.npz"): "w",

		put(t, []byte(`{"weight_map":{"w":"1.safetensors"}}`), dir, "sharded", "OTHER.JSON"): "w",
		put(t, rawArray("<f4", "1, 2", data), dir, "X.NPY"):                                  "",
		put(t, zipped(t, "w.npy", rawArray("<f4", "1, 2", data)), dir, "X.Npz"):              "w",
	} {
		s := mustOpen(t, path)
		if s.Path() != path || !s.Has(name) || s.Has("y") || s.IsArray() != (name == "") || s.Names()[0] != name {
			t.Errorf("%s: %s holds %q", path, s.Path(), s.Names())
		}
		found, got, err := read(s.Find(name))
		if err != nil || found.DType != num.F32 || !slices.Equal(found.Shape, []int{1, 2}) || !bytes.Equal(got, data) {
			t.Errorf("%s: %v, %v", path, got, err)
		}
		if !strings.HasPrefix(found.String(), path+": ") {
			t.Errorf("it is %s", found)
		}
	}
	s := mustOpen(t, index)
	if _, err := s.Find("z"); err == nil || !strings.Contains(err.Error(), "gone.safetensors") {
		t.Errorf("a shard that is not there: %v", err)
	}
	if _, err := s.Find("y"); err == nil {
		t.Error("a tensor that is not there was found")
	}
	if _, err := mustOpen(t, filepath.Join(dir, "x.npy")).Find("w"); err == nil {
		t.Error("a .npy file has no names")
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"absent", "absent.npy", "absent.json"} {
		if s, err := Open(filepath.Join(dir, path)); s != nil || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v, %v", path, s, err)
		}
	}
	tensors := raw("F32", "1", make([]byte, 4))
	if _, err := Open(put(t, tensors, dir, "a.npy")); !errors.Is(err, npy.ErrFormat) {
		t.Errorf("tensors as .npy: %v", err)
	}
	if _, err := Open(put(t, tensors, dir, "a.json")); !errors.Is(err, safetensors.ErrFormat) {
		t.Errorf("tensors as .json: %v", err)
	}
	if _, err := Open(put(t, rawArray("<f4", "1,", make([]byte, 4)), dir, "a")); !errors.Is(err, safetensors.ErrFormat) {
		t.Errorf("an array as tensors: %v", err)
	}
}

func TestOpenFolder(t *testing.T) {
	const index, file = "i.safetensors.index.json", "m.safetensors"
	for _, c := range []struct {
		files string
		want  string // the file, or what the error says
	}{
		{"model.safetensors.index.json other.safetensors.index.json m.safetensors", "model.safetensors.index.json"},
		{index + " " + file + " n.safetensors", index},
		{file + " config.json tokenizer.npy", file},
		{"config.json", "the folder has no .safetensors file and no index"},
		{"", "the folder has no .safetensors file"},
		{file + " n.safetensors", "the folder has 0 indexes and 2 .safetensors files; give the path of one"},
		{index + " j.safetensors.index.json " + file, "the folder has 2 indexes and 1 .safetensors files"},
	} {
		dir := t.TempDir()
		for name := range strings.FieldsSeq(c.files) {
			content := raw("F32", "1", make([]byte, 4))
			if strings.HasSuffix(name, ".json") {
				content = []byte(`{"weight_map":{}}`)
			}
			put(t, content, dir, name)
		}
		s, err := Open(dir)
		switch {
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: got %v, want %q", c.files, err, c.want)
		case err == nil && s.Path() != filepath.Join(dir, c.want):
			t.Errorf("%s: opened %s, want %s", c.files, s.Path(), c.want)
		case err == nil:
			s.Close()
		}
	}
}

func TestReadIndices(t *testing.T) {
	dir := t.TempDir()
	wide := int64s(-100, 0, 1<<31-1, -1<<31, 7, 50256)
	want := int32s(-100, 0, 1<<31-1, -1<<31, 7, 50256)
	for path, name := range map[string]string{
		put(t, raw("I64", "2,3", wide), dir, "i64"):          "w",
		put(t, raw("I32", "2,3", want), dir, "i32"):          "w",
		put(t, rawArray("<i8", "2, 3", wide), dir, "i8.npy"): "",
		put(t, rawArray("<i4", "2, 3", want), dir, "i4.npy"): "",
	} {
		found, got, err := read(mustOpen(t, path).FindIndices(name))
		if err != nil || found.DType != num.I32 || !slices.Equal(found.Shape, []int{2, 3}) || !bytes.Equal(got, want) {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	// No indices, but readable: whoever computes refuses them.
	if found, got, err := read(mustOpen(t, put(t, raw("F16", "2", make([]byte, 4)), dir, "f16")).FindIndices("w")); err != nil || found.DType != num.F16 {
		t.Errorf("%v, %v", got, err)
	}
	// Empty and scalar.
	if found, got, err := read(mustOpen(t, put(t, raw("I64", "0,3", nil), dir, "empty")).FindIndices("w")); err != nil || found.DType != num.I32 || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if found, got, err := read(mustOpen(t, put(t, raw("I64", "", int64s(5)), dir, "scalar")).FindIndices("w")); err != nil || len(found.Shape) != 0 || !bytes.Equal(got, int32s(5)) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestIndicesOutOfRange(t *testing.T) {
	dir := t.TempDir()
	for _, v := range []int64{1 << 31, -1<<31 - 1, 1 << 32, 1<<63 - 1, -1 << 63} {
		path := put(t, raw("I64", "2,3", int64s(0, 1, 2, 3, v, 5)), dir, "labels")
		_, _, err := read(mustOpen(t, path).FindIndices("w"))
		want := fmt.Sprintf(`%s: tensor "w" has %d at [1 1], want indices from -2147483648 to 2147483647`, path, v)
		if !errors.Is(err, tensor.ErrBadArgument) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	path := put(t, rawArray("<i8", "", int64s(1<<40)), dir, "x.npy")
	if _, _, err := read(mustOpen(t, path).FindIndices("")); err == nil || err.Error() != path+": the array has 1099511627776 at [], want indices from -2147483648 to 2147483647" {
		t.Errorf("got %v", err)
	}
}

// More than a piece: every index is narrowed, and the place of a bad one is right.
func TestManyIndices(t *testing.T) {
	const n = piece/4 + 1000
	wide, want := make([]byte, 8*n), make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint64(wide[8*i:], uint64(int64(i-5)))
		binary.LittleEndian.PutUint32(want[4*i:], uint32(i-5))
	}
	dir := t.TempDir()
	path := put(t, raw("I64", fmt.Sprintf("1,%d", n), wide), dir, "many")
	if _, got, err := read(mustOpen(t, path).FindIndices("w")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v, or other indices", err)
	}
	binary.LittleEndian.PutUint64(wide[8*(n-7):], 1<<40)
	path = put(t, raw("I64", fmt.Sprintf("1,%d", n), wide), dir, "bad")
	if _, _, err := read(mustOpen(t, path).FindIndices("w")); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("has 1099511627776 at [0 %d]", n-7)) {
		t.Errorf("got %v", err)
	}
}

func TestReadEnds(t *testing.T) {
	dir := t.TempDir()
	path := put(t, raw("F32", "5000000", make([]byte, 20000000)), dir, "large")
	found, err := mustOpen(t, path).Find("w")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	memory := make([]byte, 20000000)
	if err := found.Read(ctx, memory); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if err := found.Read(t.Context(), memory[1:]); err == nil || !strings.Contains(err.Error(), "got memory for 19999999 bytes of data, want 20000000") {
		t.Errorf("memory of another size: %v", err)
	}
	if err := os.Truncate(path, 1000); err != nil {
		t.Fatal(err)
	}
	if err := found.Read(t.Context(), memory); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasPrefix(err.Error(), path+`: tensor "w": reading the data: `) {
		t.Errorf("a file that was cut: %v", err)
	}
}

func TestUnsupported(t *testing.T) {
	dir := t.TempDir()
	for _, dtype := range []string{"F64", "BOOL", "F8_E8M0"} {
		path := put(t, raw(dtype, "1", make([]byte, 8)), dir, dtype)
		want := fmt.Sprintf(`%s: tensor "w": dtype %q is not supported; F16, BF16, F32, F8_E4M3, F8_E5M2, I8, I32 and I64 are supported`, path, dtype)
		if _, err := mustOpen(t, path).Find("w"); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		want = fmt.Sprintf(`%s: tensor "w": dtype %q is not supported; indices are I32 or I64`, path, dtype)
		if _, err := mustOpen(t, path).FindIndices("w"); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestStage(t *testing.T) {
	dir := t.TempDir()
	one := &safetensors.File{Entries: []safetensors.Entry{{Name: "w", DType: num.F32, Shape: []int{2}, Data: make([]byte, 8)}}}
	two := &safetensors.File{Entries: append(one.Entries, safetensors.Entry{Name: "v", DType: num.BF16, Shape: []int{1}, Data: make([]byte, 2)})}
	var b newfile.Batch
	defer b.Discard()
	for path, f := range map[string]*safetensors.File{"a": two, "a.safetensors": one, "a.npy": one, "a.safetensors.index.json": two, "B.NPY": one, "B.Safetensors.Index.JSON": two} {
		if err := Stage(&b, filepath.Join(dir, path), f, 4); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"a": "v w", "a.safetensors": "w", "a.npy": "", "a.safetensors.index.json": "v w", "a-00002-of-00002.safetensors": "w", "B.NPY": "", "B.Safetensors.Index.JSON": "v w", "B-00002-of-00002.safetensors": "w"} {
		if got := strings.Join(mustOpen(t, filepath.Join(dir, path)).Names(), " "); got != want {
			t.Errorf("%s holds %q, want %q", path, got, want)
		}
	}
	for path, want := range map[string]string{
		"b.npy":                   "a .npy file holds one array, not 2 tensors",
		"b.npz":                   "an archive of arrays is read, not written; write NAME.safetensors",
		"b.json":                  "want NAME.safetensors.index.json, the index of shards",
		".safetensors.index.json": "want NAME.safetensors.index.json",
		"absent/b":                "no such file",
		"absent/b.npy":            "a .npy file holds one array",
		"b.Index.JSON":            "want NAME.safetensors.index.json",
	} {
		err := Stage(&b, filepath.Join(dir, path), two, 4)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
	if err := Stage(&b, filepath.Join(dir, "bf16.npy"), &safetensors.File{Entries: two.Entries[1:]}, 4); !errors.Is(err, npy.ErrFormat) || !strings.Contains(err.Error(), "bf16 has no dtype in NumPy") {
		t.Errorf("bf16: %v", err)
	}
}

// A file may be replaced only if no tensor in it is lost.
func TestCheckReplaced(t *testing.T) {
	dir := t.TempDir()
	tensors := put(t, raw("F32", "1", make([]byte, 4)), dir, "w")
	for _, c := range []struct {
		path, names string
		want        string
	}{
		{tensors, "w", ""},
		{tensors, "w v", ""},
		{tensors, "v", "w has tensors that would be lost: w"},
		{filepath.Join(dir, "absent"), "v", ""},
		{put(t, nil, dir, "empty"), "v", ""},
		{put(t, []byte("notes about nothing"), dir, "notes"), "v", "notes is there already, and is no file of tensors that can be read: the header's length is "},
		{put(t, rawArray("<f4", "1,", make([]byte, 4)), dir, "x.npy"), "v", ""},
		{put(t, []byte(`{"weight_map":{"w":"gone.safetensors"}}`), dir, "i.safetensors.index.json"), "v", "would be lost: w"},
		{dir, "v", "not a regular file"},
	} {
		err := CheckReplaced(c.path, strings.Fields(c.names))
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !IsFormat(err)) {
			t.Errorf("%s with %s: got %v, want %q", c.path, c.names, err, c.want)
		}
	}
	many := &LossError{Path: "m", Lost: strings.Fields("a b c d e f g h i j")}
	if got := many.Error(); got != "m has tensors that would be lost: a, b, c, d, e, f, g, h, and 2 more" {
		t.Errorf("got %s", got)
	}
}
