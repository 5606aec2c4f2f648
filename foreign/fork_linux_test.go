package foreign

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tokitai/evidence"
	"tokitai/kernelprocess/protocol"
	"tokitai/kernelprocess/shm"
	"tokitai/verify"
)

// nurseryVariable makes the test binary a nursery: its forks are kernels in the role of
// roleVariable. With the value dies, it exits at the second FORK.
const nurseryVariable = "TOKITAI_FOREIGN_TEST_NURSERY"

// nurse answers HELLO, LIST and FORK, and CALL honestly. A fork is the program again, as Go programs do not fork.
func nurse(dies bool) error {
	conn, err := shm.FromFD(3)
	if err != nil {
		return err
	}
	k := &kernel{kept: map[int][]float32{}}
	for forks := 0; ; {
		head := make([]byte, protocol.HeaderBytes)
		if _, err := io.ReadFull(conn, head); err != nil {
			return nil
		}
		h := protocol.ParseHeader(head)
		body := make([]byte, h.Length)
		if _, err := io.ReadFull(conn, body); err != nil {
			return err
		}
		var reply []byte
		kind := protocol.KindOK
		switch h.Kind {
		case protocol.KindHello:
			reply = (&protocol.Welcome{Version: 1, Build: "nursery", Device: "cpu", MaxFrame: 1 << 20, CanFork: true}).Append(nil)
		case protocol.KindList:
			reply = protocol.AppendList(nil, []protocol.Definition{{Name: "scaled"}})
		case protocol.KindFork:
			if forks++; dies && forks == 2 {
				os.Exit(5)
			}
			if reply, err = newborn(conn, body); err != nil {
				return err
			}
		default: // the pool starts programs where the nursery has died, and each is the kernel itself
			kind, reply = k.answer(&role{}, h.Kind, body)
		}
		if _, err := conn.Write(protocol.AppendFrame(nil, h.Request, kind, 0, func(b []byte) []byte { return append(b, reply...) })); err != nil {
			return err
		}
	}
}

// newborn starts a kernel for a FORK and returns the reply.
func newborn(conn *shm.Conn, body []byte) ([]byte, error) {
	seed, err := protocol.ParseNumber(body)
	if err != nil {
		return nil, err
	}
	var files [3]*os.File
	for i := range files {
		fd, ok := conn.TakeFD()
		if !ok {
			return nil, fmt.Errorf("got %d descriptors, want 3", i)
		}
		syscall.CloseOnExec(fd)
		files[i] = os.NewFile(uintptr(fd), "of a FORK")
	}
	socket, output, status := files[0], files[1], files[2]
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), nurseryVariable+"=", "TOKITAI_FD=3", "TOKITAI_SEED="+strconv.FormatUint(seed, 10))
	child.ExtraFiles, child.Stdout, child.Stderr = []*os.File{socket}, output, output
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return nil, err
	}
	socket.Close()
	output.Close()
	go func() { // until nobody wants to know the status any more
		io.Copy(io.Discard, status)
		syscall.Kill(-child.Process.Pid, syscall.SIGKILL)
	}()
	go func() {
		child.Wait()
		how := fmt.Sprintf("exit %d", child.ProcessState.ExitCode())
		if s := child.ProcessState.Sys().(syscall.WaitStatus); s.Signaled() {
			how = fmt.Sprintf("signal %d", int(s.Signal()))
		}
		io.WriteString(status, how)
		syscall.Shutdown(int(status.Fd()), syscall.SHUT_RDWR)
	}()
	return protocol.Numbers(nil, uint64(child.Process.Pid)), nil
}

func inNursery(t *testing.T, role, how string) *Kernel {
	t.Helper()
	o := optionsOf(role)
	o.Environment = append(o.Environment, nurseryVariable+"="+how)
	k, err := Process([]string{"/proc/self/exe"}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

// TestNursery judges kernels in forked processes. Their crashes, exits and hangs are reported
// like those of processes that were started.
func TestNursery(t *testing.T) {
	for _, c := range []struct {
		role, how string
		verdict   evidence.Verdict
		reason    string
	}{
		{"honest", "lives", evidence.Accepted, ""},
		{"honest", "dies", evidence.Accepted, ""},
		{"wrong", "lives", evidence.Rejected, "y[0,6] differs"},
		{"differs in each process", "lives", evidence.Rejected, "differs"},
		{"crashes", "lives", evidence.Inadmissible, "died: signal killed, which the system sends when memory runs out; its last words: core dumped"},
		{"closes its socket", "lives", evidence.Inadmissible, "closed its socket at CALL, without exiting"},
	} {
		t.Run(c.role+" "+c.how, func(t *testing.T) {
			t.Parallel()
			k := inNursery(t, c.role, c.how)
			o := verify.Options{Seed: 3}
			if c.verdict == evidence.Inadmissible && c.role != "crashes" {
				o.Case = oneCase
			}
			r := judge(t, k, o).Report
			if r.Verdict != c.verdict || !strings.Contains(r.Reason, c.reason) {
				t.Errorf("got %s: %s\nwant %s: %s", r.Verdict, r.Reason, c.verdict, c.reason)
			}
			isForked := !strings.Contains(r.Fingerprints[1].Note, "nursery")
			if !isForked {
				t.Errorf("the nursery itself computed: %s", r.Fingerprints[1].Note)
			}
		})
	}
}
