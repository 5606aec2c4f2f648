//go:build !linux || !(amd64 || arm64) || nogpu

package dl

import (
	"fmt"
	"runtime"
)

const supported = false

var unsupportedReason = fmt.Sprintf("GPUs are supported on linux/amd64 and linux/arm64, without the build tag nogpu; this is %s/%s",
	runtime.GOOS, runtime.GOARCH)

// Library is an open shared library; this build has none.
type Library struct {
	path string
}

func open(string) (*Library, error) { return nil, ErrUnsupported }

// Preload returns ErrUnsupported.
func Preload(string) error { return ErrUnsupported }

// Proc returns a SymbolError.
func (l *Library) Proc(name string) (Proc, error) {
	return 0, &SymbolError{Library: l.path, Symbol: name}
}

// Close does nothing.
func (l *Library) Close() error { return nil }

// Proc is a C function; this build has none.
type Proc uintptr

// Call panics: this build has no Procs.
func (p Proc) Call([]uintptr) uintptr { panic("dl: " + ErrUnsupported.Error()) }
