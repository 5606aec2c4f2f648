package protocol

import "errors"

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

// ErrNoHandle reports a handle or an arena that the process does not have.
var ErrNoHandle = errors.New("no such handle or arena")

// ErrUnsupported reports a request that the process does not understand.
var ErrUnsupported = errors.New("not supported")

// Detail is a part of an error, by name.
type Detail struct{ Name, Value string }

// Failure is the error reply.
type Failure struct {
	Code    Code
	Message string
	Details []Detail

	// Cause is the error that the reply stands for. It is not sent: the sender made the
	// reply of it, and a receiver may set it to an error of its own (package failure).
	Cause error
}

func (f *Failure) Error() string { return f.Message }

// Unwrap returns Cause.
func (f *Failure) Unwrap() error { return f.Cause }

// Detail returns the value of the named detail, or "".
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

// ParseFailure is the inverse of Append.
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
	return f, nil
}
