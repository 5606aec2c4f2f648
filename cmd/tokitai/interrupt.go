package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"tokitai/internal/leftover"
	"tokitai/kernelserver/stdio"
)

// grace is how long a command has to end by itself after a signal, and to print what it
// has found so far. Then the program ends, whatever the command is doing: compilers and
// kernels that run in this process cannot be stopped.
const grace = 450 * time.Millisecond

// signalError is the cause of a context that a signal has ended.
type signalError struct{ signal os.Signal }

func (e *signalError) Error() string { return "interrupted" }

// Is makes it a context.Canceled.
func (e *signalError) Is(target error) bool { return target == context.Canceled }

// errInterrupted is a command that was interrupted and has nothing more to say.
var errInterrupted = &verdictError{exitUndecided, errors.New("interrupted")}

// isRejected says that a kernel has been rejected: an interrupt must not hide it.
var isRejected atomic.Bool

// runInterruptibly runs a program, which gets a context that ends at the first SIGINT or
// SIGTERM, and exits with its code. After the grace, or at a second signal, the program
// exits without waiting for run. Temporary files and compilers never outlive it.
func runInterruptibly(command string, run func(context.Context) int) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ended := make(chan int)
	go func() { ended <- run(ctx) }()

	var code int
	select {
	case code = <-ended:
	case first := <-signals:
		cancel(&signalError{first})
		select {
		case code = <-ended:
		case <-signals:
			code = abandon(command, first)
		case <-time.After(grace):
			code = abandon(command, first)
		}
	}
	signal.Reset() // should a disk hang now, a further signal ends it all
	leftover.Remove()
	os.Exit(code)
}

// abandon says that a command has been interrupted that does not end by itself, and
// returns the exit code.
func abandon(command string, s os.Signal) int {
	progressOn(os.Stderr).erase()
	switch {
	case command == kernelCommand:
		err := kernelInterrupted(s)
		fmt.Fprintln(os.Stderr, err)
		return err.Code
	case isRejected.Load():
		fmt.Fprintf(os.Stderr, "%s: interrupted; something was rejected before\n", command)
		return exitRejected
	}
	fmt.Fprintf(os.Stderr, "%s: interrupted\n", command)
	return exitUndecided
}

// kernelInterrupted is an interrupt as a kernel process tells of it. The code is the one
// that a shell gives to a filter that the signal has ended: 130 or 143.
func kernelInterrupted(s os.Signal) *stdio.Error {
	code := 128 + int(syscall.SIGINT)
	if s == syscall.SIGTERM {
		code = 128 + int(syscall.SIGTERM)
	}
	return &stdio.Error{Code: code, Reason: "interrupted"}
}

// closeUnlessInterrupted closes a device or a queue. After an interrupt something may
// still run there, for which closing would wait; the end of the program closes it.
func closeUnlessInterrupted(ctx context.Context, c io.Closer) {
	if ctx.Err() == nil {
		c.Close()
	}
}

// patience is how long what has been interrupted is waited for.
const patience = 150 * time.Millisecond

// untilInterrupted returns what f returns, or the context's error soon after that has
// ended. f then goes on until the program exits.
func untilInterrupted(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return ctx.Err()
	}
}
