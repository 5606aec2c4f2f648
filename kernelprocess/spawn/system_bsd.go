//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package spawn

import (
	"os"
	"syscall"
)

// Self returns the path by which this program can be started again, as long as its
// file is not replaced.
func Self() (string, error) { return os.Executable() }

func systemAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

const descriptorFolder = "/dev/fd"
