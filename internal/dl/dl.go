// Package dl opens shared libraries at run time and calls their functions,
// without cgo.
//
// It is the only package that imports purego. It supports Linux on amd64 and
// arm64. On other systems, and with the build tag nogpu, which makes the program
// static, Open returns ErrUnsupported. A program that imports dl starts on any
// machine, whether or not the libraries are there.
//
// Start with Open; search.go lists the folders that are searched.
package dl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

var (
	// ErrUnsupported means that this build cannot open libraries.
	ErrUnsupported = errors.New("this build cannot open libraries")
	// ErrNotFound means that no candidate could be opened.
	ErrNotFound = errors.New("library not found")
)

// Request describes a library to open.
type Request struct {
	What  string   // "the CUDA driver"
	Env   string   // environment variable; if it names a file or a folder, nothing else is tried
	First []string // folders to search for every file name before anything else; missing ones are skipped
	Files []string // file names in order of preference: "libcuda.so.1"
	Dirs  []string // folders to search besides those of the loader; missing ones are skipped
	Hint  string   // how to install it

	Before func(path string) // if not nil, called before each path
}

// Attempt is a candidate that could not be opened.
type Attempt struct {
	Path   string
	Reason string
}

// NotFoundError lists what was tried and says how to install the library.
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

// Open opens a library. If the environment variable is set, it tries only that file or
// folder. Otherwise it tries r.First, and then each file name, first as the system's loader
// finds it, then in r.Dirs.
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

// candidates returns paths, and names without a slash for the system's loader.
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
	add := func(dir, file string) {
		path := filepath.Join(dir, file)
		if _, err := os.Stat(path); err == nil && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	for _, dir := range r.First {
		for _, file := range r.Files {
			add(dir, file)
		}
	}
	for _, file := range r.Files {
		paths = append(paths, file)
		for _, dir := range r.Dirs {
			add(dir, file)
		}
	}
	return paths
}

// reason returns the loader's message without the path, which the caller prints.
func reason(path string, err error) string {
	return strings.TrimPrefix(err.Error(), path+": ")
}

// Path returns the path of the library's file. If that is unknown, it returns the name
// that the library was opened with.
func (l *Library) Path() string { return l.path }

// SymbolError reports a symbol that a library does not export.
type SymbolError struct {
	Library, Symbol string
}

func (e *SymbolError) Error() string { return fmt.Sprintf("%s has no %s", e.Library, e.Symbol) }

// maxArguments is the maximum number of arguments of Proc.Call.
const maxArguments = 32
