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
	"tokitai/kernelserver/process"
	"tokitai/kernelserver/protocol"
	"tokitai/kernelserver/shm"
)

const (
	// startTimeout is how long a process may take to answer HELLO: some load large libraries.
	startTimeout = 2 * time.Minute

	// endWait is how long a process may take to exit once its socket is closed.
	endWait = time.Second

	// deathWait is how long the exit status of a process is waited for that closed its socket.
	deathWait = 2 * time.Second

	// maxReply bounds a reply besides its data: an error, a list, or the names in a result.
	maxReply = 1 << 20
)

// session is a conversation with one process.
type session struct {
	child   *process.Child
	conn    *shm.Conn
	welcome protocol.Welcome
	list    []protocol.Definition
	lastID  uint64
}

// start starts a process, and asks it what it has.
func (s *server) start(seed uint64) (*session, error) {
	conn, file, err := shm.Pair()
	if err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", s.command[0], err)
	}
	env := append(os.Environ(), s.options.Environment...)
	env = append(env, "TOKITAI_FD=3", fmt.Sprintf("TOKITAI_SEED=%d", seed))
	child, err := process.Start(process.Spec{
		Program: s.program, Args: s.command[1:], Env: env,
		Socket: file, Host: conn, Stderr: s.options.Stderr,
	})
	if err != nil {
		conn.Close()
		return nil, err
	}
	n := &session{child: child, conn: conn}
	if err := n.meet(); err != nil {
		n.end()
		return nil, err
	}
	return n, nil
}

// meet exchanges HELLO and LIST.
func (n *session) meet() error {
	conn := (&protocol.Hello{Lowest: protocol.Version, Highest: protocol.Version, Client: "tokitai check"}).Append(nil)
	body, err := n.ask(protocol.KindHello, conn, 0, startTimeout)
	if err != nil {
		return err
	}
	if n.welcome, err = protocol.ParseWelcome(body); err != nil {
		return n.malformed(protocol.KindHello, err)
	}
	if n.welcome.Version != protocol.Version {
		return n.malformed(protocol.KindHello, fmt.Errorf("got version %d, want %d", n.welcome.Version, protocol.Version))
	}
	if body, err = n.ask(protocol.KindList, nil, 0, startTimeout); err != nil {
		return err
	}
	if n.list, err = protocol.ParseList(body); err != nil {
		return n.malformed(protocol.KindList, err)
	}
	return nil
}

// offers returns an error unless the process lists the definition, with its operands and
// parameters or with none.
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
	if names == nil {
		return fmt.Errorf("the kernel does not have %s: its LIST is empty", d.Name)
	}
	return fmt.Errorf("the kernel does not have %s: it lists %s", d.Name, strings.Join(names, ", "))
}

// call sends a CALL with its data, and returns the data of the reply.
func (n *session) call(calls []protocol.Call, data []byte, deadline time.Duration) ([]byte, error) {
	want, ok := protocol.ReplyBytes(calls)
	if !ok {
		return nil, errors.New("foreign: the outputs are too large for a reply")
	}
	body, err := n.ask(protocol.KindCall, append(protocol.AppendCalls(nil, calls), data...), want, deadline)
	if err != nil {
		return nil, err
	}
	results, err := protocol.ParseResults(body)
	if err != nil {
		return nil, n.malformed(protocol.KindCall, err)
	}
	if int64(len(results.Data)) != want {
		return nil, n.malformed(protocol.KindCall, fmt.Errorf("got %d bytes of outputs, want %d", len(results.Data), want))
	}
	return results.Data, nil
}

// ask sends a request and returns the body of the good reply, which has at most the given
// bytes of data.
func (n *session) ask(kind protocol.Kind, body []byte, data int64, deadline time.Duration) ([]byte, error) {
	n.lastID++
	n.conn.SetDeadline(time.Now().Add(deadline))
	frame := protocol.AppendFrame(nil, n.lastID, kind, 0, func(b []byte) []byte { return append(b, body...) })
	if _, err := n.conn.Write(frame); err != nil {
		return nil, n.lost(kind, err, deadline)
	}
	head := make([]byte, protocol.HeaderBytes)
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

// isAnswer reports whether the process can go on after an error.
func isAnswer(err error) bool {
	_, ok := errors.AsType[*RefusedError](err)
	return ok
}

// malformed returns the error of a reply that breaks a rule.
func (n *session) malformed(kind protocol.Kind, err error) error {
	return fmt.Errorf("the reply of kernel process %d to %v is malformed: %w", n.child.PID(), kind, err)
}

// lost returns the error of a conversation that broke off.
func (n *session) lost(kind protocol.Kind, err error, deadline time.Duration) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n.withWords(fmt.Errorf("kernel process %d did not answer %v within %v, and was killed", n.child.PID(), kind, deadline))
	}
	select {
	case <-n.child.Done():
		return fmt.Errorf("at %v: %w", kind, n.child.Status())
	case <-time.After(deathWait):
	}
	return n.withWords(fmt.Errorf("kernel process %d closed its socket at %v, without exiting", n.child.PID(), kind))
}

// withWords adds the last lines of the process's standard error to an error.
func (n *session) withWords(err error) error {
	if words := n.child.LastWords(); len(words) > 0 {
		return fmt.Errorf("%w; its last words: %s", err, strings.Join(words, " | "))
	}
	return err
}

// end closes the socket, and kills the process if it does not exit.
func (n *session) end() { n.child.Close(endWait) }
