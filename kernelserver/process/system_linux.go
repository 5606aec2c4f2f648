package process

import (
	"os"
	"syscall"
)

// Self returns the path by which this very program can be started again. It leads to
// the file that runs, which the system holds open, even where another one has
// taken its name or it has been deleted. It cannot have been changed either: the
// system refuses writes to a file that runs.
func Self() (string, error) {
	// The child resolves it between fork and exec, when it still runs this
	// program. A descriptor's path would need a number that survives the moving
	// of descriptors at that very moment.
	const running = "/proc/self/exe"
	if _, err := os.Stat(running); err != nil {
		return "", err
	}
	return running, nil
}

// systemAttributes: Go looks after the signal has been asked for whether the
// parent has died already.
func systemAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

const descriptorFolder = "/proc/self/fd"
