package safetensors

import (
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseIndex(t *testing.T) {
	for text, want := range map[string]map[string]string{
		`{"weight_map":{}}`: {},
		`{"metadata":{"total_size":12},"weight_map":{"a":"m-00001-of-00002.safetensors","b.c":"m-00002-of-00002.safetensors"}}`: {
			"a": "m-00001-of-00002.safetensors", "b.c": "m-00002-of-00002.safetensors"},
		` { "weight_map" : { "" : "x" , "é\"" : "sub/x" } , "metadata" : {} } ` + "\n":                                   {"": "x", `é"`: "sub/x"},
		`{"version":[1,{"a":[]}],"metadata":{"total_size":1.5e9,"a":{"b":[null,true]}},"weight_map":{"a":"x"},"b":null}`: {"a": "x"},
		`{"weight_map":{"a":"..x","b":"x..","c":"a.b/..c"}}`:                                                             {"a": "..x", "b": "x..", "c": "a.b/..c"},
	} {
		if got, err := parseIndex([]byte(text)); err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseIndexRefuses(t *testing.T) {
	file := func(name string) string { return `{"weight_map":{"w":` + name + `}}` }
	for name, c := range map[string]struct{ text, want string }{
		"nothing":           {"", "the index is not JSON: it ends early"},
		"text":              {"hello", "the index is not JSON"},
		"an array":          {"[]", "got an array, want an object"},
		"a string":          {`"weight_map"`, "got a string, want an object"},
		"cut":               {`{"weight_map":{"w":"x"`, "the index is not JSON: it ends early"},
		"cut in a skip":     {`{"a":[[[`, "the index is not JSON: it ends early"},
		"two objects":       {`{"weight_map":{}}{}`, "the index continues after its closing }"},
		"not UTF-8":         {"{\"weight_map\":{\"\xff\":\"x\"}}", "the index is not UTF-8"},
		"half a surrogate":  {`{"weight_map":{"\ud800":"x"}}`, "unpaired surrogate"},
		"no map":            {`{"metadata":{}}`, "weight_map is missing"},
		"map of null":       {`{"weight_map":null}`, "weight_map: got null, want an object"},
		"map is an array":   {`{"weight_map":["x"]}`, "weight_map: got an array, want an object"},
		"map twice":         {`{"weight_map":{},"weight_map":{}}`, `the key "weight_map" occurs twice`},
		"metadata twice":    {`{"metadata":{},"metadata":{},"weight_map":{}}`, `the key "metadata" occurs twice`},
		"metadata a number": {`{"metadata":3,"weight_map":{}}`, "metadata: got the number 3, want an object"},
		"name twice":        {`{"weight_map":{"w":"x","w":"x"}}`, `the name "w" occurs twice`},
		"name twice, escape": {`{"weight_map":{"w":"x","\u0077":"y"}}`,
			`the name "w" occurs twice`},

		"file a number":    {file("1"), `tensor "w": the file is the number 1, want a string`},
		"file null":        {file("null"), `tensor "w": the file is null, want a string`},
		"file an array":    {file(`["x"]`), `tensor "w": the file is an array, want a string`},
		"file an object":   {file(`{"x":"y"}`), `tensor "w": the file is an object, want a string`},
		"no file":          {file(`""`), `tensor "w": the file is "", want one in the folder of the index`},
		"absolute":         {file(`"/etc/passwd"`), `the file is "/etc/passwd", want one in the folder`},
		"above":            {file(`"../x.safetensors"`), `the file is "../x.safetensors", want one in the folder`},
		"above, later":     {file(`"a/../../x"`), `want one in the folder`},
		"there and back":   {file(`"a/../x"`), `want one in the folder`},
		"above, backslash": {file(`"..\\x"`), `want one in the folder`},
		"the folder":       {file(`"."`), `want one in the folder`},
		"a folder":         {file(`"a/"`), `want one in the folder`},
		"a zero byte":      {file(`"a\u0000b"`), `want one in the folder`},
	} {
		got, err := parseIndex([]byte(c.text))
		if got != nil || !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want %q", name, got, err, c.want)
		}
	}
}

// Depth costs no stack, and an error stays readable.
func TestParseIndexOfDepth(t *testing.T) {
	deep := strings.Repeat("[", 1<<20)
	if _, err := parseIndex([]byte(`{"a":` + deep)); !errors.Is(err, ErrFormat) {
		t.Errorf("got %v", err)
	}
	long := strings.Repeat("n", 1<<20)
	for _, text := range []string{`{"weight_map":{"` + long + `":1}}`, `{"weight_map":{"w":"/` + long + `"}}`, `{"` + long} {
		if _, err := parseIndex([]byte(text)); err == nil || len(err.Error()) > 1500 {
			t.Errorf("an error of %d characters", len(err.Error()))
		}
	}
}

// Whatever is read is refused as a FormatError, or names files of the folder alone; and
// it reads back as the same when it is written.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":12},"weight_map":{"a":"m-00001-of-00002.safetensors","b":"sub/m"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		files, err := parseIndex(text)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("%v, want a FormatError", err)
			}
			return
		}
		for name, file := range files {
			if rel, err := filepath.Rel("/dir", filepath.Join("/dir", file)); err != nil || rel == "." || strings.HasPrefix(rel, "../") {
				t.Errorf("tensor %q is outside: %q", name, file)
			}
		}
		again, err := parseIndex(formatIndex(files, 12))
		if err != nil || !maps.Equal(again, files) {
			t.Errorf("read back: %v, %v; want %v", again, err, files)
		}
	})
}
