//go:build !linux

package main

// isStdoutClosed reports false: only Linux tells.
func isStdoutClosed() bool { return false }
