package evidence

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// tree returns every file below a folder with its content, and every folder with "/".
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil || entry.IsDir() {
			out[name] = "/"
			return err
		}
		data, err := os.ReadFile(path)
		out[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sameTree(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, content := range a {
		if other, ok := b[name]; !ok || other != content {
			return false
		}
	}
	return true
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "out")
	if err := Write(dir, sampleList()); err != nil {
		t.Fatal(err)
	}
	got := tree(t, dir)
	want := []string{
		".", "gemm.forward.accumulate_cuda.mine_f16.json", "gemm.forward.accumulate_cuda.mine_f16.md",
		"gemm.forward.accumulate_cuda.mma_bf16.json", "gemm.forward.accumulate_cuda.mma_bf16.md",
		"gemm.forward.accumulate_cuda.wide_f16.json", "gemm.forward.accumulate_cuda.wide_f16.md", "index.json", "index.md",
		"softmax.backward_cpu.rowwise_f16.json", "softmax.backward_cpu.rowwise_f16.md",
		"softmax.forward_cpu.rowwise_bf16.json", "softmax.forward_cpu.rowwise_bf16.md",
		"softmax.forward_cpu.rowwise_f16.json", "softmax.forward_cpu.rowwise_f16.md",
		"softmax.forward_cpu.rowwise_f32.json", "softmax.forward_cpu.rowwise_f32.md",
		"softmax.forward_cpu.slow_f16.json", "softmax.forward_cpu.slow_f16.md",
	}
	var names []string
	for name := range got {
		names = append(names, name)
	}
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("files: got %q, want %q", names, want)
	}

	var index Index
	if err := json.Unmarshal([]byte(got["index.json"]), &index); err != nil {
		t.Fatal(err)
	}
	if err := validate(t, schemaOf(t, "#/$defs/index"), []byte(got["index.json"])); err != nil {
		t.Error(err)
	}
	if index.Counts != (VerdictCounts{Accepted: 3, Rejected: 1, Inadmissible: 1, Undecided: 1, Unfinished: 1, Skipped: 1}) {
		t.Errorf("counts: got %+v", index.Counts)
	}
	if index.Totals != (Totals{Reports: 8, Cases: 12, Elements: 192, Mismatches: 2, Seconds: 2}) {
		t.Errorf("totals: got %+v", index.Totals)
	}
	for i, e := range index.Reports {
		if hash := FingerprintOf([]byte(got[e.JSON])); e.SHA256 != hash {
			t.Errorf("%s: sha256 in the index is %s, want %s", e.JSON, e.SHA256, hash)
		}
		if want := sampleList()[i].Markdown(); got[e.Markdown] != want {
			t.Errorf("%s: got\n%s\nwant\n%s", e.Markdown, got[e.Markdown], want)
		}
		if !strings.Contains(got["index.md"], "]("+e.Markdown+")") {
			t.Errorf("index.md has no link to %s", e.Markdown)
		}
		var r Report
		if err := json.Unmarshal([]byte(got[e.JSON]), &r); err != nil {
			t.Fatal(err)
		}
		if err := r.Check(); err != nil {
			t.Errorf("%s, read back: %v", e.JSON, err)
		}
	}

	stranger := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(stranger, []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	got["notes.txt"] = "mine"
	if err := Write(dir, sampleList()); err != nil {
		t.Fatal(err)
	}
	if again := tree(t, dir); !sameTree(again, got) {
		t.Errorf("writing the same again: got %q, want the same files", again)
	}
}

// TestWriteKeepsPermissions: files can be read by whom new files can be read by.
func TestWriteKeepsPermissions(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	want, err := os.Stat(plain)
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, sampleList()[:1]); err != nil {
		t.Fatal(err)
	}
	if got, err := os.Stat(filepath.Join(dir, "index.json")); err != nil || got.Mode() != want.Mode() {
		t.Errorf("index.json: got %v (%v), want %v", got.Mode(), err, want.Mode())
	}
}

func TestWriteRefuses(t *testing.T) {
	otherHost, upper := samples()["bounded"], samples()["accepted"]
	otherHost.Host.CPU = "another"
	upper.Lowering = "softmax.forward/CPU.rowwise"
	accepted := samples()["accepted"]
	for _, test := range []struct {
		name    string
		reports []*Report
		want    string
	}{
		{"nothing", nil, "no reports"},
		{"two reports of one name", []*Report{accepted, accepted}, "same name softmax.forward_cpu.rowwise_f16"},
		{"two reports of one name but for capitals", []*Report{accepted, upper}, "same name"},
		{"the same in the other order", []*Report{upper, accepted}, "same name"},
		{"two hosts", []*Report{accepted, otherHost}, "differ in tool, version or host"},
	} {
		dir := filepath.Join(t.TempDir(), "out")
		if err := Write(dir, test.reports); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", test.name, err, test.want)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the folder was made", test.name)
		}
	}
}

// The reports of one call may be of one lowering and dtype: they are numbered.
func TestWriteNumbersCalls(t *testing.T) {
	dir := t.TempDir()
	call := func() *Report {
		r := samples()["accepted"]
		r.Level = levelCall
		return r
	}
	if err := Write(dir, []*Report{call(), call(), call()}); err != nil {
		t.Fatal(err)
	}
	var index Index
	data, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &index); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"softmax.forward_cpu.rowwise_f16", "softmax.forward_cpu.rowwise_f16-2", "softmax.forward_cpu.rowwise_f16-3"} {
		if e := index.Reports[i]; e.JSON != name+".json" || e.Markdown != name+".md" {
			t.Errorf("report %d is in %s and %s, want %s", i, e.JSON, e.Markdown, name)
		}
		text, err := os.ReadFile(filepath.Join(dir, name+".md"))
		if err != nil || !strings.Contains(string(text), "]("+name+".json)") {
			t.Errorf("%s.md: %v, or no link to its JSON", name, err)
		}
		if data, err := os.ReadFile(filepath.Join(dir, name+".json")); err != nil || FingerprintOf(data) != index.Reports[i].SHA256 {
			t.Errorf("%s.json: %v, or another hash than the index has", name, err)
		}
	}
}

func TestFileNameIsSafe(t *testing.T) {
	for lowering, want := range map[string]string{
		"softmax.forward/cuda.rowwise": "softmax.forward_cuda.rowwise_f16",
		`a/b:c\d e*é/..`:               "a_b-c-d-e--_.._f16",
	} {
		r := &Report{Summary: Summary{Lowering: lowering, DType: "f16"}}
		if got := r.FileName(); got != want {
			t.Errorf("%s: got %s, want %s", lowering, got, want)
		}
	}
}

// faulty is a file system that fails at one operation, or when so many bytes have been
// written.
type faulty struct {
	disk
	operations int // left before one fails; negative: none does
	bytes      int // left before the disk is full; negative: it never is
	used       int // operations so far
	written    int
}

var errFault = errors.New("injected fault")

func (f *faulty) step() error {
	f.used++
	if f.operations--; f.operations == -1 {
		return errFault
	}
	return nil
}

func (f *faulty) Mkdir(path string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.disk.Mkdir(path)
}

func (f *faulty) MkdirTemp(dir, pattern string) (string, error) {
	if err := f.step(); err != nil {
		return "", err
	}
	return f.disk.MkdirTemp(dir, pattern)
}

func (f *faulty) Rename(from, to string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.disk.Rename(from, to)
}

func (f *faulty) Create(path string) (file, error) {
	if err := f.step(); err != nil {
		return nil, err
	}
	inner, err := os.Create(path)
	return &faultyFile{File: inner, system: f}, err
}

type faultyFile struct {
	*os.File
	system *faulty
}

func (f *faultyFile) Write(data []byte) (int, error) {
	s := f.system
	if err := s.step(); err != nil {
		return 0, err
	}
	if left := s.bytes - s.written; s.bytes >= 0 && left < len(data) {
		n, err := f.File.Write(data[:left])
		s.written += n
		return n, errors.Join(err, syscall.ENOSPC)
	}
	s.written += len(data)
	return f.File.Write(data)
}

func (f *faultyFile) Sync() error { return f.system.step() } // nothing here must survive a power cut

func (f *faultyFile) Close() error { return errors.Join(f.File.Close(), f.system.step()) }

// TestFailedWriteLeavesNothing: the disk fills up, or any operation fails, in a new
// folder and in one with an earlier run's reports.
func TestFailedWriteLeavesNothing(t *testing.T) {
	reports := []*Report{samples()["rejected"], samples()["bounded"]}
	earlier := []*Report{elsewhere(samples()["bounded"]), elsewhere(samples()["skipped"])}
	for _, isNew := range []bool{true, false} {
		root := t.TempDir()
		dir := filepath.Join(root, "deep", "out")
		if !isNew {
			if err := Write(dir, earlier); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		before := tree(t, root)
		fails := func(what string, system *faulty, want error) {
			t.Helper()
			err := write(system, dir, reports)
			if !errors.Is(err, want) {
				t.Fatalf("new folder %v, %s: got %v, want %v", isNew, what, err, want)
			}
			if after := tree(t, root); !sameTree(before, after) {
				t.Fatalf("new folder %v, %s: got %q, want as before: %q", isNew, what, after, before)
			}
			if !strings.Contains(err.Error(), "evidence: ") || strings.Contains(err.Error(), "\n") {
				t.Fatalf("new folder %v, %s: undoing failed too: %v", isNew, what, err)
			}
		}

		healthy := &faulty{operations: -1, bytes: -1}
		measured := t.TempDir()
		if err := write(healthy, filepath.Join(measured, "out"), reports); err != nil {
			t.Fatal(err)
		}
		for full := 0; full < healthy.written; full += 509 {
			fails("a full disk", &faulty{operations: -1, bytes: full}, syscall.ENOSPC)
		}
		fails("a disk that lacks one byte", &faulty{operations: -1, bytes: healthy.written - 1}, syscall.ENOSPC)

		operations := 0
		for ; ; operations++ {
			system := &faulty{operations: operations, bytes: -1}
			scratch := filepath.Join(t.TempDir(), "out")
			if err := os.CopyFS(scratch, os.DirFS(root)); err != nil {
				t.Fatal(err)
			}
			if write(system, filepath.Join(scratch, "deep", "out"), reports) == nil {
				break // there are no more operations to fail
			}
			fails("a failed operation", &faulty{operations: operations, bytes: -1}, errFault)
		}
		// Six files, each created, written, synced, closed and moved; and the folders.
		if operations < 6*5+1 {
			t.Errorf("only %d operations were made to fail", operations)
		}
	}
}

// TestErrorNamesTheFile: what could not be written, under the name it was to have.
func TestErrorNamesTheFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	err := write(&faulty{operations: -1, bytes: 100}, dir, sampleList())
	if want := filepath.Join(dir, "softmax.forward_cpu.rowwise_f16.json"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s in it", err, want)
	}
}

func TestWriteToBadPlaces(t *testing.T) {
	root := t.TempDir()
	plain := filepath.Join(root, "plain")
	if err := os.WriteFile(plain, []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	occupied := filepath.Join(root, "occupied")
	if err := os.MkdirAll(filepath.Join(occupied, "index.json"), 0o777); err != nil {
		t.Fatal(err)
	}
	places := map[string]string{"a file": plain, "below a file": filepath.Join(plain, "out"), "a folder with a folder index.json": occupied}
	if runtime.GOOS == "linux" {
		places["a file system without files"] = "/proc/evidence"
	}
	if os.Geteuid() > 0 {
		closed := filepath.Join(root, "closed")
		if err := os.Mkdir(closed, 0o555); err != nil {
			t.Fatal(err)
		}
		places["a folder that must not be written to"] = closed
	}
	before := tree(t, root)
	for name, place := range places {
		if err := Write(place, sampleList()); err == nil || !strings.Contains(err.Error(), place) && !strings.Contains(err.Error(), plain) {
			t.Errorf("%s: got %v, want an error with %s", name, err, place)
		}
		if after := tree(t, root); !sameTree(before, after) {
			t.Errorf("%s: got %q, want as before", name, after)
		}
	}
}
