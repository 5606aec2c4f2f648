package tensor

import (
	"strings"

	"tokitai/device"
)

// ErrBadArgument is what errors.Is finds in every BadArgument, and in the
// devices' own refusals.
var ErrBadArgument = device.ErrBadArgument

// BadArgument is a call refused for what it was given, before anything was
// written. Got is a predicate of Operand and Want its object, so that the parts
// read as a sentence:
//
//	Op              Operand  Got                Want
//	softmax.forward y        has shape [4 8]    [4 16] like x
//	softmax.forward x        is nil
//	gemm.forward    c        overlaps a
type BadArgument struct {
	Op      string // the call, as it is named everywhere: "softmax.forward"
	Operand string // which argument: "y"
	Clause  string // the clause of the contract, where there is one: "softmax.C1"
	Got     string // what is wrong with it: "has shape [4 8]"
	Want    string // what would do, where that can be said: "[4 16] like x"
	Cause   error  // the error beneath, where there is one, for errors.Is
}

// Error reads "softmax.forward: y has shape [4 8], want [4 16] like x
// (softmax.C1)".
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

// Is makes every BadArgument an ErrBadArgument.
func (e *BadArgument) Is(target error) bool { return target == ErrBadArgument }

func (e *BadArgument) Unwrap() error { return e.Cause }

// Check refuses a nil or closed tensor in the words of a call: the operand's
// name stands in the error. It allocates nothing when there is nothing to
// refuse.
func Check(op, operand string, t *Tensor) error {
	if t == nil {
		return &BadArgument{Op: op, Operand: operand, Got: "is nil"}
	}
	if t.isClosed() {
		return &BadArgument{Op: op, Operand: operand, Got: "is closed", Cause: device.ErrClosed}
	}
	return nil
}
