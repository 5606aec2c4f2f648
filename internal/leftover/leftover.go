// Package leftover cleans up when a process ends early: it removes temporary files and
// folders, and kills compilers that the process has started.
//
// A program that ends normally does its own cleanup and does not need this package. An
// interrupted program that cannot wait for that calls [Remove] and exits.
package leftover

import (
	"os"
	"sync"
)

var registry struct {
	sync.Mutex
	next     int
	removals map[int]func()
}

// Add registers a cleanup function for [Remove]; forget unregisters it.
func Add(remove func()) (forget func()) {
	registry.Lock()
	defer registry.Unlock()
	return add(remove)
}

func add(remove func()) (forget func()) {
	if registry.removals == nil {
		registry.removals = map[int]func(){}
	}
	registry.next++
	id := registry.next
	registry.removals[id] = remove
	return func() {
		registry.Lock()
		defer registry.Unlock()
		delete(registry.removals, id)
	}
}

// Make calls create and registers the cleanup that it returns, in one step, so that
// [Remove] does not run in between. If create fails, nothing is registered.
func Make(create func() (remove func(), err error)) (forget func(), err error) {
	registry.Lock()
	defer registry.Unlock()
	remove, err := create()
	if err != nil {
		return nil, err
	}
	return add(remove), nil
}

// Folder creates a temporary folder, like os.MkdirTemp, and registers its removal. It
// returns a function that removes the folder and all its content. It first removes the folders of
// the same pattern that processes left behind which were killed.
func Folder(dir, pattern string) (path string, remove func(), err error) {
	sweep(dir, pattern)
	var release func()
	forget, err := Make(func() (func(), error) {
		var err error
		if path, err = os.MkdirTemp(dir, pattern); err != nil {
			return nil, err
		}
		if release, err = lock(path); err != nil {
			os.RemoveAll(path)
			return nil, err
		}
		return func() {
			os.RemoveAll(path)
			release() // until then the folder is in use
		}, nil
	})
	if err != nil {
		return "", nil, err
	}
	return path, func() {
		os.RemoveAll(path)
		release()
		forget()
	}, nil
}

// Whole runs a step that must be done completely or not at all: [Remove] waits for its
// end, and once Remove has begun, no step begins. Steps must be short.
func Whole(step func() error) error {
	registry.Lock()
	defer registry.Unlock()
	return step()
}

// Remove calls the registered functions, latest first. The process must then exit: the
// functions of this package block from then on.
func Remove() {
	registry.Lock()
	for id := registry.next; id > 0; id-- {
		if remove := registry.removals[id]; remove != nil {
			remove()
		}
	}
}
