//go:build linux && (amd64 || arm64) && !nogpu

package dl

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ebitengine/purego"
)

const (
	supported         = true
	unsupportedReason = ""
)

// Library is an open shared library.
type Library struct {
	handle uintptr
	path   string
}

func open(path string) (*Library, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	return &Library{handle: handle, path: loadedFrom(path)}, nil
}

// Preload opens a library with its symbols visible to libraries opened later, and never
// closes it. Use it for a library that another one opens by name and the loader would not
// find.
func Preload(path string) error {
	_, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	return err
}

// loadedFrom returns the path of a library that the loader found by name, taken from the
// memory map of the process.
func loadedFrom(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return name
	}
	defer maps.Close()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		at := strings.IndexByte(lines.Text(), '/')
		if at < 0 {
			continue
		}
		path := lines.Text()[at:]
		// A soname such as libcuda.so.1 is a link: the file is libcuda.so.580.1.
		link := filepath.Join(filepath.Dir(path), name)
		if target, err := filepath.EvalSymlinks(link); err == nil && target == path {
			return link
		}
	}
	return name
}

// Proc looks up a function. If there is none, the error is a SymbolError.
func (l *Library) Proc(name string) (Proc, error) {
	address, err := purego.Dlsym(l.handle, name)
	if err != nil {
		return 0, &SymbolError{Library: l.path, Symbol: name}
	}
	return Proc(address), nil
}

// Close closes the library. None of its functions may be called afterwards.
func (l *Library) Close() error {
	if l == nil || l.handle == 0 {
		return nil
	}
	handle := l.handle
	l.handle = 0
	return purego.Dlclose(handle)
}

// Proc is a C function.
type Proc uintptr

// Call calls a function with at most 32 arguments, integers and pointers, and returns its
// result. It allocates nothing and keeps no reference to args, so that callers can reuse
// the slice. Memory whose address is among the arguments must be in the heap, since a
// stack may move, and the caller must keep it alive until Call returns. The function must
// not call back into Go.
func (p Proc) Call(args []uintptr) uintptr {
	if len(args) > maxArguments {
		panic(fmt.Sprintf("dl: %d arguments, want at most %d", len(args), maxArguments))
	}
	result, _, _ := purego.SyscallN(uintptr(p), args...)
	return result
}
