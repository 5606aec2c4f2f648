package peers

import "unsafe"

// words returns memory as 64-bit words, without a rest of less than one. Buffers are
// aligned to more than that.
func words(memory []byte) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(memory))), len(memory)/8)
}
