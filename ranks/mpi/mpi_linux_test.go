package mpi

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tokitai/internal/dl"
	"tokitai/internal/tool"
	"tokitai/kernelprocess/shm"
	"tokitai/kernelprocess/spawn"
	"tokitai/ranks/courier"
	"tokitai/ranks/launch"
	"tokitai/ranks/rankstest"
)

// roleVariable makes the test's program a rank, or the process that calls the library for one.
const roleVariable = "TOKITAI_MPI_TEST_ROLE"

func TestMain(m *testing.M) {
	var err error
	switch role := os.Getenv(roleVariable); role {
	case "":
		os.Exit(m.Run())
	case "carry":
		err = carry()
	default:
		err = runRank(role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func carry() error {
	conn, err := shm.FromFD(3)
	if err != nil {
		return err
	}
	return courier.Serve(conn, func() (courier.Library, error) { return Open(os.Args[1]) })
}

// window is so small that messages of the test need many pieces.
const window = 1 << 16

// runRank is the life of a rank. If its role is to be killed, the process of rank 1's library is.
func runRank(role string) error {
	l, err := launch.Read(os.Getenv)
	if err != nil {
		return err
	}
	met, err := l.Meet(window)
	if err != nil {
		return err
	}
	variables, release, err := l.Inherit(os.Environ())
	if err != nil {
		return err
	}
	defer release()
	process := spawn.Spec{Program: os.Args[0], Args: []string{l.Launcher}, Env: append(variables, roleVariable+"=carry"), Stderr: os.Stderr}
	g, err := courier.Start(met, courier.Spec{What: "MPI", Window: window, Process: process})
	if err != nil {
		met.Close()
		return err
	}
	if role == "killed" && g.Rank() == 1 {
		syscall.Kill(g.PID(), syscall.SIGKILL)
	}
	err = rankstest.Exchange(g, 6, 3*window)
	if err == nil {
		fmt.Printf("rank %d has all bytes\n", g.Rank())
	}
	if err = errors.Join(err, g.Close()); err != nil && l.MustEnd() {
		fmt.Fprintln(os.Stderr, err)
		l.End(1)
	}
	return err
}

// start runs ranks under a launcher, and returns what they print.
func start(t *testing.T, launcher []string, size int, role string, variables ...string) (string, error) {
	t.Helper()
	c := exec.Command(launcher[0], append(launcher[1:len(launcher):len(launcher)], "-n", strconv.Itoa(size), os.Args[0])...)
	c.Env = append(append(os.Environ(), roleVariable+"="+role, "TMPDIR="+t.TempDir()), variables...)
	out, err := c.CombinedOutput()
	return string(out), err
}

// TestUnderMPIRun: with each library and the launcher that belongs to it, ranks get the bytes that were sent. A rank whose library's process
// is killed is named, and so is a library that is not the launcher's.
func TestUnderMPIRun(t *testing.T) {
	openMPI := func(t *testing.T) []string {
		return []string{tool.Need(t, "mpirun.openmpi"), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"}
	}
	mpich := func(t *testing.T) []string { return []string{tool.Need(t, "mpirun.mpich")} }
	for name, c := range map[string]struct {
		launcher func(t *testing.T) []string
		other    []string // sonames of a library that belongs to another launcher
	}{
		"Open MPI": {openMPI, mpichFiles[:1]},
		"MPICH":    {mpich, openMPIFiles[:1]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			launcher := c.launcher(t)
			for size := 1; size <= 4; size++ {
				text, err := start(t, launcher, size, "sound")
				if err != nil || strings.Count(text, "has all bytes") != size {
					t.Errorf("%d ranks: %v, %s", size, err, text)
				}
			}
			if text, err := start(t, launcher, 3, "killed"); err == nil || !strings.Contains(text, "rank 1 cannot go on: MPI: its process ") {
				t.Errorf("the process of rank 1's library is killed: %v, %s", err, text)
			}
			other, err := dl.Open(dl.Request{What: "another library", Files: c.other})
			if err != nil {
				t.Skip(err)
			}
			text, err := start(t, launcher, 2, "sound", Variable+"="+other.Path())
			if want := "says that this is rank 0 of 1, and the launcher rank "; err == nil || !strings.Contains(text, want) {
				t.Errorf("with the library of another launcher: %v, %s, want %q", err, text, want)
			}
		})
	}
}

// TestOpen: what is no library of MPI is refused.
func TestOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "libmpi.so.40")
	for path, want := range map[string]string{file: "a library of MPI: not found: tried " + file, "libc.so.6": "no library of MPI 3: "} {
		t.Setenv(Variable, path)
		if _, err := Open("srun"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
