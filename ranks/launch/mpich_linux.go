package launch

import (
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// makerOf returns the number of the process that has made the pair of sockets of which this process has inherited one; "" if it
// is none.
func makerOf(descriptor string) string {
	fd, err := strconv.Atoi(descriptor)
	if err != nil {
		return ""
	}
	maker, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return ""
	}
	return strconv.Itoa(int(maker.Pid))
}

// firstInherited is above the descriptors that a process which is started gets otherwise.
const firstInherited = 10

// inheritable returns another descriptor of the same socket, which processes inherit, and what closes it.
func inheritable(descriptor string) (number string, release func(), err error) {
	fd, err := strconv.Atoi(descriptor)
	if err != nil {
		return "", nil, fmt.Errorf("%s is %q, want a number", managerSocket, descriptor)
	}
	other, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD, firstInherited)
	if err != nil {
		return "", nil, fmt.Errorf("%s is %d: %w", managerSocket, fd, err)
	}
	return strconv.Itoa(other), func() { unix.Close(other) }, nil
}

// end has the process that MPICH has started on this machine end all ranks of the job, once it has read what this one has
// printed: the rest would be lost.
func end(manager string, code int) {
	fd, err := strconv.Atoi(manager)
	if err != nil || makerOf(manager) == "" {
		return
	}
	for until := time.Now().Add(10 * time.Second); isFilled(1) || isFilled(2); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			break
		}
	}
	unix.Write(fd, fmt.Appendf(nil, "cmd=abort exitcode=%d\n", code))
}

// isFilled reports whether a descriptor is a pipe with bytes that nobody has read.
func isFilled(fd int) bool {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	return err == nil && n > 0
}
