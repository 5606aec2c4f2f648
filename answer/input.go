package answer

import (
	"fmt"

	"tokitai/tensor"
)

// inputError is an error about something that was given: a model, a prompt, a parameter.
type inputError struct{ cause error }

func badInput(format string, args ...any) error { return &inputError{fmt.Errorf(format, args...)} }

func (e *inputError) Error() string        { return e.cause.Error() }
func (e *inputError) Unwrap() error        { return e.cause }
func (e *inputError) Is(target error) bool { return target == tensor.ErrBadArgument }
