//go:build !linux

package shm

import "time"

// Listener is not supported on this system.
type Listener struct{}

var errNoListener = &Error{Op: "listen", Reason: ErrUnsupported}

// Listen fails.
func Listen(name string) (*Listener, error) { return nil, errNoListener }

// Accept fails.
func (l *Listener) Accept() (*Conn, error) { return nil, errNoListener }

// SetDeadline fails.
func (l *Listener) SetDeadline(t time.Time) error { return errNoListener }

// Close fails.
func (l *Listener) Close() error { return errNoListener }

// Dial fails.
func Dial(name string) (*Conn, error) { return nil, &Error{Op: "connect", Reason: ErrUnsupported} }
