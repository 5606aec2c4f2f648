package spawn

import (
	"os"
	"syscall"
)

// Self returns a path by which this very program can be started again, even if its
// file has been replaced or deleted since. The file cannot have changed: the system
// refuses writes to a running program.
func Self() (string, error) {
	// The child resolves the path between fork and exec, while it still runs this
	// program. The path of a descriptor would not do: descriptors are renumbered at
	// that moment.
	const running = "/proc/self/exe"
	if _, err := os.Stat(running); err != nil {
		return "", err
	}
	return running, nil
}

// systemAttributes returns the attributes of a child. Go itself handles a parent that
// dies before the signal is set up.
func systemAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

const descriptorFolder = "/proc/self/fd"
