package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"tokitai/answer"
	"tokitai/answer/openai"
	"tokitai/tensor"
)

// apiError is an error as clients get it.
type apiError struct {
	status  int
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func (e *apiError) Error() string { return e.Message }

func newError(status int, kind, code, format string, args ...any) *apiError {
	e := &apiError{status: status, Message: fmt.Sprintf(format, args...), Type: kind}
	if code != "" {
		e.Code = &code
	}
	return e
}

// tooLarge returns the error for requests of more than most bytes.
func tooLarge(most int64) error {
	return newError(http.StatusRequestEntityTooLarge, badRequest, "too_large", "the request has more than %d bytes, which is the most that this server takes", most)
}

// errStopping is what requests get from a server that stops.
var errStopping = newError(http.StatusServiceUnavailable, "server_error", "stopping", "the server is stopping")

const badRequest = "invalid_request_error"

// errorOf returns an error as clients get it.
func errorOf(err error) *apiError {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return requestError(e)
	}
	switch {
	case errors.Is(err, answer.ErrBusy):
		return newError(http.StatusTooManyRequests, "server_busy", "busy", "too many requests are waiting; try again later")
	case errors.Is(err, answer.ErrClosed):
		return errStopping
	case errors.Is(err, answer.ErrTooLong):
		return newError(http.StatusBadRequest, badRequest, "context_length_exceeded", "%v", err)
	case errors.Is(err, tensor.ErrBadArgument):
		return newError(http.StatusBadRequest, badRequest, "", "%v", err)
	case errors.Is(err, context.DeadlineExceeded):
		return newError(http.StatusGatewayTimeout, "server_error", "timeout", "the answer took longer than this server allows")
	}
	return newError(http.StatusInternalServerError, "server_error", "", "%v", err)
}

// requestError returns an error in a request as clients get it.
func requestError(e *openai.Error) *apiError {
	status := http.StatusBadRequest
	if e.Code == openai.UnknownModel {
		status = http.StatusNotFound
	}
	a := newError(status, badRequest, e.Code, "%v", e)
	if e.Param != "" {
		a.Param = &e.Param
	}
	return a
}

// writeError writes an error as the whole response.
func writeError(w http.ResponseWriter, err error) {
	e := errorOf(err)
	if e.status == http.StatusTooManyRequests || e.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	writeJSON(w, e.status, map[string]any{"error": e})
}

// retryAfter is in how many seconds a busy server may be asked again.
const retryAfter = 2

func writeJSON(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}
