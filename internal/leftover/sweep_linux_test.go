package leftover

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSweep: the folder of a process that was killed is removed by the next that makes one; that of
// a process that lives stays, and so do folders that are no folders of this package.
func TestSweep(t *testing.T) {
	const pattern = "swept-*"
	if dir := os.Getenv("SWEEP_TEST"); dir != "" { // the process that is killed
		path, _, err := Folder(dir, pattern)
		if err != nil {
			t.Fatal(err)
		}
		os.WriteFile(filepath.Join(path, "content"), nil, 0o666)
		os.Stdout.WriteString("made\n")
		io.Copy(io.Discard, os.Stdin) // until it is killed
	}
	dir := t.TempDir()
	start := func() *exec.Cmd {
		p := exec.Command(os.Args[0], "-test.run=^TestSweep$")
		p.Env = append(os.Environ(), "SWEEP_TEST="+dir)
		if _, err := p.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		out, err := p.StdoutPipe()
		if err == nil {
			err = p.Start()
		}
		if err == nil {
			_, err = out.Read(make([]byte, 1)) // until the folder is made
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Process.Kill(); p.Wait() })
		return p
	}
	start()
	living, _ := filepath.Glob(filepath.Join(dir, pattern))
	killed := start()
	killed.Process.Kill()
	killed.Wait()
	others := []string{filepath.Join(dir, "swept-by-hand"), filepath.Join(dir, "another")}
	for _, path := range others {
		if err := os.Mkdir(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	own, remove, err := Folder(dir, pattern)
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	want := map[string]bool{own: true, living[0]: true, others[0]: true, others[1]: true}
	left, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, path := range left {
		if !want[path] {
			t.Errorf("%s stays", path)
		}
		delete(want, path)
	}
	for path := range want {
		t.Errorf("%s is gone", path)
	}
}
