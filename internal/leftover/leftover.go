// Package leftover removes what a process would leave behind if it ended early:
// temporary files and folders, and the compilers that it has started.
//
// A program that ends by itself cleans up where it made something, and needs none of
// this. One that is interrupted may not be able to wait for that: it calls [Remove] and
// exits.
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

// Add registers a function that [Remove] is to call, until forget is called.
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

// Make creates something and registers its removal in one step, so that [Remove] does
// not run in between. If create fails, nothing is registered.
func Make(create func() (remove func(), err error)) (forget func(), err error) {
	registry.Lock()
	defer registry.Unlock()
	remove, err := create()
	if err != nil {
		return nil, err
	}
	return add(remove), nil
}

// Folder is os.MkdirTemp with a function that removes the folder and all in it.
func Folder(dir, pattern string) (path string, remove func(), err error) {
	forget, err := Make(func() (func(), error) {
		var err error
		path, err = os.MkdirTemp(dir, pattern)
		return func() { os.RemoveAll(path) }, err
	})
	if err != nil {
		return "", nil, err
	}
	return path, func() {
		os.RemoveAll(path)
		forget()
	}, nil
}

// Whole runs a step that must be done whole or not at all: [Remove] waits for its end,
// and once Remove has begun the step does not begin. Steps must be short.
func Whole(step func() error) error {
	registry.Lock()
	defer registry.Unlock()
	return step()
}

// Remove calls what is registered, the latest first. The process is to exit when it
// returns: functions of this package block from then on.
func Remove() {
	registry.Lock()
	for id := registry.next; id > 0; id-- {
		if remove := registry.removals[id]; remove != nil {
			remove()
		}
	}
}
