package tensor

import "tokitai/device"

// ErrBadArgument is [device.ErrBadArgument]. It matches every error about an argument of a
// tensor, an operation or a device, by errors.Is.
var ErrBadArgument = device.ErrBadArgument

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
