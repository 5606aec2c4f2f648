package main

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"tokitai/ranks/launch"
)

// launchedRun returns the arguments of a run of so many steps.
func launchedRun(folder, ranks string, steps int, seed string) []string {
	list := []string{"train", "--data", "grammar:2000", "--device", "cpu", "--out", folder, "--ranks", ranks}
	for _, s := range []string{"layers=1", "width=8", "heads=2", "kv_heads=1", "hidden=8", "block=4", "batch=4", "leaves=4", "warmup=0", "checkpoint_every=20", "validate_every=0", "seed=" + seed, fmt.Sprintf("steps=%d", steps)} {
		list = append(list, "--set", s)
	}
	return list
}

// TestTrainLaunched: two processes, each started as a launcher does, have the chain of one, whether they meet by the name of their job or
// at an address; one with another seed, another secret or another transport is refused by both.
func TestTrainLaunched(t *testing.T) {
	t.Parallel()
	code, want, stderr := program(t.Context(), launchedRun(filepath.Join(t.TempDir(), "alone"), "1", 5, "1")...)
	if code != 0 {
		t.Fatal(stderr)
	}
	const secret = "only for this test"
	for _, c := range []struct {
		atAddress    bool
		seed, secret string // of rank 1
		transports   [2]string
		code         int
		message      string
	}{
		{true, "1", secret, [2]string{"auto", "auto"}, 0, ""},
		{false, "1", secret, [2]string{"shm", "shm"}, 0, ""},
		{true, "2", secret, [2]string{"tcp", "tcp"}, exitFailed, "rank 1 differs from rank 0 in the setting seed: 2, not 1"},
		{false, "1", "another one", [2]string{"auto", "auto"}, exitUndecided, "rank 1 has another TOKITAI_RANKS_SECRET than rank 0"},
		{false, "1", secret, [2]string{"shm", "mpi"}, exitFailed, "rank 1 differs from rank 0 in the transport: mpi, not shm"},
	} {
		if !c.atAddress && runtime.GOOS != "linux" {
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		_, port, _ := net.SplitHostPort(address)
		l.Close()
		folder := filepath.Join(t.TempDir(), "run")
		var both []*started
		for rank, own := range [][2]string{{"1", secret}, {c.seed, c.secret}} {
			variables := []string{fmt.Sprintf("RANK=%d", rank), "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port, launch.SecretVariable + "=" + own[1]}
			if c.atAddress {
				variables = append(variables, launch.AddressVariable+"="+address)
			}
			both = append(both, startProgramIn(t, variables, append(launchedRun(folder, "env", 5, own[0]), "--transport", c.transports[rank])...))
		}
		endAlike(t, fmt.Sprintf("%+v", c), both, c.code, c.message, want)
	}
}

// endAlike waits for the ranks of a run. Each is to end with the code and to print the message, and the first prints what
// one process alone does if all goes well.
func endAlike(t *testing.T, run string, ranks []*started, code int, message, alone string) {
	t.Helper()
	for rank, p := range ranks {
		out, err := io.ReadAll(p.stdout)
		p.Wait()
		text := p.stderr.String()
		if got := p.ProcessState.ExitCode(); got != code || !strings.Contains(text, message) || err != nil {
			t.Errorf("%s: rank %d: exit code %d, %s; %v", run, rank, got, text, err)
		}
		if code == 0 && rank == 0 && !slices.Equal(strings.Fields(string(out)), strings.Fields(alone)) {
			t.Errorf("%s: %q, want %q", run, out, alone)
		}
	}
}
