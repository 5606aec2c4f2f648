//go:build !linux

package standin

// Main returns: there is no Forward on this system.
func Main() {}
