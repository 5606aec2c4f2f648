// Package filelock locks files against other processes. The system lets go of a lock when the file is
// closed or the process ends, however it ends. Start with Try.
package filelock

import (
	"errors"
	"os"
)

// ErrHeld is the error of a lock that another process holds.
var ErrHeld = errors.New("another process holds it")

// Try locks an open file. It returns ErrHeld if another process, or another opening of the file, has
// locked it.
func Try(f *os.File) error { return try(f) }
