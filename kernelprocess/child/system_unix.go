//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package child

import (
	"os"

	"golang.org/x/sys/unix"
)

func closeDescriptor(fd int) { unix.Close(fd) }

// watch returns a channel that is closed when the other end of a socket is: also while
// nobody reads, because there is no room for what would be read.
func watch(fd int) (<-chan struct{}, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	gone := make(chan struct{})
	go func() {
		defer unix.Close(own)
		defer close(gone)
		for {
			set := []unix.PollFd{{Fd: int32(own)}} // hanging up needs no asking for
			if _, err := unix.Poll(set, -1); err != nil && err != unix.EINTR || set[0].Revents != 0 {
				return
			}
		}
	}()
	return gone, nil
}
