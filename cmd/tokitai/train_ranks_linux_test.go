package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tokitai/internal/await"
	"tokitai/ranks"
	"tokitai/train"
)

// ranksOf returns the processes of the ranks that a run has started, in order.
func ranksOf(t *testing.T, p *started) (list []int) {
	t.Helper()
	for _, text := range childrenOf(t, p.Process.Pid) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, pid)
	}
	if len(list) != 2 {
		t.Fatalf("processes %v, want two", list)
	}
	return list
}

// rankedRun returns the arguments of a run that three ranks train.
func rankedRun(folder string) []string {
	args := []string{"train", "--data", "grammar:2000", "--device", "cpu", "--out", folder, "--ranks", "3"}
	for _, s := range []string{"layers=1", "width=8", "heads=2", "kv_heads=1", "hidden=8", "block=4", "batch=4", "leaves=4", "warmup=0", "steps=60", "checkpoint_every=5", "validate_every=0"} {
		args = append(args, "--set", s)
	}
	return args
}

// stepsOf returns how many steps a run has taken.
func stepsOf(folder string) int {
	list, _ := train.ReadMetrics(folder)
	return len(list)
}

// TestTrainRankKilled: a run one of whose ranks is killed names it, goes on, and has the chain of one process.
func TestTrainRankKilled(t *testing.T) {
	t.Parallel()
	alone := filepath.Join(t.TempDir(), "alone")
	args := rankedRun(alone)
	args[slices.Index(args, "--ranks")+1] = "1"
	code, want, stderr := program(t.Context(), args...)
	if code != 0 {
		t.Fatal(stderr)
	}
	folder, seed := filepath.Join(t.TempDir(), "run"), rand.Uint64()
	t.Logf("seed %d", seed)
	p := startProgram(t, rankedRun(folder)...)
	at := 6 + rand.New(rand.NewPCG(seed, 0)).IntN(39) // behind the first checkpoint, that of step 5
	await.For(t, "steps", func() bool { return stepsOf(folder) >= at })
	children := ranksOf(t, p)
	if err := syscall.Kill(children[1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.await(t, "resumed behind step ")
	p.await(t, "step 60  chain ")
	p.Wait()
	if got := p.stderr.String(); !strings.Contains(got, fmt.Sprintf("rank 2 (process %d) has ended: signal killed; the run goes on from its last checkpoint", children[1])) {
		t.Errorf("standard error: %q", got)
	}
	lines, err := train.ReadMetrics(folder)
	if err != nil || len(lines) < 60 || !strings.Contains(want, "step 60  chain "+lines[59].Chain+"\n") {
		t.Errorf("%d lines, want those of a run that ends with %q; %v", len(lines), want, err)
	}
}

// TestTrainRanksStopped: SIGTERM ends a run of several ranks with a checkpoint, and leaves no processes.
func TestTrainRanksStopped(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "run")
	args := append(rankedRun(folder), "--set", "steps=1000000", "--set", "checkpoint_every=0")
	p := startProgram(t, args...)
	await.For(t, "steps", func() bool { return stepsOf(folder) > 2 })
	children := ranksOf(t, p)
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.await(t, "chain ")
	p.Wait()
	if p.ProcessState.ExitCode() != exitUndecided {
		t.Errorf("exit code %d, %s", p.ProcessState.ExitCode(), p.stderr.String())
	}
	list, err := train.Checkpoints(folder)
	if err != nil || len(list) != 1 || list[0].Step != stepsOf(folder) {
		t.Errorf("checkpoints %v behind %d steps, %v", list, stepsOf(folder), err)
	}
	for _, pid := range children {
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("process %d of a rank is left", pid)
		}
	}
}

// TestRestarts: after an error that blames a rank, the run is restarted, but at most three times from the same checkpoint. It is not
// restarted after other errors or an interrupt. Ranks that a launcher started exit with code 4 instead.
func TestRestarts(t *testing.T) {
	t.Parallel()
	named := fmt.Errorf("step 3: %w", &ranks.PeerError{Rank: 2, Problem: "computes other bits"})
	var r restarts
	for _, from := range []int{0, 5} { // the step of the last checkpoint
		for i := range maxRestarts + 1 {
			if got, want := r.allows(t.Context(), named, from), i < maxRestarts; got != want {
				t.Errorf("failure %d behind step %d: restarted: %v, want %v", i+1, from, got, want)
			}
		}
	}
	if r.allows(t.Context(), errors.New("no space left"), 10) {
		t.Error("a run is restarted after an error that blames no rank")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if r.allows(ctx, named, 10) {
		t.Error("a run is restarted after an interrupt")
	}
	if e, ok := errors.AsType[*verdictError](stoppedByPeer(named)); !ok || e.code != exitUndecided {
		t.Errorf("launched ranks end with %v, want the exit code %d", e, exitUndecided)
	}
}
