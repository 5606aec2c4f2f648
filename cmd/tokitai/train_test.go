//go:build unix

package main

import (
	"bufio"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tokitai/internal/await"
	"tokitai/train"
)

// TestTrainServed follows a run that serves its page: SIGUSR1 writes a checkpoint, SIGTERM another one, of the
// last step, and the port is in use meanwhile.
func TestTrainServed(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "run")
	args := []string{"train", "--data", "grammar:2000", "--device", "cpu", "--out", folder, "--page", "127.0.0.1:0"}
	for _, s := range []string{"layers=1", "width=8", "heads=2", "kv_heads=1", "hidden=8", "block=4", "batch=4", "warmup=0", "steps=1000000", "checkpoint_every=0", "validate_every=0"} {
		args = append(args, "--set", s)
	}
	p := startProgram(t, args...)
	lines := bufio.NewScanner(p.stdout)
	lines.Scan()
	address, isPage := strings.CutPrefix(lines.Text(), "page  http://")
	if address = strings.TrimSuffix(address, "/"); !isPage {
		t.Fatalf("first line %q, %s", lines.Text(), p.stderr.String())
	}
	r, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusOK {
		t.Errorf("status %d", r.StatusCode)
	}
	args[slices.Index(args, "--page")+1] = address
	second := startProgram(t, args...)
	second.interrupt(t, syscall.Signal(0), exitWrongUse, "see 'tokitai train --help'")
	if got := second.stderr.String(); !strings.Contains(got, "the page cannot be served at "+address+": bind: address already in use") {
		t.Errorf("a port in use: %q", got)
	}

	taken := func() int {
		list, _ := train.ReadMetrics(folder)
		return len(list)
	}
	await.For(t, "some steps", func() bool { return taken() > 3 })
	if list, err := train.Checkpoints(folder); err != nil || len(list) != 0 {
		t.Fatalf("checkpoints %v, want none yet; %v", list, err)
	}
	if err := p.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	await.For(t, "a checkpoint", func() bool {
		list, _ := train.Checkpoints(folder)
		return len(list) == 1
	})
	before := taken()
	await.For(t, "further steps", func() bool { return taken() > before })
	if err := p.Process.Signal(os.Signal(syscall.SIGTERM)); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	p.Wait()
	if got := p.stderr.String(); p.ProcessState.ExitCode() != exitUndecided || !strings.Contains(got, "tokitai train: interrupted") {
		t.Errorf("exit code %d, %q", p.ProcessState.ExitCode(), got)
	}
	list, err := train.Checkpoints(folder)
	if err != nil || len(list) != 2 || list[1].Step != taken() {
		t.Errorf("checkpoints %v, want two, the last of step %d; %v", list, taken(), err)
	}
}
