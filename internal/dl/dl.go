// Package dl opens shared libraries at run time and calls their functions,
// without cgo.
//
// It is the only place that knows purego. On Linux (amd64, arm64) it works; on
// other systems, and with the build tag nogpu, which makes the program static,
// Open gives an error that is ErrUnsupported. A program that imports it starts on
// a machine without any of the libraries it may later ask for.
//
// Start with Open; search.go has the places where libraries are looked for.
package dl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

var (
	// ErrUnsupported is a build that cannot open libraries.
	ErrUnsupported = errors.New("this build cannot open libraries")
	// ErrNotFound is a library of which no candidate could be opened.
	ErrNotFound = errors.New("library not found")
)

// Request is a library to open.
type Request struct {
	What  string   // "the CUDA driver"
	Env   string   // the environment variable that names a file or a folder, and then nothing else is tried
	Files []string // file names, the preferred ones first: "libcuda.so.1"
	Dirs  []string // folders beside those of the system's loader; those that do not exist are passed over
	Hint  string   // how to get it

	Before func(path string) // where not nil, called before a path is tried
}

// Attempt is a candidate that did not open.
type Attempt struct {
	Path   string
	Reason string
}

// NotFoundError says what was tried, and how to get the library.
type NotFoundError struct {
	What  string
	Env   string
	Hint  string
	Tried []Attempt
}

func (e *NotFoundError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: not found", e.What)
	for i, a := range e.Tried {
		lead := "; "
		if i == 0 {
			lead = ": tried "
		}
		fmt.Fprintf(&b, "%s%s (%s)", lead, a.Path, a.Reason)
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, "; %s", e.Hint)
	}
	if e.Env != "" {
		fmt.Fprintf(&b, ", or set %s to its path", e.Env)
	}
	return b.String()
}

func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// Open opens the first candidate that opens: what the environment variable names, and
// then nothing else; or each file name, as the system's loader finds it, then in the
// folders.
func Open(r Request) (*Library, error) {
	if !supported {
		return nil, fmt.Errorf("%s: %w: %s", r.What, ErrUnsupported, unsupportedReason)
	}
	failed := &NotFoundError{What: r.What, Env: r.Env, Hint: r.Hint}
	for _, path := range r.candidates() {
		if r.Before != nil && filepath.IsAbs(path) {
			r.Before(path)
		}
		library, err := open(path)
		if err == nil {
			return library, nil
		}
		failed.Tried = append(failed.Tried, Attempt{Path: path, Reason: reason(path, err)})
	}
	return nil, failed
}

// candidates are paths, and names without a slash for the system's loader.
func (r Request) candidates() []string {
	if r.Env != "" {
		if named := os.Getenv(r.Env); named != "" {
			info, err := os.Stat(named)
			if err != nil || !info.IsDir() {
				return []string{named}
			}
			var paths []string
			for _, file := range r.Files {
				paths = append(paths, filepath.Join(named, file))
			}
			return paths
		}
	}
	var paths []string
	for _, file := range r.Files {
		paths = append(paths, file)
		for _, dir := range r.Dirs {
			path := filepath.Join(dir, file)
			if _, err := os.Stat(path); err == nil {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// reason is the loader's message without the path, which the caller prints.
func reason(path string, err error) string {
	return strings.TrimPrefix(err.Error(), path+": ")
}

// Path is the file the library was read from; what it was opened by where the system
// does not tell.
func (l *Library) Path() string { return l.path }

// SymbolError is a name that a library does not export.
type SymbolError struct {
	Library, Symbol string
}

func (e *SymbolError) Error() string { return fmt.Sprintf("%s has no %s", e.Library, e.Symbol) }

// maxArguments is the most that Proc.Call takes.
const maxArguments = 16
