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
)

// TestReadLaunched: the variables of all launchers say the same.
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
		"RANK=2 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=29500":                                                          "2 4 a:29500 2",
		"RANK=2 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=29500 TORCHELASTIC_USE_AGENT_STORE=True":                        "2 4 a:29501 2",
		"RANK=2 WORLD_SIZE=4 SLURM_PROCID=0 SLURM_NTASKS=1 MASTER_ADDR=a MASTER_PORT=29500":                                               "2 4 a:29500 1",
		"RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=29500 TOKITAI_RANKS_ADDRESS=b:1":                                "1 2 b:1 2",
		"OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2 TOKITAI_RANKS_ADDRESS=a:1":                            "2 4 a:1 2",
		"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 SLURM_PROCID=0 SLURM_JOB_NODELIST=n[1-2] SLURM_JOB_ID=7":                           "1 2 n1:20007 1",
		"PMI_RANK=2 PMI_SIZE=4 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2 TOKITAI_RANKS_ADDRESS=a:1":                                             "2 4 a:1 2",
		"PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 TOKITAI_RANKS_ADDRESS=a:1":                                             "1 2 a:1 2",
		"SLURM_PROCID=2 SLURM_NTASKS=4 SLURM_NODEID=1 SLURM_TASKS_PER_NODE=2(x2) SLURM_JOB_NODELIST=n[07-08,11],m SLURM_JOB_ID=1234567":   "2 4 n07:24567 2",
		"SLURM_PROCID=0 SLURM_NTASKS=9 SLURM_NODEID=3 SLURM_STEP_TASKS_PER_NODE=3,2(x2),1(x2) SLURM_STEP_NODELIST=one,two MASTER_PORT=80": "0 9 one:80 1",
	} {
		l, err := read(text + " TOKITAI_RANKS_SECRET=" + secret)
		if got := fmt.Sprintf("%d %d %s %d", l.Rank, l.Size, l.Address, l.onMachine); got != want || string(l.Secret) != secret || err != nil {
			t.Errorf("%s: %s, want %s; %v", text, got, want, err)
		}
	}
	for text, want := range map[string]string{
		"WORLD_SIZE=4":                 "none of RANK, OMPI_COMM_WORLD_RANK, MPI_LOCALRANKID, SLURM_PROCID is set",
		"RANK=0":                       `WORLD_SIZE is "", want a number from 1 on, as torchrun sets it`,
		"RANK=x WORLD_SIZE=4":          `RANK is "x", want a number`,
		"RANK=4 WORLD_SIZE=4":          "RANK is 4 and WORLD_SIZE 4",
		"RANK=0 WORLD_SIZE=4":          "torchrun does not say where rank 0 listens: TOKITAI_RANKS_ADDRESS is to be its HOST:PORT",
		"SLURM_PROCID=0 SLURM_NTASKS=": `SLURM_NTASKS is ""`,
		"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1 TOKITAI_RANKS_SECRET=short":                     "TOKITAI_RANKS_SECRET has 5 bytes, want at least 16",
		"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=1234": "mpirun of Open MPI does not say where rank 0 listens",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	seen := map[string]bool{}
	for _, text := range []string{ // jobs, and starts of them, of ranks of one machine
		"RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=29500",
		"RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=29500 TORCHELASTIC_RESTART_COUNT=1",
		"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=1234",
		"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=1235",
		"PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 PMI_PORT=a:1",
		"SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_NODEID=0 SLURM_TASKS_PER_NODE=2 SLURM_JOB_ID=7 SLURM_STEP_ID=0",
		"SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_NODEID=0 SLURM_TASKS_PER_NODE=2 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_RESTART_COUNT=1",
	} {
		l, err := read(text)
		if err != nil || l.Rank != 1 || l.Size != 2 || l.onMachine != 2 || l.Address != "" || l.job == "" || seen[l.meetingName()] {
			t.Errorf("%s: %+v, want ranks that meet by a name of their own; %v", text, l, err)
		}
		seen[l.meetingName()] = true
	}
}

// launchedRun returns the arguments of a run of so many steps.
func launchedRun(folder, ranks string, steps int, seed string) []string {
	list := []string{"train", "--data", "grammar:2000", "--device", "cpu", "--out", folder, "--ranks", ranks}
	for _, s := range []string{"layers=1", "width=8", "heads=2", "kv_heads=1", "hidden=8", "block=4", "batch=4", "leaves=4", "warmup=0", "checkpoint_every=20", "validate_every=0", "seed=" + seed, fmt.Sprintf("steps=%d", steps)} {
		list = append(list, "--set", s)
	}
	return list
}

// TestTrainLaunched: two processes, each started as a launcher does, have the chain of one, whether they meet by the name of their job or
// at an address; one with another seed or another secret is refused by both.
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
		code         int
		message      string
	}{
		{true, "1", secret, 0, ""},
		{false, "1", secret, 0, ""},
		{true, "2", secret, exitFailed, "rank 1 differs from rank 0 in the setting seed: 2, not 1"},
		{false, "1", "another one", exitUndecided, "rank 1 has another TOKITAI_RANKS_SECRET than rank 0"},
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
			variables := []string{fmt.Sprintf("RANK=%d", rank), "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port, secretVariable + "=" + own[1]}
			if c.atAddress {
				variables = append(variables, addressVariable+"="+address)
			}
			both = append(both, startProgramIn(t, variables, launchedRun(folder, "env", 5, own[0])...))
		}
		for rank, p := range both {
			out, err := io.ReadAll(p.stdout)
			p.Wait()
			text := p.stderr.String()
			if code := p.ProcessState.ExitCode(); code != c.code || !strings.Contains(text, c.message) || err != nil {
				t.Errorf("%+v: rank %d: exit code %d, %s; %v", c, rank, code, text, err)
			}
			if c.code == 0 && rank == 0 && !slices.Equal(strings.Fields(string(out)), strings.Fields(want)) {
				t.Errorf("%+v: %q, want %q", c, out, want)
			}
		}
	}
}
