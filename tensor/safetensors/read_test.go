package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"tokitai/num"
)

func diff(t *testing.T, got, want *File) {
	t.Helper()
	if !maps.Equal(got.Metadata, want.Metadata) || (got.Metadata == nil) != (want.Metadata == nil) {
		t.Errorf("metadata %q, want %q", got.Metadata, want.Metadata)
	}
	if len(got.Entries) != len(want.Entries) {
		t.Fatalf("%d tensors, want %d", len(got.Entries), len(want.Entries))
	}
	for i, w := range want.Entries {
		g := got.Entries[i]
		if g.Name != w.Name || g.DType != w.DType || !slices.Equal(g.Shape, w.Shape) || !bytes.Equal(g.Data, w.Data) {
			t.Errorf("tensor %d is %q %v %v %x, want %q %v %v %x", i, g.Name, g.DType, g.Shape, g.Data, w.Name, w.DType, w.Shape, w.Data)
		}
	}
}

// raw puts a file together from a header and the number of data bytes.
func raw(header string, dataBytes int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	for i := range dataBytes {
		b = append(b, byte(i+1))
	}
	return b
}

// ways are all ways to read a file.
var ways = map[string]func(t testing.TB, content []byte) (*File, error){
	"Read":                func(_ testing.TB, b []byte) (*File, error) { return Read(bytes.NewReader(b)) },
	"Read byte by byte":   func(_ testing.TB, b []byte) (*File, error) { return Read(iotest.OneByteReader(bytes.NewReader(b))) },
	"Read, EOF with data": func(_ testing.TB, b []byte) (*File, error) { return Read(iotest.DataErrReader(bytes.NewReader(b))) },
	"ReadAt":              func(_ testing.TB, b []byte) (*File, error) { return ReadAt(bytes.NewReader(b), int64(len(b))) },
	"ReadFile": func(t testing.TB, b []byte) (*File, error) {
		path := filepath.Join(t.TempDir(), "x.safetensors")
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		return ReadFile(path)
	},
}

func TestReadAccepts(t *testing.T) {
	for name, c := range map[string]struct {
		content []byte
		want    *File
	}{
		"empty":          {raw(`{}`, 0), &File{}},
		"padded":         {raw("{}      ", 0), &File{}},
		"white space":    {raw("{ }\n\t\r ", 0), &File{}},
		"metadata alone": {raw(`{"__metadata__":{"a":"b","":""}}`, 0), &File{Metadata: map[string]string{"a": "b", "": ""}}},
		"empty metadata": {raw(`{"__metadata__":{}}`, 0), &File{Metadata: map[string]string{}}},
		"scalar": {raw(`{"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, 4),
			&File{Entries: []Entry{{"s", num.F32, nil, []byte{1, 2, 3, 4}}}}},
		"zero size": {raw(`{"z":{"dtype":"F32","shape":[3,0],"data_offsets":[0,0]}}`, 0),
			&File{Entries: []Entry{{"z", num.F32, []int{3, 0}, nil}}}},
		"zero sizes between others": {raw(`{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]},"z":{"dtype":"F32","shape":[0],"data_offsets":[2,2]},`+
			`"b":{"dtype":"F16","shape":[1],"data_offsets":[2,4]}}`, 4),
			&File{Entries: []Entry{{"a", num.BF16, []int{1}, []byte{1, 2}}, {"b", num.F16, []int{1}, []byte{3, 4}}, {"z", num.F32, []int{0}, nil}}}},
		"keys and data in any order": {raw(`{"b":{"data_offsets":[2,6],"shape":[1],"dtype":"I32"},"a":{"shape":[1],"dtype":"F16","data_offsets":[0,2]}}`, 6),
			&File{Entries: []Entry{{"a", num.F16, []int{1}, []byte{1, 2}}, {"b", num.I32, []int{1}, []byte{3, 4, 5, 6}}}}},
		"odd names": {raw(`{"\ud83d\ude00\u00e9\\ud800":{"dtype":"F16","shape":[0],"data_offsets":[0,0]},"":{"dtype":"F16","shape":[0],"data_offsets":[0,0]}}`, 0),
			&File{Entries: []Entry{{"", num.F16, []int{0}, nil}, {"\U0001F600é\\ud800", num.F16, []int{0}, nil}}}},
	} {
		for way, read := range ways {
			f, err := read(t, c.content)
			if err != nil {
				t.Errorf("%s: %s: %v", name, way, err)
				continue
			}
			diff(t, f, c.want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	entry := func(text string) []byte { return raw(`{"w":{`+text+`}}`, 4) }
	length := func(n uint64, rest string) []byte {
		return append(binary.LittleEndian.AppendUint64(nil, n), rest...)
	}
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"nothing":          {nil, "ends after 0 bytes, within the length of its header"},
		"length cut short": {[]byte{2, 0, 0, 0, 0, 0, 0}, "ends after 7 bytes, within the length"},

		"header beyond the file":     {length(9, "{}"), "header's length is 9 bytes, but only 2 follow"},
		"header missing":             {length(2, ""), "header's length is 2 bytes, but only 0 follow"},
		"header above 100 MB":        {length(100_000_001, "{}"), "header's length is 100000001 bytes, want at most 100000000"},
		"header length of 64 bits":   {length(1<<64-1, "{}"), "header's length is 18446744073709551615 bytes"},
		"header length wraps to neg": {length(1<<63, "{}"), "header's length is 9223372036854775808 bytes"},

		"no header":            {raw("", 0), "does not begin with {"},
		"not an object":        {raw("[]", 0), "does not begin with {"},
		"space first":          {raw(" {}", 0), "does not begin with {"},
		"text":                 {raw("hello", 0), "does not begin with {"},
		"open object":          {raw("{", 0), "not JSON: it ends early"},
		"open string":          {raw(`{"a`, 0), "not JSON"},
		"trailing comma":       {raw(`{"__metadata__":{},}`, 0), "not JSON"},
		"no colon":             {raw(`{"__metadata__" {}}`, 0), "not JSON"},
		"name is a number":     {raw(`{1:{}}`, 0), "not JSON"},
		"two objects":          {raw("{}{}", 0), "continues after its closing }"},
		"brace too many":       {raw("{}}", 0), "continues after its closing }"},
		"zeros as padding":     {raw("{}\x00\x00", 0), "continues after its closing }"},
		"not UTF-8":            {raw("{\"\xff\":1}", 0), "not UTF-8"},
		"half a surrogate":     {raw(`{"\ud800":1}`, 0), "unpaired surrogate"},
		"other half":           {raw(`{"\udc00":1}`, 0), "unpaired surrogate"},
		"two first halves":     {raw(`{"\ud800\ud800":1}`, 0), "unpaired surrogate"},
		"half, then an escape": {raw(`{"\ud800\n":1}`, 0), "unpaired surrogate"},

		"tensor is a number":  {raw(`{"w":3}`, 0), `tensor "w": got the number 3, want an object`},
		"tensor is null":      {raw(`{"w":null}`, 0), `tensor "w": got null, want`},
		"tensor is an array":  {raw(`{"w":[]}`, 0), `tensor "w": got an array, want`},
		"no dtype":            {entry(`"shape":[1],"data_offsets":[0,4]`), `tensor "w": dtype is missing`},
		"no shape":            {entry(`"dtype":"F32","data_offsets":[0,4]`), `tensor "w": shape is missing`},
		"no offsets":          {entry(`"dtype":"F32","shape":[1]`), `tensor "w": data_offsets is missing`},
		"empty tensor object": {raw(`{"w":{}}`, 0), `tensor "w": dtype is missing`},
		"unknown key":         {entry(`"dtype":"F32","shape":[1],"data_offsets":[0,4],"stride":1`), `tensor "w": the key "stride" is unknown`},
		"two dtypes":          {entry(`"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]`), `tensor "w": the key "dtype" occurs twice`},
		"two shapes":          {entry(`"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]`), `tensor "w": the key "shape" occurs twice`},
		"two offsets":         {entry(`"dtype":"F32","shape":[1],"data_offsets":[0,4],"data_offsets":[0,4]`), `tensor "w": the key "data_offsets" occurs twice`},
		"name twice": {raw(`{"w":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},"w":{"dtype":"F16","shape":[1],"data_offsets":[2,4]}}`, 4),
			`the name "w" occurs twice`},
		"name twice by escape": {raw(`{"w":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},"\u0077":{"dtype":"F16","shape":[1],"data_offsets":[2,4]}}`, 4),
			`the name "w" occurs twice`},

		"unsupported dtype": {entry(`"dtype":"F64","shape":[1],"data_offsets":[0,4]`), `tensor "w": dtype "F64" is not supported; F16, BF16, F32, F8_E4M3, F8_E5M2, I8, I32 and I64 are supported`},
		"unknown dtype":     {entry(`"dtype":"f32","shape":[1],"data_offsets":[0,4]`), `tensor "w": dtype "f32" is not supported`},
		"dtype no string":   {entry(`"dtype":32,"shape":[1],"data_offsets":[0,4]`), `tensor "w": dtype is the number 32, want a string`},

		"negative size":         {entry(`"dtype":"F32","shape":[-1],"data_offsets":[0,4]`), `tensor "w": shape has -1, which is negative`},
		"negative sizes":        {entry(`"dtype":"F32","shape":[-1,-1],"data_offsets":[0,4]`), `tensor "w": shape has -1, which is negative`},
		"negative zero":         {entry(`"dtype":"F32","shape":[-0],"data_offsets":[0,0]`), `tensor "w": shape has -0, which is negative`},
		"fraction":              {entry(`"dtype":"F32","shape":[1.5],"data_offsets":[0,4]`), `tensor "w": shape has 1.5, which is not an integer`},
		"whole, but a fraction": {entry(`"dtype":"F32","shape":[1.0],"data_offsets":[0,4]`), `tensor "w": shape has 1.0, which is not an integer`},
		"exponent":              {entry(`"dtype":"F32","shape":[1e0],"data_offsets":[0,4]`), `tensor "w": shape has 1e0, which is not an integer`},
		"size as a string":      {entry(`"dtype":"F32","shape":["1"],"data_offsets":[0,4]`), `tensor "w": shape has a string, want integers`},
		"size is null":          {entry(`"dtype":"F32","shape":[null],"data_offsets":[0,4]`), `tensor "w": shape has null, want integers`},
		"nested shape":          {entry(`"dtype":"F32","shape":[[1]],"data_offsets":[0,4]`), `tensor "w": shape has an array, want integers`},
		"shape no array":        {entry(`"dtype":"F32","shape":1,"data_offsets":[0,4]`), `tensor "w": shape is the number 1, want an array`},
		"shape an object":       {entry(`"dtype":"F32","shape":{},"data_offsets":[0,4]`), `tensor "w": shape is an object, want an array`},
		"shape a boolean":       {entry(`"dtype":"F32","shape":true,"data_offsets":[0,4]`), `tensor "w": shape is a boolean, want an array`},
		"size beyond 64 bits":   {entry(`"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]`), `tensor "w": shape has 9223372036854775808, which overflows`},
		"bytes beyond 64 bits":  {entry(`"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]`), `tensor "w": shape [4611686018427387904] of F32 overflows`},
		"bytes beyond 63 bits":  {entry(`"dtype":"F32","shape":[2305843009213693952],"data_offsets":[0,0]`), `tensor "w": shape [2305843009213693952] of F32 overflows`},
		"product beyond":        {entry(`"dtype":"F32","shape":[4294967296,4294967297],"data_offsets":[0,4]`), `tensor "w": shape [4294967296 4294967297] of F32 overflows`},
		"product beyond, zero":  {entry(`"dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0]`), `tensor "w": shape [4294967296 4294967296 0] of F32 overflows`},
		"rank without end":      {entry(`"dtype":"F32","shape":[1` + strings.Repeat(",1", 64) + `],"data_offsets":[0,4]`), `tensor "w": shape has more than 64 numbers`},

		"offsets reversed":  {entry(`"dtype":"F32","shape":[1],"data_offsets":[4,0]`), `tensor "w": data_offsets [4, 0] are reversed`},
		"one offset":        {entry(`"dtype":"F32","shape":[1],"data_offsets":[4]`), `tensor "w": data_offsets has 1 numbers, want 2`},
		"three offsets":     {entry(`"dtype":"F32","shape":[1],"data_offsets":[0,4,4]`), `tensor "w": data_offsets has 3 numbers, want 2`},
		"negative offset":   {entry(`"dtype":"F32","shape":[1],"data_offsets":[-4,0]`), `tensor "w": data_offsets has -4, which is negative`},
		"too few bytes":     {entry(`"dtype":"F32","shape":[2],"data_offsets":[0,4]`), `tensor "w": shape [2] of F32 needs 8 bytes, but data_offsets [0, 4] hold 4`},
		"too many bytes":    {entry(`"dtype":"F16","shape":[1],"data_offsets":[0,4]`), `tensor "w": shape [1] of F16 needs 2 bytes, but data_offsets [0, 4] hold 4`},
		"scalar of nothing": {entry(`"dtype":"F16","shape":[],"data_offsets":[0,0]`), `tensor "w": shape [] of F16 needs 2 bytes`},
		"data cut short":    {entry(`"dtype":"F32","shape":[2],"data_offsets":[0,8]`), `tensor "w": data_offsets [0, 8] go beyond the 4 bytes of data`},
		"data far beyond": {entry(`"dtype":"F32","shape":[2305843009213693951],"data_offsets":[0,9223372036854775804]`),
			`tensor "w": data_offsets [0, 9223372036854775804] go beyond the 4 bytes`},
		"hole before":    {entry(`"dtype":"F16","shape":[1],"data_offsets":[2,4]`), `tensor "w": data_offsets [2, 4] leave a gap: the data before ends at 0`},
		"trailing bytes": {entry(`"dtype":"F16","shape":[1],"data_offsets":[0,2]`), "extra bytes after the 2 bytes of data"},
		"trailing, none": {raw("{}", 1), "extra bytes after the 0 bytes of data"},
		"second cut short": {raw(`{"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]},"a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}}`, 5),
			`tensor "b": data_offsets [2, 6] go beyond the 5 bytes of data`},
		"overlap": {raw(`{"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},"b":{"dtype":"F16","shape":[1],"data_offsets":[2,4]}}`, 4),
			`tensor "b": data_offsets [2, 4] overlap those of "a"`},
		"same data twice": {raw(`{"a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},"b":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}}`, 2),
			`data_offsets [0, 2] overlap those of`},
		"hole between": {raw(`{"a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},"b":{"dtype":"F16","shape":[1],"data_offsets":[4,6]}}`, 6),
			`tensor "b": data_offsets [4, 6] leave a gap: the data before ends at 2`},
		"empty tensor beyond": {raw(`{"z":{"dtype":"F16","shape":[0],"data_offsets":[2,2]}}`, 2), `tensor "z": data_offsets [2, 2] leave a gap`},

		"metadata no object": {raw(`{"__metadata__":"x"}`, 0), `: __metadata__: got a string, want an object`},
		"metadata number":    {raw(`{"__metadata__":{"a":1}}`, 0), `: __metadata__: "a" is the number 1, want a string`},
		"metadata nested":    {raw(`{"__metadata__":{"a":{}}}`, 0), `"a" is an object, want a string`},
		"metadata key twice": {raw(`{"__metadata__":{"a":"1","a":"2"}}`, 0), `the key "a" occurs twice`},
		"metadata twice":     {raw(`{"__metadata__":{},"__metadata__":{}}`, 0), `the name "__metadata__" occurs twice`},
	} {
		for way, read := range ways {
			f, err := read(t, c.content)
			var format *FormatError
			if f != nil || !errors.Is(err, ErrFormat) || !errors.As(err, &format) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %s: got %v, %v; want %q", name, way, f, err, c.want)
				continue
			}
			if isFile := way == "ReadFile"; isFile != strings.HasSuffix(format.File, "x.safetensors") {
				t.Errorf("%s: %s: names the file %q", name, way, format.File)
			}
		}
	}
}

// Every file cut short anywhere is refused, whichever way it is read.
func TestReadRefusesEveryCut(t *testing.T) {
	for n := range golden {
		for _, way := range []string{"Read", "ReadAt"} {
			if f, err := ways[way](t, golden[:n]); f != nil || !errors.Is(err, ErrFormat) {
				t.Errorf("%s of the first %d bytes of %d: %v, %v", way, n, len(golden), f, err)
			}
		}
	}
}

func TestErrorsStayReadable(t *testing.T) {
	long := strings.Repeat("n", 1<<20)
	for _, content := range [][]byte{
		raw(`{"`+long+`":3}`, 0),
		raw(`{"w":{"dtype":"`+long+`"}}`, 0),
		raw(`{"w":{"shape":[`+strings.Repeat("1", 1<<20)+`]}}`, 0),
	} {
		if _, err := Read(bytes.NewReader(content)); err == nil || len(err.Error()) > 1500 {
			t.Errorf("an error of %d characters", len(err.Error()))
		}
	}
}

// An announced length takes no memory before its bytes are there.
func TestReadAllocatesWhatIsThere(t *testing.T) {
	announced := append(binary.LittleEndian.AppendUint64(nil, 90_000_000), '{')
	hugeData := raw(`{"w":{"dtype":"F32","shape":[250000000],"data_offsets":[0,1000000000]}}`, 10)
	for what, content := range map[string][]byte{"header": announced, "data": hugeData} {
		for way, read := range ways {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := read(t, content); !errors.Is(err, ErrFormat) {
				t.Errorf("%s: %s: %v", what, way, err)
			}
			runtime.ReadMemStats(&after)
			if taken := after.TotalAlloc - before.TotalAlloc; taken > 1<<20 {
				t.Errorf("%s: %s: took %d bytes for a file of %d", what, way, taken, len(content))
			}
		}
	}
}

// A reader's own failure is not a fault of the format.
func TestReadPassesErrorsOn(t *testing.T) {
	broken := errors.New("the cable is out")
	for n := range golden {
		r := io.MultiReader(bytes.NewReader(golden[:n]), iotest.ErrReader(broken))
		if f, err := Read(r); f != nil || !errors.Is(err, broken) || errors.Is(err, ErrFormat) {
			t.Fatalf("after %d bytes: %v, %v", n, f, err)
		}
	}
	r := io.MultiReader(bytes.NewReader(golden), iotest.ErrReader(broken))
	if _, err := Read(r); !errors.Is(err, broken) {
		t.Errorf("after the last byte: %v", err)
	}
	if _, err := ReadAt(bytes.NewReader(golden), -1); !errors.Is(err, ErrFormat) {
		t.Errorf("a negative size: %v", err)
	}
	// The file became shorter since its size was asked for.
	if _, err := ReadAt(bytes.NewReader(golden[:len(golden)-1]), int64(len(golden))); !errors.Is(err, ErrFormat) {
		t.Errorf("shorter than its size: %v", err)
	}
}

func TestReadFileErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadFile(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	if _, err := ReadFile(dir); err == nil || !strings.Contains(err.Error(), dir) || errors.Is(err, ErrFormat) {
		t.Errorf("a folder: %v", err)
	}
}

func TestEntry(t *testing.T) {
	f := goldenFile()
	if e, ok := f.Entry("label"); !ok || e.DType != num.I32 {
		t.Errorf("Entry(label) = %v, %v", e, ok)
	}
	if e, ok := f.Entry("labels"); ok || e.Name != "" {
		t.Errorf("Entry(labels) = %v, %v", e, ok)
	}
	if _, ok := (*File)(nil).Entry("label"); ok {
		t.Error("a nil file has an entry")
	}
}

// The data of one tensor cannot grow into that of the next.
func TestDataIsClipped(t *testing.T) {
	f, err := Read(bytes.NewReader(golden))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range f.Entries {
		if len(e.Data) != cap(e.Data) {
			t.Errorf("tensor %q: %d bytes of capacity %d", e.Name, len(e.Data), cap(e.Data))
		}
	}
}

func ExampleRead() {
	f, err := Read(bytes.NewReader(golden))
	if err != nil {
		panic(err)
	}
	for _, e := range f.Entries {
		fmt.Println(e.Name, e.DType, e.Shape, len(e.Data))
	}
	// Output:
	// a f16 [] 2
	// b.weight f32 [2] 8
	// label i32 [1 1] 4
}
