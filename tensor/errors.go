package tensor

import (
	"fmt"

	"tokitai/device"
)

// ErrBadArgument is [device.ErrBadArgument]. It matches every error about an argument of a
// tensor, an operation or a device, by errors.Is.
var ErrBadArgument = device.ErrBadArgument

// BadInput returns an error about something that was given, which is an ErrBadArgument. The error and what it wraps
// are those of fmt.Errorf.
func BadInput(format string, args ...any) error { return &inputError{fmt.Errorf(format, args...)} }

type inputError struct{ cause error }

func (e *inputError) Error() string        { return e.cause.Error() }
func (e *inputError) Unwrap() error        { return e.cause }
func (e *inputError) Is(target error) bool { return target == ErrBadArgument }

// Check returns an ArgumentError for the operation and operand if t is nil or
// closed. It allocates only for the error.
func Check(op, operand string, t *Tensor) error {
	if t == nil {
		return &device.ArgumentError{Op: op, Operand: operand, Got: "is nil"}
	}
	if t.isClosed() {
		return &device.ArgumentError{Op: op, Operand: operand, Got: "is closed", Cause: device.ErrClosed}
	}
	return nil
}
