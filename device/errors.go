package device

import (
	"errors"
	"fmt"
	"strings"
)

// Errors for errors.Is. The types below carry the details, for errors.As. A
// canceled call returns the context's own error.
var (
	ErrBadArgument = errors.New("bad argument")
	ErrNoDevice    = errors.New("no such device")
	ErrOutOfMemory = errors.New("out of memory")
	ErrLost        = errors.New("device lost")
	ErrClosed      = errors.New("already closed")
)

// ArgumentError reports a bad argument of a call, which has written nothing. With an
// Operand, Got is its predicate and Want the predicate's object, so that the parts read as
// a sentence; without one, Got is the argument itself:
//
//	Op              Operand  Got              Want
//	softmax.forward y        has shape [4 8]  [4 16] like x
//	softmax.forward x        is nil
//	gemm.forward    c        overlaps a
//	cpu: alloc               0 bytes          at least 1
type ArgumentError struct {
	Op      string // the operation: "softmax.forward", "cpu: alloc"
	Operand string // the argument: "y"
	Clause  string // the clause of the contract, if there is one: "softmax.C1"
	Got     string // what is wrong: "has shape [4 8]"
	Want    string // what would be accepted, if that can be said: "[4 16] like x"
	Cause   error  // the underlying error, if there is one
}

// Error returns "softmax.forward: y has shape [4 8], want [4 16] like x (softmax.C1)", or
// "cpu: alloc: got 0 bytes, want at least 1".
func (e *ArgumentError) Error() string {
	var b strings.Builder
	subject := e.Operand
	if subject == "" {
		subject = "got"
	}
	fmt.Fprintf(&b, "%s: %s %s", e.Op, subject, e.Got)
	if e.Want != "" {
		fmt.Fprintf(&b, ", want %s", e.Want)
	}
	if e.Clause != "" {
		fmt.Fprintf(&b, " (%s)", e.Clause)
	}
	return b.String()
}

// Is reports whether target is ErrBadArgument.
func (e *ArgumentError) Is(target error) bool { return target == ErrBadArgument }

// Unwrap returns Cause.
func (e *ArgumentError) Unwrap() error { return e.Cause }

// NoDeviceError reports a name that matches no available device.
type NoDeviceError struct {
	Name   string
	Known  []string // valid names, or their forms: "cuda:<index>"
	Reason string   // why the name matches none, if known
}

func (e *NoDeviceError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no device %q", e.Name)
	if e.Reason != "" {
		fmt.Fprintf(&b, ": %s", e.Reason)
	}
	if len(e.Known) > 0 {
		fmt.Fprintf(&b, "; known: %s", strings.Join(e.Known, ", "))
	}
	return b.String()
}

func (e *NoDeviceError) Is(target error) bool { return target == ErrNoDevice }

// OutOfMemoryError reports an allocation that did not fit.
type OutOfMemoryError struct {
	Device      string
	Asked, Free int64 // bytes; Asked is 0 when only the driver knows
}

func (e *OutOfMemoryError) Error() string {
	if e.Asked == 0 {
		return fmt.Sprintf("%s: out of memory in a driver call, %d bytes are free", e.Device, e.Free)
	}
	return fmt.Sprintf("%s: out of memory: asked for %d bytes, %d are free", e.Device, e.Asked, e.Free)
}

func (e *OutOfMemoryError) Is(target error) bool { return target == ErrOutOfMemory }

// LostError reports a device that no longer works. It stays lost for the rest
// of the process.
type LostError struct {
	Device string
	Cause  error
}

func (e *LostError) Error() string {
	if e.Cause == nil {
		return e.Device + ": device lost"
	}
	return fmt.Sprintf("%s: device lost: %v", e.Device, e.Cause)
}

func (e *LostError) Is(target error) bool { return target == ErrLost }

func (e *LostError) Unwrap() error { return e.Cause }
