package kernelprocess

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors besides those of calls in this process, for errors.Is.
var (
	// ErrDied reports that a kernel process ended while it was needed: see [DiedError].
	ErrDied = errors.New("kernel process died")

	// ErrRefused reports that a kernel process is not started again: see [RefusedError].
	ErrRefused = errors.New("kernel process is not started again")

	// ErrStateLost reports that memory was lost with its kernel process: see [StateLostError].
	ErrStateLost = errors.New("memory was lost with its kernel process")

	// ErrNoProgram reports that there is no program to start: see [Options.Program].
	ErrNoProgram = errors.New("no program for kernel processes")
)

// Why the host ends a kernel process: causes of a [DiedError].
var (
	errHung         = errors.New("hung: an abandoned request was not answered")
	errClosedStream = errors.New("it closed its connection without exiting")
	errSilent       = errors.New("handshake timed out")
)

// DiedError reports a kernel process that ended before it answered.
type DiedError struct {
	Device    string // process:cpu
	Group     string
	Program   string
	PID       int    // 0 where it could not be started
	Exit      string // how it ended: "signal: killed", "exit status 2"; "" where it was not started
	LastWords string // the end of what it wrote to its standard error
	Cause     error  // why it was ended or could not be used; nil where it ended by itself
	InStart   bool   // it had not yet said what it is
}

func (e *DiedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: kernel process died", e.Device)
	if e.InStart {
		fmt.Fprintf(&b, " at its start (%s)", e.Program)
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	if e.Exit != "" {
		fmt.Fprintf(&b, " (%s)", e.Exit)
	}
	if e.LastWords != "" {
		fmt.Fprintf(&b, "; its last words: %s", e.LastWords)
	}
	return b.String()
}

// Is makes errors.Is(err, ErrDied) true.
func (e *DiedError) Is(target error) bool { return target == ErrDied }

func (e *DiedError) Unwrap() error { return e.Cause }

// RefusedError reports that no process is started for a call, because too many have died.
// Calls return it until [Device.Reset].
type RefusedError struct {
	Device string
	Deaths int
	Within time.Duration
	Last   error // the last death
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s: refused after %d deaths within %v: %v", e.Device, e.Deaths, e.Within, e.Last)
}

// Is makes errors.Is(err, ErrRefused) true.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

func (e *RefusedError) Unwrap() error { return e.Last }

// StateLostError reports the use of memory of a process that has ended.
type StateLostError struct {
	Device string
	Cause  error // the process's end
}

func (e *StateLostError) Error() string {
	return fmt.Sprintf("%s: %v: %v", e.Device, ErrStateLost, e.Cause)
}

// Is makes errors.Is(err, ErrStateLost) true.
func (e *StateLostError) Is(target error) bool { return target == ErrStateLost }

func (e *StateLostError) Unwrap() error { return e.Cause }

// MisbehavedError reports a reply that the protocol does not allow. The process that sent it
// is killed, because none of its replies can be trusted.
type MisbehavedError struct {
	Got, Want string
}

func (e *MisbehavedError) Error() string {
	return fmt.Sprintf("it misbehaved: got %s, want %s", e.Got, e.Want)
}
