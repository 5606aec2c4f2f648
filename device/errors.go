package device

import (
	"errors"
	"fmt"
	"strings"
)

// What can go wrong, for errors.Is. A canceled call gives the context's own
// error. The types below carry the details, for errors.As.
var (
	ErrBadArgument = errors.New("bad argument")
	ErrNoDevice    = errors.New("no such device")
	ErrOutOfMemory = errors.New("out of memory")
	ErrLost        = errors.New("device lost")
	ErrClosed      = errors.New("already closed")
)

// ArgumentError is a call refused for what it was given, before anything was written. With
// an Operand, Got is its predicate and Want the predicate's object, so that the parts read
// as a sentence; without one, Got is the thing itself:
//
//	Op              Operand  Got              Want
//	softmax.forward y        has shape [4 8]  [4 16] like x
//	softmax.forward x        is nil
//	gemm.forward    c        overlaps a
//	cpu: alloc               0 bytes          at least 1
type ArgumentError struct {
	Op      string // the call, as it is named everywhere: "softmax.forward", "cpu: alloc"
	Operand string // which argument: "y"
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

// Is makes errors.Is(err, ErrBadArgument) true.
func (e *ArgumentError) Is(target error) bool { return target == ErrBadArgument }

// Unwrap returns Cause.
func (e *ArgumentError) Unwrap() error { return e.Cause }

// NoDeviceError is a name that leads to no device.
type NoDeviceError struct {
	Name   string
	Known  []string // names, or forms of names, that would do
	Reason string   // why this one does not, where that is known
}

func (e *NoDeviceError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no device %q", e.Name)
	if e.Reason != "" {
		fmt.Fprintf(&b, ": %s", e.Reason)
	}
	if len(e.Known) > 0 {
		fmt.Fprintf(&b, "; known are %s", strings.Join(e.Known, ", "))
	}
	return b.String()
}

func (e *NoDeviceError) Is(target error) bool { return target == ErrNoDevice }

// OutOfMemoryError is an allocation that did not fit.
type OutOfMemoryError struct {
	Device      string
	Asked, Free int64 // bytes
}

func (e *OutOfMemoryError) Error() string {
	if e.Asked == 0 {
		return fmt.Sprintf("%s: out of memory: a driver's call needs some, %d bytes are free", e.Device, e.Free)
	}
	return fmt.Sprintf("%s: out of memory: asked for %d bytes, %d are free", e.Device, e.Asked, e.Free)
}

func (e *OutOfMemoryError) Is(target error) bool { return target == ErrOutOfMemory }

// LostError is a device that no longer answers. It stays lost in this process.
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
