package trial

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file has two kinds of memory from the operating system. Watched memory is a private mapping of a file in
// memory: whoever writes to one of its pages gets a copy of that page, and the table of
// pages says which are copies, also if what was written has been undone. Sparse memory has
// addresses, but takes room only where it is written.
//
// Regions are never unmapped, only used again: a kernel that has returned too early must
// not bring down the process.

// region is memory of one kind.
type region struct {
	memory []byte
	file   int // of watched memory; -1 for sparse memory
}

// regions are those that nobody uses, by kind and size.
var regions struct {
	mu   sync.Mutex
	free map[regionKey][]*region
}

type regionKey struct {
	isWatched bool
	bytes     int
}

// newRegion returns memory of at least so many bytes, all zero.
func newRegion(isWatched bool, bytes int) (*region, error) {
	size := os.Getpagesize()
	for size < bytes {
		size *= 2
	}
	key := regionKey{isWatched, size}
	regions.mu.Lock()
	defer regions.mu.Unlock()
	if free := regions.free[key]; len(free) > 0 {
		regions.free[key] = free[:len(free)-1]
		return free[len(free)-1], nil
	}
	r := &region{file: -1}
	flags := unix.MAP_PRIVATE | unix.MAP_NORESERVE
	if !isWatched {
		flags |= unix.MAP_ANON
	} else {
		var err error
		if r.file, err = unix.MemfdCreate("watched", unix.MFD_CLOEXEC); err != nil {
			return nil, fmt.Errorf("the system has no files in memory: %w", err)
		}
		if err := unix.Ftruncate(r.file, int64(size)); err != nil {
			unix.Close(r.file)
			return nil, err
		}
	}
	var err error
	if r.memory, err = unix.Mmap(r.file, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags); err != nil {
		if isWatched {
			unix.Close(r.file)
		}
		return nil, fmt.Errorf("the system has no addresses for %d bytes: %w", size, err)
	}
	return r, nil
}

// release gives a region back. What was written to it is forgotten.
func (r *region) release() {
	unix.Madvise(r.memory, unix.MADV_DONTNEED)
	regions.mu.Lock()
	defer regions.mu.Unlock()
	if regions.free == nil {
		regions.free = map[regionKey][]*region{}
	}
	key := regionKey{r.file >= 0, len(r.memory)}
	regions.free[key] = append(regions.free[key], r)
}

// fill sets the contents of watched memory, and forgets what was written to it.
func (r *region) fill(memory []byte) error {
	if err := unix.Madvise(r.memory, unix.MADV_DONTNEED); err != nil {
		return err
	}
	for at := 0; at < len(memory); {
		n, err := unix.Pwrite(r.file, memory[at:], int64(at))
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

// isWritten reports whether watched memory was written since it was filled.
func (r *region) isWritten() (bool, error) {
	table, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return false, err
	}
	defer table.Close()
	page := os.Getpagesize()
	entries := make([]byte, 8*(len(r.memory)/page))
	if _, err := table.ReadAt(entries, 8*int64(uintptr(unsafe.Pointer(&r.memory[0]))/uintptr(page))); err != nil {
		return false, err
	}
	const isPresent, isSwapped, isOfFile = 1 << 63, 1 << 62, 1 << 61
	for i := 0; i < len(entries); i += 8 {
		if e := binary.LittleEndian.Uint64(entries[i:]); e&(isPresent|isSwapped) != 0 && e&isOfFile == 0 {
			return true, nil
		}
	}
	return false, nil
}
