package openai

import (
	"errors"
	"fmt"

	"tokitai/tensor"
)

// Error is an error in a request.
type Error struct {
	Param string // the member that is wrong; "" for the request as a whole
	Code  string // UnknownModel, Unsupported, or none
	cause error
}

// Codes of errors.
const (
	UnknownModel = "model_not_found"
	Unsupported  = "unsupported_parameter"
)

func (e *Error) Error() string {
	if e.Param == "" {
		return e.cause.Error()
	}
	return e.Param + ": " + e.cause.Error()
}

// Unwrap returns the error in the member.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is tensor.ErrBadArgument.
func (e *Error) Is(target error) bool { return target == tensor.ErrBadArgument }

var errUnsupported = errors.New("is not supported")

// badParam returns an error in a member of a request.
func badParam(param, format string, args ...any) *Error {
	return &Error{Param: param, cause: fmt.Errorf(format, args...)}
}
