// Package spawn starts child processes that do not outlive their host, and keeps
// the end of their standard error.
//
// A child ends with its host, however the host ends, for two reasons:
//
//   - The system closes its input, a pipe or a socket. A child must exit when it
//     reads the end of its input, even while it computes.
//   - On Linux the system also kills it, even if it does not read. That signal is
//     sent when the thread that started the child dies, not the process. So one
//     goroutine, which never leaves its thread, starts all children.
//
// A child has its own process group: Ctrl-C in a terminal reaches only the host,
// which decides what to do with its children.
//
// A child gets descriptors 0 to 2, and 3 if it has a socket. It also inherits every
// descriptor of the host without close-on-exec. Go's descriptors all have the flag;
// those of C libraries or of the host's parent may not, and the host should not
// change them. So the child's main calls [CloseOthers] first.
//
// The package knows nothing of what children compute or say. Start with Start.
package spawn

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Spec says what to start.
type Spec struct {
	Program string   // path; see [Self]
	Name    string   // what the process calls itself, its argument 0; Program if that is empty
	Args    []string // after the program's name
	Env     []string // the whole environment, a later value winning; nil means Environment(os.Environ())

	// Socket becomes the child's descriptor 3. Start always closes it. Host is the
	// host's end, which Close closes to end the child.
	Socket *os.File
	Host   io.Closer

	// HasPipes connects the child's standard input and output to pipes, otherwise to
	// the null device.
	HasPipes bool

	// JoinsOutput sends the child's standard output where its standard error goes. It is
	// not for a child with pipes.
	JoinsOutput bool

	// Stderr gets a copy of the child's standard error; nil for none. If it blocks,
	// so does the child.
	Stderr io.Writer
}

// Child is a started process. Close must be called in the end, even if the process
// has exited by itself.
type Child struct {
	program   string
	pid       int
	kill      func() error
	isAdopted bool // its parent is another process, which also kills its group
	host      io.Closer
	stdin     *os.File
	stdout    *os.File
	words     lastWords
	done      chan struct{}
	status    *ExitError // once done is closed
	closing   sync.Once
}

// starter runs functions on the one thread that starts children.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread() // and never unlocks
		for start := range work {
			start()
		}
	}()
	return work
})

// Start starts a child.
func Start(spec Spec) (*Child, error) {
	c := &Child{program: spec.Program, host: spec.Host, done: make(chan struct{})}
	var theirs, ours []*os.File // closed after the start; closed if it fails
	if spec.Socket != nil {
		theirs = append(theirs, spec.Socket)
	}
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	fail := func(err error) (*Child, error) {
		for _, f := range ours {
			f.Close()
		}
		return nil, fmt.Errorf("start %s: %w", spec.Program, err)
	}
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			ours = append(ours, r, w)
		}
		return r, w, err
	}

	if spec.Program == "" {
		return fail(errors.New("got no program, want a path"))
	}
	var stdin, stdout *os.File
	var err error
	if spec.HasPipes {
		if stdin, c.stdin, err = pipe(); err != nil {
			return fail(err)
		}
		if c.stdout, stdout, err = pipe(); err != nil {
			return fail(err)
		}
		theirs = append(theirs, stdin, stdout)
	} else {
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			return fail(err)
		}
		theirs = append(theirs, null)
		stdin, stdout = null, null
	}
	words, stderr, err := pipe()
	if err != nil {
		return fail(err)
	}
	theirs = append(theirs, stderr)
	if spec.JoinsOutput && !spec.HasPipes {
		stdout = stderr
	}
	files := []*os.File{stdin, stdout, stderr}
	if spec.Socket != nil {
		files = append(files, spec.Socket)
	}
	env := spec.Env
	if env == nil {
		env = Environment(os.Environ())
	}
	attributes := &os.ProcAttr{
		Env:   (&exec.Cmd{Env: env}).Environ(), // without duplicates
		Files: files,
		Sys:   systemAttributes(),
	}
	args := append([]string{cmp.Or(spec.Name, spec.Program)}, spec.Args...)

	var process *os.Process
	started := make(chan error)
	starter() <- func() {
		var err error
		process, err = os.StartProcess(spec.Program, args, attributes)
		started <- err
	}
	if err := <-started; err != nil {
		return fail(err)
	}
	c.pid, c.kill = process.Pid, process.Kill
	go c.wait(words, c.copyWords(words, spec.Stderr), func() *ExitError {
		state, err := process.Wait()
		if err != nil {
			return &ExitError{Code: -1, Cause: err}
		}
		return &ExitError{Code: state.ExitCode(), Signal: signalOf(state)}
	})
	return c, nil
}

// copyWords copies the child's standard error until its end, and closes the channel then.
func (c *Child) copyWords(words io.Reader, to io.Writer) <-chan struct{} {
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		c.words.copy(words, to)
	}()
	return copied
}

// lastWordsWait is how long to wait for the end of a dead child's standard error. It
// takes that long only if a process started by the child is still running.
const lastWordsWait = time.Second

// wait waits for the child and records its exit status.
func (c *Child) wait(words *os.File, copied <-chan struct{}, end func() *ExitError) {
	status := end()
	select {
	case <-copied:
	case <-time.After(lastWordsWait):
	}
	words.Close()
	status.Program, status.PID, status.LastWords = c.program, c.pid, c.words.lines()
	c.status = status
	close(c.done)
}

// PID returns the child's process id.
func (c *Child) PID() int { return c.pid }

// Stdin returns the host's end of the child's standard input, nil without pipes.
func (c *Child) Stdin() *os.File { return c.stdin }

// Stdout returns the host's end of the child's standard output, nil without pipes.
// What the child wrote before it died can still be read, until Close.
func (c *Child) Stdout() *os.File { return c.stdout }

// Done returns a channel that is closed when the child has exited and its last words
// are known.
func (c *Child) Done() <-chan struct{} { return c.done }

// Status returns the child's exit status, also if that is 0. It returns nil while the
// child runs.
func (c *Child) Status() *ExitError {
	select {
	case <-c.done:
		return c.status
	default:
		return nil
	}
}

// Wait waits until the child has exited. It returns an [*ExitError] unless the exit
// code is 0.
func (c *Child) Wait() error {
	<-c.done
	if c.status.Code != 0 {
		return c.status
	}
	return nil
}

// LastWords returns the last lines of the child's standard error so far, as in
// [ExitError].
func (c *Child) LastWords() []string { return c.words.lines() }

// Kill kills the child, without waiting. It does nothing if the child has exited, even
// if another process has its process id.
func (c *Child) Kill() error {
	if err := c.kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", c.PID(), err)
	}
	return nil
}

// KillGroup kills the child and the processes of its group, which are those that it has
// started unless they left it. It does nothing if the child has exited.
func (c *Child) KillGroup() error {
	if c.Status() == nil && !c.isAdopted {
		killGroup(c.PID())
	}
	return c.Kill()
}

// Close closes the child's input, kills the child if it has not exited after the grace
// time, and returns what [Child.Wait] returns. Only the first call's grace time counts.
func (c *Child) Close(grace time.Duration) error {
	c.closing.Do(func() {
		if c.stdin != nil {
			c.stdin.Close()
		}
		if c.host != nil {
			c.host.Close()
		}
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-c.done:
		case <-timer.C:
			c.Kill()
			<-c.done
		}
		if c.stdout != nil {
			c.stdout.Close()
		}
	})
	return c.Wait()
}

// ExitError is the exit status of a child.
type ExitError struct {
	Program   string
	PID       int
	Code      int       // -1 if a signal killed it
	Signal    os.Signal // nil if none did
	LastWords []string  // last lines of its standard error, safe to print
	Cause     error     // why the status is unknown, or nil
}

func (e *ExitError) Error() string {
	text := fmt.Sprintf("kernel process %d ", e.PID)
	switch {
	case e.Cause != nil:
		text += "is lost: " + e.Cause.Error()
	case e.Signal != nil:
		text += "died: signal " + e.Signal.String()
		if e.Signal == os.Kill {
			text += ", which the system sends when memory runs out"
		}
	case e.Code == 0:
		text += "ended: exit status 0"
	default:
		text += fmt.Sprintf("died: exit status %d", e.Code)
	}
	if len(e.LastWords) > 0 {
		text += "; its last words: " + strings.Join(e.LastWords, " | ")
	}
	return text
}

func (e *ExitError) Unwrap() error { return e.Cause }
