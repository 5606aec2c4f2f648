package safetensors

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"runtime"
	"tokitai/num"
)

func TestRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	dtypes := []num.DType{num.F16, num.BF16, num.F32, num.I32, num.E4M3, num.E5M2, num.I8, num.I64}
	for trial := range 200 {
		f := &File{}
		if trial%3 > 0 {
			f.Metadata = map[string]string{}
			for i := range random.IntN(4) {
				f.Metadata["key \"\\\n\x00\u2028<é"+strconv.Itoa(i)] = "value"
			}
		}
		for i := range random.IntN(8) {
			e := Entry{Name: strconv.Itoa(i) + "/\t\"<>&é\u2029\U0001F600", DType: dtypes[random.IntN(len(dtypes))]}
			n := e.DType.Size()
			for range random.IntN(4) {
				size := random.IntN(4)
				e.Shape = append(e.Shape, size)
				n *= size
			}
			e.Data = make([]byte, n)
			for k := range e.Data {
				e.Data[k] = byte(random.Uint32())
			}
			f.Entries = append(f.Entries, e)
		}
		var b bytes.Buffer
		if err := Write(&b, f); err != nil {
			t.Fatal(err)
		}
		got, err := Read(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatalf("%v in %q", err, b.Bytes())
		}
		diff(t, got, f)

		shuffled := &File{Metadata: f.Metadata, Entries: append([]Entry(nil), f.Entries...)}
		random.Shuffle(len(shuffled.Entries), func(i, j int) {
			shuffled.Entries[i], shuffled.Entries[j] = shuffled.Entries[j], shuffled.Entries[i]
		})
		var again bytes.Buffer
		if err := Write(&again, shuffled); err != nil || !bytes.Equal(again.Bytes(), b.Bytes()) {
			t.Fatalf("the order of entries shows in the file (%v)", err)
		}
	}
}

// The header is padded to 8 bytes and the data of every tensor is aligned to its
// element, whatever the names and sizes.
func TestAlignment(t *testing.T) {
	for n := range 20 {
		f := &File{Entries: []Entry{
			{Name: "a" + strings.Repeat("x", n), DType: num.F16, Shape: []int{3}, Data: make([]byte, 6)},
			{Name: "b", DType: num.F32, Shape: []int{1}, Data: make([]byte, 4)},
			{Name: "c", DType: num.BF16, Shape: []int{1}, Data: make([]byte, 2)},
			{Name: "d", DType: num.I32, Shape: []int{1}, Data: make([]byte, 4)},
		}}
		head, entries, err := layOut(f, maxHeader)
		if err != nil || len(head)%8 != 0 {
			t.Fatalf("the header ends at %d, %v", len(head), err)
		}
		at := len(head)
		for _, e := range entries {
			if at%e.DType.Size() != 0 {
				t.Errorf("%v data at %d", e.DType, at)
			}
			at += len(e.Data)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	entry := func(d num.DType, bytes int, shape ...int) *File {
		return &File{Entries: []Entry{{Name: "w", DType: d, Shape: shape, Data: make([]byte, bytes)}}}
	}
	for want, f := range map[string]*File{
		"the file is nil": nil,
		`tensor "w": shape [2 3] of f16 needs 12 bytes, but the data has 10`: entry(num.F16, 10, 2, 3),
		`tensor "w": shape [2 -3] has a negative size`:                       entry(num.F16, 12, 2, -3),
		`tensor "w": shape [-2 -3] has a negative size`:                      entry(num.F16, 12, -2, -3),
		`of f16 overflows 64 bits`:                                           entry(num.F16, 0, math.MaxInt, 2),
		`tensor "w": dtype none is not supported; F16, BF16`:                 entry(num.NoDType, 0, 0),
		`tensor "w": shape has 65 sizes, want at most 64`:                    entry(num.F16, 0, make([]int, 65)...),
		`a tensor cannot have the name "__metadata__"`:                       {Entries: []Entry{{Name: "__metadata__", DType: num.F16, Shape: []int{0}}}},
		`tensor "\xff": the name is not UTF-8`:                               {Entries: []Entry{{Name: "\xff", DType: num.F16, Shape: []int{0}}}},
		`"k": "\xff" is not UTF-8`:                                           {Metadata: map[string]string{"k": "\xff"}},
		`"\xff": "v" is not UTF-8`:                                           {Metadata: map[string]string{"\xff": "v"}},
		`the name "w" occurs twice`: {Entries: []Entry{
			{Name: "w", DType: num.F16, Shape: []int{0}}, {Name: "v", DType: num.F16, Shape: []int{0}}, {Name: "w", DType: num.F32, Shape: []int{0}},
		}},
	} {
		var b bytes.Buffer
		err := Write(&b, f)
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if b.Len() > 0 {
			t.Errorf("%q: %d bytes were written", want, b.Len())
		}
	}
}

func TestWriteRefusesLongHeader(t *testing.T) {
	f := &File{Metadata: map[string]string{"key": "value"}} // {"__metadata__":{"key":"value"}}, 32 bytes padded
	if _, _, err := layOut(f, 32); err != nil {
		t.Errorf("as long as allowed: %v", err)
	}
	_, _, err := layOut(f, 31)
	if want := "the header would take 32 bytes, want at most 31"; !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

type failingWriter struct{ after int }

var errFull = errors.New("no space left")

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.after -= len(b); w.after < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestWritePassesErrorsOn(t *testing.T) {
	for n := range golden {
		if err := Write(&failingWriter{after: n}, goldenFile()); !errors.Is(err, errFull) {
			t.Fatalf("room for %d bytes: %v", n, err)
		}
	}
	if err := Write(&failingWriter{after: len(golden)}, goldenFile()); err != nil {
		t.Errorf("room for all: %v", err)
	}
}

func names(t *testing.T, dir string) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range list {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for range 2 { // new, then in place of the old
		if err := WriteFile(path, goldenFile()); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, golden) {
			t.Errorf("the file holds %q, %v", got, err)
		}
		mine, _ := os.Stat(path)
		usual, _ := os.Stat(plain)
		if mine.Mode() != usual.Mode() {
			t.Errorf("permissions %v, other files have %v", mine.Mode(), usual.Mode())
		}
		if got := names(t, dir); got != "plain x.safetensors" {
			t.Errorf("the folder holds %s", got)
		}
	}
	f, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, f, goldenFile())
}

func TestWriteFileLeavesNothingHalf(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	if err := os.WriteFile(path, []byte("before"), 0o666); err != nil {
		t.Fatal(err)
	}
	bad := goldenFile()
	bad.Entries[1].Data = nil
	err := WriteFile(path, bad)
	if !errors.Is(err, ErrFormat) || !strings.HasPrefix(err.Error(), path+`: tensor "b.weight": `) {
		t.Errorf("error %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "before" || names(t, dir) != "x.safetensors" {
		t.Errorf("after an error the file holds %q, the folder %s", got, names(t, dir))
	}
	if err := WriteFile(filepath.Join(dir, "absent", "x"), goldenFile()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such folder: %v", err)
	}
}

func TestWriteFileLeavesOthersAlone(t *testing.T) {
	dir := t.TempDir()
	file, link, folder := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "sub")
	if err := errors.Join(os.WriteFile(file, nil, 0o666), os.Symlink("file", link), os.Mkdir(folder, 0o777)); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, goldenFile()); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Lstat(link); info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link was replaced")
	}
	if got, _ := os.ReadFile(file); !bytes.Equal(got, golden) {
		t.Error("what the link points to was not written")
	}
	socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, path := range []string{folder, filepath.Join(dir, "socket")} {
		if err := WriteFile(path, goldenFile()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if got := names(t, dir); got != "file link socket sub" {
		t.Errorf("the folder holds %s", got)
	}
}

// A file that is replaced keeps its permissions, whether the umask would widen or
// narrow those of a new one.
func TestWriteFileKeepsPermissions(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("permissions mean something else on windows")
	}
	for _, mode := range []os.FileMode{0o600, 0o640, 0o666} {
		path := filepath.Join(t.TempDir(), "x.safetensors")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if err := WriteFile(path, &File{}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != mode {
			t.Errorf("a file of mode %o has mode %o after it was replaced", mode, got)
		}
	}
}
