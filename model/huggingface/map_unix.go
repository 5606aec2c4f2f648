//go:build unix

package huggingface

import (
	"math"
	"os"
	"syscall"
)

// mapFile maps a file into memory. What is written there stays in memory: the file does not change.
func mapFile(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 || info.Size() > math.MaxInt {
		return nil, err
	}
	memory, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE)
	return memory, os.NewSyscallError("mmap", err)
}

func unmapFile(memory []byte) error { return os.NewSyscallError("munmap", syscall.Munmap(memory)) }
