package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"tokitai/kernelprocess/protocol"
	"tokitai/kernelprocess/shm"
)

// serving starts this test's program as tokitai process. An extra descriptor tells by its
// end when the child has closed what it was not meant to have.
func serving(t *testing.T, args ...string) (c *exec.Cmd, conn *shm.Conn, inherited *os.File) {
	t.Helper()
	conn, socket, err := shm.Pair()
	if err != nil {
		t.Fatal(err)
	}
	inherited, extra, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	program := t.TempDir() + "/tokitai" // by its name the test's program knows what to be
	if err := os.Symlink(os.Args[0], program); err != nil {
		t.Fatal(err)
	}
	c = exec.Command(program, append([]string{"process"}, args...)...)
	c.ExtraFiles = []*os.File{socket, extra}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	socket.Close()
	extra.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	t.Cleanup(func() {
		conn.Close()
		inherited.Close()
		c.Process.Kill()
		c.Wait()
	})
	return c, conn, inherited
}

func helloFrame() []byte {
	return protocol.AppendFrame(nil, 1, protocol.KindHello, 0, (&protocol.Hello{Lowest: 1, Highest: 1, Client: "test"}).Append)
}

func readReply(t *testing.T, in io.Reader) (protocol.Header, []byte) {
	t.Helper()
	var head [protocol.HeaderBytes]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		t.Fatal(err)
	}
	h := protocol.ParseHeader(head[:])
	body := make([]byte, h.Length)
	if _, err := io.ReadFull(in, body); err != nil {
		t.Fatal(err)
	}
	return h, body
}

func exitOfChild(t *testing.T, c *exec.Cmd) int {
	t.Helper()
	err := c.Wait()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return failed.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0
}

func TestServeInterrupted(t *testing.T) {
	child, conn, _ := serving(t, "--fd", "3", "--device", "cpu")
	if _, err := conn.Write(helloFrame()); err != nil {
		t.Fatal(err)
	}
	readReply(t, conn)
	child.Process.Signal(os.Interrupt)
	if code := exitOfChild(t, child); code != exitUndecided {
		t.Errorf("exit code %d after an interrupt, want %d", code, exitUndecided)
	}
}

func TestServe(t *testing.T) {
	child, conn, inherited := serving(t, "--fd", "3", "--device", "cpu", "--memory-limit", "1000000", "--max-frame", "5000")
	if _, err := conn.Write(helloFrame()); err != nil {
		t.Fatal(err)
	}
	h, body := readReply(t, conn)
	welcome, err := protocol.ParseWelcome(body)
	if err != nil || h.Kind != protocol.KindOK || h.Request != 1 {
		t.Fatalf("%+v %x, %v", h, body, err)
	}
	if welcome.Build != thisBuild().String() || welcome.MemoryLimit != 1_000_000 || welcome.MaxFrame != 5000 || welcome.Device != "cpu" || !welcome.HasArenas {
		t.Errorf("welcome is %+v", welcome)
	}
	inherited.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := inherited.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("an inherited descriptor is still open: %d bytes, %v", n, err)
	}
	conn.Close()
	if code := exitOfChild(t, child); code != 0 {
		t.Errorf("exit code %d at the end", code)
	}
}

func TestServeExitCodes(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		sent []byte
		code int
	}{
		{"truncated", nil, helloFrame()[:20], 21},
		{"no greeting", nil, protocol.AppendFrame(nil, 1, protocol.KindStats, 0, nil), 2},
		{"no device", []string{"--device", "cuda:99"}, helloFrame(), 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			child, conn, _ := serving(t, append([]string{"--fd", "3"}, test.args...)...)
			child.Stderr = nil
			if _, err := conn.Write(test.sent); err != nil {
				t.Fatal(err)
			}
			conn.CloseWrite()
			if code := exitOfChild(t, child); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
		})
	}
}

func TestServeStdio(t *testing.T) {
	program := t.TempDir() + "/tokitai"
	if err := os.Symlink(os.Args[0], program); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "process", "--stdio", "--device", "cpu")
	c.Stdin = bytes.NewReader(slices.Concat(helloFrame(), protocol.AppendFrame(nil, 7, protocol.KindList, 0, nil)))
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	in := bytes.NewReader(out)
	if _, body := readReply(t, in); len(body) == 0 {
		t.Error("no welcome")
	}
	h, body := readReply(t, in)
	list, err := protocol.ParseList(body)
	if h.Request != 7 || err != nil || len(list) < 10 || in.Len() != 0 {
		t.Errorf("%+v, %d definitions, %v, %d bytes more", h, len(list), err, in.Len())
	}
}

func TestServeUsage(t *testing.T) {
	for line, want := range map[string]string{
		"":                          "want one of --fd N and --stdio",
		"--fd 3 --stdio":            "want one of --fd N and --stdio",
		"--fd 2":                    "--fd is 2, want a socket from 3 on",
		"--stdio --max-frame 0":     "--max-frame is 0, want at least 1 byte",
		"--stdio --memory-limit -1": "--memory-limit is -1",
		"--stdio --device cpuu":     "did you mean cpu",
		"--stido":                   "unknown flag --stido, did you mean --stdio?",
		"softmax.forward --stdio":   `unexpected argument "softmax.forward"`,
		"--fd 1000 --device cpu":    "",
	} {
		code, _, stderr := program(t.Context(), append([]string{"process"}, strings.Fields(line)...)...)
		if code != exitWrongUse || !strings.Contains(stderr, want) {
			t.Errorf("process %s: exit code %d, %s", line, code, stderr)
		}
	}
}
