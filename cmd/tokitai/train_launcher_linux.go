package main

import (
	"fmt"
	"strconv"

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

// abortJob has the process that MPICH has started on this machine end all ranks of the job. Others than MPICH do so when one of them
// fails; MPICH waits for those that are left, as if they were of another program, unless it is told with this message of its interface
// for processes, PMI.
func abortJob(descriptor string, code int) {
	if fd, err := strconv.Atoi(descriptor); err == nil && makerOf(descriptor) != "" {
		unix.Write(fd, fmt.Appendf(nil, "cmd=abort exitcode=%d\n", code))
	}
}
