package device

import (
	"errors"
	"fmt"
	"strings"
)

// What can go wrong, for errors.Is. A canceled call gives the context's own
// error. The types below carry the details, for errors.As.
var (
	ErrBadArgument = errors.New("bad argument")
	ErrNoDevice    = errors.New("no such device")
	ErrOutOfMemory = errors.New("out of memory")
	ErrLost        = errors.New("device lost")
	ErrClosed      = errors.New("already closed")
)

// ArgumentError is a call that no device could carry out.
type ArgumentError struct {
	Call string // "cpu: alloc"
	Got  string // "0 bytes"
	Want string // "at least 1"
}

func (e *ArgumentError) Error() string {
	return fmt.Sprintf("%s: got %s, want %s", e.Call, e.Got, e.Want)
}

func (e *ArgumentError) Is(target error) bool { return target == ErrBadArgument }

// NoDeviceError is a name that leads to no device.
type NoDeviceError struct {
	Name   string
	Known  []string // names, or forms of names, that would do
	Reason string   // why this one does not, where that is known
}

func (e *NoDeviceError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no device %q", e.Name)
	if e.Reason != "" {
		fmt.Fprintf(&b, ": %s", e.Reason)
	}
	if len(e.Known) > 0 {
		fmt.Fprintf(&b, "; known are %s", strings.Join(e.Known, ", "))
	}
	return b.String()
}

func (e *NoDeviceError) Is(target error) bool { return target == ErrNoDevice }

// OutOfMemoryError is an allocation that did not fit.
type OutOfMemoryError struct {
	Device      string
	Asked, Free int64 // bytes
}

func (e *OutOfMemoryError) Error() string {
	if e.Asked == 0 {
		return fmt.Sprintf("%s: out of memory: a driver's call needs some, %d bytes are free", e.Device, e.Free)
	}
	return fmt.Sprintf("%s: out of memory: asked for %d bytes, %d are free", e.Device, e.Asked, e.Free)
}

func (e *OutOfMemoryError) Is(target error) bool { return target == ErrOutOfMemory }

// LostError is a device that no longer answers. It stays lost in this process.
type LostError struct {
	Device string
	Cause  error
}

func (e *LostError) Error() string {
	if e.Cause == nil {
		return e.Device + ": device lost"
	}
	return fmt.Sprintf("%s: device lost: %v", e.Device, e.Cause)
}

func (e *LostError) Is(target error) bool { return target == ErrLost }

func (e *LostError) Unwrap() error { return e.Cause }
