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
	"tokitai/kernelprocess/stdio"
)

// grace is the time that a command has after a signal to print its results so far and
// return. After that the program exits: compilers and kernels that run in this process
// cannot be stopped.
const grace = 450 * time.Millisecond

// signalError is the cause of a context canceled by a signal.
type signalError struct{ signal os.Signal }

func (e *signalError) Error() string { return "interrupted" }

// Is reports whether target is context.Canceled.
func (e *signalError) Is(target error) bool { return target == context.Canceled }

// errInterrupted is the error of an interrupted command without results.
var errInterrupted = &verdictError{exitUndecided, errors.New("interrupted")}

// endsItself is set while a command ends by itself after its context does, however long that takes: it
// writes what it has, or answers what was asked before. A first signal does not end the program then; a
// second one does.
var endsItself atomic.Bool

// isRejected is set when a kernel is rejected, which an interrupt must not hide.
var isRejected atomic.Bool

// runInterruptibly calls run with a context that ends at the first SIGINT or SIGTERM, and
// exits with its code. After the grace period, or at a second signal, it exits without
// waiting for run. Temporary files and compilers are removed before it exits.
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
		limit := time.After(grace)
		if endsItself.Load() {
			limit = nil
		}
		select {
		case code = <-ended:
		case <-signals:
			code = abandon(command, first)
		case <-limit:
			code = abandon(command, first)
		}
	}
	signal.Reset() // if a disk hangs now, another signal kills the process
	leftover.Remove()
	os.Exit(code)
}

// abandon reports the interrupt of a command that did not return in time, and returns the
// exit code.
func abandon(command string, s os.Signal) int {
	progressOn(os.Stderr).erase()
	switch {
	case command == kernelCommand:
		err := kernelInterrupted(s)
		fmt.Fprintln(os.Stderr, err)
		return err.Code
	case isRejected.Load():
		fmt.Fprintf(os.Stderr, "%s: interrupted; a kernel was rejected before\n", command)
		return exitRejected
	}
	fmt.Fprintf(os.Stderr, "%s: interrupted\n", command)
	return exitUndecided
}

// kernelInterrupted returns the error of an interrupted kernel process. Its code is the
// one that a shell reports for a process killed by the signal: 130 or 143.
func kernelInterrupted(s os.Signal) *stdio.Error {
	code := 128 + int(syscall.SIGINT)
	if s == syscall.SIGTERM {
		code = 128 + int(syscall.SIGTERM)
	}
	return &stdio.Error{Code: code, Reason: "interrupted"}
}

// closeUnlessInterrupted closes a device or a queue. After an interrupt it does nothing:
// closing would wait for work that may still run, and the program exits anyway.
func closeUnlessInterrupted(ctx context.Context, c io.Closer) {
	if ctx.Err() == nil {
		c.Close()
	}
}

// patience is how long to wait for an interrupted function.
const patience = 150 * time.Millisecond

// untilInterrupted calls f and returns its error, or the context's error soon after the
// context has ended. f then continues in the background until the program exits.
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
