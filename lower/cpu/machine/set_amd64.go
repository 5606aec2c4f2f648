package machine

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// emptyFunction is RET.
var emptyFunction = []byte{0xc3}

// supported returns the sets of this processor that the system supports too, best first.
func supported() []Set {
	x := &cpu.X86
	var sets []Set
	if x.HasAVX2 && x.HasFMA && x.HasF16C {
		if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL {
			sets = append(sets, AVX512)
		}
		sets = append(sets, AVX2)
	}
	return sets
}

// call calls code with a frame.
//
//go:noescape
func call(code, frame unsafe.Pointer)

// flush does nothing: the processor sees what was written.
func flush([]byte) {}
