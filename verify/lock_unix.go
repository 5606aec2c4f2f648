//go:build unix

package verify

import (
	"os"
	"syscall"
)

// lockFile locks the file against other processes until it is closed or the process ends.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
