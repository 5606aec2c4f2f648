package protocol

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/tensor"
)

// Code is the kind of an error.
type Code uint32

// The codes.
const (
	CodeMalformed Code = 1 + iota
	CodeBadArgument
	CodeNoDevice
	CodeOutOfMemory
	CodeInadmissible
	CodeLost
	CodeCanceled
	CodeNoHandle
	CodeTooLong
	CodeUnsupported
	CodeInternal
	CodeVersion
	CodeDefinition
)

// ErrNoHandle is a handle or an arena that the process does not have.
var ErrNoHandle = errors.New("no such handle or arena")

// ErrUnsupported is a request that the process does not understand.
var ErrUnsupported = errors.New("not supported")

// Detail is a part of an error, by name.
type Detail struct{ Name, Value string }

// Failure is the error reply.
type Failure struct {
	Code    Code
	Message string
	Details []Detail

	cause error // what Go has for it, where there is something
}

func (f *Failure) Error() string { return f.Message }

// Unwrap is the error that was sent, as far as its details tell: a *tensor.BadArgument,
// a *device.OutOfMemoryError and so on.
func (f *Failure) Unwrap() error { return f.cause }

// Detail is the value of a detail, "" if there is none.
func (f *Failure) Detail(name string) string {
	for _, d := range f.Details {
		if d.Name == name {
			return d.Value
		}
	}
	return ""
}

// Append adds the body to b.
func (f *Failure) Append(b []byte) []byte {
	b = appendU32(b, uint32(f.Code))
	b = appendString(b, clipped(f.Message))
	b = appendU32(b, uint32(len(f.Details)))
	for _, d := range f.Details {
		b = appendString(appendString(b, clipped(d.Name)), clipped(d.Value))
	}
	return b
}

// ParseFailure is the inverse of Append, and finds the cause.
func ParseFailure(body []byte) (*Failure, error) {
	r := reader{rest: body}
	f := &Failure{Code: Code(r.u32("code")), Message: r.string("message")}
	f.Details = make([]Detail, r.count("details", 8))
	for i := range f.Details {
		f.Details[i] = Detail{Name: r.string("detail"), Value: r.string("value")}
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	f.cause = f.goError()
	return f, nil
}

// FailureOf is what a server sends for an error.
func FailureOf(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	f := &Failure{Code: CodeInternal, Message: err.Error(), cause: err}
	add := func(name, value string) {
		if value != "" {
			f.Details = append(f.Details, Detail{name, value})
		}
	}
	integer := func(name string, value int64) { add(name, strconv.FormatInt(value, 10)) }
	lost, isLost := errors.AsType[*device.LostError](err)
	if e, ok := errors.AsType[*engine.InadmissibleError](err); ok && !isLost { // a kernel cannot be blamed for a lost device
		f.Code = CodeInadmissible
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
		f.Code = CodeLost
		add("device", lost.Device)
	} else if e, ok := errors.AsType[*device.OutOfMemoryError](err); ok {
		f.Code = CodeOutOfMemory
		add("device", e.Device)
		integer("asked", e.Asked)
		integer("free", e.Free)
	} else if e, ok := errors.AsType[*device.NoDeviceError](err); ok {
		f.Code = CodeNoDevice
		add("device", e.Name)
		add("reason", e.Reason)
		add("known", strings.Join(e.Known, ", "))
	} else if e, ok := errors.AsType[*engine.IndexError](err); ok {
		f.Code = CodeBadArgument
		add("op", e.Op)
		add("operand", e.Operand)
		integer("position", int64(e.Position))
		integer("value", int64(e.Value))
		integer("bound", int64(e.Bound))
		add("except", e.Except)
	} else if e, ok := errors.AsType[*tensor.BadArgument](err); ok {
		f.Code = CodeBadArgument
		add("op", e.Op)
		add("operand", e.Operand)
		add("clause", e.Clause)
		add("got", e.Got)
		add("want", e.Want)
	} else if e, ok := errors.AsType[*def.SyntaxError](err); ok {
		f.Code = CodeDefinition
		integer("line", int64(e.Line))
		integer("column", int64(e.Column))
		add("reason", e.Message)
	} else if e, ok := errors.AsType[*device.ArgumentError](err); ok {
		f.Code = CodeBadArgument
		add("op", e.Call)
		add("got", e.Got)
		add("want", e.Want)
	} else {
		for _, k := range [...]struct {
			is   error
			code Code
		}{
			{device.ErrBadArgument, CodeBadArgument}, {device.ErrNoDevice, CodeNoDevice}, {device.ErrOutOfMemory, CodeOutOfMemory},
			{device.ErrLost, CodeLost}, {engine.ErrInadmissible, CodeInadmissible}, {context.Canceled, CodeCanceled},
			{context.DeadlineExceeded, CodeCanceled}, {ErrNoHandle, CodeNoHandle}, {ErrUnsupported, CodeUnsupported},
		} {
			if errors.Is(err, k.is) {
				f.Code = k.code
				break
			}
		}
	}
	return f
}

// goError is the inverse of FailureOf, as far as details go.
func (f *Failure) goError() error {
	err := f.goErrorAsSuch()
	if op := f.Detail("launched"); op != "" {
		switch {
		case err == nil && f.Code != CodeInternal:
			return nil // no error of a kernel
		case err == nil:
			err = errors.New(f.messageAfter(op + ": "))
		}
		return &engine.LaunchError{Op: op, Cause: err}
	}
	return err
}

// goErrorAsSuch leaves aside whether a kernel had been launched.
func (f *Failure) goErrorAsSuch() error {
	integer := func(name string) int64 {
		v, _ := strconv.ParseInt(f.Detail(name), 10, 64)
		return v
	}
	op, operand, got, want := f.Detail("op"), f.Detail("operand"), f.Detail("got"), f.Detail("want")
	where, reason := f.Detail("device"), f.Detail("reason")
	switch f.Code {
	case CodeBadArgument:
		switch {
		case f.Detail("bound") != "":
			return &engine.IndexError{Op: op, Operand: operand, Position: int(integer("position")), Value: int32(integer("value")),
				Bound: int(integer("bound")), Except: f.Detail("except")}
		case operand != "":
			return &tensor.BadArgument{Op: op, Operand: operand, Clause: f.Detail("clause"), Got: got, Want: want}
		case op != "":
			return &device.ArgumentError{Call: op, Got: got, Want: want}
		}
		return device.ErrBadArgument
	case CodeNoDevice:
		err := &device.NoDeviceError{Name: where, Reason: reason}
		if known := f.Detail("known"); known != "" {
			err.Known = strings.Split(known, ", ")
		}
		return err
	case CodeOutOfMemory:
		return &device.OutOfMemoryError{Device: where, Asked: integer("asked"), Free: integer("free")}
	case CodeInadmissible:
		return &engine.InadmissibleError{Lowering: f.Detail("lowering"), Device: where, Test: f.Detail("test"), Reason: reason}
	case CodeLost:
		return &device.LostError{Device: where, Cause: errors.New(f.messageAfter(where + ": device lost: "))}
	case CodeCanceled:
		return context.Canceled
	case CodeNoHandle:
		return ErrNoHandle
	case CodeUnsupported:
		return ErrUnsupported
	case CodeDefinition:
		return &def.SyntaxError{Line: int(integer("line")), Column: int(integer("column")), Message: reason}
	}
	return nil
}

// messageAfter is what the message says of the cause, which follows those words; all of it
// where they do not occur.
func (f *Failure) messageAfter(words string) string {
	if _, after, ok := strings.Cut(f.Message, words); ok {
		return after
	}
	return f.Message
}
