package shm

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"tokitai/device"
)

// sizeSeals fix the size permanently: neither end can shrink or grow the memory, nor
// add the seal that would forbid writing.
const sizeSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// pieceBytes is the number of bytes allocated at a time. A signal undoes the piece
// that it interrupts, so pieces must be short; and the free memory is checked before
// each.
const pieceBytes = 64 << 20

// Create returns a zeroed region of at least the given size, rounded up to whole
// pages. If there is too little memory, the error is a [device.OutOfMemoryError].
func Create(bytes int64) (*Region, error) {
	if bytes < 1 {
		return nil, &Error{Op: "create", Reason: ErrSize, Got: bytes, Want: 1}
	}
	page := int64(os.Getpagesize())
	if bytes > math.MaxInt-page {
		return nil, outOfMemory(bytes)
	}
	bytes = (bytes + page - 1) / page * page

	fd, err := newMemory()
	if err != nil {
		return nil, &Error{Op: "create", Cause: os.NewSyscallError("memfd_create", err)}
	}
	if err := allocate(fd, bytes); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sizeSeals); err != nil {
		unix.Close(fd)
		return nil, &Error{Op: "create", Cause: os.NewSyscallError("fcntl", err)}
	}
	memory, err := mapShared(fd, bytes)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Region{memory: memory, fd: fd}, nil
}

// newMemory returns a descriptor of memory that can be sealed and, since Linux 6.3,
// not executed.
func newMemory() (int, error) {
	fd, err := unix.MemfdCreate("tokitai", unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		return unix.MemfdCreate("tokitai", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	return fd, err
}

// allocate allocates all pages of the memory. It checks the free memory first, since
// the system would allocate until it had to kill a process.
func allocate(fd int, bytes int64) error {
	// The limit on file sizes applies to shared memory too.
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err == nil && uint64(bytes) > limit.Cur {
		return &device.OutOfMemoryError{Device: deviceName, Asked: bytes, Free: int64(limit.Cur)}
	}
	for done := int64(0); done < bytes; {
		if free, isKnown := available(); isKnown && bytes-done > free {
			return outOfMemory(bytes)
		}
		piece := min(pieceBytes, bytes-done)
		switch err := unix.Fallocate(fd, 0, done, piece); err {
		case nil:
			done += piece
		case unix.EINTR:
		case unix.ENOSPC, unix.ENOMEM, unix.EFBIG:
			return outOfMemory(bytes)
		default:
			return &Error{Op: "create", Cause: os.NewSyscallError("fallocate", err)}
		}
	}
	return nil
}

// Open maps memory that a peer sent and announced with a size. It always closes fd,
// which the mapping does not need. The size of the memory must be sealed and equal to
// the announced one.
func Open(fd int, bytes int64) (*Region, error) {
	defer unix.Close(fd)
	if bytes < 1 || bytes > math.MaxInt {
		return nil, &Error{Op: "open", Reason: ErrSize, Got: bytes, Want: 1}
	}
	// Files, pipes and closed descriptors have no seals. Huge pages have seals, but
	// can be freed in spite of them.
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, &Error{Op: "open", Reason: ErrNotMemory, Cause: os.NewSyscallError("fcntl", err)}
	}
	var system unix.Statfs_t
	if err := unix.Fstatfs(fd, &system); err != nil || int64(system.Type) != unix.TMPFS_MAGIC {
		return nil, &Error{Op: "open", Reason: ErrNotMemory, Cause: os.NewSyscallError("fstatfs", err)}
	}
	if seals&sizeSeals != sizeSeals {
		return nil, &Error{Op: "open", Reason: ErrUnsealed, Got: int64(seals), Want: sizeSeals}
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, &Error{Op: "open", Reason: ErrNotMemory, Cause: os.NewSyscallError("fstat", err)}
	}
	if stat.Size != bytes {
		return nil, &Error{Op: "open", Reason: ErrSize, Got: stat.Size, Want: bytes}
	}
	const blockBytes = 512 // the unit of Blocks
	if stat.Blocks*blockBytes < bytes {
		return nil, &Error{Op: "open", Reason: ErrUnallocated, Got: stat.Blocks * blockBytes, Want: bytes}
	}
	memory, err := mapShared(fd, bytes)
	if err != nil {
		return nil, err
	}
	return &Region{memory: memory, fd: -1, identity: [2]uint64{uint64(stat.Dev), stat.Ino}}, nil
}

func mapShared(fd int, bytes int64) ([]byte, error) {
	memory, err := unix.Mmap(fd, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if errors.Is(err, unix.ENOMEM) {
		return nil, outOfMemory(bytes)
	}
	if err != nil {
		return nil, &Error{Op: "map", Cause: os.NewSyscallError("mmap", err)}
	}
	return memory, nil
}

// Close unmaps the memory and closes the descriptor. The memory is freed once the
// peer has closed it too. A second call does nothing.
func (r *Region) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.memory == nil {
		return nil
	}
	err := unix.Munmap(r.memory)
	r.memory = nil
	if r.fd >= 0 {
		err = errors.Join(err, unix.Close(r.fd))
		r.fd = -1
	}
	if err != nil {
		return &Error{Op: "close", Cause: err}
	}
	return nil
}
