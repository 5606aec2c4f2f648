package courier

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tokitai/kernelprocess/shm"
	"tokitai/kernelprocess/spawn"
	"tokitai/ranks"
	"tokitai/ranks/rankstest"
)

// roleVariable makes the test's program the process of a library instead. Its value is the fault that the library has.
const roleVariable = "TOKITAI_COURIER_TEST_ROLE"

// Faults of libraries.
const (
	sound     = "sound"
	missing   = "cannot be opened"
	older     = "has another version"
	failing   = "fails in the third call"
	exiting   = "exits in the third call"
	hanging   = "hangs in the third call"
	unjoining = "cannot join"
)

func TestMain(m *testing.M) {
	fault := os.Getenv(roleVariable)
	if fault == "" {
		os.Exit(m.Run())
	}
	conn, err := shm.FromFD(3)
	if err == nil {
		err = Serve(conn, func() (Library, error) {
			if fault == missing {
				return nil, errors.New("there is no such file")
			}
			return &tcp{fault: fault}, nil
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// tcp is a library for tests, over connections.
type tcp struct {
	fault string
	calls int
	group *ranks.Network
	size  int
}

var secret = []byte("only for this test")

func (l *tcp) Version() string {
	if l.fault == older {
		return "TCP 0.9"
	}
	return "TCP 1.0"
}

func (l *tcp) Invite() (i Invitation, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return i, err
	}
	copy(i[:], listener.Addr().String())
	return i, listener.Close()
}

func (l *tcp) Join(p ranks.Place, with Invitation) (err error) {
	if l.fault == unjoining {
		return errors.New("no network")
	}
	p.Address, p.Secret = string(bytes.TrimRight(with[:], "\x00")), secret
	l.size = p.Size
	l.group, err = ranks.Connect(p, ranks.Options{})
	return err
}

// fail does what the fault says.
func (l *tcp) fail() error {
	if l.calls++; l.calls < 3 {
		return nil
	}
	switch l.fault {
	case failing:
		return errors.New("out of order")
	case exiting:
		fmt.Fprintln(os.Stderr, "assertion failed")
		os.Exit(7)
	case hanging:
		select {}
	}
	return nil
}

func parts(window []byte, room int, lengths []int) (list [][]byte) {
	for r, n := range lengths {
		list = append(list, window[r*room:][:n])
	}
	return list
}

func (l *tcp) AllToAllV(send, receive []byte, room int, sent, received []int) error {
	if err := l.fail(); err != nil {
		return err
	}
	return l.group.AllToAllV(parts(send, room, sent), parts(receive, room, received))
}

func (l *tcp) AllGather(send, receive []byte, room int, received []int) error {
	if err := l.fail(); err != nil {
		return err
	}
	return l.group.AllGather(send, parts(receive, room, received))
}

func (l *tcp) Broadcast(root int, data []byte) error { return l.group.Broadcast(root, data) }
func (l *tcp) Close() error                          { return l.group.Close() }

// window is so small that most messages of the tests need several pieces.
const window = 4096

// each calls f as each rank of a group, and returns their errors. faults has those of the ranks' libraries.
func each(t *testing.T, size int, o ranks.Options, faults map[int]string, f func(g *Group) error) []error {
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
			fault := faults[r]
			if fault == "" {
				fault = sound
			}
			g, err := Start(met, Spec{What: "the test's library", Window: window, Options: o, Process: spawn.Spec{
				Program: os.Args[0], Env: append(os.Environ(), roleVariable+"="+fault), Stderr: os.Stderr,
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

// calls makes calls of every kind.
func calls(g *Group) error { return rankstest.Exchange(g, 2, 3*window) }

// TestCalls: every rank gets what the others send it, whatever the lengths.
func TestCalls(t *testing.T) {
	t.Parallel()
	for size := 1; size <= 3; size++ {
		errs := each(t, size, ranks.Options{}, nil, func(g *Group) error { return rankstest.Exchange(g, 8, 3*window) })
		if err := errors.Join(errs...); err != nil {
			t.Errorf("%d ranks: %v", size, err)
		}
	}
}

// five returns five bytes for each of three ranks.
func five() [][]byte { return [][]byte{make([]byte, 5), make([]byte, 5), make([]byte, 5)} }

// TestFaults: a rank whose library fails is named by all of them, and the process of the rank goes on.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault   string        // of the library of rank 1
		options ranks.Options // of all
		bad     func(g *Group) error
		own     string // what rank 1 says
		others  string
	}{
		"killed": {bad: func(g *Group) error {
			syscall.Kill(g.PID(), syscall.SIGKILL)
			return calls(g)
		}, own: "rank 1 cannot go on: the test's library: its process PID has ended: signal killed"},
		"stopped": {options: ranks.Options{Silence: 2 * time.Second}, bad: func(g *Group) error {
			syscall.Kill(g.PID(), syscall.SIGSTOP)
			return calls(g)
		}, own: "rank 1 cannot go on: the process PID of the test's library has not shown a sign of life for 2s"},
		"fails":       {fault: failing, own: "rank 1 cannot go on: the test's library: out of order"},
		"exits":       {fault: exiting, own: "rank 1 cannot go on: the test's library: its process PID has ended with exit status 7: assertion failed"},
		"cannot join": {fault: unjoining, own: "the test's library: rank 1 cannot go on: the test's library: no network"},
		"missing": {
			fault: missing, own: "the test's library: there is no such file; rank 1 differs from rank 0 in the library of the test's library: none: there is no such file, not TCP 1.0",
			others: "rank 1 differs from rank 0 in the library of the test's library: none: there is no such file, not TCP 1.0",
		},
		"older": {
			fault: older, own: "rank 1 differs from rank 0 in the library of the test's library: TCP 0.9, not TCP 1.0",
			others: "rank 1 differs from rank 0 in the library of the test's library: TCP 0.9, not TCP 1.0",
		},
		"other call":  {bad: func(g *Group) error { return g.AllGather(nil, make([][]byte, 3)) }, own: "AllToAllV, and rank 1 call 1, AllGather", others: "makes call 1, A"},
		"other bytes": {bad: func(g *Group) error { return g.AllToAllV(five(), five()) }, own: " bytes where rank 1 expects 5", others: "rank 1 sends 5 bytes where rank "},
		"leaves":      {bad: func(g *Group) error { return nil }, own: "", others: "rank 1 has "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pid := 0
			errs := each(t, 3, c.options, map[int]string{1: c.fault}, func(g *Group) error {
				if g.Rank() == 1 {
					pid = g.PID()
					if c.bad != nil {
						return c.bad(g)
					}
				}
				return calls(g)
			})
			if text, want := fmt.Sprint(errs[1]), strings.ReplaceAll(c.own, "PID", fmt.Sprint(pid)); !strings.Contains(text, want) || errs[1] == nil && want != "" {
				t.Errorf("rank 1: %v, want %q", text, want)
			}
			want := c.others
			if want == "" {
				want = "rank 1 has failed, as rank "
			}
			for _, r := range []int{0, 2} {
				if text := fmt.Sprint(errs[r]); !strings.Contains(text, want) {
					t.Errorf("rank %d: %v, want %q", r, text, want)
				}
			}
		})
	}
}

// TestHang: if no rank is known to have failed, the one that has waited longest names itself.
func TestHang(t *testing.T) {
	t.Parallel()
	errs := each(t, 2, ranks.Options{Limit: 3 * time.Second}, map[int]string{1: hanging}, func(g *Group) error {
		return calls(g)
	})
	if !slices.ContainsFunc(errs, func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "has waited 3s for the test's library to finish ")
	}) {
		t.Errorf("%v", errs)
	}
	for r, err := range errs {
		if _, isPeer := errors.AsType[*ranks.PeerError](err); !isPeer {
			t.Errorf("rank %d: %v, want an error that names a rank", r, err)
		}
	}
}
