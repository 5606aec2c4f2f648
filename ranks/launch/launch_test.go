package launch

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestRead: the variables of all launchers say the same.
func TestRead(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdef"
	read := func(text string) (Rank, error) {
		return Read(func(name string) string {
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
		if got := fmt.Sprintf("%d %d %s %d", l.Rank, l.Size, l.Address, l.OnMachine); got != want || string(l.Secret) != secret || err != nil {
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
		if err != nil || l.Rank != 1 || l.Size != 2 || l.OnMachine != 2 || l.Address != "" || l.job == "" || seen[l.meetingName()] {
			t.Errorf("%s: %+v, want ranks that meet by a name of their own; %v", text, l, err)
		}
		seen[l.meetingName()] = true
	}
}
