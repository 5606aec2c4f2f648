// Package noexec lets tests be a process that may not execute what it has written, as
// hardened systems forbid.
package noexec

import (
	"fmt"
	"syscall"
)

// The call that forbids, since Linux 6.3.
const (
	setMDWE          = 65 // PR_SET_MDWE: memory, deny write execute
	refuseExecGained = 1  // PR_MDWE_REFUSE_EXEC_GAIN
)

// Forbid forbids executable memory from now on, for this process and those it starts. It
// returns an error if the kernel cannot.
func Forbid() error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, setMDWE, refuseExecGained, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("the kernel cannot forbid executable memory: %w", errno)
	}
	return nil
}
