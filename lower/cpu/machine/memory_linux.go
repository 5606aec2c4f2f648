package machine

import "syscall"

// executable returns a copy of code in pages of its own that can be read and executed.
func executable(code []byte) ([]byte, error) {
	memory, err := syscall.Mmap(-1, 0, len(code), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return nil, err
	}
	copy(memory, code)
	if err := syscall.Mprotect(memory, syscall.PROT_READ|syscall.PROT_EXEC); err != nil {
		release(memory)
		return nil, err
	}
	flush(memory)
	return memory, nil
}

// release gives memory back. There is nobody to tell if the system refuses.
func release(memory []byte) { _ = syscall.Munmap(memory) }
