package spawn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// Adoption describes a child that another process has started for this host, by forking
// itself. That parent waits for it.
type Adoption struct {
	Program string // for messages
	PID     int

	// Status tells how the child ends: the parent writes "exit CODE" or "signal NUMBER" and
	// closes its end. Once the host's writing side is closed, the parent kills the child and the
	// processes of its group.
	Status interface {
		io.ReadCloser
		CloseWrite() error
	}

	Words  *os.File  // the reading end of the child's standard error
	Host   io.Closer // as in [Spec]
	Stderr io.Writer // as in [Spec]
}

// Adopt returns a child for a process that is the child of another. It closes Status and Words
// in the end.
func Adopt(a Adoption) *Child {
	c := &Child{program: a.Program, pid: a.PID, host: a.Host, done: make(chan struct{}), isAdopted: true}
	c.kill = func() error { a.Status.CloseWrite(); return nil }
	go c.wait(a.Words, c.copyWords(a.Words, a.Stderr), func() *ExitError {
		defer a.Status.Close()
		said, err := io.ReadAll(a.Status)
		status, ok := parseStatus(string(said))
		if !ok {
			killGroup(a.PID) // nobody else does it
			status.Cause = errors.Join(fmt.Errorf("the process that forked it did not tell its status: %q", said), err)
		}
		return status
	})
	return c
}

// parseStatus parses what a parent says about a child's end.
func parseStatus(text string) (*ExitError, bool) {
	status := &ExitError{Code: -1}
	how, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	var number int
	if _, err := fmt.Sscanf(rest, "%d", &number); err != nil {
		return status, false
	}
	switch how {
	case "exit":
		status.Code = number
	case "signal":
		status.Signal = syscall.Signal(number)
	default:
		return status, false
	}
	return status, true
}
