package foreign

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/kernelprocess/protocol"
	"tokitai/kernelprocess/shm"
	"tokitai/kernelprocess/spawn"
)

const (
	// endWait is how long a process may take to exit once its socket is closed.
	endWait = time.Second

	// deathWait is how long the exit status of a process is waited for that closed its socket.
	deathWait = 2 * time.Second

	// maxReply bounds a reply besides its data: an error, a list, or the names in a result.
	maxReply = 1 << 20
)

// session is a conversation with one process.
type session struct {
	child   *spawn.Child
	conn    *shm.Conn
	welcome protocol.Welcome
	list    []protocol.Definition
	lastID  uint64

	isForked    bool // from the nursery
	hasAnswered bool // a call

	// Under the pool's mutex.
	isBusy bool
	owner  *processKernel // the last kernel that it computed for; nil if it has computed nothing
}

// open starts a process.
func (p *pool) open(seed uint64) (*session, error) {
	conn, file, err := shm.Pair()
	if err != nil {
		return nil, &StartError{Program: p.name, Cause: err}
	}
	env := append(os.Environ(), p.options.Environment...)
	env = append(env, "TOKITAI_FD=3", fmt.Sprintf("TOKITAI_SEED=%d", seed))
	child, err := spawn.Start(spawn.Spec{
		Program: p.program, Args: p.command[1:], Env: env,
		Socket: file, Host: conn, JoinsOutput: true, Stderr: p.options.Stderr,
	})
	if err != nil {
		conn.Close()
		return nil, &StartError{Program: p.name, Cause: err}
	}
	return &session{child: child, conn: conn}, nil
}

// meet exchanges HELLO and LIST.
func (n *session) meet(deadline time.Duration) error {
	hello := (&protocol.Hello{Lowest: protocol.Version, Highest: protocol.Version, Client: "tokitai check"}).Append(nil)
	body, err := n.ask(protocol.KindHello, hello, 0, deadline)
	if err != nil {
		return err
	}
	if n.welcome, err = protocol.ParseWelcome(body); err != nil {
		return n.malformed(protocol.KindHello, err)
	}
	if n.welcome.Version != protocol.Version {
		return n.malformed(protocol.KindHello, fmt.Errorf("got version %d, want %d", n.welcome.Version, protocol.Version))
	}
	if body, err = n.ask(protocol.KindList, nil, 0, deadline); err != nil {
		return err
	}
	if n.list, err = protocol.ParseList(body); err != nil {
		return n.malformed(protocol.KindList, err)
	}
	return nil
}

// MissingError is a kernel that does not have a definition.
type MissingError struct {
	Definition string
	Listed     []string // what it has
}

func (e *MissingError) Error() string {
	if len(e.Listed) == 0 {
		return fmt.Sprintf("the kernel does not have %s: its LIST is empty", e.Definition)
	}
	return fmt.Sprintf("the kernel does not have %s: it lists %s", e.Definition, strings.Join(e.Listed, ", "))
}

// offers returns an error unless the process lists the definition, with its operands or with
// none.
func (n *session) offers(d *def.Definition) error {
	var names []string
	for _, l := range n.list {
		if l.Name != d.Name {
			names = append(names, l.Name)
			continue
		}
		var got, want []string
		for _, o := range l.Operands {
			got = append(got, o.Name)
		}
		for _, o := range d.Operands {
			want = append(want, o.Name)
		}
		if len(got) > 0 && !slices.Equal(got, want) {
			return fmt.Errorf("the kernel lists %s with the operands %s, want %s", d.Name, strings.Join(got, ", "), strings.Join(want, ", "))
		}
		return nil
	}
	return &MissingError{Definition: d.Name, Listed: names}
}

// call sends a CALL with its data, and returns the reply.
func (n *session) call(c *protocol.Call, data []byte, deadline time.Duration) (*protocol.Results, error) {
	calls := []protocol.Call{*c}
	want, ok := protocol.ReplyBytes(calls)
	if !ok {
		return nil, errors.New("foreign: the outputs are too large for a reply")
	}
	frame := append(protocol.AppendCalls(nil, calls), data...)
	if most := n.welcome.MaxFrame; int64(len(frame)) > most {
		return nil, &RefusedError{Kind: protocol.KindCall, Failure: &protocol.Failure{
			Code: protocol.CodeTooLong, Message: fmt.Sprintf("the call has %d bytes, and the kernel's max-frame is %d", len(frame), most),
		}}
	}
	body, err := n.ask(protocol.KindCall, frame, want, deadline)
	if err != nil {
		return nil, err
	}
	results, err := protocol.ParseResults(body)
	switch {
	case err != nil:
		return nil, n.malformed(protocol.KindCall, err)
	case len(results.Lowerings) != 1:
		return nil, n.malformed(protocol.KindCall, fmt.Errorf("got %d names of lowerings, want 1: there is one call", len(results.Lowerings)))
	case int64(len(results.Data)) != want:
		return nil, &engine.OutputError{Cause: fmt.Errorf("the kernel returned %d bytes of outputs, want %d", len(results.Data), want)}
	}
	return &results, nil
}

// ask sends a request and returns the body of the good reply, which has at most the given
// bytes of data. Duplicates of the descriptors go with the request.
func (n *session) ask(kind protocol.Kind, body []byte, data int64, deadline time.Duration, descriptors ...int) ([]byte, error) {
	n.lastID++
	n.conn.SetDeadline(time.Now().Add(deadline))
	head := protocol.Header{Length: uint64(len(body)), Request: n.lastID, Kind: kind, Descriptors: uint32(len(descriptors))}.Append(nil)
	if _, err := n.conn.Write(append(head, body...), descriptors...); err != nil {
		return nil, n.lost(kind, err, deadline)
	}
	if _, err := io.ReadFull(n.conn, head); err != nil {
		return nil, n.lost(kind, err, deadline)
	}
	h := protocol.ParseHeader(head)
	switch {
	case h.Kind != protocol.KindOK && h.Kind != protocol.KindError:
		return nil, n.malformed(kind, fmt.Errorf("got %v, want %d or %d", h.Kind, protocol.KindOK, protocol.KindError))
	case h.Request != n.lastID:
		return nil, n.malformed(kind, fmt.Errorf("got the number of request %d, want %d", h.Request, n.lastID))
	case h.Descriptors != 0:
		return nil, n.malformed(kind, fmt.Errorf("got %d descriptors, want none", h.Descriptors))
	case h.Length > uint64(data)+maxReply:
		return nil, n.malformed(kind, fmt.Errorf("got a body of %d bytes, want at most %d", h.Length, data+maxReply))
	}
	reply := make([]byte, h.Length)
	if _, err := io.ReadFull(n.conn, reply); err != nil {
		return nil, n.lost(kind, err, deadline)
	}
	if h.Kind == protocol.KindOK {
		return reply, nil
	}
	f, err := protocol.ParseFailure(reply)
	if err != nil {
		return nil, n.malformed(kind, err)
	}
	return nil, &RefusedError{Kind: kind, Failure: f}
}

// RefusedError is the error reply of a kernel process, which goes on.
type RefusedError struct {
	Kind    protocol.Kind // of the request
	Failure *protocol.Failure
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the kernel answered %v with error %d: %s", e.Kind, e.Failure.Code, e.Failure.Message)
}

func (e *RefusedError) Unwrap() error { return e.Failure }

// isAnswer reports whether an error is what a process said, which can go on.
func isAnswer(err error) bool {
	_, isRefused := errors.AsType[*RefusedError](err)
	_, isWrong := errors.AsType[*engine.OutputError](err)
	return isRefused || isWrong
}

// malformed returns the error of a reply that breaks a rule.
func (n *session) malformed(kind protocol.Kind, err error) error {
	return fmt.Errorf("the reply of kernel process %d to %v is malformed: %w", n.child.PID(), kind, err)
}

// lost returns the error of a conversation that broke off.
func (n *session) lost(kind protocol.Kind, err error, deadline time.Duration) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		hint := ""
		if kind == protocol.KindCall && !n.hasAnswered {
			hint = "; it was its first call, in which many kernels compile: a longer deadline waits for that"
		}
		return n.withWords(fmt.Errorf("%w: kernel process %d did not answer %v within %v, and was killed%s", engine.ErrHung, n.child.PID(), kind, deadline, hint))
	}
	select {
	case <-n.child.Done():
		status := *n.child.Status()
		status.LastWords = shortened(status.LastWords)
		return fmt.Errorf("at %v: %w", kind, &status)
	case <-time.After(deathWait):
	}
	return n.withWords(fmt.Errorf("kernel process %d closed its socket at %v, without exiting", n.child.PID(), kind))
}

// shortened returns the last lines, without the ends of long ones.
func shortened(lines []string) []string {
	const most, width = 8, 160
	lines = slices.Clone(lines[max(0, len(lines)-most):])
	for i, line := range lines {
		if runes := []rune(line); len(runes) > width {
			lines[i] = string(runes[:width]) + "…"
		}
	}
	return lines
}

// withWords adds the last lines of the process's standard error to an error.
func (n *session) withWords(err error) error {
	if words := shortened(n.child.LastWords()); len(words) > 0 {
		return fmt.Errorf("%w; its last words: %s", err, strings.Join(words, " | "))
	}
	return err
}

// end closes the socket, and kills the process, with those that it started, if it has not
// exited after the grace time.
func (n *session) end(grace time.Duration) {
	timer := time.AfterFunc(grace, func() { n.child.KillGroup() })
	defer timer.Stop()
	n.child.Close(grace + endWait)
}
