package shm

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func meetingName(t *testing.T) string {
	return fmt.Sprintf("%s-%d-%d", t.Name(), os.Getpid(), time.Now().UnixNano())
}

// TestMeet: processes meet at a name, at which one alone listens, and which is free again afterwards.
func TestMeet(t *testing.T) {
	t.Parallel()
	name := meetingName(t)
	if _, err := Dial(name); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("nobody listens: %v", err)
	}
	l, err := Listen(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(name); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second one listens: %v", err)
	}
	there, err := Dial(name)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	here, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	region, err := Create(1)
	if err != nil {
		t.Fatal(err)
	}
	defer region.Close()
	if _, err := here.Write([]byte{1}, region.FD()); err != nil {
		t.Fatal(err)
	}
	there.Read(make([]byte, 1))
	fd, ok := there.TakeFD()
	if !ok {
		t.Fatal("no descriptor arrives")
	}
	same, err := Open(fd, int64(len(region.Bytes())))
	if err != nil {
		t.Fatal(err)
	}
	defer same.Close()
	if region.Bytes()[0] = 7; same.Bytes()[0] != 7 {
		t.Error("it is other memory")
	}
	l.SetDeadline(time.Now())
	if _, err := l.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("nobody comes: %v", err)
	}
	l.Close()
	if l, err = Listen(name); err != nil {
		t.Fatalf("the name is not free again: %v", err)
	}
	l.Close()
}

// TestMeetOthers: a process of another user is turned away, and not gone to.
func TestMeetOthers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	asNobody := func(f func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // for ever: the thread ends with this function
			if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 65534, ^uintptr(0)); err != 0 {
				t.Errorf("setresuid: %v", err)
				return
			}
			f()
		}()
		<-done
	}
	name := meetingName(t)
	l, err := Listen(name)
	if err != nil {
		t.Fatal(err)
	}
	asNobody(func() {
		socket, err := dial(name)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { socket.Close() })
		socket.Write([]byte("nobody"))
	})
	own, err := Dial(name)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	own.Write([]byte("own"))
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	text := make([]byte, 10)
	if n, err := c.Read(text); string(text[:n]) != "own" {
		t.Errorf("%q is accepted, %v; want the process of the same user", text[:n], err)
	}
	l.Close()
	var theirs *Listener
	asNobody(func() { theirs, err = Listen(name) })
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	if _, err := Dial(name); !errors.Is(err, os.ErrPermission) {
		t.Errorf("gone to another user: %v", err)
	}
}
