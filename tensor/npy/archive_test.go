package npy

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rawFile returns a .npy file.
func rawFile(descr, shape string, data []byte) []byte {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s)}\n", descr, shape)
	return slices.Concat([]byte("\x93NUMPY\x01\x00"), binary.LittleEndian.AppendUint16(nil, uint16(len(header))), []byte(header), data)
}

type member struct {
	name   string
	method uint16
	data   []byte
}

func writeArchive(t *testing.T, members ...member) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range members {
		f, err := w.CreateHeader(&zip.FileHeader{Name: m.name, Method: m.method})
		if err == nil {
			_, err = f.Write(m.data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.npz")
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestArchive(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte{1, 2, 3, 4}, 1000)
	path := writeArchive(t,
		member{"x.npy", zip.Deflate, rawFile("<f4", "10, 100", data)},
		member{"a/b.npy", zip.Store, rawFile("<f2", "2000,", data)},
		member{"notes.txt", zip.Store, []byte("ignored")})
	a, err := OpenArchive(path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if got := strings.Join(a.Names(), " "); got != "a/b x" {
		t.Errorf("it has %s", got)
	}
	for name, want := range map[string]string{"x": "{<f4 [10 100]}", "a/b": "{<f2 [2000]}"} {
		info, err := a.Info(name)
		if err != nil || fmt.Sprint(info) != want {
			t.Errorf("%s: got %v, %v, want %s", name, info, err, want)
		}
		r, err := a.Data(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if _, err := a.Info("y"); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `a.npz: the archive has no array "y"`) {
		t.Errorf("got %v", err)
	}
}

func TestArchiveRefuses(t *testing.T) {
	t.Parallel()
	good := rawFile("<f4", "2,", make([]byte, 8))
	for _, c := range []struct {
		name    string
		members []member
		change  func(file []byte)
		want    string
	}{
		{"an array cut short", []member{{"x.npy", zip.Deflate, good[:len(good)-1]}}, nil, `array "x": shape [2] of '<f4' needs 8 bytes of data, but the file has 7`},
		{"an array that goes on", []member{{"x.npy", zip.Deflate, append(slices.Clone(good), 0)}}, nil, `array "x": the file has extra bytes`},
		{"a bomb", []member{{"x.npy", zip.Deflate, rawFile("<f4", "1000000000000,", make([]byte, 1<<20))}}, nil, `array "x": shape [1000000000000] of '<f4' needs 4000000000000 bytes of data, but the file has 1048576`},
		{"a text", []member{{"x.npy", zip.Store, []byte("text")}}, nil, `array "x": not a .npy file`},
		{"objects", []member{{"x.npy", zip.Store, rawFile("|O", "1,", []byte("pickle"))}}, nil, `array "x": dtype '|O' is pickled Python objects`},
		{"the same twice", []member{{"x.npy", zip.Store, good}, {"x.npy", zip.Store, good}}, nil, `the archive has "x.npy" twice`},
		{"a damaged array", []member{{"x.npy", zip.Deflate, good}}, func(file []byte) { clear(file[40:60]) }, `a.npz: array "x": `},
		{"no archive", nil, func(file []byte) { clear(file) }, "a.npz: not a .npz file: it is no zip archive"},
	} {
		path := writeArchive(t, c.members...)
		if c.change != nil {
			file, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			c.change(file)
			if err := os.WriteFile(path, file, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		a, err := OpenArchive(path)
		if err == nil {
			_, err = a.Data("x")
			a.Close()
		}
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
	if _, err := OpenArchive(filepath.Join(t.TempDir(), "absent.npz")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
