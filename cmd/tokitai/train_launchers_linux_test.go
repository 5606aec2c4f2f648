package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tokitai/internal/await"
	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
	"tokitai/train"
)

// rankScript is what a launcher starts in tests. It notes which process is which rank, and gives one of them another secret, or no data.
const rankScript = `#!/bin/sh
rank=${RANK:-${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$SLURM_PROCID}}}
echo $$ >"$PROCESSES/$rank"
[ "$rank" != "$ODD" ] || export TOKITAI_RANKS_SECRET=another
[ "$rank" != "$WITHOUT" ] || set -- "$@" --data "$PROCESSES/none"
exec "$PROGRAM" "$@"
`

// TestTrainLaunchedKilled: ranks that no launcher ends name the one that is killed, at once.
func TestTrainLaunchedKilled(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "run")
	var all []*started
	for rank := range 3 {
		variables := []string{fmt.Sprintf("RANK=%d", rank), "WORLD_SIZE=3", "LOCAL_WORLD_SIZE=3", "MASTER_PORT=" + folder}
		all = append(all, startProgramIn(t, variables, launchedRun(folder, launchedRanks, 1_000_000, "1")...))
	}
	await.For(t, "steps", func() bool { return stepsOf(folder) > 2 })
	if err := all[1].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, rank := range []int{0, 2} {
		p := all[rank]
		io.Copy(io.Discard, p.stdout)
		p.Wait()
		text := p.stderr.String()
		if code := p.ProcessState.ExitCode(); code != exitUndecided || !strings.Contains(text, "rank 1 has ended") && !strings.Contains(text, "rank 1 has failed, as rank ") {
			t.Errorf("rank %d: exit code %d, %s", rank, code, text)
		}
	}
}

// jobs starts programs under a launcher.
type jobs struct {
	program, script, processes string
	launcher                   func(ranks int) []string
	variables                  []string
	transport                  []string // flags of runs that testChain and testKilled start
}

// start starts ranks that train.
func (j *jobs) start(t *testing.T, ranks int, output *bytes.Buffer, args []string, variables ...string) *exec.Cmd {
	t.Helper()
	command := append(append(j.launcher(ranks), j.script), args...)
	c := exec.Command(command[0], command[1:]...)
	c.Env = append(os.Environ(), "PROGRAM="+j.program, "PROCESSES="+j.processes, "TMPDIR="+t.TempDir(), "TOKITAI_CACHE="+filepath.Join(j.processes, "cache"))
	c.Env = append(append(c.Env, j.variables...), variables...)
	c.Stdout, c.Stderr = output, output
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.ProcessState == nil {
			c.Process.Signal(syscall.SIGTERM) // it ends the ranks
			c.Wait()
		}
	})
	return c
}

// TestTrainUnderLaunchers: under each launcher that is installed, one rank of three is killed at random. The run names it and ends, goes
// on with two ranks, and has the chain of one process. If a rank has another secret, or cannot read the data, all end. Under both MPIs the
// libraries move the bytes until the kill, and shared memory does afterwards. Other numbers of ranks have the chain of one process too.
func TestTrainUnderLaunchers(t *testing.T) {
	const steps = 150
	code, want, stderr := program(t.Context(), launchedRun(filepath.Join(t.TempDir(), "alone"), "1", steps, "1")...)
	if code != 0 {
		t.Fatal(stderr)
	}
	const fewSteps = 3
	code, few, stderr := program(t.Context(), launchedRun(filepath.Join(t.TempDir(), "alone"), "1", fewSteps, "1")...)
	if code != 0 {
		t.Fatal(stderr)
	}
	for name, launcher := range map[string]func(t *testing.T, ranks int) []string{
		"Open MPI": func(t *testing.T, ranks int) []string {
			return []string{tool.Need(t, "mpirun.openmpi"), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", strconv.Itoa(ranks)}
		},
		"MPICH": func(t *testing.T, ranks int) []string {
			return []string{tool.Need(t, "mpirun.mpich"), "-n", strconv.Itoa(ranks)}
		},
		"torchrun": func(t *testing.T, ranks int) []string {
			// The first versions for Python 3.11 fail unless the logs are said to go somewhere.
			return []string{tool.Need(t, "torchrun"), "--standalone", "--nproc_per_node", strconv.Itoa(ranks), "-r", "1", "-t", "1", "--log_dir", t.TempDir(), "--no_python"}
		},
		"Slurm": func(t *testing.T, ranks int) []string {
			return []string{tool.Need(t, "srun"), "--kill-on-bad-exit=1", "-n", strconv.Itoa(ranks)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			launcher(t, 1) // or this is skipped
			folder := t.TempDir()
			j := &jobs{program: filepath.Join(folder, toolName), script: filepath.Join(folder, "rank"), processes: folder, launcher: func(n int) []string { return launcher(t, n) }}
			if name == "Slurm" {
				j.variables = startSlurm(t)
			}
			if err := os.Symlink(os.Args[0], j.program); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(j.script, []byte(rankScript), 0o755); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "MPI") || name == "MPICH" {
				j.transport = []string{"--transport", mpiTransport}
				for n := testlevel.Pick(4, 1, 1, 1); n <= 4; n++ {
					j.testChain(t, n, fewSteps, few)
				}
			}
			j.testKilled(t, steps, want)
			for variable, message := range map[string]string{"ODD": "rank 1 has another TOKITAI_RANKS_SECRET than rank 0", "WITHOUT": filepath.Join(folder, "none")} {
				var output bytes.Buffer
				c := j.start(t, 2, &output, launchedRun(filepath.Join(folder, "refused"), launchedRanks, steps, "1"), variable+"=1")
				if err := c.Wait(); err == nil || !strings.Contains(output.String(), message) {
					t.Errorf("%s: %v, %s", variable, err, output.String())
				}
			}
		})
	}
}

// testChain compares a run with one of one process.
func (j *jobs) testChain(t *testing.T, ranks, steps int, want string) {
	t.Helper()
	var output bytes.Buffer
	folder := filepath.Join(t.TempDir(), "run")
	if err := j.start(t, ranks, &output, append(launchedRun(folder, launchedRanks, steps, "1"), j.transport...)).Wait(); err != nil {
		t.Errorf("%d ranks: %v, %s", ranks, err, output.String())
	}
	lines, err := train.ReadMetrics(folder)
	if err != nil || len(lines) < steps || !strings.Contains(want, "chain "+lines[steps-1].Chain+"\n") {
		t.Errorf("%d ranks: %d lines, want those of a run that ends with %q; %v", ranks, len(lines), want, err)
	}
}

// testKilled kills a rank of a run, and resumes it. All of it is to end as one process alone does.
func (j *jobs) testKilled(t *testing.T, steps int, want string) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	folder := filepath.Join(j.processes, "run")
	var output bytes.Buffer
	c := j.start(t, 3, &output, append(launchedRun(folder, launchedRanks, steps, "1"), j.transport...))
	at, rank := 5+random.IntN(40), random.IntN(3)
	await.For(t, "steps", func() bool { return stepsOf(folder) >= at })
	text, err := os.ReadFile(filepath.Join(j.processes, strconv.Itoa(rank)))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err = c.Wait()
	// MPICH may end the other ranks before they say anything, and name one of them.
	named := strings.Contains(output.String(), "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES")
	for _, says := range []string{"rank %d has ended", "rank %d has failed", "rank %d with PID", "task %d: Killed", "(local_rank: %d)"} {
		named = named || strings.Contains(output.String(), fmt.Sprintf(says, rank))
	}
	if err == nil || !named {
		t.Errorf("rank %d is killed: %v, %s", rank, err, output.String())
	}
	output.Reset()
	if err := j.start(t, 2, &output, launchedRun(folder, launchedRanks, steps, "1")).Wait(); err != nil {
		t.Errorf("the run does not go on: %v, %s", err, output.String())
	}
	lines, err := train.ReadMetrics(folder)
	if err != nil || len(lines) < steps || !strings.Contains(want, "chain "+lines[steps-1].Chain+"\n") {
		t.Errorf("%d lines, want those of a run that ends with %q; %v", len(lines), want, err)
	}
}

// slurmConfig describes a cluster of this machine alone, whose user is that of the test.
const slurmConfig = `ClusterName=test
SlurmctldHost=%[1]s(127.0.0.1)
SlurmUser=%[2]s
SlurmdUser=%[2]s
AuthType=auth/none
CredType=cred/none
SlurmctldPort=%[3]s
SlurmdPort=%[4]s
SlurmctldPidFile=%[5]s/slurmctld.pid
SlurmdPidFile=%[5]s/slurmd.pid
SlurmdSpoolDir=%[5]s/spool
StateSaveLocation=%[5]s/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
KillWait=5
AuthInfo=cred_expire=5
NodeName=%[1]s NodeAddr=127.0.0.1 CPUs=8
PartitionName=all Nodes=ALL Default=YES State=UP
`

// startSlurm starts Slurm for this test alone, and returns the variables by which its commands find it.
func startSlurm(t *testing.T) (variables []string) {
	t.Helper()
	folder := t.TempDir()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	self, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"spool", "state"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(folder, "slurm.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, slurmConfig, host, self.Username, freePort(t), freePort(t), folder), 0o644); err != nil {
		t.Fatal(err)
	}
	variables = []string{"SLURM_CONF=" + config}
	var logs [2]bytes.Buffer
	for i, name := range []string{"slurmctld", "slurmd"} {
		daemon := exec.Command(tool.Need(t, name), "-D")
		daemon.Env = append(os.Environ(), variables...)
		daemon.Stdout, daemon.Stderr = &logs[i], &logs[i]
		if err := daemon.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			daemon.Process.Kill()
			daemon.Wait()
			if t.Failed() {
				t.Logf("%s: %s", name, logs[i].String())
			}
		})
	}
	await.For(t, "an idle machine", func() bool {
		c := exec.Command(tool.Need(t, "sinfo"), "-h", "-o", "%T")
		c.Env = append(os.Environ(), variables...)
		text, err := c.Output()
		return err == nil && strings.TrimSpace(string(text)) == "idle"
	})
	return variables
}

// freePort returns a port of this machine at which nobody listens.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
