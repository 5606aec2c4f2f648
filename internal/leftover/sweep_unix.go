//go:build unix

package leftover

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// A process that is killed leaves its folders behind. Each folder has a file that its process
// keeps locked, whatever becomes of the process: a folder whose lock is free is stale.
const lockName = ".in-use"

// lock creates the lock of a new folder. It is locked before it has its name.
func lock(folder string) (release func(), err error) {
	f, err := os.CreateTemp(folder, lockName+"-*")
	if err != nil {
		return nil, err
	}
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		err = os.Rename(f.Name(), filepath.Join(folder, lockName))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// isStale reports whether a folder was made by a process that has ended.
func isStale(folder string) bool {
	if info, err := os.Lstat(folder); err != nil || !info.IsDir() {
		return false
	}
	f, err := os.OpenFile(filepath.Join(folder, lockName), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

var swept sync.Map // by folder and prefix, in which a process sweeps once

// sweep removes stale folders whose names match a pattern of os.MkdirTemp.
func sweep(dir, pattern string) {
	if dir == "" {
		dir = os.TempDir()
	}
	prefix, _, _ := strings.Cut(pattern, "*")
	if _, isDone := swept.LoadOrStore(filepath.Join(dir, prefix), true); isDone || prefix == "" {
		return
	}
	entries, _ := os.ReadDir(dir) // there may be nothing to sweep
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); strings.HasPrefix(e.Name(), prefix) && isStale(path) {
			os.RemoveAll(path)
		}
	}
}
