//go:build unix

package kernelprocess

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/await"
	"tokitai/internal/tool"
	"tokitai/kernelprocess/shm"
	"tokitai/num"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

// hostVariable makes the test binary a host.
const hostVariable = "TEST_HOST_ROLE"

// hostRole is what such a host does.
func hostRole(role string) {
	var err error
	switch role {
	case "busy":
		err = busyHost()
	case "replaced":
		err = replacedHost()
	default:
		err = fmt.Errorf("unknown role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// busyHost keeps a process busy until it is killed.
func busyHost() error {
	o := Options{}
	if os.Getenv(fakeVariable) != "" {
		o.Program, _ = os.Executable()
	}
	p, err := NewPool(o)
	if err != nil {
		return err
	}
	d, err := p.Open("cpu", "")
	if err != nil {
		return err
	}
	x, err := tensor.New(d, num.F32, 4000, 4000)
	if err != nil {
		return err
	}
	if _, err := d.running(context.Background()); err != nil {
		return err
	}
	go func() {
		for {
			softmax.Forward(cpu.Queue(), x, x, Isolated(d))
		}
	}()
	if !await.Until(func() bool { return d.Stats().InFlight > 0 }) {
		return errors.New("no call is in flight")
	}
	fmt.Println(d.PID())
	select {}
}

func TestHostKilled(t *testing.T) {
	for _, role := range []string{"", "hang", "deaf"} { // "" computes
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

// replacedHost computes after another file has taken the place of its own.
func replacedHost() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.WriteFile(self+".new", []byte("#!/bin/sh\nexit 9\n"), 0o700); err != nil {
		return err
	}
	if err := os.Rename(self+".new", self); err != nil {
		return err
	}
	p, err := NewPool(Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	d, err := p.Open("cpu", "")
	if err != nil {
		return err
	}
	x, err := tensor.New(d, num.F32, 1, 4)
	if err != nil {
		return err
	}
	for range 2 {
		if err := softmax.Forward(cpu.Queue(), x, x, Isolated(d)); err != nil {
			return err
		}
		syscall.Kill(d.PID(), syscall.SIGKILL)
		if !await.Until(func() bool { return d.Stats().Deaths > 0 }) {
			return errors.New("the death goes unnoticed")
		}
	}
	return nil
}

func TestReplacedProgram(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a file that runs can be started again by its descriptor on Linux alone")
	}
	program := filepath.Join(t.TempDir(), "program")
	in, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	host := exec.Command(program)
	host.Env = append(os.Environ(), hostVariable+"=replaced")
	if text, err := host.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, text)
	}
}

// Where there are no sockets to inherit, everything goes through pipes.
func TestPipes(t *testing.T) {
	d := openDevice(t, Options{})
	d.pool.pair = func() (*shm.Conn, *os.File, error) {
		return nil, nil, &shm.Error{Op: "pair", Reason: shm.ErrUnsupported}
	}
	g := rand.New(rand.NewPCG(1, 1))
	for _, dev := range []device.Device{cpu.Queue().Device(), d, d.Resident()} {
		x := randomTensor(t, dev, g, 600, 1000)
		want := newTensor(t, cpu.Queue().Device(), num.F32, bytesOf(t, x), 600, 1000)
		if err := softmax.Forward(cpu.Queue(), want, want); err != nil {
			t.Fatal(err)
		}
		if err := softmax.Forward(cpu.Queue(), x, x, Isolated(d)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bytesOf(t, x), bytesOf(t, want)) {
			t.Errorf("%v: got other bytes than here", x)
		}
	}
	pid := d.PID()
	syscall.Kill(pid, syscall.SIGKILL)
	waitFor(t, "the process is dead", func() bool { return d.Stats().Deaths == 1 })
	x := randomTensor(t, d, g, 1, 4)
	if err := softmax.Forward(cpu.Queue(), x, x, Isolated(d)); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// A device that is no CPU has its memory in the process.
func TestSimulator(t *testing.T) {
	tool.Need(t, "g++", "clang++")
	p, err := NewPool(Options{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	d, err := p.Open("sim", "")
	if err != nil {
		t.Fatal(err)
	}
	g := rand.New(rand.NewPCG(1, 1))
	x := randomTensor(t, d, g, 3, 40)
	if _, isHost := x.Buffer().(device.HostBuffer); isHost {
		t.Error("memory of the simulator can be addressed here")
	}
	want := newTensor(t, cpu.Queue().Device(), num.F32, bytesOf(t, x), 3, 40)
	y := newTensor(t, cpu.Queue().Device(), num.F32, bytesOf(t, x), 3, 40)
	if err := softmax.Forward(cpu.Queue(), want, want); err != nil {
		t.Fatal(err)
	}
	q, err := engine.NewQueue(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, z := range []*tensor.Tensor{x, y} {
		if err := softmax.Forward(q, z, z); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bytesOf(t, z), bytesOf(t, want)) {
			t.Errorf("%v: got other bytes than here", z)
		}
	}
}

func TestNoDevice(t *testing.T) {
	p, err := NewPool(Options{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	d, err := p.Open("cuda:99", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := ask(t.Context(), d, 1, 4); !errors.Is(err, device.ErrNoDevice) || !errors.Is(err, ErrDied) {
		t.Errorf("got %v, want %v", err, device.ErrNoDevice)
	}
}

// Memory that nobody can use any more is given back.
func TestDropped(t *testing.T) {
	d := openDevice(t, Options{})
	func() {
		for range 3 {
			randomTensor(t, d, rand.New(rand.NewPCG(1, 1)), 100, 100)
			randomTensor(t, d.Resident(), rand.New(rand.NewPCG(1, 1)), 100, 100)
		}
	}()
	waitFor(t, "all is given back", func() bool {
		runtime.GC()
		d.memory.mu.Lock()
		defer d.memory.mu.Unlock()
		users, arenas := 0, int64(0)
		for _, a := range d.memory.arenas {
			users += a.users
			arenas += int64(len(a.bytes))
		}
		return users == 0 && d.memory.used == arenas
	})
}
