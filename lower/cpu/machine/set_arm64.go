package machine

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// emptyFunction is RET.
var emptyFunction = []byte{0xc0, 0x03, 0x5f, 0xd6}

// supported returns the sets of this processor, best first.
func supported() []Set {
	if cpu.ARM64.HasASIMD {
		return []Set{NEON}
	}
	return nil
}

// call calls code with a frame.
//
//go:noescape
func call(code, frame unsafe.Pointer)

// flush makes what was written to memory visible to the instruction fetches of all cores.
func flush(memory []byte) {
	first := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	flushRange(first, first+uintptr(len(memory)))
}

// flushRange cleans the data caches, and invalidates the instruction caches, from first up to
// but not including end.
func flushRange(first, end uintptr)
