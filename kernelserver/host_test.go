package kernelserver

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// hostVariable makes the test binary a host.
const hostVariable = "TEST_HOST_ROLE"

// hostRole is a host that keeps a process busy until it is killed.
func hostRole(role string) {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	p, err := NewPool(Options{Program: self})
	if err != nil {
		panic(err)
	}
	d, err := p.Open("cpu", "")
	if err != nil {
		panic(err)
	}
	if _, err := d.running(context.Background()); err != nil {
		panic(err)
	}
	go ask(context.Background(), d, 1, 4)
	fmt.Println(d.PID())
	select {}
}

func TestHostKilled(t *testing.T) {
	for _, role := range []string{"hang", "deaf"} {
		host := exec.Command(os.Args[0])
		host.Env = append(os.Environ(), hostVariable+"=busy", fakeVariable+"="+role)
		host.Stderr = os.Stderr
		out, err := host.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := host.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || syscall.Kill(pid, 0) != nil {
			t.Fatalf("process %q: %v", line, err)
		}
		host.Process.Kill()
		host.Wait()
		waitFor(t, "the process is gone", func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH || isZombie(pid) })
	}
}

// isZombie holds for a dead process that its new parent has not looked after yet.
func isZombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
