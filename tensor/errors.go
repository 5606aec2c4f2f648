package tensor

import "tokitai/device"

// ErrBadArgument is [device.ErrBadArgument]: errors.Is finds it in every refusal of an
// argument, by a tensor, an operation or a device.
var ErrBadArgument = device.ErrBadArgument

// BadArgument is [device.ArgumentError].
type BadArgument = device.ArgumentError

// Check refuses a nil or closed tensor in the words of a call: the operand's
// name stands in the error. It allocates nothing when there is nothing to
// refuse.
func Check(op, operand string, t *Tensor) error {
	if t == nil {
		return &device.ArgumentError{Op: op, Operand: operand, Got: "is nil"}
	}
	if t.isClosed() {
		return &device.ArgumentError{Op: op, Operand: operand, Got: "is closed", Cause: device.ErrClosed}
	}
	return nil
}
