package kernelprocess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"tokitai/device"
	"tokitai/kernelprocess/spawn"
	"tokitai/kernelprocess/stdio"
)

// StdioProgram drives a program that serves one kernel over its standard input and output
// in the formats of package stdio, such as `tokitai kernel NAME --server`. Calls are safe
// from any goroutine, and take turns. Each starts the program if it is not running.
type StdioProgram struct {
	program string
	args    []string
	stderr  io.Writer

	mu       sync.Mutex
	running  *stdioProcess // nil if none is running
	isClosed bool
}

type stdioProcess struct {
	child  *spawn.Child
	client *stdio.Client
}

// NewStdioProgram returns a StdioProgram that the first call starts. The standard error of
// the program is copied to stderr, unless that is nil.
func NewStdioProgram(stderr io.Writer, program string, args ...string) *StdioProgram {
	return &StdioProgram{program: program, args: args, stderr: stderr}
}

// Do sends a request and returns its response. The error is a [stdio.Error] if the program
// answered with one. If the call is canceled, or the response cannot be read, the program
// is ended, because nothing in these formats says to which request the next response
// belongs; the error is then the context's, or a [DiedError] with the program's last words.
func (a *StdioProgram) Do(ctx context.Context, q *stdio.Request) (*stdio.Response, error) {
	if q == nil {
		return nil, &device.ArgumentError{Op: "kernelprocess: stdio program", Got: "a nil request", Want: "a request"}
	}
	for {
		p, err := a.process()
		if err != nil {
			return nil, err
		}
		response, err := p.client.Do(ctx, q)
		_, isAnswer := errors.AsType[*stdio.Error](err)
		switch {
		case err == nil, isAnswer, ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
			return response, err
		case errors.Is(err, stdio.ErrBroken): // by an earlier call: this one was not sent
			a.forget(p)
			continue
		}
		<-p.child.Done() // it is killed, unless it has ended by itself
		a.forget(p)
		status := p.child.Status()
		return nil, &DiedError{
			Device: "process:" + q.Kernel, Program: a.program, PID: status.PID, Exit: exitText(status),
			LastWords: strings.Join(status.LastWords, " | "), Cause: err,
		}
	}
}

// process returns the running process, or starts one.
func (a *StdioProgram) process() (*stdioProcess, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.isClosed {
		return nil, fmt.Errorf("kernelprocess: stdio program %w", device.ErrClosed)
	}
	if a.running != nil {
		return a.running, nil
	}
	child, err := spawn.Start(spawn.Spec{Program: a.program, Args: a.args, HasPipes: true, Stderr: a.stderr})
	if err != nil {
		return nil, &DiedError{Device: "process", Program: a.program, Cause: err, InStart: true}
	}
	a.running = &stdioProcess{child: child, client: stdio.NewClient(child.Stdout(), child.Stdin(), child.Kill)}
	return a.running, nil
}

// forget closes p, so that the next call starts another process.
func (a *StdioProgram) forget(p *stdioProcess) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running == p {
		a.running = nil
		p.child.Close(0)
	}
}

// Close ends the program, and with it the calls in progress.
func (a *StdioProgram) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.isClosed = true
	if a.running == nil {
		return nil
	}
	p := a.running
	a.running = nil
	p.client.Close()
	p.child.Close(0)
	return nil
}
