//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package child

// There are no descriptors here to be sent.
func closeDescriptor(fd int) {}

// watch never tells: reading does.
func watch(fd int) (<-chan struct{}, error) { return nil, nil }
