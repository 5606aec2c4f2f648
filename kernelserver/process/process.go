// Package process starts child processes that outlive neither their host nor
// their use, and keeps what they said last.
//
// A child ends with its host, however the host ends, by two means:
//
//   - its input, a pipe or a socket, is closed by the system, and a child must
//     exit when it reads the end of its input, even while it computes;
//   - on Linux it is killed besides, which also ends a child that does not read.
//     That signal fires when the thread dies that started the child, not the
//     process. So all children are started by one goroutine that keeps its
//     thread for ever.
//
// A child is in a process group of its own: Ctrl-C in a terminal reaches the
// host alone, which decides what becomes of its children.
//
// A child gets descriptors 0 to 2, and 3 where it has a socket. But whatever the
// host holds without close-on-exec is inherited too, which nothing in the host
// can prevent without changing descriptors that are not its own. Go's own never
// are, those of C libraries or of the host's parent may be. So a child's main
// calls [CloseOthers] first thing.
//
// The package knows nothing of what children compute or say.
package process

import (
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
	Args    []string // after the program's name
	Env     []string // the whole environment, a later value winning; nil means Environment(os.Environ())

	// Socket becomes the child's descriptor 3. Start takes it over and closes it
	// in every case. Host is the host's end, which Close closes to end the child.
	Socket *os.File
	Host   io.Closer

	// HasPipes gives the child pipes as its standard input and output. Otherwise
	// both lead nowhere.
	HasPipes bool

	// Stderr gets what the child writes on its standard error, besides its last
	// words; nil for nowhere. It must not block for long, or the child does.
	Stderr io.Writer
}

// Child is a process that was started. Close must be called once it is done with,
// even when the process has ended by itself.
type Child struct {
	program string
	process *os.Process
	host    io.Closer
	stdin   *os.File
	stdout  *os.File
	words   lastWords
	done    chan struct{}
	status  *ExitError // once done is closed
	closing sync.Once
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
	var theirs, ours []*os.File // to be closed after the start; after its failure
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
	files := []*os.File{stdin, stdout, stderr}
	if spec.Socket != nil {
		files = append(files, spec.Socket)
	}
	env := spec.Env
	if env == nil {
		env = Environment(os.Environ())
	}
	attributes := &os.ProcAttr{
		Env:   (&exec.Cmd{Env: env}).Environ(), // without what a later value replaces
		Files: files,
		Sys:   systemAttributes(),
	}
	args := append([]string{spec.Program}, spec.Args...)

	started := make(chan error)
	starter() <- func() {
		var err error
		c.process, err = os.StartProcess(spec.Program, args, attributes)
		started <- err
	}
	if err := <-started; err != nil {
		return fail(err)
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		c.words.copy(words, spec.Stderr)
	}()
	go c.wait(words, copied)
	return c, nil
}

// lastWordsWait is how long the last words of a dead child are waited for. Only a
// process that the child started and that has not ended can take so long.
const lastWordsWait = time.Second

// wait reaps the child and records how it ended.
func (c *Child) wait(words *os.File, copied <-chan struct{}) {
	state, err := c.process.Wait()
	select {
	case <-copied:
	case <-time.After(lastWordsWait):
	}
	words.Close()
	status := &ExitError{Program: c.program, PID: c.PID(), Code: -1, LastWords: c.words.lines()}
	if err != nil {
		status.Cause = err
	} else {
		status.Code, status.Signal = state.ExitCode(), signalOf(state)
	}
	c.status = status
	close(c.done)
}

// PID returns the child's process id.
func (c *Child) PID() int { return c.process.Pid }

// Stdin returns the host's end of the child's standard input, nil without pipes.
func (c *Child) Stdin() *os.File { return c.stdin }

// Stdout returns the host's end of the child's standard output, nil without pipes.
// What the child wrote before it died can still be read, until Close.
func (c *Child) Stdout() *os.File { return c.stdout }

// Done returns closed when the child has ended and its last words are known.
func (c *Child) Done() <-chan struct{} { return c.done }

// Status tells how the child ended, with code 0 where it ended well. It is nil
// while the child runs.
func (c *Child) Status() *ExitError {
	select {
	case <-c.done:
		return c.status
	default:
		return nil
	}
}

// Wait waits until the child has ended. It returns an [*ExitError] unless the
// exit code is 0.
func (c *Child) Wait() error {
	<-c.done
	if c.status.Code != 0 {
		return c.status
	}
	return nil
}

// LastWords returns the end of what the child has written on its standard error so
// far, as [ExitError] has it.
func (c *Child) LastWords() []string { return c.words.lines() }

// Kill ends the child at once. It does not wait; a child that has ended is left
// alone, as is a stranger that has got its process id since.
func (c *Child) Kill() error {
	if err := c.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", c.PID(), err)
	}
	return nil
}

// Close closes the child's input and kills the child where it has not ended after
// the grace time. It returns what [Child.Wait] does. Only the first call's grace
// counts.
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

// ExitError is the end of a child.
type ExitError struct {
	Program   string
	PID       int
	Code      int       // -1 where a signal ended it
	Signal    os.Signal // nil where none did
	LastWords []string  // lines, safe to print
	Cause     error     // why nothing else is known, or nil
}

func (e *ExitError) Error() string {
	text := fmt.Sprintf("kernel process %d ", e.PID)
	switch {
	case e.Cause != nil:
		text += "is lost: " + e.Cause.Error()
	case e.Signal != nil:
		text += "died: signal " + e.Signal.String()
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
