//go:build unix

package verify

import (
	"os"
	"syscall"
)

// lockFile keeps other processes from the file, until it is closed or the process ends.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
