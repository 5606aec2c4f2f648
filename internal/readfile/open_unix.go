//go:build unix

package readfile

import "syscall"

// A link is not followed, and opening a pipe or a device does not wait.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
