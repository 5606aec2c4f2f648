//go:build !unix

package compile

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

var errLockTimeout = errors.New("the lock is held")

// No compiler is supported here, so there is nothing to keep.
func lockFile(string, time.Duration) (func(), error) {
	return nil, errors.New("locks are not supported on this system")
}

func isOurs(os.FileInfo) bool { return false }

func fileIdentity(os.FileInfo) string { return "" }

func ownGroup(*exec.Cmd) {}

func killGroup(c *exec.Cmd) { c.Process.Kill() }
