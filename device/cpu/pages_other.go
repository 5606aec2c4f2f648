//go:build !linux

package cpu

// preferLargePages does nothing: the system decides.
func preferLargePages([]byte) {}
