package stdio

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"tokitai/device"
	"tokitai/device/cpu"
)

// Codes of errors that do not depend on the kernel. The others are in the kernel's row.
const (
	CodeHeader   = 2  // a header token that is missing or no number, a bad hyper-parameter
	CodeDevice   = 10 // the device failed, or has no memory left
	CodeLength   = 20 // the input ended within a frame's length
	CodePayload  = 21 // the input ended within a frame's payload
	CodeUsage    = 64 // an unknown kernel
	CodeInternal = 70 // a fault of this program

	codeBinaryShort = 30 // binary adamw, and so on to codeBinaryBody
	codeBinaryMagic = 31
	codeBinaryN     = 32
	codeBinaryT     = 33
	codeBinaryBody  = 34
)

// Error reports why a request was refused. It is the response of a server, the last line on
// standard error of a process for one request, and what a Client returns for either.
type Error struct {
	Code   int // also the exit code of a process that was asked once
	Reason string
	Cause  error // where another error led here; not on the wire
}

// Error returns the line that is sent, without its newline. Errors of binary adamw have no
// code there.
func (e *Error) Error() string {
	if _, ok := binaryReasons[e.Reason]; ok {
		return "ERR " + e.Reason
	}
	return fmt.Sprintf("ERR %d %s", e.Code, e.Reason)
}

func (e *Error) Unwrap() error { return e.Cause }

// binaryReasons has the codes of the errors of binary adamw, by their texts.
var binaryReasons = map[string]int{
	"binary request too short": codeBinaryShort,
	"bad binary magic":         codeBinaryMagic,
	"n out of range":           codeBinaryN,
	"t must be positive":       codeBinaryT,
	"payload body truncated":   codeBinaryBody,
	"payload body too long":    codeBinaryBody,
}

func binaryError(reason string) *Error { return &Error{Code: binaryReasons[reason], Reason: reason} }

func refuse(code int, format string, args ...any) *Error {
	return &Error{Code: code, Reason: oneLine(fmt.Sprintf(format, args...))}
}

// failed returns the error of a computation: the device's, or a kernel's panic on the host.
func failed(err error) *Error {
	code := CodeDevice
	if _, ok := errors.AsType[*cpu.PanicError](err); ok {
		code = CodeInternal
	}
	reason, _, _ := strings.Cut(err.Error(), "\n") // without the stack of a panic
	return &Error{Code: code, Reason: oneLine(reason), Cause: err}
}

// isLost reports whether the device is lost.
func isLost(err error) bool { return errors.Is(err, device.ErrLost) }

// oneLine returns a text on one line.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
