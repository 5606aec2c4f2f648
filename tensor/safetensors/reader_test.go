package safetensors

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tokitai/num"
)

// A file with dtypes of all kinds, of which some cannot be read.
var mixed = raw(`{"w":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},"ids":{"dtype":"I64","shape":[1,1],"data_offsets":[4,12]},`+
	`"mask":{"dtype":"BOOL","shape":[3],"data_offsets":[12,15]},"q":{"dtype":"F4_OF_TOMORROW","shape":[3],"data_offsets":[15,17]}}`, 17)

func TestReader(t *testing.T) {
	r, err := NewReader(bytes.NewReader(mixed), int64(len(mixed)))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Names(); !slices.Equal(got, []string{"ids", "mask", "q", "w"}) {
		t.Errorf("names %q", got)
	}
	for name, want := range map[string]struct {
		info    Info
		storage num.DType
		data    []byte
	}{
		"w":    {Info{"w", "F16", []int{2}}, num.F16, []byte{1, 2, 3, 4}},
		"ids":  {Info{"ids", Int64, []int{1, 1}}, num.I64, []byte{5, 6, 7, 8, 9, 10, 11, 12}},
		"mask": {Info{"mask", "BOOL", []int{3}}, num.NoDType, []byte{13, 14, 15}},
		"q":    {Info{"q", "F4_OF_TOMORROW", []int{3}}, num.NoDType, []byte{16, 17}},
	} {
		info, err := r.Info(name)
		if err != nil || info.Name != name || info.DType != want.info.DType || !slices.Equal(info.Shape, want.info.Shape) || info.Storage() != want.storage {
			t.Errorf("%s is %+v %v, %v", name, info, info.Storage(), err)
		}
		if data, err := r.Bytes(name); err != nil || !bytes.Equal(data, want.data) {
			t.Errorf("%s holds %v, %v", name, data, err)
		}
	}
	if _, err := r.Info("x"); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `tensor "x": not found`) {
		t.Errorf("x: %v", err)
	}
	if _, err := r.Bytes("x"); !errors.Is(err, ErrFormat) {
		t.Errorf("x: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	// As a whole it cannot be read.
	if f, err := Read(bytes.NewReader(mixed)); f != nil || !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `tensor "mask": dtype "BOOL" is not supported`) {
		t.Errorf("Read: %v, %v", f, err)
	}
}

// 64-bit integers are read, so their size is checked.
func TestReaderChecksInt64(t *testing.T) {
	content := raw(`{"w":{"dtype":"I64","shape":[2],"data_offsets":[0,4]}}`, 4)
	if _, err := NewReader(bytes.NewReader(content), int64(len(content))); err == nil || !strings.Contains(err.Error(), "shape [2] of I64 needs 16 bytes") {
		t.Errorf("got %v", err)
	}
}

// countingReader tells which bytes were read.
type countingReader struct {
	*bytes.Reader
	last int64 // the end of the last byte that was read
}

func (r *countingReader) ReadAt(p []byte, at int64) (int, error) {
	n, err := r.Reader.ReadAt(p, at)
	r.last = max(r.last, at+int64(n))
	return n, err
}

// Opening a file reads its header alone, and a tensor its own bytes alone.
func TestReaderReadsWhatIsNeeded(t *testing.T) {
	source := &countingReader{Reader: bytes.NewReader(mixed)}
	r, err := NewReader(source, int64(len(mixed)))
	if err != nil {
		t.Fatal(err)
	}
	data := int64(len(mixed)) - 17
	if source.last != data {
		t.Errorf("opening read up to byte %d, the data begins at %d", source.last, data)
	}
	if _, err := r.Bytes("w"); err != nil || source.last != data+4 {
		t.Errorf("w ends at byte %d, read up to %d (%v)", data+4, source.last, err)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	if err := os.WriteFile(path, mixed, 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if data, err := r.Bytes("w"); err != nil || !bytes.Equal(data, []byte{1, 2, 3, 4}) {
		t.Errorf("w holds %v, %v", data, err)
	}
	if _, err := r.Info("x"); err == nil || !strings.HasPrefix(err.Error(), path+`: tensor "x": `) {
		t.Errorf("x: %v", err)
	}
	// The file is cut while it is open.
	if err := os.Truncate(path, int64(len(mixed))-1); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Bytes("q"); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `tensor "q": data_offsets [15, 17] go beyond the data`) {
		t.Errorf("q of a file that was cut: %v", err)
	}
}

// A file that is not regular, such as a pipe, is read to its end.
func TestOpenPipe(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	path := "/dev/fd/" + strconv.Itoa(int(out.Fd()))
	if _, err := os.Stat(path); err != nil {
		t.Skip("no /dev/fd here")
	}
	go func() {
		io.Copy(in, bytes.NewReader(mixed))
		in.Close()
	}()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if data, err := r.Bytes("ids"); err != nil || !bytes.Equal(data, []byte{5, 6, 7, 8, 9, 10, 11, 12}) {
		t.Errorf("ids holds %v, %v", data, err)
	}
}
