package main

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestReadLaunched: the variables of torchrun and of Slurm say the same.
func TestReadLaunched(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdef"
	read := func(text string) (launched, error) {
		return readLaunched(func(name string) string {
			for pair := range strings.FieldsSeq(text) {
				if value, ok := strings.CutPrefix(pair, name+"="); ok {
					return value
				}
			}
			return ""
		})
	}
	for text, want := range map[string]string{
		"RANK=2 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=29500":                                      "2 4 a:29500 2",
		"SLURM_PROCID=2 SLURM_NTASKS=4 SLURM_NTASKS_PER_NODE=2 SLURM_JOB_NODELIST=n[07-08,11],m SLURM_JOB_ID=1234567": "2 4 n07:24567 2",
		"SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_STEP_NODELIST=one,two MASTER_PORT=80":                                    "0 1 one:80 1",
	} {
		l, err := read(text + " TOKITAI_RANKS_SECRET=" + secret)
		if got := fmt.Sprintf("%d %d %s %d", l.Rank, l.Size, l.Address, l.onMachine); got != want || string(l.Secret) != secret || err != nil {
			t.Errorf("%s: %s, want %s; %v", text, got, want, err)
		}
	}
	for text, want := range map[string]string{
		"WORLD_SIZE=4":        "neither RANK nor SLURM_PROCID is set",
		"RANK=0":              "neither WORLD_SIZE nor SLURM_NTASKS is set",
		"RANK=x WORLD_SIZE=4": `RANK is "x", want a number`,
		"RANK=0 WORLD_SIZE=4": "want where rank 0 listens",
		"RANK=0 WORLD_SIZE=1 MASTER_ADDR=a MASTER_PORT=1 TOKITAI_RANKS_SECRET=short": "TOKITAI_RANKS_SECRET has 5 bytes, want at least 16",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
}

// TestTrainLaunched: two processes, each started as a launcher does, have the chain of one; one with another seed is refused by
// both.
func TestTrainLaunched(t *testing.T) {
	t.Parallel()
	args := func(folder, ranks, seed string) []string {
		list := []string{"train", "--data", "grammar:2000", "--device", "cpu", "--out", folder, "--ranks", ranks}
		for _, s := range []string{"layers=1", "width=8", "heads=2", "kv_heads=1", "hidden=8", "block=4", "batch=4", "leaves=4", "warmup=0", "steps=5", "seed=" + seed} {
			list = append(list, "--set", s)
		}
		return list
	}
	code, want, stderr := program(t.Context(), args(filepath.Join(t.TempDir(), "alone"), "1", "1")...)
	if code != 0 {
		t.Fatal(stderr)
	}
	for _, seed := range []string{"1", "2"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		l.Close()
		folder := filepath.Join(t.TempDir(), "run")
		var both []*started
		for rank, s := range []string{"1", seed} {
			variables := []string{fmt.Sprintf("RANK=%d", rank), "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port, "TOKITAI_RANKS_SECRET=only for this test"}
			both = append(both, startProgramIn(t, variables, args(folder, "env", s)...))
		}
		for rank, p := range both {
			out, err := io.ReadAll(p.stdout)
			p.Wait()
			code, text := p.ProcessState.ExitCode(), p.stderr.String()
			switch {
			case err != nil:
				t.Error(err)
			case seed != "1" && (code != exitFailed || !strings.Contains(text, "rank 1 differs from rank 0 in the setting seed: 2, not 1")):
				t.Errorf("rank %d with another seed: exit code %d, %s", rank, code, text)
			case seed == "1" && (code != 0 || rank == 0 && !slices.Equal(strings.Fields(string(out)), strings.Fields(want))):
				t.Errorf("rank %d: exit code %d, %q, want %q; %s", rank, code, out, want, text)
			}
		}
	}
}
