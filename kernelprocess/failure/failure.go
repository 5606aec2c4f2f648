// Package failure converts between Go's errors and the error replies of kernel processes,
// so that errors.Is and errors.As find in a reply what they would find in the error that a
// call in this process returns. Package protocol has the reply as bytes and knows none of
// these errors.
package failure

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/kernelprocess/protocol"
)

// Of returns the reply to a request that ended in err. A *protocol.Failure in err is
// returned as it is.
func Of(err error) *protocol.Failure {
	if f, ok := errors.AsType[*protocol.Failure](err); ok {
		return f
	}
	f := &protocol.Failure{Code: protocol.CodeInternal, Message: err.Error(), Cause: err}
	add := func(name, value string) {
		if value != "" {
			f.Details = append(f.Details, protocol.Detail{Name: name, Value: value})
		}
	}
	integer := func(name string, value int64) { add(name, strconv.FormatInt(value, 10)) }
	lost, isLost := errors.AsType[*device.LostError](err)
	if e, ok := errors.AsType[*engine.InadmissibleError](err); ok && !isLost { // a kernel cannot be blamed for a lost device
		f.Code = protocol.CodeInadmissible
		add("lowering", e.Lowering)
		add("device", e.Device)
		add("test", e.Test)
		add("reason", e.Reason)
		return f
	}
	if e, ok := errors.AsType[*engine.LaunchError](err); ok {
		add("launched", e.Op)
	}
	if isLost {
		f.Code = protocol.CodeLost
		add("device", lost.Device)
	} else if e, ok := errors.AsType[*device.OutOfMemoryError](err); ok {
		f.Code = protocol.CodeOutOfMemory
		add("device", e.Device)
		integer("asked", e.Asked)
		integer("free", e.Free)
	} else if e, ok := errors.AsType[*device.NoDeviceError](err); ok {
		f.Code = protocol.CodeNoDevice
		add("device", e.Name)
		add("reason", e.Reason)
		add("known", strings.Join(e.Known, ", "))
	} else if e, ok := errors.AsType[*engine.IndexError](err); ok {
		f.Code = protocol.CodeBadArgument
		add("op", e.Op)
		add("operand", e.Operand)
		integer("position", int64(e.Position))
		if e.Columns > 0 {
			integer("columns", int64(e.Columns))
		}
		integer("value", int64(e.Value))
		integer("bound", int64(e.Bound))
		add("except", e.Except)
		if e.IsOffset {
			add("is_offset", "true")
		}
	} else if e, ok := errors.AsType[*device.ArgumentError](err); ok {
		f.Code = protocol.CodeBadArgument
		add("op", e.Op)
		add("operand", e.Operand)
		add("clause", e.Clause)
		add("got", e.Got)
		add("want", e.Want)
	} else if e, ok := errors.AsType[*def.SyntaxError](err); ok {
		f.Code = protocol.CodeDefinition
		integer("line", int64(e.Line))
		integer("column", int64(e.Column))
		add("reason", e.Message)
	} else {
		for _, k := range [...]struct {
			is   error
			code protocol.Code
		}{
			{device.ErrBadArgument, protocol.CodeBadArgument}, {device.ErrNoDevice, protocol.CodeNoDevice}, {device.ErrOutOfMemory, protocol.CodeOutOfMemory},
			{device.ErrLost, protocol.CodeLost}, {engine.ErrInadmissible, protocol.CodeInadmissible}, {context.Canceled, protocol.CodeCanceled},
			{context.DeadlineExceeded, protocol.CodeCanceled}, {protocol.ErrNoHandle, protocol.CodeNoHandle}, {protocol.ErrUnsupported, protocol.CodeUnsupported},
		} {
			if errors.Is(err, k.is) {
				f.Code = k.code
				break
			}
		}
	}
	return f
}

// Resolve sets f.Cause to the Go error that f was made of, as far as its details tell: a
// *device.ArgumentError, a *device.OutOfMemoryError and so on. It is the inverse of Of.
func Resolve(f *protocol.Failure) {
	f.Cause = withoutLaunch(f)
	op := f.Detail("launched")
	switch {
	case op == "":
	case f.Cause == nil && f.Code != protocol.CodeInternal:
		// Not an error of the kernel.
	case f.Cause == nil:
		f.Cause = &engine.LaunchError{Op: op, Cause: errors.New(messageAfter(f, op+": "))}
	default:
		f.Cause = &engine.LaunchError{Op: op, Cause: f.Cause}
	}
}

// withoutLaunch returns the error of f, leaving aside whether a kernel had been launched.
func withoutLaunch(f *protocol.Failure) error {
	integer := func(name string) int64 {
		v, _ := strconv.ParseInt(f.Detail(name), 10, 64)
		return v
	}
	op, operand, got, want := f.Detail("op"), f.Detail("operand"), f.Detail("got"), f.Detail("want")
	where, reason := f.Detail("device"), f.Detail("reason")
	switch f.Code {
	case protocol.CodeBadArgument:
		switch {
		case f.Detail("bound") != "":
			return &engine.IndexError{Op: op, Operand: operand, Position: int(integer("position")), Columns: int(integer("columns")), Value: int32(integer("value")),
				Bound: int(integer("bound")), Except: f.Detail("except"), IsOffset: f.Detail("is_offset") == "true"}
		case op != "":
			return &device.ArgumentError{Op: op, Operand: operand, Clause: f.Detail("clause"), Got: got, Want: want}
		}
		return device.ErrBadArgument
	case protocol.CodeNoDevice:
		err := &device.NoDeviceError{Name: where, Reason: reason}
		if known := f.Detail("known"); known != "" {
			err.Known = strings.Split(known, ", ")
		}
		return err
	case protocol.CodeOutOfMemory:
		return &device.OutOfMemoryError{Device: where, Asked: integer("asked"), Free: integer("free")}
	case protocol.CodeInadmissible:
		return &engine.InadmissibleError{Lowering: f.Detail("lowering"), Device: where, Test: f.Detail("test"), Reason: reason}
	case protocol.CodeLost:
		return &device.LostError{Device: where, Cause: errors.New(messageAfter(f, where+": device lost: "))}
	case protocol.CodeCanceled:
		return context.Canceled
	case protocol.CodeNoHandle:
		return protocol.ErrNoHandle
	case protocol.CodeUnsupported:
		return protocol.ErrUnsupported
	case protocol.CodeDefinition:
		return &def.SyntaxError{Line: int(integer("line")), Column: int(integer("column")), Message: reason}
	}
	return nil
}

// messageAfter returns the part of the message that follows the given words, or all of it
// if they do not occur.
func messageAfter(f *protocol.Failure, words string) string {
	if _, after, ok := strings.Cut(f.Message, words); ok {
		return after
	}
	return f.Message
}
