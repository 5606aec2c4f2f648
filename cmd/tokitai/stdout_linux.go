package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// closingShells are the programs by which people start others with standard output closed: >&-.
var closingShells = []string{"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "busybox", "fish"}

// isStdoutClosed reports whether standard output was closed when the program began. Go opens
// /dev/null in its place, for reading and writing, before any other code runs. Programs that
// discard the output of their children open it in the same way, but a shell does not: its
// >/dev/null opens for writing only. So a parent that is a shell, and whose own output goes
// elsewhere, has closed it.
func isStdoutClosed() bool {
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(syscall.Stdout), syscall.F_GETFL, 0)
	if errno != 0 {
		return errno == syscall.EBADF
	}
	return flags&syscall.O_ACCMODE == syscall.O_RDWR && isNull("self") && !isNull(fmt.Sprint(os.Getppid())) && isShell(os.Getppid())
}

// isNull reports whether standard output of a process is /dev/null.
func isNull(process string) bool {
	path, err := os.Readlink("/proc/" + process + "/fd/1")
	return err == nil && path == os.DevNull
}

func isShell(pid int) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && slices.Contains(closingShells, strings.TrimPrefix(strings.TrimSpace(string(name)), "-"))
}
