//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package spawn

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// CloseOthers closes the inherited descriptors above keep, except those in also. Call it first in main,
// before a C library opens a descriptor.
//
// Inherited descriptors have no close-on-exec flag, or exec would have closed them;
// those that Go has opened since have the flag.
func CloseOthers(keep int, also ...int) error {
	entries, err := os.ReadDir(descriptorFolder)
	if err != nil {
		return fmt.Errorf("close inherited descriptors: %w", err)
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= keep || slices.Contains(also, fd) {
			continue
		}
		// The folder's own descriptor is closed by now.
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	return nil
}

// killGroup kills a group of processes by the id of its first process, which must not have
// been waited for.
func killGroup(pid int) { syscall.Kill(-pid, syscall.SIGKILL) }

func signalOf(state *os.ProcessState) os.Signal {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal()
	}
	return nil
}
