package evidence

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDecodeStrictly: a report that this package would not have written is refused, with its file
// and the key.
func TestDecodeStrictly(t *testing.T) {
	t.Parallel()
	report := string(mustJSON(t, sampleList()[0]))
	if _, err := decodeReport("r.json", []byte(report)); err != nil {
		t.Fatal(err)
	}
	replaced := func(from, to string) string {
		t.Helper()
		if !strings.Contains(report, from) {
			t.Fatalf("the report has no %s", from)
		}
		return strings.Replace(report, from, to, 1)
	}
	const verdict = `"verdict": "accepted"`
	for _, test := range []struct{ what, data, want string }{
		{"a key twice", replaced(verdict, verdict+`, "verdict": "rejected"`), "the key verdict is there twice"},
		{"a key twice, once escaped", replaced(verdict, verdict+`, "\u0076erdict": "rejected"`), "the key verdict is there twice"},
		{"an inner key twice", replaced(`"os":`, `"os": "", "os":`), "the key host.os is there twice"},
		{"a key twice in a list", replaced(`"checks":`, `"checks": 0, "checks":`), "the key tiers[0].checks is there twice"},
		{"a key twice in a map", replaced(`"obtained": {`, `"obtained": {"op": "", "op": "",`), "the key obtained.op is there twice"},
		{"an unknown key", replaced(verdict, verdict+`, "extra": 1`), "unknown key extra"},
		{"a key in another case", replaced(`"verdict"`, `"Verdict"`), "unknown key Verdict"},
		{"a key that is missing", replaced(verdict+",", ""), "the key verdict is missing"},
		{"an unknown key of a case", replaced(`"inputs_sha256":`, `"Digest": "x", "inputs_sha256":`), "unknown key case_list[0].Digest"},
		{"data after the end", report + "{}", "r.json is not JSON: "},
		{"half a report", report[:len(report)/2], "r.json is not JSON: "},
		{"nothing", "", "r.json is not JSON: "},
		{"a list", "[]", "the file is a list, want an object"},
		{"deep nesting", replaced(verdict, `"verdict": `+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)), "verdict is a list, want a text"},
		{"deeper nesting", strings.Repeat("[", 5_000_000), "r.json is not JSON: "},
		{"null for a text", replaced(verdict, `"verdict": null`), "verdict is null, want a text"},
		{"a number for a text", replaced(verdict, `"verdict": 1`), "verdict is a number, want a text"},
		{"a bool for a number", replaced(`"cases": 2`, `"cases": true`), "cases is a bool, want a number"},
		{"too large a number", replaced(`"cases": 2`, `"cases": 18446744073709551616`), "cases"},
		{"a float out of range", regexp.MustCompile(`("kernel_seconds": [0-9.]+)`).ReplaceAllString(report, "${1}e400"), "kernel_seconds"},
		{"a terminal's escape", replaced(verdict, `"verdict": "\u001b[2J"`), `verdict has a control or formatting character: "\x1b[2J"`},
		{"a raw escape", replaced(verdict, "\"verdict\": \"\x1b[2J\""), "r.json is not JSON: "},
		{"a writing direction", replaced(verdict, "\"verdict\": \"\u202eacc\""), `verdict has a control or formatting character: "\u202eacc"`},
		{"an escape in a key", replaced(verdict, verdict+`, "\u001b[2J": 1`), `a key of the file has a control or formatting character: "\x1b[2J"`},
		{"no UTF-8", replaced(verdict, "\"verdict\": \"\xff\""), "r.json is not UTF-8"},
		{"a long list", replaced(`"signatures": []`, `"signatures": [`+strings.Repeat(`"",`, maxEntries)+`""]`), "signatures has more than 16384 entries"},
		{"a large map", replaced(`"obtained": {`, `"obtained": {`+many(maxEntries)), "obtained has more than 16384 entries"},
	} {
		_, err := decodeReport("r.json", []byte(test.data))
		switch {
		case err == nil:
			t.Errorf("%s is read", test.what)
		case !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "evidence: r.json"):
			t.Errorf("%s: %v, want %s", test.what, err, test.want)
		case !isPrintable(err.Error()) || len(err.Error()) > 1000:
			t.Errorf("%s: the message is not printable or too long: %q", test.what, err)
		}
	}
}

// many returns members of an object, each with a comma behind.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"k%d": "",`, i)
	}
	return b.String()
}

// TestPrintable: texts that are written are printable, and so are the files that hold them.
func TestPrintable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain\n\té": "plain\n\té", "\x1b[31m": `\x1b[31m`, "a\u202eb": `a\u202eb`, "\xff": `\xff`, "\u009b": `\u009b`, "\ufffd": "\ufffd", "a\r": `a\x0d`, "\u2028": `\u2028`,
	} {
		if got := Printable(text); got != want || Printable(got) != got {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	r := sampleList()[0]
	r.NonClaims = append(r.NonClaims, "an \x1b[31mescape")
	dir := t.TempDir()
	if err := Write(dir, []*Report{r}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadRun(dir); err != nil {
		t.Error(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) != 4 {
		t.Fatalf("files: %v", files)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil || !isPrintable(string(data)) {
			t.Errorf("%s is not printable (%v)", file, err)
		}
	}
}

// TestReadBounded: no file is read beyond the limits, nor one that is not in the folder.
func TestReadBounded(t *testing.T) {
	t.Parallel()
	const name = "softmax.forward_cpu.rowwise_f16.json"
	for _, test := range []struct {
		what   string
		change func(dir string)
		want   string
	}{
		{"a large index", func(dir string) { truncate(t, filepath.Join(dir, "index.json"), MaxIndexBytes+1) }, "index.json has more than 16777216 bytes"},
		{"a large report", func(dir string) { truncate(t, filepath.Join(dir, name), 1<<40) }, name + " has more than 67108864 bytes"},
		{"a file of another folder", func(dir string) { replaceIn(t, dir, "index.json", `"`+name+`"`, `"../`+name+`"`) }, `reports[0].json is "../` + name + `", want the name of a file`},
		{"an absolute path", func(dir string) { replaceIn(t, dir, "index.json", `"`+name+`"`, `"/dev/zero"`) }, `reports[0].json is "/dev/zero", want the name of a file`},
		{"a report twice", func(dir string) {
			replaceIn(t, dir, "index.json", `"softmax.backward_cpu.rowwise_f16.json"`, `"`+name+`"`)
		}, "lists " + name + " twice"},
		{"a link", func(dir string) { symlink(t, os.DevNull, filepath.Join(dir, name)) }, name + " is a symbolic link, want a regular file"},
		{"a link as index", func(dir string) { symlink(t, os.DevNull, filepath.Join(dir, "index.json")) }, "index.json is a symbolic link, want a regular file"},
		{"a folder", func(dir string) {
			os.Remove(filepath.Join(dir, name))
			os.Mkdir(filepath.Join(dir, name), 0o777)
		}, name + " is a folder, want a regular file"},
	} {
		dir := t.TempDir()
		if err := Write(dir, sampleList()); err != nil {
			t.Fatal(err)
		}
		test.change(dir)
		if _, _, err := ReadRun(dir); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.what, err, test.want)
		}
	}
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, to, path string) {
	t.Helper()
	os.Remove(path)
	if err := os.Symlink(to, path); err != nil {
		t.Skip(err)
	}
}

// FuzzDecode: whatever is read is printable and is read again as it is written.
func FuzzDecode(f *testing.F) {
	for _, r := range sampleList() {
		for _, r := range []*Report{r, r.Compact()} {
			data, err := r.JSON()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte(`{"case_list": ["a 1 01234567"], "case_list": [null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeReport("r.json", data)
		if err != nil {
			if !isPrintable(err.Error()) {
				t.Errorf("the message is not printable: %q", err)
			}
			return
		}
		if err := r.Check(); err != nil && !isPrintable(err.Error()) {
			t.Errorf("the message is not printable: %q", err)
		}
		written, err := r.JSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeReport("r.json", written)
		if err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		if rewritten, err := again.JSON(); err != nil || !bytes.Equal(rewritten, written) {
			t.Errorf("%v\n%s\nwant\n%s", err, rewritten, written)
		}
		r.Printable().Markdown()
	})
}
