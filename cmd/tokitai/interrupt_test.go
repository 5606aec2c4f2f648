package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"tokitai/internal/tool"
)

// started is the program as a process of its own.
type started struct {
	*exec.Cmd
	stdin  io.WriteCloser
	stdout io.Reader
	stderr bytes.Buffer
	temp   string // its folder for temporary files
}

func startProgram(t *testing.T, args ...string) *started { return startProgramIn(t, nil, args...) }

// startProgramIn starts it with further variables of its environment.
func startProgramIn(t *testing.T, variables []string, args ...string) *started {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there are no signals")
	}
	program := filepath.Join(t.TempDir(), "tokitai") // by its name the test's program knows what to be
	if err := os.Symlink(os.Args[0], program); err != nil {
		t.Fatal(err)
	}
	p := &started{Cmd: exec.Command(program, args...), temp: t.TempDir()}
	p.Env = append(os.Environ(), "TMPDIR="+p.temp, "TOKITAI_CACHE="+filepath.Join(t.TempDir(), "cache"))
	p.Env = append(p.Env, variables...)
	p.Stderr = &p.stderr
	var err error
	if p.stdin, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if p.stdout, err = p.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Process.Kill()
		p.Wait()
	})
	return p
}

// await reads standard output up to a text.
func (p *started) await(t *testing.T, text string) {
	t.Helper()
	var got bytes.Buffer
	for b := make([]byte, 1); !strings.Contains(got.String(), text); {
		if _, err := p.stdout.Read(b); err != nil {
			t.Fatalf("%q and then %v, want %q; %s", got.String(), err, text, p.stderr.String())
		}
		got.Write(b)
	}
}

// interrupt sends a signal, and holds the end to an exit code and the beginning of the
// last line on standard error. Nothing temporary may stay.
func (p *started) interrupt(t *testing.T, s os.Signal, code int, message string) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, p.stdout)
	p.Wait()
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	if got := p.ProcessState.ExitCode(); got != code || !strings.HasPrefix(lines[len(lines)-1], message) {
		t.Errorf("exit code %d, %q, want %d, %q", got, p.stderr.String(), code, message)
	}
	if left, err := os.ReadDir(p.temp); err != nil || len(left) > 0 {
		t.Errorf("temporary files stay: %v, %v", left, err)
	}
}

// The first line of each command comes before its work is done, and an interrupt ends
// the work.
func TestInterrupt(t *testing.T) {
	for _, test := range []struct {
		command, first string
	}{
		{"verify --device cpu --level full", "verdict\n"},
		{"accuracy", "misrounded\n"},
		{"bench --device cpu", "share of copy\n"},
	} {
		t.Run(test.command, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(test.command)
			p := startProgram(t, args...)
			p.await(t, test.first)
			p.interrupt(t, os.Interrupt, exitUndecided, "tokitai "+args[0]+": interrupted")
		})
	}
}

// TestInterruptWriting interrupts a verification right before or while it writes its reports: they
// are all there or none, and nothing unfinished stays.
func TestInterruptWriting(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	p := startProgram(t, "verify", "softmax", "gelu.forward", "norm", "--device", "cpu", "--level", "smoke", "--out", out)
	for { // until reports are being written, or all are
		if staged, _ := filepath.Glob(filepath.Join(out, ".unfinished-*")); len(staged) > 0 {
			break
		}
		if _, err := os.Stat(filepath.Join(out, "index.json")); err == nil {
			break
		}
		time.Sleep(100 * time.Microsecond)
	}
	p.Process.Signal(os.Interrupt)
	p.Process.Signal(os.Interrupt) // does not wait for the command
	io.Copy(io.Discard, p.stdout)
	p.Wait()
	left, _ := filepath.Glob(filepath.Join(out, "*"))
	hidden, _ := filepath.Glob(filepath.Join(out, ".*"))
	_, err := os.Stat(filepath.Join(out, "index.json"))
	for _, name := range append(left, hidden...) {
		if isReport := filepath.Base(name) != journalFile; isReport && err != nil || strings.Contains(name, "unfinished") {
			t.Errorf("%s stays, index.json: %v", name, err)
		}
	}
}

// TestInterruptReplaying: an interrupted replay prints what it has found.
func TestInterruptReplaying(t *testing.T) {
	t.Parallel()
	p := startProgram(t, "evidence", filepath.Join("..", "..", "docs", "evidence", "h200-tensor-cores.zip"), "--replay", "100000")
	p.await(t, "consistent\n") // cases run again from now on
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	printed, _ := io.ReadAll(p.stdout)
	p.Wait()
	if code := p.ProcessState.ExitCode(); code != exitUndecided || !strings.Contains(string(printed), "run again on cpu: ") || !strings.Contains(p.stderr.String(), "tokitai evidence: interrupted: ") {
		t.Errorf("exit code %d, %q, %q", code, printed, p.stderr.String())
	}
}

// Compilers are ended with the program, and what they have made is removed.
func TestInterruptCompiling(t *testing.T) {
	tool.Need(t, "g++")
	t.Parallel()
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		p := startProgram(t, "doctor", "--device", "sim")
		p.await(t, "self-test: ")
		for { // until something is being compiled
			files, err := os.ReadDir(p.temp)
			if err != nil {
				t.Fatal(err)
			}
			if len(files) > 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		p.interrupt(t, s, exitUndecided, "tokitai doctor: interrupted")
	}
}

// TestInterruptServing interrupts servers that are waiting for input.
func TestInterruptServing(t *testing.T) {
	t.Parallel()
	for s, code := range map[os.Signal]int{os.Interrupt: 130, syscall.SIGTERM: 143} {
		p := startProgram(t, "kernel", "gelu", "--server", "--device", "cpu")
		request := "2 15360 0"
		frame := append(binary.LittleEndian.AppendUint32(nil, uint32(len(request))), request...)
		if _, err := p.stdin.Write(frame); err != nil {
			t.Fatal(err)
		}
		p.await(t, "RESULTS=")
		p.interrupt(t, s, code, kernelInterrupted(s).Error())
	}
}

// What is left of the work is told only when something is known about it.
func TestTimeLeft(t *testing.T) {
	const s = 1e9
	for _, test := range []struct {
		elapsed, done, free, total float64
		want                       string
	}{
		{10 * s, 0, 0, 100, ""},   // nothing is done
		{10 * s, 20, 20, 100, ""}, // nothing that took time
		{1 * s, 50, 0, 100, ""},   // too early
		{10 * s, 0.5, 0, 100, ""}, // too little
		{10 * s, 100, 0, 100, ""}, // all
		{10 * s, 5, 0, 0, ""},     // of what is not known
		{10 * s, 50, 0, 100, "20 s"},
		{10 * s, 60, 50, 100, "50 s"},
		{10 * s, 90, 0, 100, "2 s"},
		{60 * s, 10, 0, 100, "10 min"},
		{3600 * s, 10, 0, 100, "10 h"},
	} {
		p := &progress{done: test.done, free: test.free, total: test.total}
		got := ""
		if left, ok := p.left(time.Duration(test.elapsed)); ok {
			got = roughly(left)
		}
		if got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
}
