package engine

import (
	"errors"
	"fmt"

	"tokitai/def"
	"tokitai/tensor"
)

// ErrInadmissible is what every [InadmissibleError] is.
var ErrInadmissible = errors.New("inadmissible lowering")

// InadmissibleError says why a lowering may not be used on a device.
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

// Unwrap returns what went wrong.
func (e *InadmissibleError) Unwrap() error { return e.Cause }

// LaunchError is a kernel that failed after it was launched: its outputs may be
// partly written.
type LaunchError struct {
	Op    string
	Cause error
}

func (e *LaunchError) Error() string { return e.Op + ": " + e.Cause.Error() }

// Unwrap returns what went wrong.
func (e *LaunchError) Unwrap() error { return e.Cause }

// IndexError is a bad index that was rejected. Nothing has been written. On the CPU the
// call returns it. On a GPU, whose calls are asynchronous, waiting for the queue or for an
// event does, once. Later calls on the queue return it too, from when the host knows until
// it has been returned by waiting; calls that were accepted before run. The host knows
// when an event recorded after the call is seen to be done, and looks without waiting at
// every sixteenth index operand that is checked.
type IndexError struct {
	Op       string
	Operand  string
	Position int
	Value    int32
	Bound    int
	Except   string // one more value that is allowed, said in words, or ""
}

// NewIndexError returns the error of a call whose operand, by its number, has a bad index
// at a position. except is the value of the parameter that allows one more index, for an
// operand that has one.
func NewIndexError(d *def.Definition, operand, position int, value int32, bound int, except int32) *IndexError {
	o := &d.Operands[operand]
	err := &IndexError{Op: d.Name, Operand: o.Name, Position: position, Value: value, Bound: bound}
	if o.Except != "" {
		err.Except = fmt.Sprintf(" or %d (%s)", except, o.Except)
	}
	return err
}

// Is makes errors.Is(err, tensor.ErrBadArgument) true.
func (e *IndexError) Is(target error) bool { return target == tensor.ErrBadArgument }

func (e *IndexError) Error() string {
	return fmt.Sprintf("%s: %s[%d] is %d, want 0 to %d%s", e.Op, e.Operand, e.Position, e.Value, e.Bound-1, e.Except)
}
