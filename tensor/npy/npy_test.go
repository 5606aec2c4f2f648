package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"tokitai/num"
)

// golden is what numpy.save writes for numpy.array([[1, -2, 0.5]], '<f2').
var golden = slices.Concat(
	[]byte("\x93NUMPY\x01\x00v\x00{'descr': '<f2', 'fortran_order': False, 'shape': (1, 3), }"),
	bytes.Repeat([]byte(" "), 58), []byte("\n"),
	[]byte{0x00, 0x3c, 0x00, 0xc0, 0x00, 0x38},
)

func goldenArray() Array {
	return Array{DType: num.F16, Shape: []int{1, 3}, Data: []byte{0x00, 0x3c, 0x00, 0xc0, 0x00, 0x38}}
}

// raw puts a file of version 1.0 together from its header and the number of data bytes.
func raw(header string, dataBytes int) []byte { return versioned(1, 0, header, dataBytes) }

func versioned(major, minor byte, header string, dataBytes int) []byte {
	b := append([]byte(magic), major, minor)
	if major == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(header)))
	}
	b = append(b, header...)
	for i := range dataBytes {
		b = append(b, byte(i+1))
	}
	return b
}

// ways are all ways to read a file.
var ways = map[string]func(t testing.TB, content []byte) (Array, error){
	"NewReader": func(_ testing.TB, b []byte) (Array, error) {
		r, err := NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return Array{}, err
		}
		return r.array()
	},
	"Read":                func(_ testing.TB, b []byte) (Array, error) { return Read(bytes.NewReader(b)) },
	"Read byte by byte":   func(_ testing.TB, b []byte) (Array, error) { return Read(iotest.OneByteReader(bytes.NewReader(b))) },
	"Read, EOF with data": func(_ testing.TB, b []byte) (Array, error) { return Read(iotest.DataErrReader(bytes.NewReader(b))) },
	"ReadFile": func(t testing.TB, b []byte) (Array, error) {
		path := filepath.Join(t.TempDir(), "x.npy")
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		return ReadFile(path)
	},
}

func equal(a, b Array) bool {
	return a.DType == b.DType && slices.Equal(a.Shape, b.Shape) && bytes.Equal(a.Data, b.Data)
}

func TestGolden(t *testing.T) {
	for way, read := range ways {
		if got, err := read(t, golden); err != nil || !equal(got, goldenArray()) {
			t.Errorf("%s: %v, %v", way, got, err)
		}
	}
	var b bytes.Buffer
	if err := Write(&b, goldenArray()); err != nil || !bytes.Equal(b.Bytes(), golden) {
		t.Errorf("got\n%q, %v; want\n%q", b.Bytes(), err, golden)
	}
}

func TestReadAccepts(t *testing.T) {
	const usual = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"
	one := Array{num.F32, []int{1}, []byte{1, 2, 3, 4}}
	for name, c := range map[string]struct {
		content []byte
		want    Array
	}{
		"version 1.0":          {raw(usual+"\n", 4), one},
		"version 2.0":          {versioned(2, 0, usual+"\n", 4), one},
		"version 3.0":          {versioned(3, 0, usual+"\n", 4), one},
		"no newline":           {raw(usual, 4), one},
		"much padding":         {raw(usual+strings.Repeat(" ", 1000)+"\n", 4), one},
		"no spaces":            {raw("{'descr':'<f4','fortran_order':False,'shape':(1,)}", 4), one},
		"spaces":               {raw(" \n{\t'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 1 , ) , } ", 4), one},
		"double quotes":        {raw(`{"descr": "<f4", "fortran_order": False, "shape": (1,)}`, 4), one},
		"keys in any order":    {raw("{'shape': (1,), 'fortran_order': False, 'descr': '<f4'}", 4), one},
		"integers of Python 2": {raw("{'descr': '<f4', 'fortran_order': False, 'shape': (1L,)}", 4), one},
		"scalar":               {raw("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", 4), Array{num.F32, []int{}, []byte{1, 2, 3, 4}}},
		"empty":                {raw("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 0)}", 0), Array{num.F32, []int{3, 0}, nil}},
		"f2":                   {raw("{'descr': '<f2', 'fortran_order': False, 'shape': (2, 1)}", 4), Array{num.F16, []int{2, 1}, []byte{1, 2, 3, 4}}},
		"i4":                   {raw("{'descr': '<i4', 'fortran_order': False, 'shape': (1, 1, 1)}", 4), Array{num.I32, []int{1, 1, 1}, []byte{1, 2, 3, 4}}},
	} {
		for way, read := range ways {
			if got, err := read(t, c.content); err != nil || !equal(got, c.want) {
				t.Errorf("%s: %s: %v, %v; want %v", name, way, got, err, c.want)
			}
		}
	}
}

func TestReadRefuses(t *testing.T) {
	dtype := func(descr string) []byte {
		return raw("{'descr': "+descr+", 'fortran_order': False, 'shape': (1,)}", 4)
	}
	shape := func(shape string) []byte {
		return raw("{'descr': '<f4', 'fortran_order': False, 'shape': "+shape+"}", 4)
	}
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"nothing":           {nil, "ends within its header"},
		"text":              {[]byte("hello, world"), "does not begin with \\x93NUMPY"},
		"almost the magic":  {[]byte("\x93NUMPX\x01\x00"), "does not begin with \\x93NUMPY"},
		"magic cut":         {[]byte("\x93NUM"), "ends within its header"},
		"no length":         {[]byte("\x93NUMPY\x01\x00\x01"), "ends within its header"},
		"no length, 2.0":    {[]byte("\x93NUMPY\x02\x00\x01\x00\x00"), "ends within its header"},
		"version 0.0":       {versioned(0, 0, "{}", 0), "unknown format version 0.0, want 1.0, 2.0 or 3.0"},
		"version 1.1":       {versioned(1, 1, "{}", 0), "unknown format version 1.1"},
		"version 4.0":       {versioned(4, 0, "{}", 0), "unknown format version 4.0"},
		"header cut":        {raw("{'descr'", 0)[:12], "the header's length is 8 bytes, but only 2 follow"},
		"header of 4 GB":    {[]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff{}"), "the header's length is 4294967295 bytes, want at most 1048576"},
		"header not UTF-8":  {raw("{'\xff'}", 0), "not UTF-8"},
		"empty header":      {raw("", 0), "the header ends early, want a dictionary"},
		"not a dictionary":  {raw("('descr', '<f4')", 0), `the header has "('descr', '<f4')", want a dictionary`},
		"empty dictionary":  {raw("{}", 0), `the header has no "descr"`},
		"open dictionary":   {raw("{'descr': '<f4'", 0), "the header ends early, want a comma or }"},
		"two dictionaries":  {raw("{'descr': '<f4', 'fortran_order': False, 'shape': ()}{}", 4), `the header continues after its closing }: "{}"`},
		"no colon":          {raw("{'descr' '<f4'}", 0), "want a colon"},
		"a bare key":        {raw("{descr: '<f4'}", 0), "want a key in quotes"},
		"open quote":        {raw("{'descr", 0), "want a key in quotes"},
		"an escape":         {raw(`{'de\x73cr': '<f4'}`, 0), "want a key in quotes"},
		"unknown key":       {raw("{'descr': '<f4', 'order': 1}", 0), `the header has the key "order", want 'descr', 'fortran_order' and 'shape'`},
		"key twice":         {raw("{'descr': '<f4', 'descr': '<f4'}", 0), `the header has "descr" twice`},
		"no descr":          {raw("{'fortran_order': False, 'shape': ()}", 0), `the header has no "descr"`},
		"no fortran_order":  {raw("{'descr': '<f4', 'shape': ()}", 4), `the header has no "fortran_order"`},
		"no shape":          {raw("{'descr': '<f4', 'fortran_order': False}", 4), `the header has no "shape"`},
		"order as a number": {raw("{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", 4), "want True or False for 'fortran_order'"},
		"Fortran order":     {raw("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}", 16), "the array is in Fortran order, want C order: save numpy.ascontiguousarray(a)"},

		"big-endian f4":  {dtype("'>f4'"), "the array is big-endian, dtype '>f4', want little-endian: save a.astype('<f4')"},
		"big-endian f2":  {dtype("'>f2'"), "save a.astype('<f2')"},
		"big-endian i8":  {dtype("'>i8'"), "save a.astype('<i8')"},
		"f8":             {dtype("'<f8'"), "dtype '<f8' (float64) is not supported, since values would be rounded: save a.astype('<f4')"},
		"big-endian f8":  {dtype("'>f8'"), "save a.astype('<f4')"},
		"bool":           {dtype("'|b1'"), "dtype '|b1' (bool) is not supported"},
		"bytes":          {dtype("'|u1'"), "dtype '|u1' is not supported, want '<f2', '<f4', '|i1', '<i4' or '<i8': save a.astype('<i8')"},
		"u8":             {dtype("'<u8'"), "dtype '<u8' is not supported"},
		"objects":        {dtype("'|O'"), "dtype '|O' is pickled Python objects, which may run code and are never read"},
		"bf16":           {dtype("'<V2'"), "if it is bf16, use a .safetensors file"},
		"complex":        {dtype("'<c8'"), `dtype "<c8" is not supported`},
		"strings":        {dtype("'<U2'"), `dtype "<U2" is not supported`},
		"no byte order":  {dtype("'f4'"), `dtype "f4" is not supported`},
		"empty dtype":    {dtype("''"), `dtype "" is not supported`},
		"structured":     {dtype("[('a', '<f4'), ('b', '<i4')]"), "the array is structured"},
		"nested":         {dtype("('<f4', (2,))"), "the array is structured"},
		"dtype a number": {dtype("4"), "want a dtype in quotes"},

		"a list":           {shape("[1]"), "want a shape such as (2, 3)"},
		"a number":         {shape("1"), "want a shape such as (2, 3)"},
		"no comma":         {shape("(1)"), "want a comma: the shape of one dimension is (3,)"},
		"comma alone":      {shape("(,)"), "want a size in 'shape'"},
		"two commas":       {shape("(1,,1)"), "want a size in 'shape'"},
		"space for comma":  {shape("(1, 1 1)"), "want a comma or )"},
		"open shape":       {shape("(1, 1"), "want a comma or )"},
		"negative":         {shape("(-1,)"), "want a size in 'shape'"},
		"fraction":         {shape("(1.5,)"), "want a comma"},
		"too large":        {shape("(9223372036854775808,)"), "the shape has the size 9223372036854775808, too large for this machine"},
		"overflow":         {shape("(4611686018427387904,)"), "shape [4611686018427387904] of '<f4' overflows 64 bits"},
		"overflow, then 0": {shape("(4294967296, 4294967296, 0)"), "overflows 64 bits"},
		"rank 65":          {shape("(" + strings.Repeat("1,", 65) + ")"), "the shape has more than 64 sizes"},

		"data cut":        {shape("(2,)"), "shape [2] of '<f4' needs 8 bytes of data, but the file has 4"},
		"data missing":    {raw("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", 0), "shape [] of '<f4' needs 4 bytes of data, but the file has 0"},
		"data of a lie":   {shape("(2305843009213693951,)"), "needs 9223372036854775804 bytes of data, but the file has 4"},
		"data goes on":    {shape("(0,)"), "extra bytes after the 0 bytes of shape [0] of '<f4'"},
		"two arrays":      {slices.Concat(golden, golden), "extra bytes after the 6 bytes"},
		"wide of nothing": {raw("{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}", 4), "'<i8'"},
	} {
		for way, read := range ways {
			got, err := read(t, c.content)
			var format *FormatError
			if got.Data != nil || !errors.Is(err, ErrFormat) || !errors.As(err, &format) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %s: got %v, %v; want %q", name, way, got, err, c.want)
				continue
			}
			if isFile := way == "ReadFile"; isFile != strings.HasSuffix(format.File, "x.npy") {
				t.Errorf("%s: %s: names the file %q", name, way, format.File)
			}
		}
	}
}

// Every file cut short anywhere is refused, whichever way it is read.
func TestReadRefusesEveryCut(t *testing.T) {
	for n := range golden {
		for way, read := range ways {
			if got, err := read(t, golden[:n]); got.Data != nil || !errors.Is(err, ErrFormat) {
				t.Errorf("%s of the first %d bytes of %d: %v, %v", way, n, len(golden), got, err)
			}
		}
	}
}

// An announced size takes no memory before its bytes are there.
func TestReadAllocatesWhatIsThere(t *testing.T) {
	for what, content := range map[string][]byte{
		"header": []byte("\x93NUMPY\x02\x00\x00\x00\x0f\x00{'descr'"),
		"data":   raw("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000,)}", 10),
	} {
		for way, read := range ways {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := read(t, content); !errors.Is(err, ErrFormat) {
				t.Errorf("%s: %s: %v", what, way, err)
			}
			runtime.ReadMemStats(&after)
			if taken := after.TotalAlloc - before.TotalAlloc; taken > 1<<19 {
				t.Errorf("%s: %s: took %d bytes for a file of %d", what, way, taken, len(content))
			}
		}
	}
}

// A reader's own failure is not a fault of the format.
func TestReadPassesErrorsOn(t *testing.T) {
	broken := errors.New("the cable is out")
	for n := range len(golden) + 1 {
		r := io.MultiReader(bytes.NewReader(golden[:n]), iotest.ErrReader(broken))
		if got, err := Read(r); got.Data != nil || !errors.Is(err, broken) || errors.Is(err, ErrFormat) {
			t.Fatalf("after %d bytes: %v, %v", n, got, err)
		}
	}
}

func TestErrorsStayReadable(t *testing.T) {
	long := strings.Repeat("n", 60000)
	for _, header := range []string{long, "{'" + long + "': 1}", "{'descr': '" + long + "', 'fortran_order': False, 'shape': ()}", "{'shape': (" + strings.Repeat("1", 60000)} {
		if _, err := Read(bytes.NewReader(raw(header, 0))); err == nil || len(err.Error()) > 600 {
			t.Errorf("an error of %d characters", len(err.Error()))
		}
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ids.npy")
	content := raw("{'descr': '<i8', 'fortran_order': False, 'shape': (1, 2)}", 16)
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if info := r.Info(); info.Descr != Int64 || !slices.Equal(info.Shape, []int{1, 2}) || info.Storage() != num.I64 {
		t.Errorf("it is %+v", info)
	}
	if data, err := r.Bytes(); err != nil || !bytes.Equal(data, content[len(content)-16:]) {
		t.Errorf("it holds %v, %v", data, err)
	}
	// The file is cut while it is open.
	if err := os.Truncate(path, int64(len(content))-1); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Bytes(); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "but the file has 15") || !strings.HasPrefix(err.Error(), path) {
		t.Errorf("a file that was cut: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	if _, err := Open(dir); err == nil || errors.Is(err, ErrFormat) {
		t.Errorf("a folder: %v", err)
	}
}

func TestRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	dtypes := []num.DType{num.F16, num.F32, num.I32, num.I8, num.I64}
	for range 200 {
		a := Array{DType: dtypes[random.IntN(3)]}
		n := a.DType.Size()
		for range random.IntN(5) {
			a.Shape = append(a.Shape, random.IntN(4))
			n *= a.Shape[len(a.Shape)-1]
		}
		a.Data = make([]byte, n)
		for i := range a.Data {
			a.Data[i] = byte(random.Uint32())
		}
		var b bytes.Buffer
		if err := Write(&b, a); err != nil {
			t.Fatal(err)
		}
		if head := b.Len() - n; head%64 != 0 || b.Bytes()[head-1] != '\n' {
			t.Errorf("the header of %v ends at %d", a.Shape, head)
		}
		if got, err := Read(&b); err != nil || !equal(got, a) {
			t.Errorf("%v comes back as %v, %v", a, got, err)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.npy")
	for want, a := range map[string]Array{
		"bf16 has no dtype in NumPy: write a .safetensors file instead": {num.BF16, []int{1}, make([]byte, 2)},
		"e4m3 has no dtype in NumPy: write a .safetensors file instead": {num.E4M3, []int{1}, make([]byte, 1)},
		"dtype none has no dtype in NumPy":                              {num.NoDType, []int{1}, nil},
		"shape [2] of f32 needs 8 bytes, but the data has 4":            {num.F32, []int{2}, make([]byte, 4)},
		"shape [-1] of f32 is negative or overflows 64 bits":            {num.F32, []int{-1}, nil},
		fmt.Sprintf("shape [%d 2] of f32 is negative or", math.MaxInt):  {num.F32, []int{math.MaxInt, 2}, nil},
		"the shape has 65 sizes, want at most 64":                       {num.F32, make([]int, 65), nil},
	} {
		var b bytes.Buffer
		if err := Write(&b, a); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) || b.Len() > 0 {
			t.Errorf("got %v and %d bytes, want %q", err, b.Len(), want)
		}
		if err := WriteFile(path, a); !errors.Is(err, ErrFormat) || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("there is %v, %v", list, err)
	}
}

func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npy")
	for range 2 {
		if err := WriteFile(path, goldenArray()); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, golden) {
			t.Errorf("the file holds %q, %v", got, err)
		}
	}
}

// Whatever is read is refused as a FormatError or whole: the same by every way of
// reading, and the same again when it is written and read back.
func FuzzRead(f *testing.F) {
	f.Add(golden)
	f.Fuzz(func(t *testing.T, content []byte) {
		got, err := Read(bytes.NewReader(content))
		sized, errSized := NewReader(bytes.NewReader(content), int64(len(content)))
		if errSized == nil {
			_, errSized = sized.Bytes()
			if sized.info.Descr == Int64 && errSized == nil {
				return // which Read leaves alone
			}
		}
		if (err == nil) != (errSized == nil) {
			t.Fatalf("Read says %v, with the size it is %v", err, errSized)
		}
		if err != nil {
			if !errors.Is(err, ErrFormat) || !errors.Is(errSized, ErrFormat) {
				t.Fatalf("%v and %v, want FormatErrors", err, errSized)
			}
			return
		}
		if n, ok := (Info{descrOf(got.DType), got.Shape}).byteCount(); !ok || n != int64(len(got.Data)) || len(got.Data) > len(content) {
			t.Errorf("%d bytes for %v %v", len(got.Data), got.DType, got.Shape)
		}
		var written bytes.Buffer
		if err := Write(&written, got); err != nil {
			t.Fatalf("cannot be written back: %v", err)
		}
		if again, err := Read(&written); err != nil || !equal(again, got) {
			t.Fatalf("read back: %v, %v; want %v", again, err, got)
		}
	})
}

func ExampleRead() {
	a, err := Read(bytes.NewReader(golden))
	if err != nil {
		panic(err)
	}
	fmt.Println(a.DType, a.Shape, len(a.Data))
	// Output: f16 [1 3] 6
}
