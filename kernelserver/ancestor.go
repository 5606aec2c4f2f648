package kernelserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"tokitai/device"
	"tokitai/kernelserver/ancestor"
	"tokitai/kernelserver/process"
)

// Ancestor drives a program that serves one kernel in the ancestor's formats: the
// ancestor's own, or `tokitai kernel NAME --server`. Calls are safe from any goroutine, and
// take turns. Each starts the program if it does not run.
type Ancestor struct {
	program string
	args    []string
	stderr  io.Writer

	mu       sync.Mutex
	running  *ancestorProcess // nil where none does
	isClosed bool
}

type ancestorProcess struct {
	child  *process.Child
	client *ancestor.Client
}

// NewAncestor starts nothing yet. What the program writes to its standard error goes to
// stderr too, unless that is nil.
func NewAncestor(stderr io.Writer, program string, args ...string) *Ancestor {
	return &Ancestor{program: program, args: args, stderr: stderr}
}

// Do sends a request and returns its answer. An [ancestor.Error] is what the program
// answered. A call that is given up, and an answer that is none, end the program, as nothing
// in these formats tells to which request the next answer belongs; the error is then a
// [DiedError] with its last words, unless it is the context's.
func (a *Ancestor) Do(ctx context.Context, q *ancestor.Request) (*ancestor.Response, error) {
	if q == nil {
		return nil, &device.ArgumentError{Op: "kernelserver: ancestor", Got: "no request", Want: "one"}
	}
	for {
		p, err := a.process()
		if err != nil {
			return nil, err
		}
		response, err := p.client.Do(ctx, q)
		_, isAnswer := errors.AsType[*ancestor.Error](err)
		switch {
		case err == nil, isAnswer, ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
			return response, err
		case errors.Is(err, ancestor.ErrBroken): // by an earlier call: this one was not sent
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

// process is the one that runs, or a new one.
func (a *Ancestor) process() (*ancestorProcess, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.isClosed {
		return nil, fmt.Errorf("kernelserver: ancestor %w", device.ErrClosed)
	}
	if a.running != nil {
		return a.running, nil
	}
	child, err := process.Start(process.Spec{Program: a.program, Args: a.args, HasPipes: true, Stderr: a.stderr})
	if err != nil {
		return nil, &DiedError{Device: "process", Program: a.program, Cause: err, InStart: true}
	}
	a.running = &ancestorProcess{child: child, client: ancestor.NewClient(child.Stdout(), child.Stdin(), child.Kill)}
	return a.running, nil
}

// forget lets the next call start another process.
func (a *Ancestor) forget(p *ancestorProcess) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running == p {
		a.running = nil
		p.child.Close(0)
	}
}

// Close ends the program, and calls under way with it.
func (a *Ancestor) Close() error {
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
