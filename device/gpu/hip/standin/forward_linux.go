package standin

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	socketVariable  = "TOKITAI_STANDIN"         // for the library: the socket that it connects to
	devicesVariable = "TOKITAI_STANDIN_DEVICES" // for the process: the architectures that it serves
)

// Server is a process with devices. It ends with the test.
type Server struct {
	command *exec.Cmd
	stdin   io.Closer
}

// Forward starts a process with a device of each architecture, and makes a library that
// forwards each call to that process the one that package hip opens until the test ends.
// The package's TestMain must call Main.
func Forward(t testing.TB, architectures ...string) *Server {
	t.Helper()
	use(t, libraryName, forwardText)
	folder, err := os.MkdirTemp("", "standin-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	path := filepath.Join(folder, "socket")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() // in this process
	listener.SetUnlinkOnClose(false)
	inherited, err := listener.File()
	if err != nil {
		t.Fatal(err)
	}
	defer inherited.Close()

	s := &Server{command: exec.Command("/proc/self/exe")}
	s.command.Env = append(os.Environ(), devicesVariable+"="+strings.Join(architectures, ","))
	s.command.ExtraFiles = []*os.File{inherited}
	s.command.Stdout, s.command.Stderr = os.Stderr, os.Stderr
	if s.stdin, err = s.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Kill() })
	t.Setenv(socketVariable, path)
	return s
}

// Kill ends the process as a crash does. It returns when the process has ended.
func (s *Server) Kill() {
	s.command.Process.Kill()
	s.command.Wait()
}

// opener opens a driver with a device of each architecture.
type opener func(architectures []string) (*server, error)

// Main serves devices if Forward has started this process, and does not return then. Call it
// first in TestMain.
func Main() { mainWith(openEmulator) }

func mainWith(open opener) {
	list, ok := os.LookupEnv(devicesVariable)
	if !ok {
		return
	}
	if err := serveInherited(open, strings.FieldsFunc(list, func(r rune) bool { return r == ',' })); err != nil {
		fmt.Fprintf(os.Stderr, "stand-in: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serveInherited serves on the listener that this process was started with, until the other
// process closes its standard input.
func serveInherited(open opener, architectures []string) error {
	os.Unsetenv(devicesVariable)
	file := os.NewFile(3, "listener")
	inherited, err := net.FileListener(file)
	if err != nil {
		return err
	}
	file.Close()
	listener, ok := inherited.(*net.UnixListener)
	if !ok {
		return errors.New("descriptor 3 is not a listener of a Unix socket")
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	s, err := open(architectures)
	if err != nil {
		return err
	}
	return s.serve(listener)
}
