//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package shm

import (
	"net"
	"os"
	"time"
)

// Conn is not supported on this system.
type Conn struct{}

var errNoConn = &Error{Op: "connect", Reason: ErrUnsupported}

// Pair fails.
func Pair() (*Conn, *os.File, error) { return nil, nil, errNoConn }

// FromFD fails.
func FromFD(fd int) (*Conn, error) { return nil, errNoConn }

// Read fails.
func (c *Conn) Read(p []byte) (int, error) { return 0, errNoConn }

// TakeFD returns none.
func (c *Conn) TakeFD() (fd int, ok bool) { return -1, false }

// Write fails.
func (c *Conn) Write(p []byte, fds ...int) (int, error) { return 0, errNoConn }

// WriteBuffers fails.
func (c *Conn) WriteBuffers(buffers net.Buffers, fds ...int) (int64, error) { return 0, errNoConn }

// Close fails.
func (c *Conn) Close() error { return errNoConn }

// CloseWrite fails.
func (c *Conn) CloseWrite() error { return errNoConn }

// SetDeadline fails.
func (c *Conn) SetDeadline(t time.Time) error { return errNoConn }

// SetReadDeadline fails.
func (c *Conn) SetReadDeadline(t time.Time) error { return errNoConn }

// SetWriteDeadline fails.
func (c *Conn) SetWriteDeadline(t time.Time) error { return errNoConn }
