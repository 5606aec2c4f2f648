package engine

import (
	"errors"
	"fmt"

	"tokitai/def"
	"tokitai/tensor"
)

// ErrInadmissible matches every [InadmissibleError].
var ErrInadmissible = errors.New("inadmissible lowering")

// InadmissibleError reports why a lowering may not be used on a device.
type InadmissibleError struct {
	Lowering string // its id: softmax.forward/cpu.rowwise
	Device   string
	Test     string // the self-test that failed, or ""
	Reason   string
	Cause    error
}

func (e *InadmissibleError) Error() string {
	test := ""
	if e.Test != "" {
		test = "self-test " + e.Test + ": "
	}
	return fmt.Sprintf("%s is inadmissible on %s: %s%s", e.Lowering, e.Device, test, e.Reason)
}

// Is makes errors.Is(err, ErrInadmissible) true.
func (e *InadmissibleError) Is(target error) bool { return target == ErrInadmissible }

// Unwrap returns the cause.
func (e *InadmissibleError) Unwrap() error { return e.Cause }

// LaunchError reports a kernel that failed after its launch. Its outputs may be partly
// written.
type LaunchError struct {
	Op    string
	Cause error
}

func (e *LaunchError) Error() string { return e.Op + ": " + e.Cause.Error() }

// Unwrap returns what went wrong.
func (e *LaunchError) Unwrap() error { return e.Cause }

// IndexError reports an index out of range. The call has written nothing. On the CPU the
// call itself returns it. On a GPU calls are asynchronous: waiting for the queue or for an
// event returns it, once. Until then, later calls on the queue return it too as soon as
// the host knows of it; calls accepted earlier run. The host learns of it when an event
// recorded after the call is done, and polls at every sixteenth checked index operand.
type IndexError struct {
	Op       string
	Operand  string
	Position int // counted row after row
	Columns  int // of an operand with rows and columns, else 0
	Value    int32
	Bound    int
	Except   string // one more allowed value, in words, or ""
	IsOffset bool   // it is one of the offsets of groups, which ascend from 0 to Bound
}

// NewIndexError returns the error of a call whose operand, by its number, has a bad index
// at a position. columns are those of the operand; except is the value of the parameter that allows one more index, for an
// operand that has one.
func NewIndexError(d *def.Definition, operand, position, columns int, value int32, bound int, except int32) *IndexError {
	o := &d.Operands[operand]
	err := &IndexError{Op: d.Name, Operand: o.Name, Position: position, Value: value, Bound: bound, IsOffset: o.IsOffsets}
	if len(o.Dims) > 1 {
		err.Columns = columns
	}
	if o.Except != "" {
		err.Except = fmt.Sprintf(" or %d (%s)", except, o.Except)
	}
	return err
}

// Is makes errors.Is(err, tensor.ErrBadArgument) true.
func (e *IndexError) Is(target error) bool { return target == tensor.ErrBadArgument }

func (e *IndexError) Error() string {
	if e.IsOffset {
		return fmt.Sprintf("%s: %s[%d] is %d, want offsets that ascend from 0 to %d", e.Op, e.Operand, e.Position, e.Value, e.Bound)
	}
	at := fmt.Sprint(e.Position)
	if e.Columns > 0 {
		at = fmt.Sprintf("%d,%d", e.Position/e.Columns, e.Position%e.Columns)
	}
	return fmt.Sprintf("%s: %s[%s] is %d, want 0 to %d%s", e.Op, e.Operand, at, e.Value, e.Bound-1, e.Except)
}

// UnsuitedError is a call that a lowering cannot compute, by its Suits, or that a kernel of
// somebody else's refused.
type UnsuitedError struct {
	Lowering  string
	Cause     error
	IsRefused bool   // by the kernel, when it was launched
	Index     string // the operand in which the kernel found an index out of range; "" if it reported none
}

func (e *UnsuitedError) Error() string {
	return e.Lowering + " cannot compute this call: " + e.Cause.Error()
}
func (e *UnsuitedError) Unwrap() error { return e.Cause }

// RaisedError is an error of a kernel of somebody else's that ends a call without any outputs,
// after which the kernel goes on. The call may be one that is to be refused.
type RaisedError struct{ Cause error }

func (e *RaisedError) Error() string { return e.Cause.Error() }
func (e *RaisedError) Unwrap() error { return e.Cause }

// OutputError says that what a kernel returned cannot be an output at all: it has another
// size, shape or format, or there is none. The kernel is wrong, whatever its values are.
type OutputError struct {
	Operand string // "" if it is about all outputs together
	Format  string // which the output has instead of the one that was asked for; "" if that is not what is wrong
	Cause   error
}

func (e *OutputError) Error() string {
	if e.Operand == "" {
		return e.Cause.Error()
	}
	return e.Operand + ": " + e.Cause.Error()
}
func (e *OutputError) Unwrap() error { return e.Cause }

// ErrHung is a kernel that did not return in time.
var ErrHung = errors.New("it did not return in time")

// FaultError reports a kernel that broke a rule of its device: it accessed memory out of
// bounds, raced, or could not be launched. Whatever its outputs are, verification rejects the
// kernel.
type FaultError struct {
	Message string // what was broken, and where
}

func (e *FaultError) Error() string { return e.Message }
