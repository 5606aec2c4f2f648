package tensor

import (
	"strings"

	"tokitai/device"
)

// ErrBadArgument matches every BadArgument and every device.ArgumentError, by
// errors.Is.
var ErrBadArgument = device.ErrBadArgument

// BadArgument reports a bad argument of a call, which has written nothing. Got is
// a predicate of Operand and Want its object, so that the parts read as a
// sentence:
//
//	Op              Operand  Got                Want
//	softmax.forward y        has shape [4 8]    [4 16] like x
//	softmax.forward x        is nil
//	gemm.forward    c        overlaps a
type BadArgument struct {
	Op      string // the operation: "softmax.forward"
	Operand string // the argument: "y"
	Clause  string // the clause of the contract, if any: "softmax.C1"
	Got     string // what is wrong with it: "has shape [4 8]"
	Want    string // what is expected, if that can be said: "[4 16] like x"
	Cause   error  // the underlying error, if any
}

// Error returns a message such as "softmax.forward: y has shape [4 8], want
// [4 16] like x (softmax.C1)".
func (e *BadArgument) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	b.WriteString(": ")
	b.WriteString(e.Operand)
	b.WriteString(" ")
	b.WriteString(e.Got)
	if e.Want != "" {
		b.WriteString(", want ")
		b.WriteString(e.Want)
	}
	if e.Clause != "" {
		b.WriteString(" (")
		b.WriteString(e.Clause)
		b.WriteString(")")
	}
	return b.String()
}

// Is reports whether target is ErrBadArgument.
func (e *BadArgument) Is(target error) bool { return target == ErrBadArgument }

func (e *BadArgument) Unwrap() error { return e.Cause }

// Check returns a BadArgument for the operation and operand if t is nil or
// closed. It allocates only for the error.
func Check(op, operand string, t *Tensor) error {
	if t == nil {
		return &BadArgument{Op: op, Operand: operand, Got: "is nil"}
	}
	if t.isClosed() {
		return &BadArgument{Op: op, Operand: operand, Got: "is closed", Cause: device.ErrClosed}
	}
	return nil
}
