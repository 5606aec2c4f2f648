package spawn

import (
	"os"
	"syscall"
)

// Self returns the path by which this program can be started again. Its file cannot be
// replaced while it runs, but it can be renamed.
func Self() (string, error) { return os.Executable() }

func systemAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// CloseOthers does nothing: a child gets the handles that it is meant to have.
func CloseOthers(keep int, also ...int) error { return nil }

// killGroup does nothing: there are no such groups.
func killGroup(pid int) {}

func signalOf(state *os.ProcessState) os.Signal { return nil }
