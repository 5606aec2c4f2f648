package cpu

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the size of a large page of memory.
const hugePage = 2 << 20

// preferLargePages asks the system for large pages in memory of several megabytes, of
// which a kernel touches each page once: fewer of them mean fewer misses of the processor's
// table of pages. The system may refuse, and nothing depends on it.
func preferLargePages(memory []byte) {
	start := int(-uintptr(unsafe.Pointer(unsafe.SliceData(memory))) % hugePage)
	if n := (len(memory) - start) / hugePage * hugePage; n > 0 {
		unix.Madvise(memory[start:start+n], unix.MADV_HUGEPAGE)
	}
}
