package main

import (
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
