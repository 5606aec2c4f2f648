package spawn

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tokitai/internal/alone"
	"tokitai/internal/await"
)

// roleVariable makes the test binary a child instead; roles tells what it does.
const roleVariable = "TOKITAI_PROCESS_TEST_ROLE"

var roles = map[string]func() error{
	"echo":     echo,
	"socket":   echoSocket,
	"words":    func() error { fmt.Fprint(os.Stderr, "first\nred \x1b[31m\n"); return echo() },
	"exit":     func() error { fmt.Fprintln(os.Stderr, "no room"); os.Exit(3); return nil },
	"flood":    flood,
	"busy":     busy,
	"unkilled": waitForEnd,
	"host":     host,
	"report":   report,
	"replaced": replaced,
	"leaves":   leaves,
	"hang":     hang,
}

// The parent-death signal belongs to the first thread, where main runs if it is
// locked this early.
func init() {
	if os.Getenv(roleVariable) == "unkilled" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	name := os.Getenv(roleVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	role := roles[name]
	if role == nil {
		role = func() error { return fmt.Errorf("unknown role %q", name) }
	}
	if err := role(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func inRole(role string) []string {
	return append(Environment(os.Environ()), roleVariable+"="+role)
}

// self returns a Spec of the test binary in a role, with pipes.
func self(t *testing.T, role string) Spec {
	t.Helper()
	program, err := Self()
	if err != nil {
		t.Skipf("this program cannot be started again here: %v", err)
	}
	return Spec{Program: program, Env: inRole(role), HasPipes: true}
}

func start(t *testing.T, spec Spec) *Child {
	t.Helper()
	c, err := Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(0) })
	return c
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("descriptors cannot be counted: %v", err)
	}
	return len(entries)
}

// patience is how long a test waits for what should come: after that something hangs.
const patience = 5 * time.Minute

// isAlive tells whether a process runs: one that nobody has reaped does not.
func isAlive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func answers(c *Child, text string) error {
	if _, err := io.WriteString(c.Stdin(), text); err != nil {
		return err
	}
	c.Stdout().SetReadDeadline(time.Now().Add(patience))
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c.Stdout(), got); err != nil {
		return err
	}
	if string(got) != text {
		return fmt.Errorf("got %q, want %q", got, text)
	}
	return nil
}

func echo() error {
	_, err := io.Copy(os.Stdout, os.Stdin)
	return err
}

func TestPipes(t *testing.T) {
	c := start(t, self(t, "echo"))
	if err := answers(c, "hello"); err != nil {
		t.Fatal(err)
	}
	if status := c.Status(); status != nil {
		t.Errorf("while it runs: got %v, want no status", status)
	}
	if err := c.Close(patience); err != nil {
		t.Errorf("Close: %v", err)
	}
	if status := c.Status(); status == nil || status.Code != 0 || status.Signal != nil || status.PID != c.PID() {
		t.Errorf("got %+v, want code 0", status)
	}
	if err := c.Close(0); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := c.Kill(); err != nil {
		t.Errorf("Kill after the end: %v", err)
	}
}

func TestSocket(t *testing.T) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours := os.NewFile(uintptr(ends[0]), "ours")
	host, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	ours.Close()
	spec := self(t, "socket")
	spec.HasPipes = false
	spec.Socket, spec.Host = os.NewFile(uintptr(ends[1]), "theirs"), host
	c := start(t, spec)
	if c.Stdin() != nil || c.Stdout() != nil {
		t.Error("has pipes, want none")
	}
	if err := spec.Socket.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("the host still has the child's end: %v", err)
	}
	host.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(host, "hello"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(host, got); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v, want hello", got, err)
	}
	if err := c.Close(patience); err != nil {
		t.Error(err)
	}
}

func echoSocket() error {
	socket := os.NewFile(3, "socket")
	_, err := io.Copy(struct{ io.Writer }{socket}, socket)
	return err
}

func TestKilled(t *testing.T) {
	var forwarded bytes.Buffer
	spec := self(t, "words")
	spec.Stderr = &forwarded
	c := start(t, spec)
	if err := answers(c, "x"); err != nil {
		t.Fatal(err)
	}
	if !await.Until(func() bool { return len(c.LastWords()) == 2 }) {
		t.Fatalf("last words while it runs: got %q", c.LastWords())
	}
	if err := syscall.Kill(c.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err := c.Wait()
	exit, ok := errors.AsType[*ExitError](err)
	if !ok || exit.Signal != syscall.SIGKILL || exit.Code != -1 || exit.Program != spec.Program {
		t.Fatalf("got %+v, want killed", err)
	}
	want := fmt.Sprintf(`kernel process %d died: signal killed, which the system sends when memory runs out; its last words: first | red \x1b[31m`, c.PID())
	if err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if got, want := forwarded.String(), "first\nred \x1b[31m\n"; got != want {
		t.Errorf("forwarded: got %q, want %q", got, want)
	}
	if err := c.Kill(); err != nil {
		t.Errorf("Kill after death: %v", err)
	}
	if again := c.Close(patience); again != err {
		t.Errorf("Close: got %v, want %v", again, err)
	}
}

func TestExitCode(t *testing.T) {
	c := start(t, self(t, "exit"))
	exit, ok := errors.AsType[*ExitError](c.Wait())
	if !ok || exit.Code != 3 || exit.Signal != nil || !slices.Equal(exit.LastWords, []string{"no room"}) {
		t.Errorf("got %+v, want code 3 and no room", exit)
	}
}

// A child that never reads is killed after the grace time.
func TestCloseBusy(t *testing.T) {
	c := start(t, self(t, "busy"))
	err := c.Close(30 * time.Millisecond)
	if exit, ok := errors.AsType[*ExitError](err); !ok || exit.Signal != syscall.SIGKILL {
		t.Errorf("got %v, want killed", err)
	}
}

const floodBytes = 8 << 20

func flood() error {
	line := []byte(strings.Repeat("x", 63) + "\n")
	for range floodBytes / len(line) {
		if _, err := os.Stderr.Write(line); err != nil {
			return err
		}
	}
	return errors.New("the end")
}

type failingWriter struct{ bytes int }

func (w *failingWriter) Write(p []byte) (int, error) {
	w.bytes += len(p)
	return 0, errors.New("cannot")
}

// A child never blocks on its standard error, whether or not somebody reads it.
func TestFlood(t *testing.T) {
	var all bytes.Buffer
	for _, writer := range []io.Writer{nil, &all, &failingWriter{}} {
		spec := self(t, "flood")
		spec.Stderr = writer
		c := start(t, spec)
		exit, ok := errors.AsType[*ExitError](c.Wait())
		if !ok || exit.Code != 1 {
			t.Fatalf("got %v, want exit status 1", exit)
		}
		if n := len(exit.LastWords); n != lastWordsBytes/64 || exit.LastWords[n-1] != "the end" {
			t.Errorf("got %d lines, want %d, of which the last is the end", n, lastWordsBytes/64)
		}
	}
	if want := floodBytes + len("the end\n"); all.Len() != want {
		t.Errorf("forwarded %d bytes, want %d", all.Len(), want)
	}
}

// A process that the child leaves behind holds its standard error open.
func TestLeftBehind(t *testing.T) {
	c := start(t, self(t, "leaves"))
	select {
	case <-c.Done():
	case <-time.After(patience):
		t.Fatal("the end of the child is not seen")
	}
	words := c.Status().LastWords
	if len(words) != 1 {
		t.Fatalf("got %q, want a process id", words)
	}
	pid, err := strconv.Atoi(words[0])
	if err != nil {
		t.Fatal(err)
	}
	if !isAlive(pid) {
		t.Error("the process left behind is gone: nothing was tested")
	}
	syscall.Kill(pid, syscall.SIGKILL)
}

// hang waits for a byte that nobody writes.
func hang() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	r.Read(make([]byte, 1))
	return w.Close()
}

func leaves() error {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = inRole("hang")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, cmd.Process.Pid)
	return nil
}

// The child of a host that is killed ends: by signal when it computes and never
// reads, by the end of its input when there is no signal.
func TestHostKilled(t *testing.T) {
	for _, role := range []string{"busy", "unkilled"} {
		t.Run(role, func(t *testing.T) {
			spec := self(t, "host")
			spec.Args = []string{role}
			c := start(t, spec)
			line, err := bufio.NewReader(c.Stdout()).ReadString('\n')
			if err != nil {
				c.Kill()
				t.Fatalf("%v: %v", err, c.Wait())
			}
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if isAlive(pid) {
					syscall.Kill(pid, syscall.SIGKILL)
				}
			}()
			if !isAlive(pid) {
				t.Fatal("the child ended before its host")
			}
			if err := c.Kill(); err != nil {
				t.Fatal(err)
			}
			c.Wait()
			if !await.Until(func() bool { return !isAlive(pid) }) {
				t.Error("the child outlives its host")
			}
		})
	}
}

// host starts a child, waits until it runs, tells its process id and hangs.
func host() error {
	program, err := Self()
	if err != nil {
		return err
	}
	c, err := Start(Spec{Program: program, Env: inRole(os.Args[1]), HasPipes: true, Stderr: os.Stderr})
	if err != nil {
		return err
	}
	if _, err := c.Stdout().Read(make([]byte, 1)); err != nil {
		return err
	}
	fmt.Println(c.PID())
	select {}
}

// busy computes for ever.
func busy() error {
	fmt.Println("running")
	for i := uint64(1); ; i *= 3 {
		if i == 0 { // never: the product is odd
			return nil
		}
	}
}

func waitForEnd() error {
	var signal int32
	if err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0); err != nil {
		return err
	}
	if syscall.Signal(signal) != syscall.SIGKILL {
		return fmt.Errorf("parent-death signal: got %d, want %d", signal, syscall.SIGKILL)
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0); err != nil {
		return err
	}
	fmt.Println("running")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// Threads of the host that end take no child with them.
func TestThreadsComeAndGo(t *testing.T) {
	var children []*Child
	for range 5 {
		started := make(chan *Child)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			c, err := Start(self(t, "echo"))
			if err != nil {
				t.Error(err)
			}
			started <- c
		}()
		c := <-started
		if c == nil {
			t.FailNow()
		}
		t.Cleanup(func() { c.Close(0) })
		children = append(children, c)
	}
	const n = 200
	for range 3 {
		threads, end := make(chan int, n), make(chan struct{})
		for range n {
			go func() {
				runtime.LockOSThread()
				threads <- unix.Gettid()
				<-end // so that every goroutine has a thread of its own
			}()
		}
		var all []int
		for range n {
			all = append(all, <-threads)
		}
		close(end)
		isOver := func(tid int) bool {
			_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid))
			return err != nil || tid == os.Getpid() // the first thread stays
		}
		if !await.Until(func() bool { return !slices.ContainsFunc(all, func(tid int) bool { return !isOver(tid) }) }) {
			t.Fatal("threads whose goroutines have ended go on")
		}
	}
	for i, c := range children {
		if err := answers(c, "still here"); err != nil {
			t.Errorf("child %d: %v, %v", i, err, c.Status())
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	spec := self(t, "echo")
	var wait sync.WaitGroup
	for i := range 100 {
		wait.Go(func() {
			c, err := Start(spec)
			if err != nil {
				t.Error(err)
				return
			}
			if err := answers(c, fmt.Sprint("child ", i)); err != nil {
				t.Errorf("child %d: %v", i, err)
			}
			if err := c.Close(patience); err != nil {
				t.Errorf("child %d: %v", i, err)
			}
		})
	}
	wait.Wait()
}

func TestNoLeak(t *testing.T) {
	if !alone.Process(t) {
		return
	}
	spec := self(t, "echo")
	start(t, spec).Close(0) // what is made once
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors(t)
	for i := range 200 {
		ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		spec.HasPipes = i%2 == 0
		spec.Socket, spec.Host = os.NewFile(uintptr(ends[0]), "theirs"), os.NewFile(uintptr(ends[1]), "ours")
		c, err := Start(spec)
		if err != nil {
			t.Fatal(err)
		}
		if i%3 != 0 {
			c.Kill()
			<-c.Done()
		}
		c.Close(0)

		failing := spec
		failing.Program = "/nowhere/at/all"
		failing.Socket, err = os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Start(failing); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("got %v, want that the program does not exist", err)
		}
	}
	if after := openDescriptors(t); after != descriptors {
		t.Errorf("got %d descriptors, want %d as before", after, descriptors)
	}
	if !await.Until(func() bool { return runtime.NumGoroutine() <= goroutines }) {
		t.Errorf("got %d goroutines, want %d as before", runtime.NumGoroutine(), goroutines)
	}
}

func TestNoProgram(t *testing.T) {
	socket, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := Start(Spec{Socket: socket}); err == nil {
		t.Errorf("got %v, want an error", c)
	}
	if err := socket.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Error("the socket of a failed start is open")
	}
}

// Ctrl-C goes to the host's process group.
func TestOwnGroup(t *testing.T) {
	c := start(t, self(t, "echo"))
	if group, err := unix.Getpgid(c.PID()); err != nil || group != c.PID() {
		t.Errorf("got group %d, %v, want %d", group, err, c.PID())
	}
}

// descriptor is one of a child's.
type descriptor struct {
	FD          int
	Target      string
	IsInherited bool
}

type childReport struct {
	Environ       []string
	Before, After []descriptor
}

func listDescriptors() ([]descriptor, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	var list []descriptor
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			return nil, err
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil {
			continue // the folder itself
		}
		target, err := os.Readlink(filepath.Join("/proc/self/fd", entry.Name()))
		if err != nil {
			return nil, err
		}
		list = append(list, descriptor{fd, target, flags&unix.FD_CLOEXEC == 0})
	}
	return list, nil
}

// report closes what it inherited, while the runtime's poller is in use, and
// tells what it has.
func report() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	received := make(chan error)
	go func() {
		_, err := r.Read(make([]byte, 1))
		received <- err
	}()
	if !await.Until(func() bool { return await.IsBlocked("IO wait", "spawn.report.func1") }) {
		return errors.New("the reader does not wait")
	}

	result := childReport{Environ: os.Environ()}
	if result.Before, err = listDescriptors(); err != nil {
		return err
	}
	if err := CloseOthers(3); err != nil {
		return err
	}
	if result.After, err = listDescriptors(); err != nil {
		return err
	}
	if _, err := w.Write([]byte("x")); err != nil {
		return err
	}
	if err := <-received; err != nil {
		return fmt.Errorf("the poller is gone: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

func TestEnvironmentAndDescriptors(t *testing.T) {
	t.Setenv("SECRET_OF_THE_HOST", "1")
	t.Setenv("TOKITAI_PROCESS_TEST_KEPT", "1")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 { // without close-on-exec, as C libraries open files
		fd, err := syscall.Open(secret, syscall.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(fd)
	}
	socket, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(roleVariable, "report") // so that the environment is the default one
	spec := self(t, "report")
	spec.Env, spec.Socket = nil, socket
	c := start(t, spec)
	var got childReport
	if err := json.NewDecoder(c.Stdout()).Decode(&got); err != nil {
		c.Kill()
		t.Fatalf("%v: %v", err, c.Wait())
	}

	if want := Environment(os.Environ()); !slices.Equal(got.Environ, want) {
		t.Errorf("environment: got %q, want %q", got.Environ, want)
	}
	for _, variable := range []string{"SECRET_OF_THE_HOST=1", "TOKITAI_PROCESS_TEST_KEPT=1"} {
		if isThere, want := slices.Contains(got.Environ, variable), strings.HasPrefix(variable, "TOKITAI_"); isThere != want {
			t.Errorf("%s: got %t, want %t", variable, isThere, want)
		}
	}
	isSecret := func(d descriptor) bool { return d.Target == secret }
	if !slices.ContainsFunc(got.Before, isSecret) {
		t.Error("nothing was inherited: nothing was tested")
	}
	has := map[int]bool{}
	for _, d := range got.After {
		has[d.FD] = true
		if isSecret(d) || d.FD > 3 && d.IsInherited {
			t.Errorf("descriptor %d (%s) is still open", d.FD, d.Target)
		}
	}
	for fd := range 4 {
		if !has[fd] {
			t.Errorf("descriptor %d is missing", fd)
		}
	}
}

func TestLaterValueWins(t *testing.T) {
	spec := self(t, "exit")
	spec.Env = append(spec.Env, roleVariable+"=echo")
	if err := answers(start(t, spec), "x"); err != nil {
		t.Error(err)
	}
}

// A program whose file is replaced or deleted while it runs starts itself, not
// what has taken its name.
func TestReplacedOnDisk(t *testing.T) {
	for _, how := range []string{"replace", "delete", "replace folder"} {
		t.Run(how, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "bin")
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(folder, "program")
			binary, err := os.ReadFile("/proc/self/exe")
			if err != nil {
				t.Skipf("this program cannot be read: %v", err)
			}
			if err := os.WriteFile(program, binary, 0o700); err != nil {
				t.Fatal(err)
			}
			spec := self(t, "replaced")
			spec.Program, spec.Args = program, []string{how, program}
			var c *Child
			isStarted := await.Until(func() bool {
				// Another process may still hold the file open for writing.
				c, err = Start(spec)
				return !errors.Is(err, syscall.ETXTBSY)
			})
			if !isStarted || err != nil {
				t.Fatal(err)
			}
			if err := c.Wait(); err != nil {
				t.Error(err)
			}
			c.Close(0)
		})
	}
}

// replaced does to its own file what it is told, then starts itself.
func replaced() error {
	how, program := os.Args[1], os.Args[2]
	switch how {
	case "delete":
		if err := os.Remove(program); err != nil {
			return err
		}
	case "replace folder":
		folder := filepath.Dir(program)
		if err := os.Rename(folder, folder+".old"); err != nil {
			return err
		}
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
		fallthrough
	case "replace":
		if err := os.WriteFile(program+".new", []byte("garbage"), 0o700); err != nil {
			return err
		}
		if err := os.Rename(program+".new", program); err != nil {
			return err
		}
	}
	path, err := Self()
	if err != nil {
		return err
	}
	c, err := Start(Spec{Program: path, Env: inRole("echo"), HasPipes: true})
	if err != nil {
		return err
	}
	if err := answers(c, "it is me"); err != nil {
		return err
	}
	if err := c.Close(patience); err != nil {
		return err
	}
	if by, err := Start(Spec{Program: program, Env: inRole("echo")}); err == nil {
		by.Close(0)
		return errors.New("the name on disk still leads to a program: nothing was tested")
	}
	return nil
}
