package newfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// text returns the writer of a file's content.
func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// contents lists a folder: "name=content name=content".
func contents(t *testing.T, dir string) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range list {
		data, _ := os.ReadFile(filepath.Join(dir, e.Name()))
		all = append(all, e.Name()+"="+string(data))
	}
	return strings.Join(all, " ")
}

func stage(t *testing.T, b *Batch, dir string, files ...string) {
	t.Helper()
	for _, f := range files {
		name, content, _ := strings.Cut(f, "=")
		if err := b.Write(filepath.Join(dir, name), text(content)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	for _, content := range []string{"one", "two"} { // new, then in place of the old
		if err := Write(filepath.Join(dir, "x"), text(content)); err != nil {
			t.Fatal(err)
		}
		if got := contents(t, dir); got != "x="+content {
			t.Errorf("the folder holds %s", got)
		}
	}
	broken := errors.New("broken")
	err := Write(filepath.Join(dir, "x"), func(w io.Writer) error { io.WriteString(w, "half"); return broken })
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), filepath.Join(dir, "x")+": ") {
		t.Errorf("got %v", err)
	}
	if got := contents(t, dir); got != "x=two" {
		t.Errorf("after an error the folder holds %s", got)
	}
}

func TestBatch(t *testing.T) {
	dir := t.TempDir()
	var b Batch
	stage(t, &b, dir, "a=1", "b=1", "index=1")
	if got := contents(t, dir); strings.Contains(got, "index=") {
		t.Errorf("before Commit there is %s", got)
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	b.Discard()
	if got := contents(t, dir); got != "a=1 b=1 index=1" {
		t.Errorf("the folder holds %s", got)
	}

	b = Batch{}
	stage(t, &b, dir, "b=2", "c=2", "index=2")
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	b.Discard()
	if got := contents(t, dir); got != "a=1 b=2 c=2 index=2" {
		t.Errorf("the folder holds %s", got)
	}

	b = Batch{}
	stage(t, &b, dir, "a=3", "index=3")
	b.Discard()
	if got := contents(t, dir); got != "a=1 b=2 c=2 index=2" {
		t.Errorf("after Discard the folder holds %s", got)
	}
	if err := new(Batch).Commit(); err != nil {
		t.Errorf("nothing: %v", err)
	}
}

// Whichever step fails, everything is as it was.
func TestCommitUndoes(t *testing.T) {
	full := errors.New("disk full")
	for step := 0; ; step++ {
		dir := t.TempDir()
		var b Batch
		stage(t, &b, dir, "a=1", "index=1")
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		steps := 0
		b = Batch{moving: func(from, to string) error {
			if steps++; steps-1 == step {
				return full
			}
			return os.Rename(from, to)
		}}
		stage(t, &b, dir, "a=2", "new=2", "index=2")
		err := b.Commit()
		b.Discard()
		if err == nil {
			if got := contents(t, dir); got != "a=2 index=2 new=2" || step != 6 {
				t.Errorf("after %d steps the folder holds %s", step, got)
			}
			return
		}
		if !errors.Is(err, full) || !strings.HasPrefix(err.Error(), dir) {
			t.Errorf("step %d: %v", step, err)
		}
		if got := contents(t, dir); got != "a=1 index=1" {
			t.Errorf("after an error in step %d the folder holds %s", step, got)
		}
	}
}

// At no moment does the last file, which names the others, stand among files of
// another batch.
func TestIndexNeverLies(t *testing.T) {
	dir := t.TempDir()
	var b Batch
	stage(t, &b, dir, "a=1", "b=1", "index=1")
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	look := func() {
		if index, err := os.ReadFile(filepath.Join(dir, "index")); err == nil {
			for _, name := range []string{"a", "b"} {
				if got, _ := os.ReadFile(filepath.Join(dir, name)); string(got) != string(index) {
					t.Errorf("the index is of batch %s, %s of batch %q", index, name, got)
				}
			}
		}
	}
	b = Batch{moving: func(from, to string) error {
		err := os.Rename(from, to)
		look()
		return err
	}}
	stage(t, &b, dir, "a=2", "b=2", "index=2")
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	look()
	if got := contents(t, dir); got != "a=2 b=2 index=2" {
		t.Errorf("the folder holds %s", got)
	}
}

func TestSameFileTwice(t *testing.T) {
	dir := t.TempDir()
	var b Batch
	defer b.Discard()
	stage(t, &b, dir, "a=1")
	if err := b.Write(filepath.Join(dir, "a"), text("2")); err == nil || !strings.Contains(err.Error(), "written twice") {
		t.Errorf("got %v", err)
	}
}

// A large write ends between two pieces, and leaves nothing.
func TestStop(t *testing.T) {
	dir := t.TempDir()
	enough := errors.New("enough")
	calls := 0
	b := Batch{Stop: func() error {
		if calls++; calls == 3 {
			return enough
		}
		return nil
	}}
	err := b.Write(filepath.Join(dir, "a"), func(w io.Writer) error {
		_, err := w.Write(make([]byte, 100<<20))
		return err
	})
	if !errors.Is(err, enough) || calls != 3 {
		t.Errorf("%v after %d calls", err, calls)
	}
	b.Discard()
	if got := contents(t, dir); got != "" {
		t.Errorf("the folder holds %s", got)
	}
	all := slices.Repeat([]byte("0123456789abcdef"), 1<<20)
	b = Batch{Stop: func() error { return nil }}
	if err := b.Write(filepath.Join(dir, "a"), func(w io.Writer) error {
		n, err := w.Write(all)
		if n != len(all) {
			t.Errorf("%d bytes of %d", n, len(all))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, dir); got != "a="+string(all) {
		t.Error("the pieces are not the whole")
	}
}

// One file under two names is refused, whether it exists or not.
func TestTwoNames(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "sub"), 0o777), os.Symlink("sub", filepath.Join(dir, "link"))); err != nil {
		t.Skip(err)
	}
	for _, names := range [][2]string{{"sub/a", "./sub/../sub/a"}, {"sub/a", "link/a"}} {
		var b Batch
		stage(t, &b, dir, names[0]+"=one")
		if err := b.Write(dir+"/"+names[1], text("two")); err == nil || !strings.Contains(err.Error(), "written twice") {
			t.Errorf("%s: got %v, want it written twice", names, err)
		}
		b.Discard()
	}
}

// Where a and A are the same name, Commit finds that out, and puts the old files back.
func TestTwoNamesAtCommit(t *testing.T) {
	dir := t.TempDir()
	var old Batch
	stage(t, &old, dir, "A=old")
	if err := old.Commit(); err != nil {
		t.Fatal(err)
	}
	old.Discard()
	isFirst := true
	b := Batch{moving: func(from, to string) error {
		err := os.Rename(from, to)
		if filepath.Base(to) == "a" && err == nil && isFirst {
			isFirst = false
			err = os.Link(to, filepath.Join(dir, "A")) // the other name of the same file
		}
		if filepath.Base(from) == "a" {
			os.Remove(filepath.Join(dir, "A"))
		}
		return err
	}}
	stage(t, &b, dir, "a=one", "A=two")
	if err := b.Commit(); err == nil || !strings.Contains(err.Error(), "two names of one file") {
		t.Errorf("got %v", err)
	}
	b.Discard()
	if got := contents(t, dir); got != "A=old" {
		t.Errorf("the folder has %s", got)
	}
}
