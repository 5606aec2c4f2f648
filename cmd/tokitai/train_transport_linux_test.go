package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"tokitai/internal/tool"
)

// TestTrainOverNCCL: ranks that exchange bytes through a library with NCCL's interface have the chain of one process. A library that
// accepts only GPU memory is refused on the CPU, and so is a transport that does not fit the way in which the ranks meet.
func TestTrainOverNCCL(t *testing.T) {
	t.Parallel()
	code, want, stderr := program(t.Context(), launchedRun(filepath.Join(t.TempDir(), "alone"), "1", 5, "1")...)
	if code != 0 {
		t.Fatal(stderr)
	}
	build := func(flags ...string) string {
		path := filepath.Join(t.TempDir(), "libnccl.so.2")
		args := append([]string{"-std=c11", "-O1", "-shared", "-fPIC", "-o", path, "../../ranks/nccl/testdata/standin.c"}, flags...)
		if out, err := exec.Command(tool.Need(t, "gcc"), args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return path
	}
	const size = 3
	for _, c := range []struct {
		transport, library string
		code               int
		message            string
	}{
		{ncclTransport, "TOKITAI_NCCL=" + build(), 0, ""},
		{rcclTransport, "TOKITAI_RCCL=" + build("-DtokitaiTakesHostMemory=other"), exitFailed, "RCCL: RCCL moves bytes between GPUs: want --device hip, got cpu"},
		{ncclTransport, "TOKITAI_NCCL=" + filepath.Join(t.TempDir(), "none"), exitFailed, "NCCL: NCCL: not found: tried "},
		{tcpTransport, "", exitWrongUse, "--transport tcp: TOKITAI_RANKS_ADDRESS is not set"},
		{"ucx", "", exitWrongUse, `--transport is "ucx", want auto, shm, tcp, mpi, nccl or rccl`},
	} {
		folder := filepath.Join(t.TempDir(), "run")
		var all []*started
		for rank := range size {
			variables := []string{"RANK=" + strconv.Itoa(rank), "WORLD_SIZE=" + strconv.Itoa(size), "LOCAL_WORLD_SIZE=" + strconv.Itoa(size), "MASTER_PORT=" + folder, c.library}
			all = append(all, startProgramIn(t, variables, append(launchedRun(folder, launchedRanks, 5, "1"), "--transport", c.transport)...))
		}
		endAlike(t, fmt.Sprintf("%+v", c), all, c.code, c.message, want)
	}
}
