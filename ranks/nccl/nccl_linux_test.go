package nccl

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"tokitai/device/gpu/sim"
	"tokitai/internal/tool"
	"tokitai/kernelprocess/shm"
	"tokitai/kernelprocess/spawn"
	"tokitai/ranks"
	"tokitai/ranks/courier"
	"tokitai/ranks/rankstest"
)

// roleVariable makes the test's program the process that calls the library for a rank. Its value is how it breaks a rule, or sound.
const roleVariable = "TOKITAI_NCCL_TEST_ROLE"

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	conn, err := shm.FromFD(3)
	if err == nil {
		err = courier.Serve(conn, func() (courier.Library, error) {
			k := NCCL
			if os.Getenv(RCCLVariable) != "" {
				k = RCCL
			}
			l, err := Open(k, simulated)
			return &bent{l, role}, err
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// simulated returns memory of a simulated GPU.
func simulated() (Memory, error) {
	table, err := sim.Table(32)
	if err != nil {
		return nil, err
	}
	return OnDevice(table, 32)
}

// bent is a library that breaks a rule.
type bent struct {
	*Library
	role string
}

func (l *bent) AllGather(send, receive []byte, room int, received []int) error {
	if l.role == "count" && len(send) > 8 {
		received = append([]int{}, received...)
		for r := range received {
			received[r] -= 8
		}
		send = send[8:]
	}
	return l.Library.AllGather(send, receive, room, received)
}

func (l *bent) Broadcast(root int, data []byte) error {
	switch l.role {
	case "root":
		root = (root + 1) % l.place.Size
	case "outside":
		root = l.place.Size
	case "used after abort":
		comm := l.comm
		l.abort(nil)
		l.comm = comm
	}
	return l.Library.Broadcast(root, data)
}

// standIn compiles the library of the tests.
func standIn(t *testing.T, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "libnccl.so.2")
	args := append([]string{"-std=c11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-O1", "-shared", "-fPIC", "-o", path, "testdata/standin.c"}, flags...)
	if out, err := exec.Command(tool.Need(t, "gcc"), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// window is so small that messages of the tests need several pieces.
const window = 1 << 16

// each calls f as each rank of a group whose libraries have an environment, and returns their errors. The last rank has a role.
func each(t *testing.T, size int, role string, variables []string, f func(g *courier.Group) error) []error {
	t.Helper()
	join, errs := rankstest.Memory(size, ranks.Options{}), make([]error, size)
	var wait sync.WaitGroup
	for r := range size {
		wait.Go(func() {
			met, err := join(r)
			if err != nil {
				errs[r] = err
				return
			}
			own := "sound"
			if r == size-1 {
				own = role
			}
			g, err := courier.Start(met, courier.Spec{What: "NCCL", Window: window, Process: spawn.Spec{
				Program: os.Args[0], Env: append(append(os.Environ(), roleVariable+"="+own), variables...), Stderr: os.Stderr,
			}})
			if err != nil {
				met.Close()
				errs[r] = err
				return
			}
			errs[r] = f(g)
			g.Close()
		})
	}
	wait.Wait()
	return errs
}

func exchange(g *courier.Group) error { return rankstest.Exchange(g, 4, 2*window) }

// TestCalls: every rank gets what the others send it, and no call breaks a rule, whichever function of the library joins them.
func TestCalls(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags    []string
		variable string
		sizes    int
		joins    string
	}{
		"scalable":        {nil, NCCLVariable, 4, "ncclCommInitRankScalable"},
		"memory of a GPU": {[]string{"-DtokitaiTakesHostMemory=other"}, NCCLVariable, 3, "ncclCommInitRankScalable"},
		"by value":        {[]string{"-DWITHOUT_SCALABLE"}, NCCLVariable, 2, "ncclCommInitRank"},
		"RCCL":            {nil, RCCLVariable, 2, "ncclCommInitRankScalable"},
	} {
		path := standIn(t, c.flags...)
		for size := 1; size <= c.sizes; size++ {
			log := filepath.Join(t.TempDir(), "log")
			errs := each(t, size, "sound", []string{c.variable + "=" + path, "STANDIN_LOG=" + log}, exchange)
			if err := errors.Join(errs...); err != nil {
				t.Errorf("%s, %d ranks: %v", name, size, err)
			}
			text, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			for _, wrong := range []string{"BROKEN", "ALONE", "ncclCommAbort"} {
				if strings.Contains(string(text), wrong) {
					t.Errorf("%s, %d ranks: %s", name, size, text)
				}
			}
			for call, want := range map[string]int{"ncclGetUniqueId": 1, c.joins + " rank": size, "ncclCommFinalize": size, "ncclCommDestroy": size} {
				if got := strings.Count("\n"+string(text), "\n"+call); got != want {
					t.Errorf("%s, %d ranks: %d calls of %s, want %d", name, size, got, call, want)
				}
			}
			for _, call := range []string{"ncclSend", "ncclRecv", "ncclAllGather", "ncclBroadcast", "ncclGroupEnd"} {
				if has := strings.Contains(string(text), call); has != (size > 1) {
					t.Errorf("%s, %d ranks: %s is called: %v", name, size, call, has)
				}
			}
		}
	}
}

// TestFaults: a rank whose library fails is named, and its communicator is aborted and not used again.
func TestFaults(t *testing.T) {
	t.Parallel()
	path := standIn(t)
	for fault, want := range map[string]string{
		"async": "rank 1 cannot go on: NCCL: the communicator: remote process exited or there was a network error: planted (code 6)",
		"call":  ": unhandled error: planted (code 2)",
		"exit":  "rank 1 cannot go on: NCCL: its process ",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "log")
			errs := each(t, 2, "sound", []string{NCCLVariable + "=" + path, "STANDIN_LOG=" + log, "STANDIN_FAULT=" + fault, "STANDIN_FAULTY=1"}, exchange)
			if text := fmt.Sprint(errs[1]); !strings.Contains(text, want) {
				t.Errorf("%s: rank 1: %s, want %q", fault, text, want)
			}
			if e, isPeer := errors.AsType[*ranks.PeerError](errs[0]); !isPeer || e.Rank != 1 {
				t.Errorf("%s: rank 0: %v, want rank 1 named", fault, errs[0])
			}
			text, _ := os.ReadFile(log)
			if strings.Contains(string(text), "BROKEN") || fault != "exit" && !strings.Contains(string(text), "ncclCommAbort") {
				t.Errorf("%s: %s", fault, text)
			}
		})
	}
}

// TestRules: the stand-in refuses what NCCL's documentation forbids, and two ranks on one GPU.
func TestRules(t *testing.T) {
	t.Parallel()
	path := standIn(t)
	for role, want := range map[string]string{
		"count":            "ranks with different counts",
		"root":             "ranks with different roots",
		"outside":          "a rank that is not between 0 and the number of ranks",
		"one GPU":          "Duplicate GPU detected",
		"used after abort": "use of a communicator after it was aborted or destroyed",
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			variables := []string{NCCLVariable + "=" + path}
			if role == "one GPU" {
				variables = append(variables, "CUDA_VISIBLE_DEVICES=0")
			}
			if text := fmt.Sprint(each(t, 2, role, variables, exchange)); !strings.Contains(text, want) {
				t.Errorf("%s, want %q", text, want)
			}
		})
	}
}

// TestOpen: what is no library, or another one, is refused, and one that takes memory of GPUs alone asks for it.
func TestOpen(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("libraries cannot be opened")
	}
	none := func() (Memory, error) { return nil, errors.New("there is no GPU") }
	for path, want := range map[string]string{filepath.Join(t.TempDir(), "none"): "NCCL: not found: tried ", "libc.so.6": "not NCCL, or too old: "} {
		t.Setenv(NCCLVariable, path)
		if _, err := Open(NCCL, none); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	t.Setenv(NCCLVariable, standIn(t, "-DtokitaiTakesHostMemory=other"))
	if _, err := Open(NCCL, none); err == nil || err.Error() != "there is no GPU" {
		t.Errorf("a library for GPUs: %v", err)
	}
}
