package evidence

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestArchive: an archive holds the files that a folder of compact reports holds, is the same
// each time, and replaces an earlier one.
func TestArchive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "run.zip")
	var written [3][]byte
	for i, list := range [][]*Report{sampleList()[:1], sampleList(), sampleList()} {
		err := Write(path, list)
		if err == nil {
			written[i], err = os.ReadFile(path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if bytes.Equal(written[0], written[1]) || !bytes.Equal(written[1], written[2]) {
		t.Errorf("archives of %d, %d and %d bytes, want the last two to be the same", len(written[0]), len(written[1]), len(written[2]))
	}
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	unpacked := filepath.Join(dir, "unpacked")
	if err := os.CopyFS(unpacked, z); err != nil {
		t.Fatal(err)
	}
	var compact []*Report
	for _, r := range sampleList() {
		compact = append(compact, r.Compact())
	}
	whole := filepath.Join(dir, "folder")
	if err := Write(whole, compact); err != nil {
		t.Fatal(err)
	}
	if !sameTree(tree(t, unpacked), tree(t, whole)) {
		t.Errorf("unpacked: %q, want %q", tree(t, unpacked), tree(t, whole))
	}
	if _, _, err := ReadRun(unpacked); err != nil {
		t.Error(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 3 {
		t.Errorf("files: %q (%v)", left, err)
	}
}

// entry is a file in an archive that a test makes.
type entry struct {
	name string
	data []byte
	mode fs.FileMode
}

// entriesOf returns the entries of an archive.
func entriesOf(t *testing.T, data []byte) (entries []entry) {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry{name: f.Name, data: data})
	}
	return entries
}

// zipped returns an archive of the entries.
func zipped(t *testing.T, entries []entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		if e.mode != 0 {
			h.SetMode(e.mode)
		}
		w, err := z.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.data); err != nil && !strings.HasSuffix(e.name, "/") {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestHostileArchives: an archive that Write would not have written is refused, with a message
// that says why, and within the limits.
func TestHostileArchives(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "run.zip")
	if err := Write(path, sampleList()); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const name = "softmax.forward_cpu.rowwise_f16.json"
	with := func(more ...entry) []byte { return zipped(t, append(entriesOf(t, good), more...)) }
	replaced := func(e entry) []byte {
		entries := entriesOf(t, good)
		entries[slices.IndexFunc(entries, func(old entry) bool { return old.name == name })] = e
		return zipped(t, entries)
	}
	index := func(from, to string) []byte {
		entries := entriesOf(t, good)
		at := &entries[len(entries)-1]
		if at.data = bytes.Replace(at.data, []byte(from), []byte(to), 1); at.name != "index.json" || !bytes.Contains(at.data, []byte(to)) {
			t.Fatalf("%s has no %s", at.name, from)
		}
		return zipped(t, entries)
	}
	flipped := bytes.Clone(good)
	flipped[200]++
	var wide []entry
	for i := range MaxIndexBytes/(46+1000) + 1 {
		wide = append(wide, entry{name: fmt.Sprintf("%01000d", i)})
	}
	for _, test := range []struct {
		what string
		data []byte
		want string
	}{
		{"nothing", nil, "run.zip is not a zip file, or is truncated"},
		{"a text", []byte("a text that is long enough for a directory"), "run.zip is not a zip file, or is truncated"},
		{"half an archive", good[:len(good)/2], "run.zip is not a zip file, or is truncated"},
		{"an archive without its last byte", good[:len(good)-1], "run.zip is not a zip file, or is truncated"},
		{"an archive without its first byte", good[1:], "run.zip is not a plain zip file: its directory"},
		{"an archive behind other data", append([]byte("#!/bin/sh\n"), good...), "run.zip is not a plain zip file: its directory"},
		{"a large file", append(make([]byte, MaxArchiveBytes), good...), "run.zip has more than 67108864 bytes"},
		{"a large directory", zipped(t, wide), "at most 16777216 are read"},
		{"a damaged entry", flipped, "run.zip: softmax.forward_cpu.rowwise_f16.json, unpacked,: "},
		{"a bomb", replaced(entry{name: name, data: make([]byte, MaxReportBytes+1)}), "run.zip: " + name + ", unpacked, has more than 67108864 bytes"},
		{"a large index", zipped(t, []entry{{name: "index.json", data: make([]byte, MaxIndexBytes+1)}}), "run.zip: index.json, unpacked, has more than 16777216 bytes"},
		{"a path that leaves", with(entry{name: "../x"}), `run.zip has the entry "../x", want the name of a file`},
		{"an absolute path", with(entry{name: "/etc/passwd"}), `run.zip has the entry "/etc/passwd", want the name of a file`},
		{"a path of Windows", with(entry{name: `..\x`}), `run.zip has the entry "..\\x", want the name of a file`},
		{"a folder", with(entry{name: "x/"}), `run.zip has the entry "x/", want the name of a file`},
		{"a file in a folder", with(entry{name: "x/" + name}), `run.zip has the entry "x/` + name + `", want the name of a file`},
		{"an entry twice", with(entry{name: name}), "run.zip has the entry " + name + " twice"},
		{"an entry twice but for capitals", with(entry{name: strings.ToUpper(name)}), "run.zip has the entry " + strings.ToUpper(name) + " twice"},
		{"a link", replaced(entry{name: name, data: []byte("/etc/passwd"), mode: fs.ModeSymlink | 0o777}), "run.zip: " + name + " is a symbolic link, want a regular file"},
		{"a device", replaced(entry{name: name, mode: fs.ModeDevice | 0o666}), "run.zip: " + name + " is a device, want a regular file"},
		{"an unknown entry", with(entry{name: "notes.txt"}), "run.zip: notes.txt is not in the index"},
		{"an archive within", with(entry{name: "inner.zip", data: good}), "run.zip: inner.zip is not in the index"},
		{"an archive as a report", replaced(entry{name: name, data: good}), "run.zip: " + name + " has SHA-256 "},
		{"another report", replaced(entry{name: name, data: []byte("{}")}), "run.zip: " + name + " has SHA-256 "},
		{"no report", zipped(t, entriesOf(t, good)[1:]), "run.zip has no entry " + name},
		{"no index", zipped(t, entriesOf(t, good)[:2]), "run.zip has no entry index.json"},
		{"an index of a file elsewhere", index(`"`+name+`"`, `"../`+name+`"`), `run.zip: index.json: reports[0].json is "../` + name + `", want the name of a file`},
		{"another count", index(`"accepted": 3`, `"accepted": 4`), "run.zip: index.json does not agree with its reports"},
	} {
		if err := os.WriteFile(path, test.data, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ReadRun(path); err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "evidence: ") {
			t.Errorf("%s: %v, want %s", test.what, err, test.want)
		}
	}
	if err := os.WriteFile(path, good, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadRun(path); err != nil {
		t.Error(err)
	}
	link := filepath.Join(dir, "link.zip")
	symlink(t, path, link)
	if _, _, err := ReadRun(link); err == nil || !strings.Contains(err.Error(), "link.zip is a symbolic link, want a regular file") {
		t.Error(err)
	}
}

// FuzzArchive: reading an archive ends in an error that is printable, or in reports.
func FuzzArchive(f *testing.F) {
	path := filepath.Join(f.TempDir(), "run.zip")
	if err := Write(path, sampleList()[:2]); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-directoryEnd])
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "run.zip")
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, reports, err := ReadRun(path); err != nil && !isPrintable(err.Error()) || err == nil && len(reports) == 0 {
			t.Errorf("%d reports, %q", len(reports), err)
		}
	})
}
